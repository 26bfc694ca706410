"""What every method owes its users, kept in one place.

A method proper is a pair of functions on plain numbers: `learn(cube) -> guess` and
`guess(cube) -> cube`, which may leave gaps. `GuardedFiller` puts the rest around it:

- a direction in degrees goes in as two components, east and north, and comes back as degrees;
- what the method leaves open is filled from means: of the station, else of that moment over all
  stations, else of the measurement;
- filled values keep to physical bounds; measured values come back untouched;
- a measurement nobody ever measured stays missing: there is nothing to learn it from.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xarray as xr

from cdsa.core.circular import from_components, to_components, wrap_degrees
from cdsa.core.cube import check_cube, has_coordinates, is_direction, round_significant, valid_range
from cdsa.errors import ConfigError

Guess = Callable[[xr.DataArray], xr.DataArray]


Learn = Callable[[xr.DataArray], Guess]


DIGITS = 10
"""Of filled values, more than any sensor has: 12.396, not 12.3959999999."""


@dataclass(frozen=True, eq=False)
class Guard:
    """What keeps every promise, whatever was guessed."""

    station_means: xr.DataArray
    """Mean by (location, measurement) of what was learnt from, in components."""

    means: xr.DataArray
    """Mean by measurement of what was learnt from, in components."""

    def kept(self, cube: xr.DataArray, guessed: xr.DataArray) -> xr.DataArray:
        """The cube with its gaps filled from a guess in components, every promise kept."""
        plain = to_components(cube)
        guessed = guessed.transpose(*plain.dims).astype(np.float64)
        whole = self._complete(plain, plain.where(plain.notnull(), guessed))
        filled = within_bounds(from_components(whole, cube)).transpose(*cube.dims)
        values = round_significant(filled.to_numpy(), DIGITS)
        values = np.where(
            is_direction(cube), wrap_degrees(values), values
        )  # 359.99... is north again
        return cube.copy(data=np.where(cube.isnull(), values.astype(cube.dtype), cube))

    def _complete(self, plain: xr.DataArray, whole: xr.DataArray) -> xr.DataArray:
        """Fill what the method left open, from the nearest mean there is."""
        station = self.station_means.reindex(
            location=plain["location"].to_numpy(), measurement=plain["measurement"].to_numpy()
        )
        network = self.means.reindex(measurement=plain["measurement"].to_numpy())
        own = plain.mean(("time", "location"))  # of a measurement not met while learning
        for fallback in (station, plain.mean("location"), network, own):
            if not whole.isnull().any():
                break
            whole = whole.where(whole.notnull(), fallback)
        return whole.transpose(*plain.dims)


@dataclass(frozen=True, eq=False)
class GuardedFiller(Guard):
    """A guess on plain numbers, made into a filler that keeps every promise."""

    guess: Guess

    def fill(self, cube: xr.DataArray) -> xr.DataArray:
        """The cube with every fillable gap filled and every measured value as it was."""
        check_cube(cube)
        return self.kept(cube, self.guess(to_components(cube)))


def guarded(cube: xr.DataArray, learn: Learn) -> GuardedFiller:
    """Let a method learn from `cube` and put the promises around what it has learnt."""
    check_cube(cube)
    plain = to_components(cube)
    means = bare(plain)
    return GuardedFiller(means.mean("time"), means.mean(("time", "location")), learn(plain))


def within_bounds(cube: xr.DataArray) -> xr.DataArray:
    """The cube with no value beyond what is physically possible."""
    low, high = (xr.DataArray(end, dims="measurement") for end in valid_range(cube))
    return cube.clip(low, high)


def bare(cube: xr.DataArray) -> xr.DataArray:
    """The cube with the labels of its axes and nothing beside them."""
    return cube.drop_vars([name for name in cube.coords if name not in cube.dims])


def refuse_nowhere(cube: xr.DataArray, method: str) -> None:
    """Refuse a cube whose stations have no coordinates, for a method that needs them."""
    if not has_coordinates(cube):
        raise ConfigError(
            f"'{method}' weighs stations by their distance, but these have no coordinates. Give "
            "them in columns lat and lon or with --locations, or use another method"
        )
