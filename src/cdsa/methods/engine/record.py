"""What the record around a window says of its cells without a model: the straight line between the
nearest observations, and the same hour of the weeks before and after.

Letters: b chunk, t time, l location, m measurement.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.climatology import Times
from cdsa.core.scaler import Scaler
from cdsa.nn.interpolation import interpolate

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

WEEK = np.timedelta64(7, "D")


class Nearest(NamedTuple):
    """The nearest observation of each series on one side of a chunk, (b, l, m)."""

    value: Floats
    """NaN if there is none."""

    distance: Integers
    """Steps from the first or the last step of the chunk."""


@dataclass(frozen=True, eq=False)
class Record:
    """The scaled values of a cube, NaN where missing."""

    values: Floats
    """(t, l, m)."""

    times: Times

    @classmethod
    def of(cls, components: xr.DataArray, scaler: Scaler) -> Self:
        scaled = scaler.select(components).normalise(components)
        return cls(scaled.to_numpy().astype(np.float64), components["time"].to_numpy())

    def at(self, steps: slice = slice(None)) -> Floats:
        """`LINE_FEATURES` and `WEEK_FEATURES` of all cells of these steps, (t, l, m, 5)."""
        number = np.arange(len(self.values))[None, steps]
        features: Floats = self.around(number, self.values[number])[0]
        return features

    def around(
        self, steps: Integers, seen: Floats, hidden_around: Integers | None = None
    ) -> Floats:
        """The same of chunks of consecutive steps (b, t), of which only the values `seen`
        (b, t, l, m) are known. The lines do not know so many steps on either side of them (b,)."""
        hidden = np.zeros(len(steps), np.int64) if hidden_around is None else hidden_around
        before = self._nearest(steps[:, 0], -1 - hidden)
        after = self._nearest(steps[:, -1], 1 + hidden)
        weeks = self._weeks(steps, seen, (-1, 1))
        features: Floats = np.concatenate([_lines(seen, before, after), weeks], axis=-1)
        return features

    def before(self, steps: Integers, seen: Floats) -> Floats:
        """The same of windows of a forecast, of which only the values `seen` are known: lines
        within the window, and the week before it."""
        weeks = self._weeks(steps, np.full_like(seen, np.nan), (-1,))
        features: Floats = np.concatenate([_lines(seen), weeks], axis=-1)
        return features

    def _nearest(self, steps: Integers, shift: Integers) -> Nearest:
        """The nearest observations from these steps (b,) on, shifted to the past or the future."""
        start = steps + shift
        inside = (start >= 0) & (start < len(self.values))
        index = self._observations[0 if shift[0] < 0 else 1][np.where(inside, start, 0)]
        index = np.where(inside[:, None, None], index, -1)
        values = np.take_along_axis(self.values, np.maximum(index, 0), axis=0)
        distance = np.abs(index - steps[:, None, None])
        return Nearest(np.where(index >= 0, values, np.nan), distance)

    @cached_property
    def _observations(self) -> tuple[Integers, Integers]:
        """The last observation at or before each step and the first at or after it, (t, l, m); -1
        if there is none."""
        observed, n_steps = np.isfinite(self.values), len(self.values)
        number = np.arange(n_steps)[:, None, None]
        before = np.maximum.accumulate(np.where(observed, number, -1))
        after = np.minimum.accumulate(np.where(observed, number, n_steps)[::-1])[::-1]
        return before, np.where(after < n_steps, after, -1)

    @cached_property
    def steps_per_week(self) -> int:
        """Zero if a week is not a whole number of steps, or only one."""
        step = np.median(np.diff(self.times)) if len(self.times) > 1 else WEEK
        whole = step < WEEK and WEEK % step == np.timedelta64(0)
        return int(WEEK // step) if whole else 0

    def _weeks(self, steps: Integers, seen: Floats, sides: tuple[int, ...]) -> Floats:
        """`WEEK_FEATURES`, (b, t, l, m, 2)."""
        total, count = np.zeros((2, *seen.shape))
        for side in sides if self.steps_per_week else ():
            at = steps + side * self.steps_per_week
            inside = (at >= 0) & (at < len(self.values)) & (steps >= 0)
            values = self.values[np.where(inside, at, 0)]
            values[~inside] = np.nan
            window, time = np.nonzero(inside & (at >= steps[:, :1]) & (at <= steps[:, -1:]))
            values[window, time] = seen[window, at[window, time] - steps[window, 0]]
            measured = np.isfinite(values)
            total += np.where(measured, values, 0.0)
            count += measured
        return np.stack([total / np.maximum(count, 1), count / 2], axis=-1)


def _lines(values: Floats, before: Nearest | None = None, after: Nearest | None = None) -> Floats:
    """`LINE_FEATURES` of chunks (b, t, l, m), with the nearest observations before and after them;
    (b, t, l, m, 3)."""
    n_steps = values.shape[1]
    position = np.broadcast_to(np.arange(n_steps)[:, None, None], values.shape)
    if before and after:
        values = np.concatenate([before.value[:, None], values, after.value[:, None]], axis=1)
        first, last = -before.distance[:, None], n_steps - 1 + after.distance[:, None]
        position = np.concatenate([first, position, last], axis=1)
    observed = np.isfinite(values)
    tensors = (np.where(observed, values, 0.0), observed, position.copy())
    line = interpolate(*map(torch.as_tensor, tensors))
    features = torch.stack([line.line, line.proximity_before, line.proximity_after], dim=-1)
    return features.numpy()[:, 1:-1] if before else features.numpy()
