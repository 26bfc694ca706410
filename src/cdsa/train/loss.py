"""Losses over asked cells: sums over all of them divided by their number."""

from typing import Literal, get_args

import torch
from torch import Tensor

from cdsa.nn.quantile_head import parted, pinball

Loss = Literal["rmse", "mse", "mae", "rmse+mae"]
LOSSES: tuple[Loss, ...] = get_args(Loss)
TINY = 1e-12  # below the square of a float's noise: keeps the root's slope finite at zero


def loss_of(kind: Loss, answer: Tensor, truth: Tensor, asked: Tensor) -> Tensor:
    """The loss over the asked cells of a batch; zero if none is asked. 'rmse+mae' is their mean.

    A network that tells quantiles learns them by their own loss, side by side with its guess.
    """
    guess, quantiles = parted(answer, truth.ndim)
    error = torch.where(asked, guess - truth, 0.0)
    cells = asked.sum().clamp(min=1)
    loss = _of_guess(kind, error, cells)
    if quantiles is None:
        return loss
    return loss + torch.where(asked, pinball(quantiles, truth), 0.0).sum() / cells


def _of_guess(kind: Loss, error: Tensor, cells: Tensor) -> Tensor:
    absolute = error.abs().sum() / cells
    square = error.square().sum() / cells
    match kind:
        case "mse":
            return square
        case "mae":
            return absolute
        case "rmse":
            return (square + TINY).sqrt()
        case "rmse+mae":
            return ((square + TINY).sqrt() + absolute) / 2
