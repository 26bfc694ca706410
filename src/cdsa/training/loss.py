"""Losses on masked cells, and the schedule of the learning rate."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from cdsa.errors import ConfigError
from cdsa.nn.quantile_head import pinball, split_point_quantiles

Loss = Literal["rmse", "mse", "mae", "rmse+mae"]


LOSSES: tuple[Loss, ...] = get_args(Loss)


TINY = 1e-12  # below the square of a float's noise: keeps the root's slope finite at zero


def loss_of(kind: Loss, answer: Tensor, truth: Tensor, asked: Tensor) -> Tensor:
    """The loss over the asked cells of a batch; zero if none is asked. 'rmse+mae' is their mean.

    A network that tells quantiles learns them by their own loss, side by side with its guess.
    """
    guess, quantiles = split_point_quantiles(answer, truth.ndim)
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


Schedule = Literal["steps", "cosine", "constant"]


def rate_at(schedule: Schedule, rate: float, epoch: int, done: float) -> float:
    """The learning rate in this epoch, with this share of the run done.

    'steps' is the authors': times 0.3 every 15 epochs from epoch 20 on, not below 1e-6. 'cosine'
    rises over the first twentieth of the run and then falls to a hundredth.
    """
    match schedule:
        case "constant":
            return rate
        case "steps":
            falls = 0 if epoch < 20 else 1 + (epoch - 20) // 15
            return max(rate * 0.3**falls, 1e-6)
        case "cosine":
            if done < 0.05:
                return rate * max(done / 0.05, 0.02)
            along = min((done - 0.05) / 0.95, 1.0)
            return rate * (0.01 + 0.99 * (1 + math.cos(math.pi * along)) / 2)
    raise ConfigError(f"there is no schedule '{schedule}'")
