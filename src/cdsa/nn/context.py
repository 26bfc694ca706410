"""What is known about the cells of a window beside their values.

Letters: b window of the batch, t time, l and k locations, m measurement.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, einsum

from cdsa.nn.interpolation import less, shrunk


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
