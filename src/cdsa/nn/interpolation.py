"""Interpolation inside a window: straight lines, last observed values and their ages.

Letters: b window of the batch, t time, l location, m measurement, s series.
"""

from typing import NamedTuple

import torch
from torch import Tensor

SHRINKAGE = 1.0
"""Prior weight of the mean of the series, in days."""

MIN_PROXIMITY = 1e-6
"""Proximity of an observation that is as good as none."""


def subtract_sums(
    sums: tuple[Tensor, Tensor], total: Tensor, count: Tensor
) -> tuple[Tensor, Tensor]:
    """A sum and its count without some of the values. Nothing remains if there are more of these
    than the sum has, as of values that came later."""
    remaining = (sums[1] - count).clamp(min=0.0)
    return torch.where(remaining > 0, sums[0] - total, 0.0), remaining


def shrunken_mean(
    total: Tensor, count: Tensor, series_total: Tensor, series_count: Tensor
) -> Tensor:
    """Means of time bins, shrunk towards the mean of the series, which is shrunk towards zero, the
    mean of all stations. NaN for a series without a value."""
    series_mean = series_total / (series_count + SHRINKAGE)
    mean = (total + SHRINKAGE * series_mean) / (count + SHRINKAGE)
    return torch.where(series_count > 0.5, mean, torch.nan)


class Interpolation(NamedTuple):
    """Linear interpolation of a window, all (b, t, l, m)."""

    line: Tensor
    """The straight line between the nearest observations, constant beyond the first and the last;
    zero in a series without any."""

    proximity_before: Tensor
    """1 / (1 + steps to the last observation), zero if there is none."""

    proximity_after: Tensor
    """The same of the next observation."""

    bridge_variance: Tensor
    """Variance of a random walk around the line: a b / (a + b), where a and b are the steps to the
    last and to the next observation, or the steps to the only one; zero on observations."""

    has_observation: Tensor
    """Whether the series has any observation."""

    def across(self, line: Tensor, before: Tensor, after: Tensor) -> "Interpolation":
        """The same between observations that may lie outside the window, given the line and the
        proximities (b, t, l, m), where these are not NaN. The line has the gradient of that of the
        window, by which it is explained."""
        known = ~line.isnan()
        before, after = before.nan_to_num(), after.nan_to_num()
        total = before + after
        back, ahead = (1 / near.clamp(min=MIN_PROXIMITY) - 1 for near in (before, after))
        variance = torch.where(after > 0, ahead, back)
        both = (before > 0) & (after > 0)
        variance = torch.where(both, back * ahead / (back + ahead).clamp(min=1), variance)
        own = self.line - self.line.detach()
        return Interpolation(
            line=torch.where(known, line.nan_to_num() + own, self.line),
            proximity_before=torch.where(known, before, self.proximity_before),
            proximity_after=torch.where(known, after, self.proximity_after),
            bridge_variance=torch.where(known & (total > 0), variance, self.bridge_variance),
            has_observation=self.has_observation | (known & (total > 0)),
        )


def interpolate(values: Tensor, observed: Tensor, position: Tensor | None = None) -> Interpolation:
    """The lines of windows, of which every step has a position (b, t, l, m), one after the other if
    not given."""
    steps = values.shape[1]
    number = torch.arange(steps, device=values.device).unflatten(0, (-1, 1, 1))
    previous = torch.where(observed, number, -1).cummax(dim=1).values
    following = torch.where(observed, number, steps).flip(1).cummin(dim=1).values.flip(1)
    has_previous, has_following = previous >= 0, following < steps
    if position is None:
        position = number.expand(values.shape)
    back = (position - position.gather(1, previous.clamp(min=0))).to(values.dtype)
    ahead = (position.gather(1, following.clamp(max=steps - 1)) - position).to(values.dtype)
    # on an observed cell both distances are zero, and both values are its own
    share = torch.where(has_previous, back / (back + ahead).clamp(min=1), 1.0)
    share = torch.where(has_following, share, 0.0)
    from_previous = torch.where(has_previous, values.gather(1, previous.clamp(min=0)), 0.0)
    from_following = torch.where(
        has_following, values.gather(1, following.clamp(max=steps - 1)), 0.0
    )
    variance = torch.where(has_previous, back, ahead)
    variance = torch.where(has_previous & has_following, back * (1 - share), variance)
    has_observation = has_previous | has_following
    return Interpolation(
        line=torch.lerp(from_previous, from_following, share),
        proximity_before=torch.where(has_previous, 1 / (1 + back), 0.0),
        proximity_after=torch.where(has_following, 1 / (1 + ahead), 0.0),
        bridge_variance=torch.where(has_observation, variance, 0.0),
        has_observation=has_observation,
    )


def steps_since_observed(observed: Tensor) -> Tensor:
    """Steps since the last observation before each step, (b, t, s); zero at the first step. The
    mask is ones and zeros."""
    number = torch.arange(observed.shape[1], device=observed.device, dtype=observed.dtype)
    number = number.unsqueeze(-1)
    last = torch.where(observed > 0, number, 0.0).cummax(dim=1).values
    return number - torch.cat([torch.zeros_like(last[:, :1]), last[:, :-1]], dim=1)


def last_observed(values: Tensor, observed: Tensor) -> Tensor:
    """The last observed value of each series up to each step, (b, t, ...); zero before the
    first."""
    number = torch.arange(values.shape[1], device=values.device)
    number = number.unflatten(0, (-1, *[1] * (values.ndim - 2)))
    last = torch.where(observed, number, -1).cummax(dim=1).values
    return torch.where(last >= 0, values.gather(1, last.clamp(min=0)), 0.0)


def zero_diagonal(weight: Tensor) -> Tensor:
    """Weights (s, s) by which no series is predicted from itself."""
    return weight * (1 - torch.eye(len(weight), dtype=weight.dtype, device=weight.device))
