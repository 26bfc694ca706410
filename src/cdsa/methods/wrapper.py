"""What every method guarantees, in one place.

A method proper is a pair of functions on plain numbers: `fit(components) -> predict` and
`predict(components) -> components`, which may leave gaps. `WrappedFiller` adds the rest:

- a direction in degrees goes in as two components, east and north, and comes back as degrees;
- what the method leaves open is filled from means: of the station, else of that step over all
  stations, else of the measurement;
- filled values are within bounds and rounded as measured values are (`core/domain.py`); measured
  values come back untouched;
- a measurement that was never measured stays missing: there is nothing to estimate it from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import from_components, wrap_degrees
from cdsa.core.cube import has_coordinates, is_direction
from cdsa.core.domain import Domain
from cdsa.core.prepare import Cube, PreparedCube, prepare
from cdsa.errors import ConfigError, MissingExtraError
from cdsa.methods.base import Filler, Method
from cdsa.training.callbacks import RunContext

PredictFn = Callable[[xr.DataArray], xr.DataArray]


@dataclass(frozen=True, eq=False)
class Finaliser:
    """Turns predictions of any kind into a filled cube."""

    station_means: xr.DataArray
    """Means by (location, measurement) of the data fitted on, in components."""

    means: xr.DataArray
    """Means by measurement of the data fitted on, in components."""

    def finalise(self, data: PreparedCube, prediction: xr.DataArray) -> xr.DataArray:
        """The cube with its gaps filled from a prediction in components."""
        cube, components = data.cube, data.components
        prediction = prediction.transpose(*components.dims).astype(np.float64)
        complete = self._complete(components, components.where(components.notnull(), prediction))
        filled = from_components(complete, cube).transpose(*cube.dims)
        return fill_gaps(cube, filled.to_numpy(), data.domain)

    def _complete(self, components: xr.DataArray, filled: xr.DataArray) -> xr.DataArray:
        """Fill what the method left open, from the nearest mean."""
        names = components["measurement"].to_numpy()
        fallbacks: tuple[Callable[[], xr.DataArray], ...] = (
            lambda: self.station_means.reindex(
                location=components["location"].to_numpy(), measurement=names
            ),
            lambda: components.mean("location"),
            lambda: self.means.reindex(measurement=names),
            lambda: components.mean(("time", "location")),  # of a measurement not fitted on
        )
        for fallback in fallbacks:
            if not filled.isnull().any():
                break
            filled = filled.where(filled.notnull(), fallback())
        return filled.transpose(*components.dims)


def fill_gaps(cube: xr.DataArray, values: NDArray[np.float64], domain: Domain) -> xr.DataArray:
    """The cube with values, as they could have been recorded, in its gaps; measured values are
    untouched."""
    recorded = domain.fit(values)
    # rounding may have made 360 of 359.6
    recorded = np.where(is_direction(cube), wrap_degrees(recorded), recorded)
    return cube.copy(data=np.where(cube.isnull(), recorded.astype(cube.dtype), cube))


def means_of(data: PreparedCube) -> tuple[xr.DataArray, xr.DataArray]:
    """Means by (location, measurement) and by measurement, in components."""
    components = data.components.reset_coords(drop=True)
    return components.mean("time"), components.mean(("time", "location"))


@dataclass(frozen=True, eq=False)
class WrappedFiller(Finaliser, Filler):
    """A prediction on plain numbers as a filler."""

    predict: PredictFn

    def fill(self, cube: Cube) -> xr.DataArray:
        data = prepare(cube)
        return self.finalise(data, self.predict(data.components))


@dataclass(frozen=True, kw_only=True)
class Baseline(Method):
    """A method that needs no training loop: a subclass writes `_fit` on plain numbers."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = 0 if name == "seed" else 1
            if type(value) is int and value < least:
                raise ConfigError(f"{name} must be at least {least}, but found {value}")

    def fit(self, cube: Cube, run: RunContext | None = None) -> WrappedFiller:
        data = prepare(cube)
        return WrappedFiller(*means_of(data), self._fit(data.components))

    def _fit(self, components: xr.DataArray) -> PredictFn:
        """Fit on float64 values with NaN for missing and directions as components; return a
        function that predicts a cube of the same measurements, NaN where it cannot."""
        raise NotImplementedError


def import_optional(module: str, method: str, package: str) -> ModuleType:
    """A module of an optional package; the error says what to install for the method."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"The method '{method}'", package, "baselines") from error


def refuse_no_coordinates(cube: xr.DataArray, method: str) -> None:
    """Refuse a cube whose stations have no coordinates, for a method that needs them."""
    if not has_coordinates(cube):
        raise ConfigError(
            f"'{method}' weights stations by distance, but these have no coordinates. Give them "
            "in columns lat and lon or with --locations, or use another method"
        )
