"""Ordinary kriging of the other stations, time step by time step."""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Literal, Self, cast, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.geo import great_circle
from cdsa.errors import ConfigError, unknown
from cdsa.methods.baselines.simple import interpolate_linear
from cdsa.methods.wrapper import Baseline, PredictFn, import_optional, refuse_no_coordinates

Floats = NDArray[np.float64]

VariogramModel = Literal["exponential", "linear"]

KM_PER_DEGREE = 111.195
"""PyKrige measures distances on the globe in degrees."""

LENGTHS_PER_RANGE = 3.0
"""PyKrige's range of an exponential is where it reaches 95% of its sill: three times its length."""

MAX_LOG_CHANGE = 10.0
"""Bound on the logarithm of a fitted parameter over its initial value."""

TINY = 1e-6

N_DISTANCE_CLASSES = 15
"""Classes of distance, with as many pairs each, in which squared differences are averaged."""

MIN_PAIRS = 3
"""Minimum pairs of stations to fit a variogram on."""


@dataclass(frozen=True)
class Variogram:
    """Half the mean squared difference of two values at a distance in kilometres, in variances of
    their time step."""

    model: VariogramModel
    nugget: float
    rise: float
    """The partial sill of an exponential, the slope per kilometre of a line."""

    length: float = 1.0
    """Kilometres in which an exponential rises to 63%."""

    def at(self, distance: Floats) -> Floats:
        if self.model == "linear":
            return self.nugget + self.rise * distance
        gamma: Floats = self.nugget + self.rise * (1 - np.exp(-distance / self.length))
        return gamma

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters as PyKrige has them."""
        if self.model == "linear":
            return {"slope": self.rise * KM_PER_DEGREE, "nugget": self.nugget}
        degrees = LENGTHS_PER_RANGE * self.length / KM_PER_DEGREE
        return {"psill": self.rise, "range": degrees, "nugget": self.nugget}


@dataclass(frozen=True, kw_only=True)
class Kriging(Baseline):
    """Ordinary kriging, by PyKrige's `OrdinaryKriging` on geographic coordinates.

    A gap is filled with the best linear unbiased prediction from the stations that report at that
    time step.

    Notes
    -----
    The variogram of a measurement is fitted once, on the pairs of stations of all time steps
    together, each step in units of its own standard deviation: a single step of a few dozen
    stations is too little to fit one on, and kriging weights depend only on the shape of the
    variogram. Steps at which fewer than `min_stations` stations report are left out of it and
    interpolated linearly in time; so is a measurement with fewer than three pairs of stations that
    report together. Where stations share a site, a pseudo-inverse distributes the weight.

    References
    ----------
    Matheron, G. (1963). Principles of geostatistics. Economic Geology 58(8).

    Cressie, N. (1985). Fitting variogram models by weighted least squares. Mathematical Geology
    17(5).
    """

    name: ClassVar[str] = "kriging"

    variogram: VariogramModel = "exponential"
    """Model of the variogram: exponential or linear."""

    min_stations: int = 4
    """Minimum number of stations that report at a time step."""

    def __post_init__(self) -> None:
        if self.variogram not in get_args(VariogramModel):
            raise ConfigError(unknown("variogram", self.variogram, get_args(VariogramModel)))
        if self.min_stations < 2:
            raise ConfigError(f"min_stations must be at least 2, but found {self.min_stations}")

    @property
    def label(self) -> str:
        return "kriging" if self.variogram == "exponential" else f"kriging:{self.variogram}"

    def with_manner(self, name: str) -> Self:
        return replace(self, variogram=cast(VariogramModel, name))

    def _fit(self, components: xr.DataArray) -> PredictFn:
        refuse_no_coordinates(components, "kriging")
        _pykrige()  # says what to install before any work
        distance = great_circle(components["lat"].to_numpy(), components["lon"].to_numpy())
        values = components.to_numpy()
        enough = np.isfinite(values).sum(axis=1, keepdims=True) >= self.min_stations
        values = np.where(enough, values, np.nan)
        variograms = {
            str(name): fit_variogram(values[:, :, m], distance, self.variogram)
            for m, name in enumerate(components["measurement"].to_numpy())
        }

        def predict(cube: xr.DataArray) -> xr.DataArray:
            refuse_no_coordinates(cube, "kriging")
            prediction = interpolate_linear(cube)  # where too few stations report
            for m, name in enumerate(cube["measurement"].to_numpy()):
                if (variogram := variograms.get(str(name))) is not None:
                    kriged = self._krige(cube[:, :, m], variogram)
                    prediction[:, :, m] = np.where(np.isfinite(kriged), kriged, prediction[:, :, m])
            return prediction

        return predict

    def _krige(self, series: xr.DataArray, variogram: Variogram) -> Floats:
        """The values (t, l) of a measurement, filled at steps where enough stations report."""
        pykrige = _pykrige()
        lat, lon = series["lat"].to_numpy(), series["lon"].to_numpy()
        values, observed = series.to_numpy().copy(), np.isfinite(series.to_numpy())
        n_reporting = observed.sum(axis=1)
        for t in np.flatnonzero((n_reporting >= self.min_stations) & (n_reporting < len(lat))):
            known = observed[t]
            kriging = pykrige.OrdinaryKriging(
                lon[known],
                lat[known],
                values[t, known],
                variogram_model=variogram.model,
                variogram_parameters=variogram.parameters,
                coordinates_type="geographic",
                pseudo_inv=True,  # two stations may share a site
            )
            prediction, _ = kriging.execute("points", lon[~known], lat[~known])
            values[t, ~known] = np.asarray(prediction)
        return values


def fit_variogram(values: Floats, distance: Floats, model: VariogramModel) -> Variogram | None:
    """The variogram of values (t, l) at stations these kilometres apart (l, k); None if too few
    pairs of stations report together."""
    from scipy.optimize import least_squares

    squares, n_steps = _squared_differences(values)
    if np.count_nonzero(np.triu(n_steps, 1)) < MIN_PAIRS:
        return None
    lag, gamma, n_pairs = _bin_by_distance(squares, n_steps, distance)
    level, typical_lag = max(float(np.median(gamma)), TINY), max(float(np.median(lag)), TINY)
    rise = level if model == "exponential" else level / typical_lag
    start = np.log([0.1 * level, rise, typical_lag])[: 2 if model == "linear" else 3]

    def variogram(logs: Floats) -> Variogram:
        return Variogram(model, *(float(parameter) for parameter in np.exp(logs)))

    def residuals(logs: Floats) -> Floats:
        # relative to the variogram (Cressie 1985), so that near pairs weigh most
        relative: Floats = np.sqrt(n_pairs) * (gamma / (variogram(logs).at(lag) + TINY) - 1)
        return relative

    bounds = start - MAX_LOG_CHANGE, start + MAX_LOG_CHANGE
    return variogram(least_squares(residuals, start, bounds=bounds).x)


def _squared_differences(values: Floats) -> tuple[Floats, Floats]:
    """For every two stations the sum of squared differences, in variances of each step, over the
    steps both report, and the number of these steps; both (l, k)."""
    observed = np.isfinite(values)
    count = observed.sum(axis=1, keepdims=True)
    mean = np.nansum(values, axis=1, keepdims=True) / np.maximum(count, 1)
    centred = np.where(observed, values - mean, 0.0)
    spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / np.maximum(count - 1, 1))
    used = (observed & (spread > 0)).astype(np.float64)
    scaled = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    # (x - y)^2 by matrix products, without an array over steps and pairs
    squared = (scaled**2).T @ used
    squares: Floats = np.maximum(squared + squared.T - 2 * scaled.T @ scaled, 0.0)
    return squares, used.T @ used


def _bin_by_distance(
    squares: Floats, n_steps: Floats, distance: Floats
) -> tuple[Floats, Floats, Floats]:
    """Mean distance, half the mean squared difference, and number of differences, per class of
    distance. Cressie's weights are meant for classes: fitted on single pairs, which scatter by as
    much as their size, a variogram comes out flat."""
    pairs = np.triu_indices(len(distance), 1)
    used = n_steps[pairs] > 0
    squares, n_steps, distance = (array[pairs][used] for array in (squares, n_steps, distance))
    edges = np.unique(np.quantile(distance, np.linspace(0, 1, N_DISTANCE_CLASSES + 1)))
    classes = np.searchsorted(edges[1:-1], distance, side="right")
    count = np.bincount(classes, n_steps).astype(np.float64)
    filled = count > 0
    lag, mean_square = (
        np.bincount(classes, total)[filled] / count[filled]
        for total in (distance * n_steps, squares)
    )
    return lag, mean_square / 2, count[filled]


def _pykrige() -> ModuleType:
    return import_optional("pykrige.ok", "kriging", "PyKrige")
