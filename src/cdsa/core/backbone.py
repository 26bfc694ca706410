"""A linear-Gaussian model of all series of a cube: transformed, standardised, in regions.

Letters: t time, b chunks of time, l location, m measurement.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import base_names
from cdsa.core.climatology import TimeBins, Times
from cdsa.core.covariance import choose_shrinkage
from cdsa.core.cube import DIMS, has_coordinates
from cdsa.core.masks import Bursts
from cdsa.core.standardise import LOG_OFFSET, Flags, Floats, Standardiser, Transformation, skewed
from cdsa.core.statespace import StateSpace, chunk_steps

Integers = NDArray[np.int64]

TRIAL_STEPS, TRIAL_SERIES, MIN_TRIAL_CELLS = 960, 48, 500
"""Time steps and series on which transformations are compared, and the cells that must be measured
there."""

TRIAL_ITERATIONS = 4
"""Iterations that estimate the covariance of one moment for such a trial."""

CLEARLY_BETTER = 0.97
"""An alternative must lower the error to this share to be used."""

MORE_NOISE = 0.3
"""A share of noise that is tried besides the default."""

OTHER_LOG_OFFSETS = (4.0, None)
"""What is added before a logarithm, tried besides the default; None takes no logarithm."""

MATRIX_NUMBERS = 12_000
"""Numbers of the matrices of chunks that are smoothed together; more do not fit into the cache."""

MAX_SERIES = 250
"""Series of a region; the cost of a step grows with the cube of their number."""


class Prediction(NamedTuple):
    """Anomalies of chunks (t, b, l, m); NaN for series without a model."""

    mean: Floats
    """Predicted from all values of a chunk but the cell's own."""

    std: Floats
    measured: Floats
    """NaN where nothing was measured."""


@dataclass(frozen=True, eq=False)
class Region:
    """The model of some stations."""

    rows: Integers
    """Their rows among all stations, (l,)."""

    used: Flags
    """Series with any value in the data fitted on, (l, m)."""

    scaling: Standardiser
    model: StateSpace
    shrinkage: float = 0.0
    """Share by which the covariances between its series were reduced in the fit."""

    @classmethod
    def fit(
        cls,
        values: Floats,
        times: Times,
        rows: Integers,
        transformations: Sequence[Transformation],
        n_iterations: int | None = None,
        static_iterations: int | None = None,
        shrinkage: float | None = None,
    ) -> "Region":
        """Fit the stations of these rows; covariances are shrunk as far as they do not hold, if
        `shrinkage` is not given."""
        values = values[:, rows]
        scaling = Standardiser.fit(values, times, transformations)
        anomalies = scaling.anomalies(values, times)
        used: Flags = np.any(np.isfinite(anomalies), axis=0)
        anomalies = anomalies[:, used]
        noise_share = np.array([transformation.noise_share for transformation in transformations])
        observed = np.isfinite(anomalies)
        if shrinkage is None:
            shrinkage = choose_shrinkage(np.where(observed, anomalies, 0.0), observed)
        model = StateSpace.fit(
            anomalies,
            observed,
            n_iterations=n_iterations,
            static_iterations=static_iterations,
            noise_share=np.broadcast_to(noise_share, used.shape)[used],
            shrinkage=shrinkage,
        )
        return cls(rows, used, scaling, model, shrinkage)

    def predict(self, values: Floats, times: Times) -> Prediction:
        """Predict the values (t, b, l, m) of this region in chunks of time (t, b)."""
        used, shape = self.used, values.shape
        anomalies = self.scaling.anomalies(values.reshape(-1, *used.shape), times.ravel())
        anomalies = anomalies[:, used].reshape(*shape[:2], -1)
        at_once = max(1, MATRIX_NUMBERS // max(1, anomalies.shape[2]) ** 2)
        batches = np.array_split(anomalies, -(-shape[1] // at_once), axis=1)
        parts = [self.model.predict(batch, np.isfinite(batch)) for batch in batches]
        mean, variance = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
        prediction = Prediction(*np.full((3, *shape), np.nan))
        for output, series in zip(prediction, (mean, np.sqrt(variance), anomalies), strict=True):
            output[:, :, used] = series
        return prediction

    def values(self, anomalies: Floats, times: Times) -> Floats:
        """Values (t, b, l, m) of anomalies."""
        flat = anomalies.reshape(-1, *self.used.shape)
        return self.scaling.values(flat, times.ravel()).reshape(anomalies.shape)


@dataclass(frozen=True, eq=False)
class Backbone:
    """A linear-Gaussian state space model of all series of a cube."""

    locations: NDArray[np.str_]
    measurements: NDArray[np.str_]
    regions: tuple[Region, ...]

    @classmethod
    def fit(
        cls,
        components: xr.DataArray,
        transformations: Sequence[Transformation],
        n_iterations: int | None = None,
        like: "Backbone | None" = None,
    ) -> "Backbone":
        """Fit all series of a cube, with covariances that are shrunk as much as those of another
        model of the cube, if one is given."""
        shrinkage = (
            {region.rows.tobytes(): region.shrinkage for region in like.regions} if like else {}
        )
        values, times = components.to_numpy(), components["time"].to_numpy()
        measured = np.isfinite(values).any(axis=(0, 2))
        regions = tuple(
            Region.fit(
                values,
                times,
                rows,
                transformations,
                n_iterations,
                shrinkage=shrinkage.get(rows.tobytes()),
            )
            for rows in _regions(components)
            if measured[rows].any()
        )
        locations, measurements = (components[dim].to_numpy() for dim in DIMS[1:])
        return cls(locations, measurements, regions)

    def align(self, components: xr.DataArray) -> xr.DataArray:
        """The cube with the series of the model, NaN for those it lacks."""
        return components.reindex(location=self.locations, measurement=self.measurements)

    def predict(self, values: Floats, times: Times) -> Prediction:
        """Predict the values (t, b, l, m) of chunks of time (t, b), each from all others."""
        prediction = Prediction(*np.full((3, *values.shape), np.nan))
        for region in self.regions:
            parts = region.predict(values[:, :, region.rows], times)
            for output, part in zip(prediction, parts, strict=True):
                output[:, :, region.rows] = part
        return prediction

    def values(self, anomalies: Floats, times: Times) -> Floats:
        """Values (t, b, l, m) of anomalies; NaN for series without a model."""
        values = np.full(anomalies.shape, np.nan)
        for region in self.regions:
            values[:, :, region.rows] = region.values(anomalies[:, :, region.rows], times)
        return values

    def log_offsets(self, measurements: NDArray[np.str_]) -> Floats:
        """What is added to each measurement before its logarithm, NaN where none is taken."""
        offsets = dict(zip(self.measurements, self.regions[0].scaling.offset, strict=True))
        return np.array([offsets.get(name, np.nan) for name in measurements])

    def weights(self, values: Floats, times: Times, cell: tuple[int, int, int]) -> Floats:
        """The absolute weight of each value (t, l, m) in the smoothed mean of a cell, both in
        standard deviations; zero for a cell without a model."""
        sizes, (step, location, measurement) = np.zeros(values.shape), cell
        for region in self.regions:
            row = np.flatnonzero(region.rows == location)
            if not len(row) or not region.used[row[0], measurement]:
                continue
            series = np.cumsum(region.used.ravel()).reshape(region.used.shape) - 1
            anomalies = region.scaling.anomalies(values[:, region.rows], times)[:, region.used]
            observed = np.isfinite(anomalies)
            weights = region.model.weights(observed, step, int(series[row[0], measurement]))
            part = np.zeros((len(values), *region.used.shape))
            part[:, region.used] = np.where(observed, np.abs(weights), 0.0)
            sizes[:, region.rows] = part
        return sizes


def _regions(components: xr.DataArray) -> list[NDArray[np.int64]]:
    """Rows of the stations of each region: halved along the longer side, or in order of their names
    without coordinates, until a region is small enough."""
    n_stations, n_measurements = components.shape[1:]
    regions = [np.arange(n_stations)]
    while len(regions[0]) > max(1, MAX_SERIES // n_measurements):
        halves = []
        for rows in regions:
            if has_coordinates(components):
                lat, lon = (components[name].to_numpy()[rows] for name in ("lat", "lon"))
                lon = lon * np.cos(np.radians(lat.mean()))
                rows = rows[np.argsort(lat if np.ptp(lat) > np.ptp(lon) else lon, kind="stable")]
            halves += np.array_split(rows, 2)
        regions = halves
    return regions


def _with_log_offset(old: Transformation, offset: float | None) -> Transformation:
    """The transformation with another logarithm or none, if it has one."""
    return old if old.log_offset is None else old._replace(log_offset=offset)


def choose_transformations(components: xr.DataArray) -> list[Transformation]:
    """The transformation of each measurement of a cube in components.

    Skewed measurements get a logarithm, and all lose a daily cycle. Alternatives to this are tried
    one after the other on cells hidden in bursts, for some stations and all measurements at once:
    if only one of two related measurements had a logarithm, their relation would not be linear.
    """
    n_stations = max(2, TRIAL_SERIES // components.sizes["measurement"])
    every = -(-components.sizes["location"] // n_stations)
    values, times = components.to_numpy()[:, ::every], components["time"].to_numpy()
    steps = chunk_steps(np.isfinite(values).any(axis=2), TRIAL_STEPS)
    if np.isfinite(values[steps]).sum() < MIN_TRIAL_CELLS:
        return [Transformation() for _ in range(values.shape[2])]
    tried = xr.DataArray(values[steps.T.ravel()], dims=DIMS)
    hidden = np.zeros(values.shape, dtype=bool)
    hidden[steps.T.ravel()] = Bursts(share=0.1)(tried, np.random.default_rng(0))
    visible, rows = np.where(hidden, np.nan, values), np.arange(values.shape[1])
    n_hidden = np.maximum(hidden.sum(axis=(0, 1)), 1)
    scale = np.maximum(np.nanstd(values, axis=(0, 1)), 1e-300)

    def errors_of(transformations: Sequence[Transformation]) -> Floats:
        """Of each measurement, in standard deviations."""
        region = Region.fit(visible, times, rows, transformations, 1, TRIAL_ITERATIONS, 0.0)
        prediction = region.predict(visible[steps], times[steps])
        error = np.abs(region.values(prediction.mean, times[steps]) - values[steps])
        mean: Floats = np.where(hidden[steps], error, 0.0).sum(axis=(0, 1, 2)) / n_hidden / scale
        return mean

    names = components["measurement"].to_numpy()
    logarithmic = skewed(values) & (base_names(names) == names)  # no component of a direction
    cyclic = TimeBins.for_times(times).n_bins > 1
    best = [Transformation(LOG_OFFSET if flag else None, cyclic) for flag in logarithmic]
    changes: list[Callable[[Transformation], Transformation]] = []
    if logarithmic.any():
        changes += [partial(_with_log_offset, offset=offset) for offset in OTHER_LOG_OFFSETS]
    if cyclic:
        changes.append(lambda old: old._replace(cyclic=False))
    changes.append(lambda old: old._replace(noise_share=MORE_NOISE))
    errors = errors_of(best)
    for change in changes:
        alternative = [change(transformation) for transformation in best]
        found = errors_of(alternative)
        better = found < CLEARLY_BETTER * errors
        pairs = zip(better, alternative, best, strict=True)
        best = [new if is_better else old for is_better, new, old in pairs]
        errors = np.where(better, found, errors)
    return best
