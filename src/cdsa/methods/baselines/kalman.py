"""A state space model of all series at once, whose Kalman smoother fills gaps and forecasts.

Letters: t time, b chunks of time, l location, m measurement.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import ClassVar, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import EAST, NORTH, from_components, wrap_degrees
from cdsa.core.climatology import Climatology, TimeBins, Times
from cdsa.core.cube import DIMS, has_coordinates, is_direction
from cdsa.core.masks import Bursts
from cdsa.core.prepare import Cube, PreparedCube, prepare
from cdsa.core.statespace import StateSpace, chunk_steps
from cdsa.errors import ConfigError
from cdsa.methods.base import Bounds, Filler, Method
from cdsa.methods.wrapper import Finaliser, clip_to_bounds, means_of
from cdsa.training.callbacks import RunContext

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

TRIAL_STEPS, MIN_TRIAL_CELLS = 1440, 200
"""Time steps on which transformations are compared, and the cells that must be measured there."""

CLEARLY_BETTER = 0.99
"""A transformation must lower the error to this share to be used."""

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
        offset = np.array([transformation.offset for transformation in transformations])
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

    offset: float = math.nan
    """Added before a logarithm; NaN for no logarithm."""

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
        options += [option._replace(offset=0.1 * float(np.median(above))) for option in options]
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
        prediction[chunk] = model.smooth_chunks(np.nan_to_num(anomalies[chunk]), observed[chunk])
        filled = scaling.values(prediction[..., None], times)[..., 0]
        errors.append(float(np.abs(filled - values)[hidden].mean()))
    best = int(np.argmin(errors))
    return options[best] if errors[best] < CLEARLY_BETTER * errors[0] else options[0]


@dataclass(frozen=True, eq=False)
class Region:
    """The model of some stations."""

    locations: NDArray[np.str_]
    measurements: NDArray[np.str_]
    used: Flags
    """Series with any value in the data fitted on, (l, m)."""

    scaling: Standardiser
    model: StateSpace

    @classmethod
    def fit(
        cls,
        components: xr.DataArray,
        transformations: Sequence[Transformation],
        n_iterations: int | None,
    ) -> "Region":
        values, times = components.to_numpy(), components["time"].to_numpy()
        scaling = Standardiser.fit(values, times, transformations)
        anomalies = scaling.anomalies(values, times)
        used: Flags = np.any(np.isfinite(anomalies), axis=0)
        anomalies = anomalies[:, used]
        model = StateSpace.fit(anomalies, np.isfinite(anomalies), n_iterations=n_iterations)
        locations, measurements = (components[dim].to_numpy() for dim in DIMS[1:])
        return cls(locations, measurements, used, scaling, model)

    def predict(self, components: xr.DataArray, quantiles: Sequence[float]) -> list[xr.DataArray]:
        """The values of these stations, so many standard deviations from the smoothed mean; NaN for
        series without a model."""
        cube = components.reindex(location=self.locations, measurement=self.measurements)
        values, times = cube.to_numpy(), cube["time"].to_numpy()
        anomalies = self.scaling.anomalies(values, times)[:, self.used]
        mean, std = np.full((2, *values.shape), np.nan)
        smoothed, variance = self.model.smooth_table(anomalies, np.isfinite(anomalies))
        mean[:, self.used], std[:, self.used] = smoothed, np.sqrt(variance + self.model.noise)
        return [
            cube.copy(data=self.scaling.values(mean + quantile * std, times))
            for quantile in quantiles
        ]


@dataclass(frozen=True, eq=False)
class KalmanFiller(Finaliser, Filler):
    """Fills with smoothed means; intervals from smoothed variances."""

    gives_intervals: ClassVar[bool] = True

    regions: tuple[Region, ...]

    def fill(self, cube: Cube) -> xr.DataArray:
        return self.fill_intervals(cube, ())[0]

    def fill_intervals(
        self, cube: Cube, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[Bounds]]:
        data = prepare(cube)
        widths = [NormalDist().inv_cdf((1 + level) / 2) for level in levels]
        quantiles = [0.0, *(sign * width for width in widths for sign in (-1, 1))]
        no_station = data.components.isel(location=slice(0))
        regions = [[no_station] * len(quantiles)]
        regions += [region.predict(data.components, quantiles) for region in self.regions]
        point, *sides = (
            xr.concat(parts, "location", join="outer")
            .reindex_like(data.components)
            .transpose(*DIMS)
            for parts in zip(*regions, strict=True)
        )
        bounds = [
            self._bounds(data, point, lower, upper)
            for lower, upper in zip(sides[::2], sides[1::2], strict=True)
        ]
        return self.finalise(data, point), bounds

    @staticmethod
    def _bounds(
        data: PreparedCube, point: xr.DataArray, lower: xr.DataArray, upper: xr.DataArray
    ) -> Bounds:
        """Bounds in the units of the cube. Those of a direction are as far from it as the bounds of
        its components, across it, are seen from the centre."""
        filled, low, high = (
            from_components(side, data.cube).to_numpy() for side in (point, lower, upper)
        )
        for m in np.flatnonzero(is_direction(data.cube)):
            name = data.cube["measurement"].to_numpy()[m]
            names = [f"{name}{EAST}", f"{name}{NORTH}"]
            east, north = np.moveaxis(point.sel(measurement=names).to_numpy(), -1, 0)
            widths = (upper - point).sel(measurement=names).to_numpy()
            radius = np.maximum(np.hypot(east, north), 1e-9)
            across = np.hypot(widths[..., 0] * north, widths[..., 1] * east) / radius
            turn = np.minimum(np.rad2deg(across / radius), 180.0)
            low[..., m] = wrap_degrees(filled[..., m] - turn)
            high[..., m] = wrap_degrees(filled[..., m] + turn)
        bounds = (clip_to_bounds(data.cube.copy(data=side)) for side in (low, high))
        lower, upper = (bound.transpose(*data.cube.dims) for bound in bounds)
        return lower, upper


@dataclass(frozen=True, kw_only=True)
class Kalman(Method):
    """A linear-Gaussian state space model of all series, fitted by EM; gaps are filled by its
    Kalman smoother.

    Each series is related to every other one at the same step and at the step before. The exact
    smoothed variances give the prediction intervals, and a forecast decays to the climatology.

    Notes
    -----
    Values are transformed first: a logarithm of measurements that are never negative and a daily
    cycle, each where it predicts hidden cells of the measurement better. EM starts from the
    covariance of one moment with A = rho I; the noise r is a small share of what the other series
    leave unexplained and is not updated. Above 250 series, stations are modelled in regions.
    Intervals are not calibrated on hidden cells. Stations that it was not fitted on get means.

    References
    ----------
    Shumway, R. H., & Stoffer, D. S. (1982). An approach to time series smoothing and forecasting
    using the EM algorithm. Journal of Time Series Analysis 3(4).

    Durbin, J., & Koopman, S. J. (2012). Time series analysis by state space methods. Oxford
    University Press.
    """

    name: ClassVar[str] = "kalman"

    n_iterations: int | None = None
    """Iterations of EM: 0 keeps the start, with one coefficient of auto-regression for all; chosen
    by the number of series if not given."""

    def __post_init__(self) -> None:
        if self.n_iterations is not None and self.n_iterations < 0:
            raise ConfigError(f"n_iterations must not be negative, but found {self.n_iterations}")

    def fit(self, cube: Cube, run: RunContext | None = None) -> KalmanFiller:
        data = prepare(cube)
        components = data.components.sortby(["location", "measurement"])
        values, times = components.to_numpy(), components["time"].to_numpy()
        plain = set(data.cube["measurement"].to_numpy()[~is_direction(data.cube)])
        transformations = [
            choose_transformation(values[:, :, m], times, positive=name in plain)
            for m, name in enumerate(components["measurement"].to_numpy())
        ]
        regions = tuple(
            Region.fit(components.isel(location=rows), transformations, self.n_iterations)
            for rows in _regions(components)
            if components.isel(location=rows).notnull().any()
        )
        return KalmanFiller(*means_of(data), regions)


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
