"""A linear-Gaussian model of all series of a cube: transformed, standardised, in regions.

Letters: t time, b chunks of time, l location, m measurement.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.climatology import Climatology, TimeBins, Times
from cdsa.core.cube import DIMS, has_coordinates
from cdsa.core.masks import Bursts
from cdsa.core.statespace import StateSpace, chunk_steps

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

TRIAL_STEPS, MIN_TRIAL_CELLS = 1440, 200
"""Time steps on which transformations are compared, and the cells that must be measured there."""

LOG_OFFSET = 0.1
"""What is added before a logarithm, as a share of the median."""

CLEARLY_BETTER = 0.99
"""A transformation must lower the error to this share to be used."""

MATRIX_NUMBERS = 12_000
"""Numbers of the matrices of chunks that are smoothed together; more do not fit into the cache."""

MAX_SERIES = 250
"""Series of a region; the cost of a step grows with the cube of their number."""


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Values (t, l, m) as anomalies with variance 1 and back: a logarithm, a daily cycle, and the
    mean and standard deviation of each series."""

    offset: Floats
    """Added to values before the logarithm, (m,); NaN for measurements that stay as they are."""

    mean: Floats
    """(l, m)."""

    std: Floats
    climatology: Climatology | None
    """The daily cycle of standardised values."""

    cyclic: Flags
    """Measurements from which it is removed, (m,)."""

    spread: Floats
    """Standard deviation of the anomalies, (l, m)."""

    @classmethod
    def fit(
        cls, values: Floats, times: Times, transformations: "Sequence[Transformation]"
    ) -> "Standardiser":
        """The scales of these values with a transformation of each measurement."""
        logarithmic = [transformation.logarithmic for transformation in transformations]
        offset = np.where(logarithmic, _log_offsets(values), np.nan)
        cyclic = np.array([transformation.cyclic for transformation in transformations])
        transformed = _to_log(values, offset)
        mean, std = _mean_and_std(transformed)
        standardised = (transformed - mean) / std
        climatology = Climatology.fit(standardised, times) if cyclic.any() else None
        plain = cls(offset, mean, std, climatology, cyclic, np.ones_like(std))
        return replace(plain, spread=_mean_and_std(plain.anomalies(values, times))[1])

    def anomalies(self, values: Floats, times: Times) -> Floats:
        """Anomalies (t, l, m) of values; NaN stays."""
        standardised = (_to_log(values, self.offset) - self.mean) / self.std
        return (standardised - self._cycle(times)) / self.spread

    def values(self, anomalies: Floats, times: Times) -> Floats:
        """Values (t, l, m) of anomalies."""
        standardised = anomalies * self.spread + self._cycle(times)
        transformed = standardised * self.std + self.mean
        with np.errstate(over="ignore"):
            powers = np.exp(transformed) - self.offset
        return np.where(np.isnan(self.offset), transformed, np.maximum(powers, 0.0))

    def _cycle(self, times: Times) -> Floats | float:
        if self.climatology is None:
            return 0.0
        return np.where(self.cyclic, np.nan_to_num(self.climatology.at(times)), 0.0)


def _log_offsets(values: Floats) -> Floats:
    """A tenth of the median of the positive values of each measurement (t, l, m)."""
    above = (values[..., m][values[..., m] > 0] for m in range(values.shape[2]))
    return np.array([LOG_OFFSET * np.median(x) if len(x) else 1.0 for x in above])


def _to_log(values: Floats, offset: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithms = np.log(np.maximum(values, 0.0) + offset)
    return np.where(np.isnan(offset), values, logarithms)


def _mean_and_std(values: Floats) -> tuple[Floats, Floats]:
    """Of each series (l, m); 0 and 1 for one without values, and 1 for a constant one."""
    observed = np.isfinite(values)
    count = np.maximum(observed.sum(axis=0), 1)
    mean = np.where(observed, values, 0.0).sum(axis=0) / count
    variance = (np.where(observed, values - mean, 0.0) ** 2).sum(axis=0) / count
    return mean, np.where(variance > 1e-12 * (1e-300 + mean**2), np.sqrt(variance), 1.0)


class Transformation(NamedTuple):
    """How the values of a measurement are made more Gaussian."""

    logarithmic: bool = False
    """Whether the logarithm is taken, after an offset was added."""

    cyclic: bool = False
    """Whether a daily cycle is removed."""


def choose_transformation(values: Floats, times: Times, *, positive: bool) -> Transformation:
    """The transformation of a measurement (t, l) with which its own stations and times predict
    cells best that are hidden in bursts; only a `positive` one may get a logarithm."""
    options = [Transformation()]
    if TimeBins.for_times(times).n_bins > 1:
        options.append(Transformation(cyclic=True))
    above = values[values > 0]
    if positive and len(above) and not (values < 0).any():
        options += [option._replace(logarithmic=True) for option in options]
    steps = chunk_steps(np.isfinite(values), TRIAL_STEPS)
    if len(options) == 1 or np.isfinite(values[steps]).sum() < MIN_TRIAL_CELLS:
        return options[0]
    tried = xr.DataArray(values[steps.T.ravel()][..., None], dims=DIMS)
    hidden = np.zeros(values.shape, dtype=bool)
    hidden[steps.T.ravel()] = Bursts(share=0.1)(tried, np.random.default_rng(0))[..., 0]
    visible = np.where(hidden, np.nan, values)[..., None]
    errors = []
    for option in options:
        scaling = Standardiser.fit(visible, times, [option])
        anomalies = scaling.anomalies(visible, times)[..., 0]
        observed = np.isfinite(anomalies)
        used = observed.any(axis=0)
        model = StateSpace.fit(
            anomalies[:, used], observed[:, used], n_iterations=0, static_steps=TRIAL_STEPS
        )
        chunk = steps[..., None], np.flatnonzero(used)
        prediction = np.zeros_like(anomalies)
        prediction[chunk] = model.smooth_all(anomalies[chunk], observed[chunk])[0]
        filled = scaling.values(prediction[..., None], times)[..., 0]
        errors.append(float(np.abs(filled - values)[hidden].mean()))
    best = int(np.argmin(errors))
    return options[best] if errors[best] < CLEARLY_BETTER * errors[0] else options[0]


@dataclass(frozen=True, eq=False)
class Region:
    """The model of some stations."""

    rows: Integers
    """Their rows among all stations, (l,)."""

    used: Flags
    """Series with any value in the data fitted on, (l, m)."""

    scaling: Standardiser
    model: StateSpace

    @classmethod
    def fit(
        cls,
        values: Floats,
        times: Times,
        rows: Integers,
        transformations: Sequence[Transformation],
        n_iterations: int | None,
    ) -> "Region":
        values = values[:, rows]
        scaling = Standardiser.fit(values, times, transformations)
        anomalies = scaling.anomalies(values, times)
        used: Flags = np.any(np.isfinite(anomalies), axis=0)
        anomalies = anomalies[:, used]
        model = StateSpace.fit(anomalies, np.isfinite(anomalies), n_iterations=n_iterations)
        return cls(rows, used, scaling, model)


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
    ) -> "Backbone":
        values, times = components.to_numpy(), components["time"].to_numpy()
        measured = np.isfinite(values).any(axis=(0, 2))
        regions = tuple(
            Region.fit(values, times, rows, transformations, n_iterations)
            for rows in _regions(components)
            if measured[rows].any()
        )
        locations, measurements = (components[dim].to_numpy() for dim in DIMS[1:])
        return cls(locations, measurements, regions)

    def align(self, components: xr.DataArray) -> xr.DataArray:
        """The cube with the series of the model, NaN for those it lacks."""
        return components.reindex(location=self.locations, measurement=self.measurements)

    def smooth(self, values: Floats, times: Times, widths: Sequence[float]) -> list[Floats]:
        """Values so many standard deviations from the smoothed mean, given the values (t, b, l, m)
        of chunks of time (t, b); NaN for series without a model."""
        shape = values.shape
        outputs = [np.full(shape, np.nan) for _ in widths]
        for region in self.regions:
            rows, used, model = region.rows, region.used, region.model
            part = values[:, :, rows].reshape(-1, *used.shape)
            anomalies = region.scaling.anomalies(part, times.ravel())[:, used]
            anomalies = anomalies.reshape(*shape[:2], -1)
            at_once = max(1, MATRIX_NUMBERS // anomalies.shape[2] ** 2)
            batches = np.array_split(anomalies, -(-shape[1] // at_once), axis=1)
            parts = [model.smooth_all(batch, np.isfinite(batch)) for batch in batches]
            smoothed, variance = (
                np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)
            )
            mean, std = np.full((2, *part.shape), np.nan)
            mean[:, used] = smoothed.reshape(len(mean), -1)
            std[:, used] = np.sqrt(variance + model.noise).reshape(len(mean), -1)
            for output, width in zip(outputs, widths, strict=True):
                side = region.scaling.values(mean + width * std, times.ravel())
                output[:, :, rows] = side.reshape(*shape[:2], *used.shape)
        return outputs

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


def choose_transformations(components: xr.DataArray) -> list[Transformation]:
    """The transformation of each measurement of a cube in components."""
    values, times = components.to_numpy(), components["time"].to_numpy()
    return [
        choose_transformation(values[:, :, m], times, positive="\0" not in str(name))
        for m, name in enumerate(components["measurement"].to_numpy())
    ]
