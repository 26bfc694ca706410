"""What a network knows about a cube beside its values: calendar, climatology, distances and
similarity of stations.

Letters: t time, l and k locations, m measurement. Values are scaled, NaN where missing.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.climatology import DAY, Climatology, Times
from cdsa.core.cube import has_coordinates
from cdsa.core.gaps import LONG_GAP
from cdsa.core.geo import Edge, great_circle, median_distance
from cdsa.nn.context import CubeContext
from cdsa.nn.graph import adjacency_of_edges, kernel_bandwidth

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Cycle = Literal["day", "week", "year"]

MIN_STEP_VARIANCE, MAX_STEP_VARIANCE = 1e-5, 2.0
"""Bounds of the step variance; independent values differ by two variances."""

SHRINKAGE_STEPS = 24.0
"""Common steps of two stations at which their correlation is shrunk by half."""

N_FOLDS = 10
"""Time folds for similarities that are computed out of fold."""

PERIODS: dict[Cycle, np.timedelta64] = {
    "day": np.timedelta64(DAY, "m"),
    "week": np.timedelta64(7 * DAY, "m"),
    "year": np.timedelta64(int(365.2425 * DAY), "m"),
}

MIN_CYCLES: dict[Cycle, float] = {"day": 2, "week": 4, "year": 2}
"""Repetitions from which a cycle becomes a calendar feature; a single one is only a date."""

MIN_WINDOWS = 3
"""Windows from which there is a climatology: each window gets that of the others."""

MAX_MOVE_KM = 1.0
"""A station of the same name that is further away is another station."""


def step_variance(values: Floats) -> Floats:
    """Mean squared difference between consecutive values (t, l, m), by measurement (m,); the
    maximum if no two are consecutive."""
    squares = np.diff(values, axis=0) ** 2
    count = np.isfinite(squares).sum(axis=(0, 1))
    fallback = np.full(values.shape[2], MAX_STEP_VARIANCE)
    mean = np.divide(np.nansum(squares, axis=(0, 1)), count, out=fallback, where=count > 0)
    variance: Floats = np.clip(mean, MIN_STEP_VARIANCE, MAX_STEP_VARIANCE)
    return variance


def similarity_of(anomalies: Floats, others: Floats | None = None) -> Floats:
    """Correlations (l, k) of stations (t, l, m) with each other or with `others` (t, k, m), over
    the steps at which both report, averaged over measurements. They are shrunk towards zero where
    there are few common steps, and zero where there are none. With the axes of stations and
    measurements swapped, those of measurements."""
    centred = _centred(anomalies)
    return _correlations(_pair_sums(centred, centred if others is None else _centred(others)))


def similarity_out_of_fold(anomalies: Floats, window: int) -> tuple[Integers, Floats]:
    """The time fold of each step, (t,), and for each fold the similarity (fold, l, k) for windows
    of this length that start in it, computed from the steps outside all of them.

    In training, the similarity given to a cell thus does not depend on that cell; for many stations
    with short records it otherwise would, noticeably. With fewer than three windows nothing is left
    outside, and there is a single fold that uses all steps.
    """
    n_steps = len(anomalies)
    n_folds = min(N_FOLDS, n_steps // window)
    if n_folds < 3:
        return np.zeros(n_steps, dtype=np.int64), nearest_psd(similarity_of(anomalies))[None]
    fold = np.arange(n_steps) * n_folds // n_steps
    values, observed = _centred(anomalies)
    by_fold = [(values[fold == number], observed[fold == number]) for number in range(n_folds)]
    sums = np.stack([_pair_sums(centred, centred) for centred in by_fold])
    # a window that starts in a fold ends in the next one at the latest
    outside = [sums.sum(axis=0) - sums[n : n + 2].sum(axis=0) for n in range(n_folds)]
    return fold, np.stack([nearest_psd(_correlations(rest)) for rest in outside])


def nearest_psd(similarity: Floats) -> Floats:
    """The nearest positive semi-definite matrix (l, l); pairwise correlations of stations that
    report at different times need not be one."""
    projected = np.zeros_like(similarity)
    nonzero = np.flatnonzero(similarity.any(axis=0) | similarity.any(axis=1))
    block = similarity[np.ix_(nonzero, nonzero)]
    values, vectors = np.linalg.eigh((block + block.T) / 2)
    projected[np.ix_(nonzero, nonzero)] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return projected


def _centred(values: Floats) -> tuple[Floats, Floats]:
    """Values minus the mean of their series, zero where missing, and one where observed."""
    observed = np.isfinite(values)
    mean = np.where(observed, values, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    return np.where(observed, values - mean, 0.0), observed.astype(np.float64)


def _pair_sums(centred: tuple[Floats, Floats], others: tuple[Floats, Floats]) -> Floats:
    """Over the common steps of each pair: sums of products, of squares of either station, and the
    number of steps; (4, m, l, k)."""
    (a, has_a), (b, has_b) = centred, others
    sums = np.empty((4, a.shape[2], a.shape[1], b.shape[1]))
    for m in range(a.shape[2]):
        sums[0, m] = a[:, :, m].T @ b[:, :, m]
        sums[1, m] = (a[:, :, m] ** 2).T @ has_b[:, :, m]
        sums[2, m] = has_a[:, :, m].T @ b[:, :, m] ** 2
        sums[3, m] = has_a[:, :, m].T @ has_b[:, :, m]
    return sums


def _correlations(sums: Floats) -> Floats:
    """Shrunken correlations (l, k) from such sums, weighted by their number of steps."""
    products, squares, other_squares, n_common = sums
    norm = np.sqrt(np.maximum(squares * other_squares, 0.0))
    correlation = np.divide(products, norm, out=np.zeros_like(norm), where=norm > 1e-12)
    shrunken = n_common * correlation * n_common / (n_common + SHRINKAGE_STEPS)
    total, weight = shrunken.sum(axis=0), n_common.sum(axis=0)
    mean: Floats = np.divide(total, weight, out=np.zeros_like(weight), where=weight > 0)
    return mean


@dataclass(frozen=True, eq=False)
class ContextBuilder:
    """Statistics of the training data that make the context of a cube."""

    distance_scale: float | None
    """Kilometres of a unit of distance, the median between stations; None without coordinates."""

    cycles: tuple[Cycle, ...]
    climatology: Climatology
    station_similarity: Floats
    """(l, k)."""

    measurement_similarity: Floats
    """(m, n)."""

    step_variance: Floats
    """(m,)."""

    trained_ranges: Times
    """First and last step of each time range in the training data, (n, 2)."""

    min_steps: int
    """Steps from which a cube gives a climatology of its own for new series."""

    measured: Flags
    """Stations with any observation, (l,)."""

    locations: NDArray[np.str_]
    station_ids: Integers
    """The number of each location among those of the training data, or -1; (l,)."""

    coordinates: Floats
    """Latitude and longitude of each location, or NaN; (l, 2)."""

    edges: tuple[Edge, ...] = ()
    """The graph given by the user, which may name other stations too."""

    bandwidth: float | None = None
    """Kernel bandwidth of the graph of distances, in units of distance."""

    @classmethod
    def fit(
        cls, scaled: xr.DataArray, window: int = 1, edges: tuple[Edge, ...] = ()
    ) -> "ContextBuilder":
        """Compute the statistics of a scaled training cube for windows of this length."""
        times, values = scaled["time"].to_numpy(), scaled.to_numpy()
        min_steps = MIN_WINDOWS * window
        step = np.median(np.diff(times)) if len(times) > 1 else np.timedelta64(0, "ns")
        span = times[-1] - times[0]
        cycles = tuple(
            cycle
            for cycle, period in PERIODS.items()
            if 2 * step <= period and span >= MIN_CYCLES[cycle] * period
        )
        has_climatology = len(times) >= min_steps
        climatology = Climatology.fit(np.where(has_climatology, values, np.nan), times)
        coordinates = _coordinates(scaled)
        distance_scale = bandwidth = None
        if has_coordinates(scaled):
            kilometres = great_circle(*coordinates.T)
            distance_scale = median_distance(kilometres)
            bandwidth = kernel_bandwidth(_floats(kilometres / distance_scale))
        anomalies = values - np.nan_to_num(climatology.at(times))
        return cls(
            distance_scale=distance_scale,
            cycles=cycles,
            climatology=climatology,
            station_similarity=nearest_psd(similarity_of(anomalies)),
            measurement_similarity=np.abs(similarity_of(anomalies.swapaxes(1, 2))),
            step_variance=step_variance(values),
            trained_ranges=_time_ranges(scaled),
            min_steps=min_steps,
            measured=np.isfinite(values).any(axis=(0, 2)),
            locations=scaled["location"].to_numpy(),
            station_ids=np.arange(scaled.sizes["location"]),
            coordinates=coordinates,
            edges=edges,
            bandwidth=bandwidth,
        )

    @property
    def n_calendar_features(self) -> int:
        return 2 * len(self.cycles)

    def is_known(self, cube: xr.DataArray) -> Flags:
        """Which stations of a cube have training data, (l,)."""
        return np.greater_equal(self._rows(cube), 0)

    def _rows(self, cube: xr.DataArray) -> Integers:
        """The row of each station of a cube here, (l,): that of the same name and, where both have
        coordinates, the same position; -1 without one, or without training data."""
        rows: Integers = pd.Index(self.locations).get_indexer(cube["location"].to_numpy())
        rows[~self.measured[rows]] = -1
        named = np.flatnonzero(rows >= 0)
        here, trained = _coordinates(cube)[named], self.coordinates[rows[named]]
        moved = np.diagonal(great_circle(*trained.T, *here.T))
        rows[named[moved > MAX_MOVE_KM]] = -1  # not where it is NaN
        return rows

    def needs_values(self, cube: xr.DataArray) -> bool:
        """Whether `adapt_to` depends on the values of a cube, not only on its stations."""
        return not (self.is_known(cube).all() and self.climatology.count.any(axis=0).all())

    def adapt_to(self, scaled: xr.DataArray, variable_ids: Integers) -> "ContextBuilder":
        """The builder for the stations of another cube, whose measurements have these ids.

        The climatology of series without training data and the similarity of new stations are
        computed from the cube. Known stations keep their coordinates if the cube has none.
        """
        names, times = scaled["location"].to_numpy(), scaled["time"].to_numpy()
        values, time_bins = scaled.to_numpy(), self.climatology.time_bins
        rows = self._rows(scaled)
        known = rows >= 0
        rows = rows[known]
        shape = (time_bins.n_bins, len(names), self.climatology.total.shape[2])
        station_ids = np.full(len(names), -1)
        station_ids[known] = self.station_ids[rows]
        total, count = np.zeros(shape), np.zeros(shape)
        total[:, known] = self.climatology.total[:, rows]
        count[:, known] = self.climatology.count[:, rows]
        similarity = np.zeros((len(names), len(names)))
        similarity[np.ix_(known, known)] = self.station_similarity[np.ix_(rows, rows)]
        coordinates = _coordinates(scaled)
        if not has_coordinates(scaled):
            coordinates[known] = self.coordinates[rows]
        untrained = (count.sum(axis=0)[:, variable_ids] == 0) & np.isfinite(values).any(axis=0)
        # a network trained without a climatology cannot make use of one
        if self.climatology.count.any() and untrained.any() and len(times) >= self.min_steps:
            added = Climatology.fit(np.where(untrained, values, np.nan), times, time_bins)
            total[:, :, variable_ids] += added.total
            count[:, :, variable_ids] += added.count
        climatology = Climatology(time_bins, total, count)
        new = np.flatnonzero(~known & untrained.any(axis=1))
        if len(new):
            anomalies = values - np.nan_to_num(climatology.at(times)[:, :, variable_ids])
            to_others = similarity_of(anomalies[:, new], anomalies)
            similarity[new], similarity[:, new] = to_others, to_others.T
            similarity = nearest_psd(similarity)
        return replace(
            self,
            climatology=climatology,
            station_similarity=similarity,
            measured=known | untrained.any(axis=1),
            locations=names,
            station_ids=station_ids,
            coordinates=coordinates,
        )

    def out_of_sample(self, times: Times) -> Flags:
        """Which steps lie outside the training data, (t,)."""
        first, last = self.trained_ranges.T
        inside = (times[:, None] >= first) & (times[:, None] <= last)
        outside: Flags = ~inside.any(axis=1)
        return outside

    def without_stations(self, names: NDArray[np.str_]) -> "ContextBuilder":
        """The builder with nothing known of these stations but their coordinates."""
        dropped = np.isin(self.locations, names)
        sums = self.climatology.total, self.climatology.count
        total, count = (np.where(dropped[None, :, None], 0.0, array) for array in sums)
        climatology = replace(self.climatology, total=total, count=count)
        similarity = np.where(dropped[:, None] | dropped, 0.0, self.station_similarity)
        station_ids = np.where(dropped, -1, self.station_ids)
        return replace(
            self,
            climatology=climatology,
            station_similarity=similarity,
            station_ids=station_ids,
        )

    def build(
        self, scaled: xr.DataArray, variable_ids: Integers, *, training: bool = False
    ) -> CubeContext:
        """The context of a cube with this builder's stations; in training, of the training cube.

        At times of the training data, each window gets the climatology without its own values, when
        it is filled as when it was trained on.
        """
        times, climatology = scaled["time"].to_numpy(), self.climatology
        distance = None
        if self.distance_scale is not None and np.isfinite(self.coordinates).all():
            distance = _floats(great_circle(*self.coordinates.T) / self.distance_scale)
        fold, similarity = np.zeros(len(times), dtype=np.int64), self.station_similarity[None]
        between = self.measurement_similarity[np.ix_(variable_ids, variable_ids)][None]
        if training:
            means, window = climatology.at(times)[:, :, variable_ids], self.min_steps // MIN_WINDOWS
            anomalies = scaled.to_numpy() - np.nan_to_num(means)
            fold, similarity = similarity_out_of_fold(anomalies, window)
            between = np.abs(similarity_out_of_fold(anomalies.swapaxes(1, 2), window)[1])
        calendar = self._calendar_features(times)
        names = self.locations.tolist()
        adjacency = adjacency_of_edges(self.edges, names) if self.edges else None
        # the last step of each is that of empty steps
        return CubeContext(
            calendar=_floats(np.concatenate([calendar, np.zeros_like(calendar[:1])])),
            time_bin=torch.as_tensor(np.append(climatology.time_bins.index_of(times), 0)),
            bin_total=_floats(climatology.total[:, :, variable_ids]),
            bin_count=_floats(climatology.count[:, :, variable_ids]),
            distance=distance,
            fold=torch.as_tensor(np.append(fold, 0)),
            station_similarity=_floats(similarity),
            measurement_similarity=_floats(between),
            step_variance=_floats(self.step_variance[variable_ids]),
            variable_ids=torch.as_tensor(variable_ids),
            adjacency=adjacency,
            in_climatology=torch.as_tensor(np.append(~self.out_of_sample(times), False)),
            bandwidth=self.bandwidth,
            station_ids=torch.as_tensor(self.station_ids),
        )

    def _calendar_features(self, times: Times) -> Floats:
        """Sine and cosine of each cycle, (t, f)."""
        elapsed = times - np.datetime64("2001-01-01", "ns")  # a Monday, and the start of a year
        angles = [2 * np.pi * (elapsed / PERIODS[cycle]) for cycle in self.cycles]
        waves = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
        return np.stack(waves, axis=-1) if waves else np.zeros((len(times), 0))


def _time_ranges(scaled: xr.DataArray) -> Times:
    """First and last time of each range with observations, (n, 2); only a pause that is longer than
    a long gap separates two."""
    times = scaled["time"].to_numpy()
    steps = np.flatnonzero(scaled.notnull().any(("location", "measurement")).to_numpy())
    if not len(steps):
        return np.empty((0, 2), dtype=times.dtype)
    ranges = np.split(steps, np.flatnonzero(np.diff(steps) > LONG_GAP) + 1)
    return np.array([(times[steps[0]], times[steps[-1]]) for steps in ranges])


def _coordinates(cube: xr.DataArray) -> Floats:
    """Latitude and longitude of each station, or NaN; (l, 2)."""
    if not has_coordinates(cube):
        return np.full((cube.sizes["location"], 2), np.nan)
    return np.stack([cube["lat"].to_numpy(), cube["lon"].to_numpy()], axis=1).astype(np.float64)


def _floats(array: Floats) -> torch.Tensor:
    return torch.as_tensor(array, dtype=torch.float32)
