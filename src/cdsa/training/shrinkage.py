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

PRIOR_CELLS = 2000
"""Validation cells of a measurement at which its own errors count as much as those of all
measurements: the best factor for few cells is mostly noise."""

MAX_RELATIVE = 2.0
"""Largest error, in relation to the baseline's, that counts for other measurements."""


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
    n_measurements = len(shrinkage)
    sums = errors.new_zeros(len(errors), n_measurements).index_add_(1, measurement, errors)
    relative = sums / sums[:1].clamp(min=1e-12)  # to the baseline's, (f, m)
    n_cells = measurement.bincount(minlength=n_measurements).to(errors)
    pooled = (relative.clamp(max=MAX_RELATIVE) * n_cells).sum(dim=1, keepdim=True) / n_cells.sum()
    objective = (n_cells * relative + PRIOR_CELLS * pooled) / (n_cells + PRIOR_CELLS)
    objective = objective.masked_fill(relative > 1, torch.inf)  # never worse than the baseline
    shrinkage.copy_(FACTORS.to(shrinkage)[objective.argmin(dim=0)])
