"""What is known about the cells of a window besides their values.

Letters: b window of the batch, t time, l and k locations, m measurement, f calendar features.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, einsum

from cdsa.nn.interpolation import shrunken_mean, subtract_sums

BACKBONE_FEATURES = ("mean", "std", "residual", "anomaly", "log_spread")
"""What a linear-Gaussian model says of each cell, from all cells that the network sees but itself:
mean and standard deviation of the scaled value; how far the measured value is from that mean, in
standard deviations (zero where nothing was measured); and the mean and the logarithm of the
standard deviation of its anomaly, in which a logarithm and a daily cycle may be removed."""

LINE_FEATURES = ("line", "proximity_before", "proximity_after")
"""The straight line between the nearest observations of the record, and 1 / (1 + steps) to each of
them, zero if there is none. Both may lie far outside a window."""

WEEK_FEATURES = ("same_hour", "has_same_hour")
"""The mean of the values of the same series one week before and one week after, and which share of
the two was measured; both zero if a week is not a whole number of steps."""

RECORD_FEATURES = BACKBONE_FEATURES + LINE_FEATURES + WEEK_FEATURES
"""What the record around a window says of each cell."""


class WindowContext(NamedTuple):
    """The context of a batch of windows. Nothing here depends on held-out cells."""

    calendar: Tensor
    """Sine and cosine of the time of day, week and year, where the data cover them; (b, t, f)."""

    climatology: Tensor
    """Mean scaled value of a series at this time of day, NaN if unknown; (b, t, l, m)."""

    distance: Tensor | None
    """Between locations, relative to the network the weights were trained on; (l, k)."""

    station_similarity: Tensor
    """Correlation of locations, zero where unknown; (l, k) or (b, l, k)."""

    step_variance: Tensor
    """Mean squared difference from one step to the next, (m,)."""

    variable_ids: Tensor
    """The number of each measurement among those that the weights know; (m,)."""

    measurement_similarity: Tensor | None = None
    """Absolute correlation of measurements at the same location; (m, n) or (b, m, n)."""

    adjacency: Tensor | None = None
    """Weight of the edge from location k to location l, if a graph was given; (l, k)."""

    bandwidth: float | None = None
    """Bandwidth of the kernel that makes a graph of distances, from training."""

    record: Tensor | None = None
    """`RECORD_FEATURES` of each cell, NaN for series that the model does not know;
    (b, t, l, m, 10)."""

    station_ids: Tensor | None = None
    """The number of each location among those that the weights know, -1 for others; (l,) or
    (b, l)."""

    smoothed_from: Tensor | None = None
    """To explain one cell: the weights of its window in its smoothed mean, (t, l, m)."""

    def select(self, at: slice) -> "WindowContext":
        similarity, ids = self.station_similarity, self.station_ids
        between = self.measurement_similarity
        return self._replace(
            station_ids=ids[at] if ids is not None and ids.ndim == 2 else ids,
            calendar=self.calendar[at],
            climatology=self.climatology[at],
            station_similarity=similarity[at] if similarity.ndim == 3 else similarity,
            measurement_similarity=(
                between[at] if between is not None and between.ndim == 3 else between
            ),
            record=None if self.record is None else self.record[at],
        )

    def select_series(self, rows: Tensor, columns: Tensor) -> "WindowContext":
        """The context of some locations and measurements, by their numbers."""
        distance, adjacency, record = self.distance, self.adjacency, self.record
        between = self.measurement_similarity
        return self._replace(
            climatology=self.climatology[:, :, rows][..., columns],
            distance=None if distance is None else distance[rows][:, rows],
            station_similarity=self.station_similarity[..., rows, :][..., rows],
            measurement_similarity=None
            if between is None
            else between[..., columns, :][..., columns],
            step_variance=self.step_variance[columns],
            variable_ids=self.variable_ids[columns],
            adjacency=None if adjacency is None else adjacency[rows][:, rows],
            station_ids=None if self.station_ids is None else self.station_ids[..., rows],
            record=None if record is None else record[:, :, rows][:, :, :, columns],
        )

    def without_stations(self, dropped: Tensor) -> "WindowContext":
        """The context in which nothing but the coordinates of the dropped locations (b, l) is
        known."""
        either = dropped.unsqueeze(2) | dropped.unsqueeze(1)
        record = self.record
        if record is not None:
            record = record.masked_fill(dropped.unflatten(1, (1, -1, 1, 1)), torch.nan)
        return self.forget_stations(dropped)._replace(
            climatology=self.climatology.masked_fill(dropped.unflatten(1, (1, -1, 1)), torch.nan),
            record=record,
            station_similarity=torch.where(either, 0.0, self.station_similarity),
        )

    def forget_stations(self, forgotten: Tensor) -> "WindowContext":
        """The context in which these locations (b, l) are none of those that the weights know."""
        if self.station_ids is None:
            return self
        return self._replace(station_ids=torch.where(forgotten, -1, self.station_ids))


@dataclass(frozen=True, eq=False)
class CubeContext:
    """The context of a whole cube, with one empty step at its end."""

    calendar: Tensor
    """(t + 1, f)."""

    time_bin: Tensor
    """Number of the time of day of each step; (t + 1,)."""

    bin_total: Tensor
    """Sums of scaled values by time bin, (bins, l, m)."""

    bin_count: Tensor
    distance: Tensor | None
    fold: Tensor
    """Number of the time fold of each step; (t + 1,)."""

    station_similarity: Tensor
    """For windows that start in each fold, (folds, l, k)."""

    measurement_similarity: Tensor
    """(folds, m, n)."""

    step_variance: Tensor
    variable_ids: Tensor
    adjacency: Tensor | None
    in_climatology: Tensor
    """True for steps whose values the sums contain, (t + 1,). The climatology of a window leaves
    these out, so that it never contains what is masked in the window."""

    bandwidth: float | None = None
    record: Tensor | None = None
    """(t + 1, l, m, 10)."""

    station_ids: Tensor | None = None
    """(l,)."""

    def window_context(self, steps: Tensor, values: Tensor, observed: Tensor) -> WindowContext:
        """The context of windows at these steps (b, t), given all values observed in them."""
        bins = self.time_bin[steps]  # (b, t)
        total, count = self.bin_total[bins], self.bin_count[bins]  # (b, t, l, m)
        series_total, series_count = self.bin_total.sum(dim=0), self.bin_count.sum(dim=0)  # (l, m)
        in_climatology = self.in_climatology[steps]
        if in_climatology.any():
            inside = observed & in_climatology.unflatten(1, (-1, 1, 1))
            sums = (torch.where(inside, values, 0.0), inside.to(values.dtype))
            same_bin = (bins.unsqueeze(2) == bins.unsqueeze(1)).to(values.dtype)
            total, count = subtract_sums(
                (total, count), *(einsum("bts, bslm -> btlm", same_bin, x) for x in sums)
            )
            series_total, series_count = subtract_sums(
                (series_total, series_count), *(x.sum(dim=1, keepdim=True) for x in sums)
            )
        stations, measurements = (
            similarity[0] if len(similarity) == 1 else similarity[self.fold[steps[:, 0]]]
            for similarity in (self.station_similarity, self.measurement_similarity)
        )
        return WindowContext(
            self.calendar[steps],
            shrunken_mean(total, count, series_total, series_count),
            self.distance,
            stations,
            self.step_variance,
            self.variable_ids,
            measurements,
            self.adjacency,
            self.bandwidth,
            None if self.record is None else self.record[steps],
            self.station_ids,
        )

    def to(self, device: torch.device) -> "CubeContext":
        moved: dict[str, Any] = {
            name: value.to(device)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)
