"""Quantiles that a network tells beside its guess: in order by construction.

Letters: q quantile. A network that tells them returns (b, t, l, m, 1 + q): the guess, then they.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

QUANTILES = tuple(number / 20 for number in range(1, 20))
"""0.05, 0.10 ... 0.95."""


MIDDLE = QUANTILES.index(0.5)


FIRST_STEP = -3.0
"""What `in_order` is given at first between two quantiles: they then lie 0.05 apart."""


def monotone_quantiles(raw: Tensor) -> Tensor:
    """Quantiles from any numbers: the middle one as it is, the others in positive steps from it."""
    middle = raw[..., MIDDLE : MIDDLE + 1]
    below = F.softplus(raw[..., :MIDDLE]).flip(-1).cumsum(-1).flip(-1)
    above = F.softplus(raw[..., MIDDLE + 1 :]).cumsum(-1)
    return torch.cat([middle - below, middle, middle + above], dim=-1)


def split_point_quantiles(answer: Tensor, cells: int = 4) -> tuple[Tensor, Tensor | None]:
    """A network's guess (b, t, l, m) and, if it tells them, its quantiles (b, t, l, m, q)."""
    if answer.ndim == cells:
        return answer, None
    return answer[..., 0], answer[..., 1:]


def pinball(quantiles: Tensor, truth: Tensor) -> Tensor:
    """Twice the pinball loss, averaged over quantiles, per cell: (b, t, l, m, q) -> (b, t, l, m).

    Of a single median it is the absolute error.
    """
    levels = torch.tensor(QUANTILES, dtype=quantiles.dtype, device=quantiles.device)
    error = truth.unsqueeze(-1) - quantiles
    return 2 * torch.maximum(levels * error, (levels - 1) * error).mean(dim=-1)


def interpolate_quantiles(quantiles: Tensor, wanted: Tensor) -> Tensor:
    """Quantiles at any levels (w,), between those that are told: (..., q) -> (..., w). Beyond the
    outermost ones, those."""
    levels = torch.tensor(QUANTILES, dtype=quantiles.dtype, device=quantiles.device)
    wanted = wanted.to(levels).clamp(levels[0], levels[-1])
    upper = torch.searchsorted(levels, wanted).clamp(1, len(QUANTILES) - 1)
    lower = upper - 1
    share = (wanted - levels[lower]) / (levels[upper] - levels[lower])
    return torch.lerp(quantiles[..., lower], quantiles[..., upper], share)
