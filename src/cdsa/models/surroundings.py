"""What lies around the cells of a window, and what is easily guessed from it.

Letters: b window of the batch, t time, l and k locations, m measurement.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, einsum

TRUST = 1.0
"""How many days of a time of day the mean of the whole series counts for."""


class Surroundings(NamedTuple):
    """Where and when the cells of a batch of windows are. Nothing here depends on cells that were
    hidden before learning began."""

    clock: Tensor
    """Sines and cosines of the time of day, week and year, where the steps make them meaningful;
    (b, t, f)."""

    usual: Tensor
    """The usual scaled value of a series at this time of day, NaN if nothing is known of it;
    (b, t, l, m)."""

    distance: Tensor | None
    """Between locations, in units of the network the weights were trained on; (l, k)."""

    likeness: Tensor
    """How much locations resemble each other, from -1 to 1, zero where nothing is known; (l, k) or
    (b, l, k)."""

    roughness: Tensor
    """How far a series strays from one step to the next: its mean squared difference, (m,)."""

    kinds: Tensor
    """The number each measurement has among those that the weights know; (m,)."""

    links: Tensor | None = None
    """How much each location (l) hears of another (k), where a graph was given; (l, k)."""

    width: float | None = None
    """Distance at which stations of the graph that distances make are but loosely joined, learnt
    with the weights."""

    def part(self, at: slice) -> "Surroundings":
        """Those of some windows of the batch."""
        likeness = self.likeness[at] if self.likeness.ndim == 3 else self.likeness
        return self._replace(clock=self.clock[at], usual=self.usual[at], likeness=likeness)

    def without(self, lost: Tensor) -> "Surroundings":
        """The same with nothing known of some locations, (b, l), but where they are."""
        both = lost.unsqueeze(2) | lost.unsqueeze(1)
        return self._replace(
            usual=self.usual.masked_fill(lost.unflatten(1, (1, -1, 1)), torch.nan),
            likeness=torch.where(both, 0.0, self.likeness),
        )


@dataclass(frozen=True, eq=False)
class Whereabouts:
    """Where and when the cells of a whole cube are, with one empty step at its end."""

    clock: Tensor
    """(t + 1, f)."""

    slot: Tensor
    """The time of day that each step belongs to; (t + 1,)."""

    total: Tensor
    """Sums of scaled values by time of day, (slots, l, m)."""

    count: Tensor
    distance: Tensor | None
    block: Tensor
    """The stretch of time that each step belongs to; (t + 1,)."""

    likeness: Tensor
    """For windows that begin in each stretch, (n, l, k)."""

    roughness: Tensor
    kinds: Tensor
    links: Tensor | None
    summed: Tensor
    """True for steps whose values the sums contain, (t + 1,): there what is usual is told from
    outside each window, and never from what may be hidden in it."""

    width: float | None = None

    def around(self, steps: Tensor, values: Tensor, observed: Tensor) -> Surroundings:
        """The surroundings of windows at these steps (b, t), with all that was measured in them."""
        slot = self.slot[steps]  # (b, t)
        total, count = self.total[slot], self.count[slot]  # (b, t, l, m)
        whole, number = self.total.sum(dim=0), self.count.sum(dim=0)  # (l, m)
        summed = self.summed[steps]
        if summed.any():
            seen = observed & summed.unflatten(1, (-1, 1, 1))
            inside, seen = torch.where(seen, values, 0.0), seen.to(values.dtype)
            same = (slot.unsqueeze(2) == slot.unsqueeze(1)).to(values.dtype)
            total, count = less(
                (total, count), *(einsum("bts, bslm -> btlm", same, x) for x in (inside, seen))
            )
            whole, number = less(
                (whole, number), *(x.sum(dim=1, keepdim=True) for x in (inside, seen))
            )
        alike = (
            self.likeness[0] if len(self.likeness) == 1 else self.likeness[self.block[steps[:, 0]]]
        )
        return Surroundings(
            self.clock[steps],
            shrunk(total, count, whole, number),
            self.distance,
            alike,
            self.roughness,
            self.kinds,
            self.links,
            self.width,
        )

    def to(self, device: torch.device) -> "Whereabouts":
        """The same on another device."""
        return Whereabouts(
            clock=self.clock.to(device),
            slot=self.slot.to(device),
            total=self.total.to(device),
            count=self.count.to(device),
            distance=None if self.distance is None else self.distance.to(device),
            block=self.block.to(device),
            likeness=self.likeness.to(device),
            roughness=self.roughness.to(device),
            kinds=self.kinds.to(device),
            links=None if self.links is None else self.links.to(device),
            summed=self.summed.to(device),
            width=self.width,
        )


def less(sums: tuple[Tensor, Tensor], total: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """A sum and how many values it has without some of them; nothing is left if these are more than
    it has, as of values that came in later."""
    left = (sums[1] - count).clamp(min=0.0)
    return torch.where(left > 0, sums[0] - total, 0.0), left


def shrunk(total: Tensor, count: Tensor, whole: Tensor, number: Tensor) -> Tensor:
    """Means at a time of day that lean on the mean of the whole series where there are few values,
    and that on zero, the mean of the network; NaN of a series without a value."""
    mean = whole / (number + TRUST)
    told = (total + TRUST * mean) / (count + TRUST)
    return torch.where(number > 0.5, told, torch.nan)


class EasyAnswer(NamedTuple):
    """What can be said of each cell without learning, all (b, t, l, m)."""

    line: Tensor
    """The straight line between the nearest observations, which goes on level beyond the last; zero
    in a series that has none."""

    before: Tensor
    """How near the last observation is: 1 / (1 + steps), zero if there is none."""

    after: Tensor
    strays: Tensor
    """How far a walk strays from the line: a b / (a + b), where a and b are the steps to the last
    and to the next observation, or the steps to the only one; zero on observations."""

    told: Tensor
    """Whether there is any observation in the series."""


def easy_answer(values: Tensor, observed: Tensor) -> EasyAnswer:
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
    return EasyAnswer(
        line=torch.lerp(from_last, from_following, share),
        before=torch.where(has_last, 1 / (1 + back), 0.0),
        after=torch.where(has_following, 1 / (1 + ahead), 0.0),
        strays=torch.where(told, strays, 0.0),
        told=told,
    )
