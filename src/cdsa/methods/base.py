"""The contract of a method.

A method is a frozen dataclass of settings. `fit(cube)` returns a new object, a filler, and
`fill(cube)` fills. What else a method or filler can do is declared here, with safe defaults: no
other code asks an object whether it has an attribute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.geo import Edge
from cdsa.core.prepare import Cube, prepare
from cdsa.core.records import Value
from cdsa.errors import ConfigError
from cdsa.training.callbacks import RunContext

if TYPE_CHECKING:
    from cdsa.methods.explanation import Explanation

Needs = Literal["", "coordinates", "coordinates or a graph"]
COORDINATES: Needs = "coordinates"
GRAPH: Needs = "coordinates or a graph"
Bounds = tuple[xr.DataArray, xr.DataArray]
"""Lower and upper bound of every cell."""
Filled = tuple[xr.DataArray, list[Bounds]]
"""A filled cube, and bounds for each of several levels."""


class Filler:
    """A fitted method: it fills cubes. Trained networks, which Python calls models, are fillers.

    The other properties say what a filler can do; their defaults suit a method without training.

    Examples
    --------
    >>> import cdsa
    >>> demo = cdsa.open_demo()[:100]
    >>> filler = cdsa.build_method("linear").fit(demo)
    >>> isinstance(filler, cdsa.Filler), int(filler.fill(demo).isnull().sum())
    (True, 0)
    """

    def fill(self, cube: Cube) -> xr.DataArray:
        """The cube with every fillable gap filled and every measured value as it was."""
        raise NotImplementedError

    def fill_intervals(self, cube: Cube, levels: Sequence[float]) -> Filled:
        """The cube filled, and for every level bounds that contain a hidden value with that
        probability; NaN where unknown. Without intervals, all bounds are NaN."""
        unknown = xr.full_like(prepare(cube).cube, np.nan)
        return self.fill(cube), [(unknown, unknown)] * len(levels)

    @property
    def gives_intervals(self) -> bool:
        """Whether `fill_intervals` returns bounds."""
        return False

    @property
    def trained(self) -> bool:
        """Whether it is a trained network, which is not fitted again for the final fill."""
        return False

    @property
    def inductive(self) -> bool:
        """Whether it also fills stations that it was not fitted on."""
        return True

    @property
    def horizon(self) -> int | None:
        """Steps that it can forecast; None for any number, 0 for none."""
        return None

    @property
    def context_length(self) -> int | None:
        """Steps before the horizon that a forecast uses; None for all."""
        return None

    @property
    def validation_errors(self) -> tuple[dict[str, Value], ...]:
        """Errors on cells held out in training, one record per measurement."""
        return ()

    def check(self, cube: xr.DataArray) -> None:
        """Refuse a cube that it does not fit."""

    @property
    def known_covariates(self) -> tuple[str, ...]:
        """Measurements that must be known in advance of a forecast."""
        return ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know about the fit."""
        return ()

    @property
    def settings(self) -> "Method | None":
        """The method with the settings that it was fitted with, if they are worth reporting."""
        return None

    @property
    def primary(self) -> "Filler":
        """The filler of most cells, of several that were combined."""
        return self

    def filler_of(self, location: str, measurement: str) -> "Filler":
        """The filler of one series, of several that were combined."""
        return self

    @property
    def explainable(self) -> bool:
        """Whether `explain` works."""
        return False

    def explain(self, cube: Cube, time: object, location: str, measurement: str) -> "Explanation":
        """The measured cells that a filled value comes from."""
        raise ConfigError("only networks can explain their values: cdsa and cdsa-paper")

    def only_explainable(self) -> "Filler | None":
        """The part of this filler that can explain values, to be saved; None if nothing can."""
        return self if self.explainable else None

    def new_stations(self, cube: xr.DataArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Masks (l,) of the stations with values that it was not fitted on, and of the locations
        without values; all false if it makes no difference."""
        none = np.zeros(cube.sizes["location"], dtype=bool)
        return none, none

    def adapt_to(self, cube: Cube) -> "Filler":
        """The same with all that can be known about the stations of this cube."""
        return self

    def forecast_from(
        self, cube: Cube, origins: NDArray[np.int64], *, context: int, horizon: int
    ) -> list[xr.DataArray]:
        """Forecasts of the steps `origin`, `origin + 1` ... from only the `context` steps before
        each origin: one cube per step ahead, with one time per origin."""
        cube = prepare(cube).cube
        values = np.empty((len(origins), horizon, *cube.shape[1:]), dtype=cube.dtype)
        for number, origin in enumerate(origins):
            window = cube[origin - context : origin + horizon].copy()
            window[context:] = np.nan
            values[number] = self.fill(window).to_numpy()[context:]
        return [cube.isel(time=origins + h).copy(data=values[:, h]) for h in range(horizon)]


@dataclass(frozen=True, kw_only=True)
class Method:
    """Settings of a way to fill. A subclass is a frozen dataclass with `fit`.

    Examples
    --------
    >>> import cdsa
    >>> method = cdsa.build_method("idw")
    >>> isinstance(method, cdsa.Method), method.label, method.power
    (True, 'idw', 2.0)
    """

    name: ClassVar[str] = ""
    """The name in the registry, or the class's name."""

    trains: ClassVar[bool] = False
    """Whether it is a network, which trains for minutes and can be saved."""

    @property
    def label(self) -> str:
        """The name in tables; `build_method` understands it."""
        return self.name or type(self).__name__.lower()

    @property
    def inductive(self) -> bool:
        """Whether it also fills stations that it was not fitted on."""
        return True

    @property
    def minutes(self) -> float | None:
        """How long it trains; None if that is not limited."""
        return None

    @property
    def budget(self) -> str:
        """How long it trains and how large it is, in words."""
        return ""

    def fit(self, cube: Cube, run: RunContext | None = None) -> Filler:
        """Fit on the measured cells of `cube`; `run` accompanies the training of a network."""
        raise NotImplementedError

    def resolve(self, cube: Cube, run: RunContext | None = None) -> Self:
        """This method with all settings resolved that depend on the data."""
        return self

    def with_preset(self, name: str) -> Self:
        """The settings of this name."""
        raise ConfigError(f"'{self.label}' has no presets, but found '@{name}'")

    def with_manner(self, name: str) -> Self:
        """The same in another manner or variant."""
        raise ConfigError(f"'{self.label}' has no manners, but found ':{name}'")

    def with_graph(self, edges: Sequence[Edge]) -> Self:
        """The same on this graph of stations."""
        raise ConfigError(f"'{self.label}' does not use a graph")

    def with_horizon(self, steps: int, *, keep_longer: bool = False) -> Self:
        """The same for forecasts of so many steps, or of more where they are set already."""
        return self

    def with_known_covariates(self, names: Sequence[str]) -> Self:
        """The same with these measurements known in advance of a forecast."""
        raise ConfigError(
            f"'{self.label}' does not use values known in advance (--known). Use cdsa"
        )

    def with_budget(self, minutes: float | None = None, epochs: int | None = None) -> Self:
        """The same trained for so many minutes or epochs."""
        raise ConfigError(
            f"minutes are for methods that train a network, and '{self.label}' does not"
        )

    def with_time_limit(self, max_minutes: float | None, cube: Cube) -> Self:
        """The same with its training on this cube limited to so many minutes."""
        return self

    def with_seed(self, seed: int) -> Self:
        """The same with another seed; a method without randomness is as it was."""
        return self


@dataclass(frozen=True, kw_only=True, eq=False)
class Prefitted(Method):
    """A filler as a method that fits nothing more."""

    filler: Filler

    def fit(self, cube: Cube, run: RunContext | None = None) -> Filler:
        return self.filler
