"""Quantiles beside a point prediction, in order by construction.

A network with quantiles returns (b, t, l, m, 1 + q): the point prediction, then the q quantiles.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

QUANTILES = tuple(number / 20 for number in range(1, 20))
"""0.05, 0.10 ... 0.95."""

MEDIAN = QUANTILES.index(0.5)

INITIAL_STEP = -3.0
"""Initial input of `monotone_quantiles` between two quantiles: they are then 0.05 apart."""


def monotone_quantiles(raw: Tensor) -> Tensor:
    """Quantiles from any numbers (..., q): the median as it is, the others in positive steps from
    it."""
    median = raw[..., MEDIAN : MEDIAN + 1]
    below = F.softplus(raw[..., :MEDIAN]).flip(-1).cumsum(-1).flip(-1)
    above = F.softplus(raw[..., MEDIAN + 1 :]).cumsum(-1)
    return torch.cat([median - below, median, median + above], dim=-1)


def split_point_quantiles(output: Tensor, n_axes: int = 4) -> tuple[Tensor, Tensor | None]:
    """The point prediction (b, t, l, m) and the quantiles (b, t, l, m, q), None without any."""
    if output.ndim == n_axes:
        return output, None
    return output[..., 0], output[..., 1:]


def pinball_loss(quantiles: Tensor, truth: Tensor) -> Tensor:
    """Twice the pinball loss, averaged over quantiles: (b, t, l, m, q) -> (b, t, l, m). That of a
    single median is the absolute error."""
    levels = torch.tensor(QUANTILES, dtype=quantiles.dtype, device=quantiles.device)
    error = truth.unsqueeze(-1) - quantiles
    return 2 * torch.maximum(levels * error, (levels - 1) * error).mean(dim=-1)


def interpolate_quantiles(quantiles: Tensor, levels: Tensor) -> Tensor:
    """Quantiles at other levels (w,), by linear interpolation: (..., q) -> (..., w). Levels beyond
    the outermost ones get these."""
    known = torch.tensor(QUANTILES, dtype=quantiles.dtype, device=quantiles.device)
    levels = levels.to(known).clamp(known[0], known[-1])
    upper = torch.searchsorted(known, levels).clamp(1, len(QUANTILES) - 1)
    lower = upper - 1
    share = (levels - known[lower]) / (known[upper] - known[lower])
    return torch.lerp(quantiles[..., lower], quantiles[..., upper], share)
