"""The usual value of each series at a time of day: sums and counts that others tell it from."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cdsa.nn.interpolation import shrunk

Floats = NDArray[np.float64]
Times = NDArray[np.datetime64]

SHORTEST = 15
"""Minutes of a slot; shorter steps share one."""
DAY = 24 * 60
WEEKS_FOR_WEEKENDS = 4
SMOOTHEST, ROUGHEST = 1e-5, 2.0
"""Roughness lies between these; values that have nothing to do with each other differ by two
variances."""


@dataclass(frozen=True, kw_only=True)
class Slots:
    """The times of day that are told apart."""

    minutes: int
    """Length of a slot; a whole day if steps are longer than a quarter of one."""

    weekends: bool
    """Whether Saturday and Sunday have slots of their own."""

    @classmethod
    def for_times(cls, times: Times) -> "Slots":
        """The slots that suit steps like these."""
        if len(times) < 2:
            return cls(minutes=DAY, weekends=False)
        step = np.median(np.diff(times)) / np.timedelta64(1, "m")
        if step > DAY / 4:
            return cls(minutes=DAY, weekends=False)
        fit = [minutes for minutes in range(SHORTEST, DAY) if DAY % minutes == 0]
        minutes = next(minutes for minutes in fit if minutes >= step)
        weeks = (times[-1] - times[0]) / np.timedelta64(7, "D")
        return cls(minutes=minutes, weekends=bool(weeks >= WEEKS_FOR_WEEKENDS))

    @property
    def count(self) -> int:
        """How many there are."""
        return DAY // self.minutes * (2 if self.weekends else 1)

    def of(self, times: Times) -> NDArray[np.int64]:
        """The slot of each step."""
        index = pd.DatetimeIndex(times)
        minute = (index.hour * 60 + index.minute).to_numpy(np.int64)
        slot = minute // self.minutes
        if self.weekends:
            slot = slot + np.where(index.day_of_week >= 5, DAY // self.minutes, 0)
        every: NDArray[np.int64] = slot.astype(np.int64)
        return every


@dataclass(frozen=True, eq=False)
class Usual:
    """Sums and counts of each series by slot, both (slots, l, m)."""

    slots: Slots
    total: Floats
    count: Floats

    @classmethod
    def learn(cls, values: Floats, times: Times, slots: Slots | None = None) -> "Usual":
        """What is usual in scaled values (t, l, m) with NaN where nothing was measured; in these
        slots, or those that suit the times."""
        slots = slots or Slots.for_times(times)
        slot = slots.of(times)
        total, count = (np.zeros((slots.count, *values.shape[1:])) for _ in range(2))
        np.add.at(total, slot, np.nan_to_num(values))
        np.add.at(count, slot, np.isfinite(values))
        return cls(slots, total, count)

    def at(self, times: Times) -> Floats:
        """The usual values at these times, (t, l, m); NaN of a series without a value."""
        parts = (torch.as_tensor(part) for part in (self.total, self.count))
        total, count = parts
        told = shrunk(total, count, total.sum(dim=0), count.sum(dim=0)).numpy()
        every: Floats = told[self.slots.of(times)]
        return every


def roughness(values: Floats) -> Floats:
    """Mean squared difference from one step to the next of scaled values (t, l, m), for every
    measurement; that of values without any order if no two stand side by side."""
    apart = np.diff(values, axis=0) ** 2
    count = np.isfinite(apart).sum(axis=(0, 1))
    none = np.full(values.shape[2], ROUGHEST)
    mean = np.divide(np.nansum(apart, axis=(0, 1)), count, out=none, where=count > 0)
    told: Floats = np.clip(mean, SMOOTHEST, ROUGHEST)
    return told
