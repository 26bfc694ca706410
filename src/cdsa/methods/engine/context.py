"""What a network is told about a cube: calendar, climatology, distances and similarity."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import has_coordinates
from cdsa.core.gaps import LONG_GAP
from cdsa.core.geo import great_circle, median_distance
from cdsa.nn.context import CubeContext
from cdsa.nn.graph import Edge, adjacency_of_edges, kernel_bandwidth
from cdsa.nn.interpolation import shrunken_mean

Floats = NDArray[np.float64]


Times = NDArray[np.datetime64]


MIN_BIN_MINUTES = 15
"""Minutes of a slot; shorter steps share one."""


DAY = 24 * 60


MIN_WEEKS_FOR_WEEKENDS = 4


MIN_STEP_VARIANCE, MAX_STEP_VARIANCE = 1e-5, 2.0
"""Roughness lies between these; values that have nothing to do with each other differ by two
variances."""


@dataclass(frozen=True, kw_only=True)
class TimeBins:
    """The times of day that are told apart."""

    minutes: int
    """Length of a slot; a whole day if steps are longer than a quarter of one."""

    weekends: bool
    """Whether Saturday and Sunday have slots of their own."""

    @classmethod
    def for_times(cls, times: Times) -> "TimeBins":
        """The slots that suit steps like these."""
        if len(times) < 2:
            return cls(minutes=DAY, weekends=False)
        step = np.median(np.diff(times)) / np.timedelta64(1, "m")
        if step > DAY / 4:
            return cls(minutes=DAY, weekends=False)
        fit = [minutes for minutes in range(MIN_BIN_MINUTES, DAY) if DAY % minutes == 0]
        minutes = next(minutes for minutes in fit if minutes >= step)
        weeks = (times[-1] - times[0]) / np.timedelta64(7, "D")
        return cls(minutes=minutes, weekends=bool(weeks >= MIN_WEEKS_FOR_WEEKENDS))

    @property
    def n_bins(self) -> int:
        """How many there are."""
        return DAY // self.minutes * (2 if self.weekends else 1)

    def index_of(self, times: Times) -> NDArray[np.int64]:
        """The slot of each step."""
        index = pd.DatetimeIndex(times)
        minute = (index.hour * 60 + index.minute).to_numpy(np.int64)
        slot = minute // self.minutes
        if self.weekends:
            slot = slot + np.where(index.day_of_week >= 5, DAY // self.minutes, 0)
        every: NDArray[np.int64] = slot.astype(np.int64)
        return every


@dataclass(frozen=True, eq=False)
class Climatology:
    """Sums and counts of each series by slot, both (slots, l, m)."""

    time_bins: TimeBins
    total: Floats
    count: Floats

    @classmethod
    def fit(cls, values: Floats, times: Times, slots: TimeBins | None = None) -> "Climatology":
        """What is usual in scaled values (t, l, m) with NaN where nothing was measured; in these
        slots, or those that suit the times."""
        slots = slots or TimeBins.for_times(times)
        slot = slots.index_of(times)
        total, count = (np.zeros((slots.n_bins, *values.shape[1:])) for _ in range(2))
        np.add.at(total, slot, np.nan_to_num(values))
        np.add.at(count, slot, np.isfinite(values))
        return cls(slots, total, count)

    def at(self, times: Times) -> Floats:
        """The usual values at these times, (t, l, m); NaN of a series without a value."""
        parts = (torch.as_tensor(part) for part in (self.total, self.count))
        total, count = parts
        told = shrunken_mean(total, count, total.sum(dim=0), count.sum(dim=0)).numpy()
        every: Floats = told[self.time_bins.index_of(times)]
        return every


def step_variance(values: Floats) -> Floats:
    """Mean squared difference from one step to the next of scaled values (t, l, m), for every
    measurement; that of values without any order if no two stand side by side."""
    apart = np.diff(values, axis=0) ** 2
    count = np.isfinite(apart).sum(axis=(0, 1))
    none = np.full(values.shape[2], MAX_STEP_VARIANCE)
    mean = np.divide(np.nansum(apart, axis=(0, 1)), count, out=none, where=count > 0)
    told: Floats = np.clip(mean, MIN_STEP_VARIANCE, MAX_STEP_VARIANCE)
    return told


SHRINKAGE_STEPS = 24.0
"""Steps at which two stations must both report for half of their correlation to be believed."""


N_FOLDS = 10
"""Stretches of time that a cube is parted into, to tell likeness from outside each of them."""


def station_similarity(unusual: Floats, others: Floats | None = None) -> Floats:
    """Correlations (l, k) of stations (t, l, m) with each other, or with `others` (t, k, m), over
    the steps at which both report; the mean over measurements. NaN is missing. Few common steps
    make it small, and none makes it zero."""
    ours = _centred(unusual)
    return _correlations(_pair_sums(ours, ours if others is None else _centred(others)))


def station_similarity_out_of_fold(
    unusual: Floats, length: int
) -> tuple[NDArray[np.int64], Floats]:
    """Which block of time each step belongs to, (t,); and correlations (block, l, k) for windows of
    this length that begin in a block, told from the steps that no such window sees.

    What a network is told of a cell while it learns so knows nothing of that cell. Of many stations
    that report for a short time, correlations told from everything would know a good deal. So they
    do in less than three windows, where nothing is left outside.
    """
    steps = len(unusual)
    count = min(N_FOLDS, steps // length)
    if count < 3:
        return np.zeros(steps, dtype=np.int64), nearest_psd(station_similarity(unusual))[None]
    block = np.arange(steps) * count // steps
    values, known = _centred(unusual)
    parts = [(values[block == one], known[block == one]) for one in range(count)]
    sums = np.stack([_pair_sums(part, part) for part in parts])
    outside = [sums.sum(axis=0) - sums[one : one + 2].sum(axis=0) for one in range(count)]
    return block, np.stack([nearest_psd(_correlations(part)) for part in outside])


def nearest_psd(likeness: Floats) -> Floats:
    """The nearest likenesses (l, l) that can be true together: correlations of pairs that report at
    different times need not be."""
    told = np.zeros_like(likeness)
    some = np.flatnonzero(likeness.any(axis=0) | likeness.any(axis=1))  # not places without a value
    part = likeness[np.ix_(some, some)]
    values, vectors = np.linalg.eigh((part + part.T) / 2)
    told[np.ix_(some, some)] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return told


def _centred(values: Floats) -> tuple[Floats, Floats]:
    """Values less the mean of their series, zero where missing; and one where there is one."""
    known = np.isfinite(values)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, values - mean, 0.0), known.astype(np.float64)


def _pair_sums(ours: tuple[Floats, Floats], others: tuple[Floats, Floats]) -> Floats:
    """Over the steps at which both report: products, squares of the one and of the other, and how
    many there are; (4, m, l, k)."""
    (a, has_a), (b, has_b) = ours, others
    sums = np.empty((4, a.shape[2], a.shape[1], b.shape[1]))
    for m in range(a.shape[2]):
        sums[0, m] = a[:, :, m].T @ b[:, :, m]
        sums[1, m] = (a[:, :, m] ** 2).T @ has_b[:, :, m]
        sums[2, m] = has_a[:, :, m].T @ b[:, :, m] ** 2
        sums[3, m] = has_a[:, :, m].T @ has_b[:, :, m]
    return sums


def _correlations(sums: Floats) -> Floats:
    """The correlations (l, k) that such sums tell."""
    products, ours, others, common = sums
    spread = np.sqrt(np.maximum(ours * others, 0.0))
    correlation = np.divide(products, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    believed = (common * correlation * common / (common + SHRINKAGE_STEPS)).sum(axis=0)
    weight: Floats = common.sum(axis=0)
    told: Floats = np.divide(believed, weight, out=np.zeros_like(weight), where=weight > 0)
    return told


Cycle = Literal["day", "week", "year"]


PERIODS: dict[Cycle, np.timedelta64] = {
    "day": np.timedelta64(24 * 60, "m"),
    "week": np.timedelta64(7 * 24 * 60, "m"),
    "year": np.timedelta64(int(365.2425 * 24 * 60), "m"),
}


MAX_MOVE_KM = 1.0
"""A station that is further from where it was is another one of the same name."""


MIN_WINDOWS = 3


MIN_CYCLES: dict[Cycle, float] = {"day": 2, "week": 4, "year": 2}
"""How often a cycle must have been seen to be told: one that was seen once is only a date."""


@dataclass(frozen=True, eq=False)
class ContextBuilder:
    """What places a cube."""

    distance_scale: float | None
    """Kilometres that count as one, the usual distance between stations; None without places."""

    cycles: tuple[Cycle, ...]
    climatology: Climatology
    station_similarity: NDArray[np.float64]
    """How much the stations resemble each other, (l, k)."""

    step_variance: NDArray[np.float64]
    """Mean squared difference of a measurement from one step to the next, (m,)."""

    trained_ranges: NDArray[np.datetime64]
    """First and last step of each stretch of time that was learnt from, (n, 2)."""

    min_steps: int
    """Steps that a cube must have for its own values to tell what is usual at its stations."""

    measured: NDArray[np.bool_]
    """Stations of which anything was ever measured, (l,)."""

    locations: NDArray[np.str_]
    """The stations of which this is known."""

    coordinates: NDArray[np.float64]
    """Their latitude and longitude, NaN if they have none; (l, 2)."""

    edges: tuple[Edge, ...] = ()
    """Who is heard of by whom and how much, where a graph was given; of other stations too."""

    bandwidth: float | None = None
    """Of the graph that distances make, in the same unit as they."""

    @classmethod
    def fit(
        cls, scaled: xr.DataArray, window: int = 1, edges: tuple[Edge, ...] = ()
    ) -> "ContextBuilder":
        """The frame of what a network learns from, in windows of this length: scaled values, NaN
        where there is none.

        What is usual is told to a window from outside of it, so that takes a few windows.
        """
        times, values = scaled["time"].to_numpy(), scaled.to_numpy()
        least = MIN_WINDOWS * window
        step = np.median(np.diff(times)) if len(times) > 1 else np.timedelta64(0, "ns")
        span = times[-1] - times[0]
        cycles = tuple(
            cycle
            for cycle, length in PERIODS.items()
            if 2 * step <= length and span >= MIN_CYCLES[cycle] * length
        )
        long = len(times) >= least
        usual = Climatology.fit(values if long else np.full_like(values, np.nan), times)
        places = _coordinates(scaled)
        unit = median_distance(_kilometres(places)) if has_coordinates(scaled) else None
        return cls(
            distance_scale=unit,
            cycles=cycles,
            climatology=usual,
            station_similarity=nearest_psd(
                station_similarity(values - np.nan_to_num(usual.at(times)))
            ),
            step_variance=step_variance(values),
            trained_ranges=_trained_ranges(scaled),
            min_steps=least,
            measured=np.isfinite(values).any(axis=(0, 2)),
            locations=scaled["location"].to_numpy(),
            coordinates=places,
            edges=edges,
            bandwidth=None if unit is None else kernel_bandwidth(_scaled_distances(places, unit)),
        )

    @property
    def n_calendar_features(self) -> int:
        """Numbers that tell the time of a step."""
        return 2 * len(self.cycles)

    def is_known(self, cube: xr.DataArray) -> NDArray[np.bool_]:
        """Which stations of a cube the frame knows: something was measured there, they have the
        same name and, if it can be told, are at the same place."""
        old = {name: number for number, name in enumerate(self.locations)}
        known = np.zeros(cube.sizes["location"], dtype=bool)
        for number, (name, place) in enumerate(
            zip(cube["location"].to_numpy(), _coordinates(cube), strict=True)
        ):
            if name in old and self.measured[old[name]]:
                then = self.coordinates[old[name]]
                moved = great_circle(then[:1], then[1:], place[:1], place[1:])[0, 0]
                known[number] = not moved > MAX_MOVE_KM  # NaN: nobody can tell
        return known

    def needs_values(self, cube: xr.DataArray) -> bool:
        """Whether it takes a cube's own values to place it."""
        return not (self.is_known(cube).all() and self.climatology.count.any(axis=0).all())

    def adapt_to(self, scaled: xr.DataArray, variable_ids: NDArray[np.int64]) -> "ContextBuilder":
        """The same frame for the stations of another cube, whose measurements have these numbers.
        What is usual in a series that was not learnt from, and what a new station resembles, is
        told from the cube's own values. Where known stations are is known, should the cube not say.
        """
        names, times = scaled["location"].to_numpy(), scaled["time"].to_numpy()
        known, slots = self.is_known(scaled), self.climatology.time_bins
        old = {name: number for number, name in enumerate(self.locations)}
        rows = np.array([old[name] for name in names[known]], dtype=np.int64)
        shape = (slots.n_bins, len(names), self.climatology.total.shape[2])
        total, count = np.zeros(shape), np.zeros(shape)
        likeness = np.zeros((len(names), len(names)))
        total[:, known], count[:, known] = (
            self.climatology.total[:, rows],
            self.climatology.count[:, rows],
        )
        likeness[np.ix_(known, known)] = self.station_similarity[np.ix_(rows, rows)]
        places = _coordinates(scaled)
        if not has_coordinates(scaled):
            places[known] = self.coordinates[rows]
        usual = Climatology(slots, total, count)
        values = scaled.to_numpy()
        lacking = (count.sum(axis=0)[:, variable_ids] == 0) & np.isfinite(values).any(axis=0)
        told = bool(
            self.climatology.count.any()
        )  # else the network has not learnt what to make of it
        if told and lacking.any() and len(times) >= self.min_steps:
            own = Climatology.fit(np.where(lacking, values, np.nan), times, slots)
            total[:, :, variable_ids] += own.total
            count[:, :, variable_ids] += own.count
        strange = np.flatnonzero(~known & lacking.any(axis=1))
        if len(strange):
            unusual = values - np.nan_to_num(usual.at(times)[:, :, variable_ids])
            new = station_similarity(unusual[:, strange], unusual)
            likeness[strange], likeness[:, strange] = new, new.T
            likeness = nearest_psd(likeness)
        return replace(
            self,
            climatology=usual,
            station_similarity=likeness,
            measured=known | lacking.any(axis=1),
            locations=names,
            coordinates=places,
        )

    def out_of_sample(self, times: NDArray[np.datetime64]) -> NDArray[np.bool_]:
        """Which steps lie in no time that was learnt from."""
        first, last = self.trained_ranges[:, 0], self.trained_ranges[:, 1]
        inside = (times[:, None] >= first) & (times[:, None] <= last)
        outside: NDArray[np.bool_] = ~np.any(inside, axis=1)
        return outside

    def without_stations(self, names: NDArray[np.str_]) -> "ContextBuilder":
        """The same with nothing known of some of its stations but where they are."""
        lost = np.isin(self.locations, names)
        apart = lost[:, None] | lost
        total, count = (
            np.where(lost[None, :, None], 0.0, part)
            for part in (self.climatology.total, self.climatology.count)
        )
        return replace(
            self,
            climatology=replace(self.climatology, total=total, count=count),
            station_similarity=np.where(apart, 0.0, self.station_similarity),
        )

    def build(
        self, scaled: xr.DataArray, variable_ids: NDArray[np.int64], *, training: bool = False
    ) -> CubeContext:
        """Where and when the cells of a cube are that the frame was placed for, or, while
        `learning`, learnt from. In a time that was learnt from, what is usual is told from outside
        each window when it is filled, too."""
        times = scaled["time"].to_numpy()
        distance = None
        if self.distance_scale is not None and np.isfinite(self.coordinates).all():
            distance = _scaled_distances(self.coordinates, self.distance_scale)
        clock, slot = self._calendar_features(times), self.climatology.time_bins.index_of(times)
        block, likeness = np.zeros(len(times), dtype=np.int64), self.station_similarity[None]
        summed = ~self.out_of_sample(times)
        if training:
            unusual = scaled.to_numpy() - np.nan_to_num(
                self.climatology.at(times)[:, :, variable_ids]
            )
            block, likeness = station_similarity_out_of_fold(unusual, self.min_steps // MIN_WINDOWS)
        return CubeContext(
            calendar=torch.as_tensor(
                np.concatenate([clock, np.zeros_like(clock[:1])]), dtype=torch.float32
            ),
            time_bin=torch.as_tensor(np.append(slot, 0)),
            total=torch.as_tensor(self.climatology.total[:, :, variable_ids], dtype=torch.float32),
            count=torch.as_tensor(self.climatology.count[:, :, variable_ids], dtype=torch.float32),
            distance=distance,
            fold=torch.as_tensor(np.append(block, 0)),
            station_similarity=torch.as_tensor(likeness, dtype=torch.float32),
            step_variance=torch.as_tensor(self.step_variance[variable_ids], dtype=torch.float32),
            variable_ids=torch.as_tensor(variable_ids),
            adjacency=adjacency_of_edges(self.edges, self.locations.tolist())
            if self.edges
            else None,
            summed=torch.as_tensor(np.append(summed, False)),
            bandwidth=self.bandwidth,
        )

    def _calendar_features(self, times: NDArray[np.datetime64]) -> NDArray[np.float64]:
        since = times - np.datetime64("2001-01-01", "ns")  # a Monday, and the start of a year
        turns = [2 * np.pi * (since / PERIODS[cycle]) for cycle in self.cycles]
        waves = [wave(turn) for turn in turns for wave in (np.sin, np.cos)]
        return np.stack(waves, axis=-1) if waves else np.zeros((len(times), 0))


def _trained_ranges(scaled: xr.DataArray) -> NDArray[np.datetime64]:
    """Times with something measured; a pause as long as a long gap does not part them."""
    times = scaled["time"].to_numpy()
    there = np.flatnonzero(scaled.notnull().any(("location", "measurement")).to_numpy())
    if not len(there):
        return np.empty((0, 2), dtype=times.dtype)
    parts = np.split(there, np.flatnonzero(np.diff(there) > LONG_GAP) + 1)
    return np.array([(times[part[0]], times[part[-1]]) for part in parts])


def _coordinates(cube: xr.DataArray) -> NDArray[np.float64]:
    """Latitude and longitude of each station, NaN if they have none; (l, 2)."""
    if not has_coordinates(cube):
        return np.full((cube.sizes["location"], 2), np.nan)
    return np.stack([cube["lat"].to_numpy(), cube["lon"].to_numpy()], axis=1).astype(np.float64)


def _scaled_distances(places: NDArray[np.float64], unit: float) -> torch.Tensor:
    """Distances between places (l, 2) in units of so many kilometres, (l, k)."""
    return torch.as_tensor(_kilometres(places) / unit, dtype=torch.float32)


def _kilometres(places: NDArray[np.float64]) -> NDArray[np.float64]:
    return great_circle(places[:, 0], places[:, 1])
