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

from cdsa.core.cube import has_places
from cdsa.core.gaps import LONGEST
from cdsa.core.geo import great_circle, usual_distance
from cdsa.method.resemblance import possible, resemblance, resemblance_outside
from cdsa.method.usual import Usual, roughness
from cdsa.nn.context import Whereabouts
from cdsa.nn.graph import Edge, links_of, width_of

Cycle = Literal["day", "week", "year"]
LENGTHS: dict[Cycle, np.timedelta64] = {
    "day": np.timedelta64(24 * 60, "m"),
    "week": np.timedelta64(7 * 24 * 60, "m"),
    "year": np.timedelta64(int(365.2425 * 24 * 60), "m"),
}
SAME_KM = 1.0
"""A station that is further from where it was is another one of the same name."""
FEW_WINDOWS = 3
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

    roughness: NDArray[np.float64]
    """Mean squared difference of a measurement from one step to the next, (m,)."""

    learnt: NDArray[np.datetime64]
    """First and last step of each stretch of time that was learnt from, (n, 2)."""

    least: int
    """Steps that a cube must have for its own values to tell what is usual at its stations."""

    measured: NDArray[np.bool_]
    """Stations of which anything was ever measured, (l,)."""

    locations: NDArray[np.str_]
    """The stations of which this is known."""

    places: NDArray[np.float64]
    """Their latitude and longitude, NaN if they have none; (l, 2)."""

    edges: tuple[Edge, ...] = ()
    """Who is heard of by whom and how much, where a graph was given; of other stations too."""

    width: float | None = None
    """Of the graph that distances make, in the same unit as they."""

    @classmethod
    def learn(cls, scaled: xr.DataArray, length: int = 1, edges: tuple[Edge, ...] = ()) -> "Frame":
        """The frame of what a network learns from, in windows of this length: scaled values, NaN
        where there is none.

        What is usual is told to a window from outside of it, so that takes a few windows.
        """
        times, values = scaled["time"].to_numpy(), scaled.to_numpy()
        least = FEW_WINDOWS * length
        step = np.median(np.diff(times)) if len(times) > 1 else np.timedelta64(0, "ns")
        span = times[-1] - times[0]
        cycles = tuple(
            cycle
            for cycle, length in LENGTHS.items()
            if 2 * step <= length and span >= TURNS[cycle] * length
        )
        long = len(times) >= least
        usual = Usual.learn(values if long else np.full_like(values, np.nan), times)
        places = _places(scaled)
        unit = usual_distance(_kilometres(places)) if has_places(scaled) else None
        return cls(
            unit=unit,
            cycles=cycles,
            usual=usual,
            likeness=possible(resemblance(values - np.nan_to_num(usual.at(times)))),
            roughness=roughness(values),
            learnt=_stretches(scaled),
            least=least,
            measured=np.isfinite(values).any(axis=(0, 2)),
            locations=scaled["location"].to_numpy(),
            places=places,
            edges=edges,
            width=None if unit is None else width_of(_apart(places, unit)),
        )

    @property
    def clocks(self) -> int:
        """Numbers that tell the time of a step."""
        return 2 * len(self.cycles)

    def knows(self, cube: xr.DataArray) -> NDArray[np.bool_]:
        """Which stations of a cube the frame knows: something was measured there, they have the
        same name and, if it can be told, are at the same place."""
        old = {name: number for number, name in enumerate(self.locations)}
        known = np.zeros(cube.sizes["location"], dtype=bool)
        for number, (name, place) in enumerate(
            zip(cube["location"].to_numpy(), _places(cube), strict=True)
        ):
            if name in old and self.measured[old[name]]:
                then = self.places[old[name]]
                moved = great_circle(then[:1], then[1:], place[:1], place[1:])[0, 0]
                known[number] = not moved > SAME_KM  # NaN: nobody can tell
        return known

    def needs(self, cube: xr.DataArray) -> bool:
        """Whether it takes a cube's own values to place it."""
        return not (self.knows(cube).all() and self.usual.count.any(axis=0).all())

    def placing(self, scaled: xr.DataArray, kinds: NDArray[np.int64]) -> "Frame":
        """The same frame for the stations of another cube, whose measurements have these numbers.
        What is usual in a series that was not learnt from, and what a new station resembles, is
        told from the cube's own values. Where known stations are is known, should the cube not say.
        """
        names, times = scaled["location"].to_numpy(), scaled["time"].to_numpy()
        known, slots = self.knows(scaled), self.usual.slots
        old = {name: number for number, name in enumerate(self.locations)}
        rows = np.array([old[name] for name in names[known]], dtype=np.int64)
        shape = (slots.count, len(names), self.usual.total.shape[2])
        total, count = np.zeros(shape), np.zeros(shape)
        likeness = np.zeros((len(names), len(names)))
        total[:, known], count[:, known] = self.usual.total[:, rows], self.usual.count[:, rows]
        likeness[np.ix_(known, known)] = self.likeness[np.ix_(rows, rows)]
        places = _places(scaled)
        if not has_places(scaled):
            places[known] = self.places[rows]
        usual = Usual(slots, total, count)
        values = scaled.to_numpy()
        lacking = (count.sum(axis=0)[:, kinds] == 0) & np.isfinite(values).any(axis=0)
        told = bool(self.usual.count.any())  # else the network has not learnt what to make of it
        if told and lacking.any() and len(times) >= self.least:
            own = Usual.learn(np.where(lacking, values, np.nan), times, slots)
            total[:, :, kinds] += own.total
            count[:, :, kinds] += own.count
        strange = np.flatnonzero(~known & lacking.any(axis=1))
        if len(strange):
            unusual = values - np.nan_to_num(usual.at(times)[:, :, kinds])
            new = resemblance(unusual[:, strange], unusual)
            likeness[strange], likeness[:, strange] = new, new.T
            likeness = possible(likeness)
        return replace(
            self,
            usual=usual,
            likeness=likeness,
            measured=known | lacking.any(axis=1),
            locations=names,
            places=places,
        )

    def fresh(self, times: NDArray[np.datetime64]) -> NDArray[np.bool_]:
        """Which steps lie in no time that was learnt from."""
        first, last = self.learnt[:, 0], self.learnt[:, 1]
        inside = (times[:, None] >= first) & (times[:, None] <= last)
        outside: NDArray[np.bool_] = ~np.any(inside, axis=1)
        return outside

    def forgetting(self, names: NDArray[np.str_]) -> "Frame":
        """The same with nothing known of some of its stations but where they are."""
        lost = np.isin(self.locations, names)
        apart = lost[:, None] | lost
        total, count = (
            np.where(lost[None, :, None], 0.0, part)
            for part in (self.usual.total, self.usual.count)
        )
        return replace(
            self,
            usual=replace(self.usual, total=total, count=count),
            likeness=np.where(apart, 0.0, self.likeness),
        )

    def where(
        self, scaled: xr.DataArray, kinds: NDArray[np.int64], *, learning: bool = False
    ) -> Whereabouts:
        """Where and when the cells of a cube are that the frame was placed for, or, while
        `learning`, learnt from. In a time that was learnt from, what is usual is told from outside
        each window when it is filled, too."""
        times = scaled["time"].to_numpy()
        distance = None
        if self.unit is not None and np.isfinite(self.places).all():
            distance = _apart(self.places, self.unit)
        clock, slot = self._clock(times), self.usual.slots.of(times)
        block, likeness = np.zeros(len(times), dtype=np.int64), self.likeness[None]
        summed = ~self.fresh(times)
        if learning:
            unusual = scaled.to_numpy() - np.nan_to_num(self.usual.at(times)[:, :, kinds])
            block, likeness = resemblance_outside(unusual, self.least // FEW_WINDOWS)
        return Whereabouts(
            clock=torch.as_tensor(
                np.concatenate([clock, np.zeros_like(clock[:1])]), dtype=torch.float32
            ),
            slot=torch.as_tensor(np.append(slot, 0)),
            total=torch.as_tensor(self.usual.total[:, :, kinds], dtype=torch.float32),
            count=torch.as_tensor(self.usual.count[:, :, kinds], dtype=torch.float32),
            distance=distance,
            block=torch.as_tensor(np.append(block, 0)),
            likeness=torch.as_tensor(likeness, dtype=torch.float32),
            roughness=torch.as_tensor(self.roughness[kinds], dtype=torch.float32),
            kinds=torch.as_tensor(kinds),
            links=links_of(self.edges, self.locations.tolist()) if self.edges else None,
            summed=torch.as_tensor(np.append(summed, False)),
            width=self.width,
        )

    def _clock(self, times: NDArray[np.datetime64]) -> NDArray[np.float64]:
        since = times - np.datetime64("2001-01-01", "ns")  # a Monday, and the start of a year
        turns = [2 * np.pi * (since / LENGTHS[cycle]) for cycle in self.cycles]
        waves = [wave(turn) for turn in turns for wave in (np.sin, np.cos)]
        return np.stack(waves, axis=-1) if waves else np.zeros((len(times), 0))


def _stretches(scaled: xr.DataArray) -> NDArray[np.datetime64]:
    """Times with something measured; a pause as long as a long gap does not part them."""
    times = scaled["time"].to_numpy()
    there = np.flatnonzero(scaled.notnull().any(("location", "measurement")).to_numpy())
    if not len(there):
        return np.empty((0, 2), dtype=times.dtype)
    parts = np.split(there, np.flatnonzero(np.diff(there) > LONGEST) + 1)
    return np.array([(times[part[0]], times[part[-1]]) for part in parts])


def _places(cube: xr.DataArray) -> NDArray[np.float64]:
    """Latitude and longitude of each station, NaN if they have none; (l, 2)."""
    if not has_places(cube):
        return np.full((cube.sizes["location"], 2), np.nan)
    return np.stack([cube["lat"].to_numpy(), cube["lon"].to_numpy()], axis=1).astype(np.float64)


def _apart(places: NDArray[np.float64], unit: float) -> torch.Tensor:
    """Distances between places (l, 2) in units of so many kilometres, (l, k)."""
    return torch.as_tensor(_kilometres(places) / unit, dtype=torch.float32)


def _kilometres(places: NDArray[np.float64]) -> NDArray[np.float64]:
    return great_circle(places[:, 0], places[:, 1])
