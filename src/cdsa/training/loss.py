"""Losses on masked cells, and the schedule of the learning rate."""

import math
from typing import Literal

import torch
from torch import Tensor

from cdsa.nn.quantile_head import pinball_loss, split_point_quantiles

Loss = Literal["rmse", "mse", "mae", "rmse+mae"]
Schedule = Literal["steps", "cosine", "constant"]

EPSILON = 1e-12  # below the square of rounding errors: keeps the gradient of a root finite at zero


def masked_loss(kind: Loss, output: Tensor, truth: Tensor, target: Tensor) -> Tensor:
    """The loss over the target cells of a batch; zero without any. 'rmse+mae' is their mean.

    Quantiles in the output add their pinball loss.
    """
    prediction, quantiles = split_point_quantiles(output, truth.ndim)
    error = torch.where(target, prediction - truth, 0.0)
    n_cells = target.sum().clamp(min=1)
    loss = _point_loss(kind, error, n_cells)
    if quantiles is None:
        return loss
    return loss + torch.where(target, pinball_loss(quantiles, truth), 0.0).sum() / n_cells


def _point_loss(kind: Loss, error: Tensor, n_cells: Tensor) -> Tensor:
    absolute = error.abs().sum() / n_cells
    square = error.square().sum() / n_cells
    match kind:
        case "mse":
            return square
        case "mae":
            return absolute
        case "rmse":
            return (square + EPSILON).sqrt()
        case "rmse+mae":
            return ((square + EPSILON).sqrt() + absolute) / 2


def learning_rate(schedule: Schedule, lr: float, epoch: int, progress: float) -> float:
    """The learning rate in this epoch, at this share of the run.

    'steps' is the authors': times 0.3 every 15 epochs from epoch 20 on, not below 1e-6. 'cosine'
    rises over the first twentieth of the run and then falls to a hundredth.
    """
    match schedule:
        case "constant":
            return lr
        case "steps":
            n_drops = 0 if epoch < 20 else 1 + (epoch - 20) // 15
            return max(lr * 0.3**n_drops, 1e-6)
        case "cosine":
            if progress < 0.05:
                return lr * max(progress / 0.05, 0.02)
            falling = min((progress - 0.05) / 0.95, 1.0)
            return lr * (0.01 + 0.99 * (1 + math.cos(math.pi * falling)) / 2)
