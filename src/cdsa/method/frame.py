"""Where and when a cube is, in the terms of the network that was trained: its frame.

The frame is learnt with the network and saved beside it. Any other cube, with other stations or
another time, is then placed in it.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from cdsa.cube import has_places
from cdsa.distances import great_circle, usual_distance
from cdsa.method.resemblance import resemblance
from cdsa.method.usual import Usual
from cdsa.models.surroundings import Surroundings

Cycle = Literal["day", "week", "year"]
LENGTHS: dict[Cycle, np.timedelta64] = {
    "day": np.timedelta64(24 * 60, "m"),
    "week": np.timedelta64(7 * 24 * 60, "m"),
    "year": np.timedelta64(int(365.2425 * 24 * 60), "m"),
}
TURNS: dict[Cycle, float] = {"day": 2, "week": 4, "year": 2}
"""How often a cycle must have been seen to be told: one that was seen once is only a date."""


@dataclass(frozen=True, eq=False)
class Frame:
    """What places a cube."""

    unit: float | None
    """Kilometres that count as one, the usual distance between stations; None without places."""

    cycles: tuple[Cycle, ...]
    usual: Usual
    likeness: NDArray[np.float64]
    """How much the stations resemble each other, (l, k)."""

    locations: NDArray[np.str_]
    """The stations whose usual values are known."""

    @classmethod
    def learn(cls, scaled: xr.DataArray) -> "Frame":
        """The frame of what a network learns from: scaled values, NaN where there is none."""
        times = scaled["time"].to_numpy()
        step = np.median(np.diff(times)) if len(times) > 1 else np.timedelta64(0, "ns")
        span = times[-1] - times[0]
        cycles = tuple(
            cycle
            for cycle, length in LENGTHS.items()
            if 2 * step <= length and span >= TURNS[cycle] * length
        )
        usual = Usual.learn(scaled.to_numpy(), times)
        return cls(
            unit=usual_distance(_kilometres(scaled)) if has_places(scaled) else None,
            cycles=cycles,
            usual=usual,
            likeness=resemblance(scaled.to_numpy() - usual.at(times)),
            locations=scaled["location"].to_numpy(),
        )

    @property
    def clocks(self) -> int:
        """Numbers that tell the time of a step."""
        return 2 * len(self.cycles)

    def placing(self, scaled: xr.DataArray, kinds: NDArray[np.int64]) -> "Frame":
        """The same frame for the stations of another cube and the measurements of these numbers.
        What is usual at a station that was not learnt from, and what it resembles, is told from the
        cube's own values."""
        names, times = scaled["location"].to_numpy(), scaled["time"].to_numpy()
        old = {name: number for number, name in enumerate(self.locations)}
        known = np.array([name in old for name in names], dtype=bool)
        rows = np.array([old[name] for name in names[known]], dtype=np.int64)
        slots = self.usual.slots
        total, count = (np.zeros((slots.count, len(names), len(kinds))) for _ in range(2))
        likeness = np.zeros((len(names), len(names)))
        total[:, known] = self.usual.total[:, rows][:, :, kinds]
        count[:, known] = self.usual.count[:, rows][:, :, kinds]
        likeness[np.ix_(known, known)] = self.likeness[np.ix_(rows, rows)]
        if not known.all():
            values = scaled.to_numpy()
            own = Usual.learn(values[:, ~known], times, slots)
            total[:, ~known], count[:, ~known] = own.total, own.count
            unusual = values - Usual(slots, total, count).at(times)
            new = resemblance(unusual[:, ~known], unusual)
            likeness[~known], likeness[:, ~known] = new, new.T
        usual = Usual(slots, total, count)
        return replace(self, usual=usual, likeness=likeness, locations=names)

    def around(
        self, scaled: xr.DataArray, kinds: NDArray[np.int64], *, learning: bool = False
    ) -> Surroundings:
        """The surroundings of every step of a cube that was placed: clock (t, f), usual (t, l, m).

        While `learning`, on what the frame was learnt from, the usual value of a step is told from
        other days only.
        """
        times = scaled["time"].to_numpy()
        if learning:
            usual = self.usual.on_other_days(scaled.to_numpy(), times)
        else:
            usual = self.usual.at(times)
        distance = None
        if self.unit is not None and has_places(scaled):
            distance = torch.as_tensor(_kilometres(scaled) / self.unit)
        return Surroundings(
            clock=torch.as_tensor(self._clock(times)),
            usual=torch.as_tensor(usual),
            distance=distance,
            likeness=torch.as_tensor(self.likeness),
            kinds=torch.as_tensor(kinds),
        )

    def _clock(self, times: NDArray[np.datetime64]) -> NDArray[np.float64]:
        since = times - np.datetime64("2001-01-01", "ns")  # a Monday, and the start of a year
        turns = [2 * np.pi * (since / LENGTHS[cycle]) for cycle in self.cycles]
        waves = [wave(turn) for turn in turns for wave in (np.sin, np.cos)]
        return np.stack(waves, axis=-1) if waves else np.zeros((len(times), 0))


def _kilometres(cube: xr.DataArray) -> NDArray[np.float64]:
    return great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
