"""How much of its difference from a baseline a trained network keeps: all of it, unless validation
cells are predicted better with less. A network that has learnt little, or what does not hold in the
gaps of the data, is then no worse than its baseline on these cells.

Letters: m measurement, n cells, f factors.
"""

import torch
from torch import Tensor

from cdsa.nn.quantile_head import split_point_quantiles
from cdsa.nn.types import Network
from cdsa.training.loop import TrainConfig, masks_for, predict
from cdsa.training.masking import Task
from cdsa.training.windows import Windows

FACTORS = torch.linspace(0.0, 1.0, 21)

MIN_CELLS = 200
"""Validation cells of a measurement with a factor of its own; others share one."""


@torch.no_grad()
def shrink(
    model: Network, shrinkage: Tensor, validation: Windows, config: TrainConfig, task: Task
) -> None:
    """Set the factors (m,) of a network's differences to the best ones for validation cells."""
    if not len(validation):
        return
    model.eval()
    points = []
    for factor in (0.0, 1.0):
        shrinkage.fill_(factor)
        cells = []
        for window in validation.batches(config.batch_size):
            visible, target = masks_for(window, task)
            point, _ = split_point_quantiles(predict(model, window, visible))
            cells.append((point[target], window.truth[target], target.nonzero()[:, 3]))
        prediction, truth, measurement = (torch.cat(x) for x in zip(*cells, strict=True))
        points.append(prediction)
    baseline, difference = points[0], points[1] - points[0]
    factors = FACTORS.to(truth).unsqueeze(1)
    errors = (baseline + factors * difference - truth).abs()  # (f, n)
    if config.loss != "mae":
        errors = errors.square()
    shrinkage.fill_(best_factor(errors))
    for m in range(len(shrinkage)):
        of_measurement = errors[:, measurement == m]
        if of_measurement.shape[1] >= MIN_CELLS:
            shrinkage[m] = best_factor(of_measurement)


def best_factor(errors: Tensor) -> float:
    """The factor with the smallest error (f, n); one without any cells."""
    return float(FACTORS[int(errors.sum(dim=1).argmin())]) if errors.shape[1] else 1.0
