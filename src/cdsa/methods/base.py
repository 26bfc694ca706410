"""The contract of a method: settings with `fit(cube) -> Filler`, and what a filler can do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

PLACES, GRAPH = "coordinates", "coordinates or a graph"
"""What a method may need of a cube."""


@runtime_checkable
class Filler(Protocol):
    """Something that has learnt."""

    def fill(self, cube: xr.DataArray) -> xr.DataArray:
        """The cube with every fillable gap filled and every measured value as it was."""
        ...


@dataclass(frozen=True, eq=False)
class Learnt:
    """What has learnt already, as a method that learns nothing more."""

    filler: Filler

    def fit(self, cube: xr.DataArray) -> Filler:
        """The same, whatever the cube."""
        return self.filler


@runtime_checkable
class IntervalFiller(Filler, Protocol):
    """A filler that can also say how sure it is."""

    def fill_between(
        self, cube: xr.DataArray, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[tuple[xr.DataArray, xr.DataArray]]]:
        """The cube filled, and for every level lower and upper ends that hold a hidden value with
        that probability; NaN where nothing can be said."""
        ...


def fill_and_ends(
    filler: Filler, cube: xr.DataArray, levels: Sequence[float]
) -> tuple[xr.DataArray, dict[float, tuple[xr.DataArray, xr.DataArray]]]:
    """The cube filled and, where the filler can tell, the ends of intervals of these levels."""
    if not isinstance(filler, IntervalFiller):
        return filler.fill(cube), {}
    filled, ends = filler.fill_between(cube, levels)
    return filled, dict(zip(levels, ends, strict=True))


class Method(Protocol):
    """Settings of a way to fill."""

    def fit(self, cube: xr.DataArray) -> Filler:
        """Learn from the measured cells of `cube`."""
        ...


@runtime_checkable
class Acquainted(Filler, Protocol):
    """A filler that can learn of stations it has not met."""

    def acquainted(self, cube: xr.DataArray) -> Filler: ...


@runtime_checkable
class Foreseeing(Protocol):
    """A filler that can tell many forecasts at once."""

    def foresee(self, cube: xr.DataArray, origins: NDArray[np.int64]) -> list[xr.DataArray]: ...
