"""What is known about the cells of a window beside their values.

Letters: b window of the batch, t time, l and k locations, m measurement.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, einsum

from cdsa.nn.interpolation import shrunken_mean, subtract_sums


class WindowContext(NamedTuple):
    """Where and when the cells of a batch of windows are. Nothing here depends on cells that were
    hidden before learning began."""

    calendar: Tensor
    """Sines and cosines of the time of day, week and year, where the steps make them meaningful;
    (b, t, f)."""

    climatology: Tensor
    """The usual scaled value of a series at this time of day, NaN if nothing is known of it;
    (b, t, l, m)."""

    distance: Tensor | None
    """Between locations, in units of the network the weights were trained on; (l, k)."""

    station_similarity: Tensor
    """How much locations resemble each other, from -1 to 1, zero where nothing is known; (l, k) or
    (b, l, k)."""

    step_variance: Tensor
    """How far a series strays from one step to the next: its mean squared difference, (m,)."""

    variable_ids: Tensor
    """The number each measurement has among those that the weights know; (m,)."""

    adjacency: Tensor | None = None
    """How much each location (l) hears of another (k), where a graph was given; (l, k)."""

    bandwidth: float | None = None
    """Distance at which stations of the graph that distances make are but loosely joined, learnt
    with the weights."""

    def select(self, at: slice) -> "WindowContext":
        """Those of some windows of the batch."""
        similarity = (
            self.station_similarity[at]
            if self.station_similarity.ndim == 3
            else self.station_similarity
        )
        return self._replace(
            calendar=self.calendar[at],
            climatology=self.climatology[at],
            station_similarity=similarity,
        )

    def without_stations(self, dropped: Tensor) -> "WindowContext":
        """The same with nothing known of some locations, (b, l), but where they are."""
        both = dropped.unsqueeze(2) | dropped.unsqueeze(1)
        return self._replace(
            climatology=self.climatology.masked_fill(dropped.unflatten(1, (1, -1, 1)), torch.nan),
            station_similarity=torch.where(both, 0.0, self.station_similarity),
        )


@dataclass(frozen=True, eq=False)
class CubeContext:
    """Where and when the cells of a whole cube are, with one empty step at its end."""

    calendar: Tensor
    """(t + 1, f)."""

    time_bin: Tensor
    """The time of day that each step belongs to; (t + 1,)."""

    total: Tensor
    """Sums of scaled values by time of day, (slots, l, m)."""

    count: Tensor
    distance: Tensor | None
    fold: Tensor
    """The stretch of time that each step belongs to; (t + 1,)."""

    station_similarity: Tensor
    """For windows that begin in each stretch, (n, l, k)."""

    step_variance: Tensor
    variable_ids: Tensor
    adjacency: Tensor | None
    summed: Tensor
    """True for steps whose values the sums contain, (t + 1,): there what is usual is told from
    outside each window, and never from what may be hidden in it."""

    bandwidth: float | None = None

    def window_context(self, steps: Tensor, values: Tensor, observed: Tensor) -> WindowContext:
        """The surroundings of windows at these steps (b, t), with all that was measured in them."""
        slot = self.time_bin[steps]  # (b, t)
        total, count = self.total[slot], self.count[slot]  # (b, t, l, m)
        whole, number = self.total.sum(dim=0), self.count.sum(dim=0)  # (l, m)
        summed = self.summed[steps]
        if summed.any():
            seen = observed & summed.unflatten(1, (-1, 1, 1))
            inside, seen = torch.where(seen, values, 0.0), seen.to(values.dtype)
            same = (slot.unsqueeze(2) == slot.unsqueeze(1)).to(values.dtype)
            total, count = subtract_sums(
                (total, count), *(einsum("bts, bslm -> btlm", same, x) for x in (inside, seen))
            )
            whole, number = subtract_sums(
                (whole, number), *(x.sum(dim=1, keepdim=True) for x in (inside, seen))
            )
        alike = (
            self.station_similarity[0]
            if len(self.station_similarity) == 1
            else self.station_similarity[self.fold[steps[:, 0]]]
        )
        return WindowContext(
            self.calendar[steps],
            shrunken_mean(total, count, whole, number),
            self.distance,
            alike,
            self.step_variance,
            self.variable_ids,
            self.adjacency,
            self.bandwidth,
        )

    def to(self, device: torch.device) -> "CubeContext":
        """The same on another device."""
        return CubeContext(
            calendar=self.calendar.to(device),
            time_bin=self.time_bin.to(device),
            total=self.total.to(device),
            count=self.count.to(device),
            distance=None if self.distance is None else self.distance.to(device),
            fold=self.fold.to(device),
            station_similarity=self.station_similarity.to(device),
            step_variance=self.step_variance.to(device),
            variable_ids=self.variable_ids.to(device),
            adjacency=None if self.adjacency is None else self.adjacency.to(device),
            summed=self.summed.to(device),
            bandwidth=self.bandwidth,
        )
