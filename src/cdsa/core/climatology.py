"""The usual value of a series at a time of day, of weekdays and weekends."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.datetime64]

DAY = 24 * 60
"""Minutes."""

MIN_BIN_MINUTES = 15
"""Shorter steps share a time bin."""

MIN_WEEKS_FOR_WEEKENDS = 4

MIN_SHARE = 0.4
"""Share of the steps of a day, or a week, that must be measured for a mean to be subtracted."""

N_ROUNDS = 2
"""Further estimates of a cycle."""

PRIOR_COUNT = 1.0
"""Prior weight of the mean of the series, in days."""


@dataclass(frozen=True, kw_only=True)
class TimeBins:
    """Times of day, of weekdays and weekends."""

    minutes: int
    """Length of a bin; a whole day if steps are longer than a quarter of one."""

    weekends: bool
    """Whether Saturday and Sunday have their own bins."""

    @classmethod
    def for_times(cls, times: Times) -> "TimeBins":
        """The bins for the step and the span of these times."""
        step = np.median(np.diff(times)) / np.timedelta64(1, "m") if len(times) > 1 else np.inf
        if step > DAY / 4:
            return cls(minutes=DAY, weekends=False)
        divisors = (minutes for minutes in range(MIN_BIN_MINUTES, DAY) if DAY % minutes == 0)
        minutes = next(minutes for minutes in divisors if minutes >= step)
        weeks = (times[-1] - times[0]) / np.timedelta64(7, "D")
        return cls(minutes=minutes, weekends=bool(weeks >= MIN_WEEKS_FOR_WEEKENDS))

    @property
    def n_bins(self) -> int:
        return DAY // self.minutes * (2 if self.weekends else 1)

    def index_of(self, times: Times) -> Integers:
        """The bin of each step, (t,)."""
        index = pd.DatetimeIndex(times)
        minute = (index.hour * 60 + index.minute).to_numpy(np.int64)
        bins: Integers = minute // self.minutes
        if self.weekends:
            bins = bins + np.where(index.day_of_week >= 5, DAY // self.minutes, 0)
        return bins


@dataclass(frozen=True, eq=False)
class Climatology:
    """Sums and counts of each series by time bin, both (bins, l, m)."""

    time_bins: TimeBins
    total: Floats
    count: Floats

    @classmethod
    def fit(cls, values: Floats, times: Times, time_bins: TimeBins | None = None) -> "Climatology":
        """The climatology of values (t, l, m), in these bins or in those for the times."""
        time_bins = time_bins or TimeBins.for_times(times)
        index = time_bins.index_of(times)
        total, count = (np.zeros((time_bins.n_bins, *values.shape[1:])) for _ in range(2))
        np.add.at(total, index, np.nan_to_num(values))
        np.add.at(count, index, np.isfinite(values))
        return cls(time_bins, total, count)

    def at(self, times: Times) -> Floats:
        """Means at these times, (t, l, m), shrunk towards the mean of the series, which is shrunk
        towards zero, the mean of all stations; NaN for a series without a value."""
        n_values = self.count.sum(axis=0)
        series_mean = self.total.sum(axis=0) / (n_values + PRIOR_COUNT)
        means = (self.total + PRIOR_COUNT * series_mean) / (self.count + PRIOR_COUNT)
        by_step: Floats = np.where(n_values > 0, means, np.nan)[self.time_bins.index_of(times)]
        return by_step


@dataclass(frozen=True, eq=False)
class Cycle:
    """The daily cycle of each series around its level of the day or, where weekends have their own,
    of the week."""

    time_bins: TimeBins
    means: Floats
    """(bins, l, m)."""

    @classmethod
    def fit(cls, values: Floats, times: Times) -> "Cycle":
        """The cycle of values (t, l, m).

        A moving mean is subtracted first: bins that were measured on different days would otherwise
        differ by the levels of these days. What remains is a mean over stations and what a station
        adds to it, each on all days and on weekends; each of the four is shrunk, to nothing if it
        is no larger than the noise of its means. The moving mean of incomplete days depends on the
        cycle, so it is computed again without it.
        """
        cycle = cls._around(values, times, values)
        for _ in range(N_ROUNDS):
            cycle = cls._around(values, times, values - cycle.at(times))
        return cycle

    @classmethod
    def _around(cls, values: Floats, times: Times, acyclic: Floats) -> "Cycle":
        """The cycle of values around the moving mean of others."""
        time_bins = TimeBins.for_times(times)
        index, n_days = time_bins.index_of(times), 7 if time_bins.weekends else 1
        deviations = values - _moving_mean(acyclic, n_days * (DAY // time_bins.minutes))
        observed = np.isfinite(deviations)
        total, count, squares = (np.zeros((time_bins.n_bins, *values.shape[1:])) for _ in range(3))
        np.add.at(total, index, np.where(observed, deviations, 0.0))
        np.add.at(count, index, observed)
        np.add.at(squares, index, np.where(observed, deviations, 0.0) ** 2)
        means = total / np.maximum(count, 1)
        n_values = np.maximum(count.sum(axis=0), 1)
        variance = np.maximum(squares.sum(axis=0) - (count * means**2).sum(axis=0), 0.0) / n_values
        noise = variance * time_bins.n_bins / n_values  # (l, m)
        means = means.reshape(2 if time_bins.weekends else 1, -1, *values.shape[1:])
        weights = np.array([5 / 7, 2 / 7] if time_bins.weekends else [1.0])
        all_days = np.einsum("d, dblm -> blm", weights, means)[None]
        shrunken = _shrink_cycle(all_days, noise) + _shrink_cycle(means - all_days, noise)
        return cls(time_bins, np.broadcast_to(shrunken, means.shape).reshape(total.shape).copy())

    def at(self, times: Times) -> Floats:
        """The cycle at these times, (t, l, m)."""
        by_step: Floats = self.means[self.time_bins.index_of(times)]
        return by_step


def _shrink_cycle(means: Floats, noise: Floats) -> Floats:
    """Means (d, b, l, m) as far as they are more than noise (l, m)."""
    shared = means.mean(axis=2, keepdims=True)
    return _shrink(shared, noise.mean(axis=0)) + _shrink(means - shared, noise)


def _shrink(part: Floats, noise: Floats) -> Floats:
    size = np.maximum((part**2).mean(axis=(0, 1)), 1e-300)
    shrunken: Floats = part * np.maximum(1 - noise / size, 0.0)
    return shrunken


def _moving_mean(values: Floats, length: int) -> Floats:
    """The mean of so many steps around each; NaN where few of them were measured."""
    observed, n_steps = np.isfinite(values), len(values)
    start = np.zeros((1, *values.shape[1:]))
    total = np.concatenate([start, np.where(observed, values, 0.0).cumsum(axis=0)])
    count = np.concatenate([start, observed.cumsum(axis=0)])
    step = np.arange(n_steps)
    low, high = np.maximum(step - length // 2, 0), np.minimum(step + (length + 1) // 2, n_steps)
    n_measured = count[high] - count[low]
    enough = n_measured >= MIN_SHARE * length
    mean: Floats = np.where(enough, (total[high] - total[low]) / np.maximum(n_measured, 1), np.nan)
    return mean
