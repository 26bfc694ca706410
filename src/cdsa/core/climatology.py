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
