"""The usual value of each series at a time of day, told from other days.

While a network learns, what is usual must not contain the very values it is asked for. So the mean
over all days but a step's own is told, for every step at once.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Times = NDArray[np.datetime64]

SHORTEST = 15
"""Minutes of a slot; shorter steps share one."""
DAY = 24 * 60
WEEKS_FOR_WEEKENDS = 4
TRUST = 1.0
"""How many days of a slot the mean of the whole series counts for."""


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
        """The usual values at these times, zero (the mean of all) where nothing is known."""
        slot = self.slots.of(times)
        means = _shrunk(self.total, self.count, self.total.sum(axis=0), self.count.sum(axis=0))
        return means[slot]

    def on_other_days(self, values: Floats, times: Times) -> Floats:
        """The same at each step of what it was learnt from, but without the step's own day."""
        slot, day = self.slots.of(times), times.astype("datetime64[D]")
        new_day = np.concatenate([[True], np.diff(day) != np.timedelta64(0, "D")])
        new_slot = new_day | np.concatenate([[True], np.diff(slot) != 0])
        (own, own_count), at = _sums(values, new_slot), slot[new_slot]
        today, today_count = (
            part[np.cumsum(new_day)[new_slot] - 1] for part in _sums(values, new_day)
        )
        told = _shrunk(
            self.total[at] - own,
            self.count[at] - own_count,
            self.total.sum(axis=0) - today,
            self.count.sum(axis=0) - today_count,
        )
        every: Floats = told[np.cumsum(new_slot) - 1]
        return every


def _sums(values: Floats, new: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Sums and counts of each stretch of steps, which begin where `new` is true."""
    starts = np.flatnonzero(new)
    return (
        np.add.reduceat(np.nan_to_num(values), starts, axis=0),
        np.add.reduceat(np.isfinite(values).astype(np.float64), starts, axis=0),
    )


def _shrunk(total: Floats, count: Floats, all_total: Floats, all_count: Floats) -> Floats:
    """Means that lean on the mean of the whole series where there are few values, and that on zero,
    the mean of the network."""
    whole = all_total / (all_count + TRUST)
    return (total + TRUST * whole) / (count + TRUST)
