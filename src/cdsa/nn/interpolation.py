"""Interpolation inside a window: straight lines, last observed values and their ages.

Letters: b window of the batch, t time, l and k locations, m measurement.
"""

from typing import NamedTuple

import torch
from torch import Tensor

TRUST = 1.0
"""How many days of a time of day the mean of the whole series counts for."""


def subtract_sums(
    sums: tuple[Tensor, Tensor], total: Tensor, count: Tensor
) -> tuple[Tensor, Tensor]:
    """A sum and how many values it has without some of them; nothing is left if these are more than
    it has, as of values that came in later."""
    left = (sums[1] - count).clamp(min=0.0)
    return torch.where(left > 0, sums[0] - total, 0.0), left


def shrunken_mean(total: Tensor, count: Tensor, whole: Tensor, number: Tensor) -> Tensor:
    """Means at a time of day that lean on the mean of the whole series where there are few values,
    and that on zero, the mean of the network; NaN of a series without a value."""
    mean = whole / (number + TRUST)
    told = (total + TRUST * mean) / (count + TRUST)
    return torch.where(number > 0.5, told, torch.nan)


class Interpolation(NamedTuple):
    """What can be said of each cell without learning, all (b, t, l, m)."""

    line: Tensor
    """The straight line between the nearest observations, which goes on level beyond the last; zero
    in a series that has none."""

    before: Tensor
    """How near the last observation is: 1 / (1 + steps), zero if there is none."""

    after: Tensor
    bridge_variance: Tensor
    """How far a walk strays from the line: a b / (a + b), where a and b are the steps to the last
    and to the next observation, or the steps to the only one; zero on observations."""

    has_observation: Tensor
    """Whether there is any observation in the series."""


def interpolate(values: Tensor, observed: Tensor) -> Interpolation:
    """The straight line through the observed cells of each series, and how far they are."""
    steps = values.shape[1]
    number = torch.arange(steps, device=values.device).unflatten(0, (-1, 1, 1))
    last = torch.where(observed, number, -1).cummax(dim=1).values
    following = torch.where(observed, number, steps).flip(1).cummin(dim=1).values.flip(1)
    has_last, has_following = last >= 0, following < steps
    back, ahead = (number - last).to(values.dtype), (following - number).to(values.dtype)
    # on an observed cell both distances are zero, and either value is its own
    share = torch.where(has_last, back / (back + ahead).clamp(min=1), 1.0)
    share = torch.where(has_following, share, 0.0)
    from_last = torch.where(has_last, values.gather(1, last.clamp(min=0)), 0.0)
    from_following = torch.where(
        has_following, values.gather(1, following.clamp(max=steps - 1)), 0.0
    )
    strays = torch.where(has_last, back, ahead)
    strays = torch.where(has_last & has_following, back * (1 - share), strays)
    told = has_last | has_following
    return Interpolation(
        line=torch.lerp(from_last, from_following, share),
        before=torch.where(has_last, 1 / (1 + back), 0.0),
        after=torch.where(has_following, 1 / (1 + ahead), 0.0),
        bridge_variance=torch.where(told, strays, 0.0),
        has_observation=told,
    )


def steps_since(seen: Tensor) -> Tensor:
    """Steps since a series was last seen before each step, (b, t, s); zero at the first."""
    number = torch.arange(seen.shape[1], device=seen.device, dtype=seen.dtype).unsqueeze(-1)
    last = torch.where(seen > 0, number, 0.0).cummax(dim=1).values
    return number - torch.cat([torch.zeros_like(last[:, :1]), last[:, :-1]], dim=1)


def last_seen(values: Tensor, seen: Tensor) -> Tensor:
    """The last value that was seen of each series up to each step, (b, t, ...); zero before the
    first."""
    number = torch.arange(values.shape[1], device=values.device)
    number = number.unflatten(0, (-1, *[1] * (values.ndim - 2)))
    last = torch.where(seen, number, -1).cummax(dim=1).values
    return torch.where(last >= 0, values.gather(1, last.clamp(min=0)), 0.0)


def without_itself(weight: Tensor) -> Tensor:
    """Weights (s, s) by which none is told from itself."""
    return weight * (1 - torch.eye(len(weight), dtype=weight.dtype, device=weight.device))
