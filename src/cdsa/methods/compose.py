"""Several fillers for one cube, each for a part of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from cdsa.methods.base import Filler, IntervalFiller, fill_and_ends

Ends = tuple[xr.DataArray, xr.DataArray]


@dataclass(frozen=True, eq=False)
class ByPlace:
    """Two fillers: one for the stations of these names, another for places without a sensor."""

    own: IntervalFiller
    places: IntervalFiller
    names: tuple[str, ...]

    def fill(self, cube: xr.DataArray) -> xr.DataArray:
        """The cube with every fillable gap filled and every measured value as it was."""
        return self.fill_between(cube, ())[0]

    def fill_between(
        self, cube: xr.DataArray, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[tuple[xr.DataArray, xr.DataArray]]]:
        """The cube filled, and lower and upper ends for every level."""
        at_station = cube["location"].isin(self.names)
        (own, own_ends), (other, other_ends) = (
            filler.fill_between(cube, levels) for filler in (self.own, self.places)
        )

        def joined(one: xr.DataArray, two: xr.DataArray) -> xr.DataArray:
            return one.where(at_station, two).transpose(*cube.dims)

        return joined(own, other), [
            (joined(low, low_too), joined(high, high_too))
            for (low, high), (low_too, high_too) in zip(own_ends, other_ends, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class ByMeasurement:
    """A filler, and others for some measurements; each sees the whole cube."""

    own: Filler
    others: Mapping[str, Filler]
    """By measurement."""

    def fill(self, cube: xr.DataArray) -> xr.DataArray:
        """The cube with every fillable gap filled and every measured value as it was."""
        return self.fill_between(cube, ())[0]

    def fill_between(
        self, cube: xr.DataArray, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[Ends]]:
        """The cube filled, and lower and upper ends for every level; NaN where a filler does not
        tell."""
        filled, ends = _told(self.own, cube, levels)
        for filler in {id(other): other for other in self.others.values()}.values():
            mine = [name for name, other in self.others.items() if other is filler]
            chosen = cube["measurement"].isin(mine)
            other, other_ends = _told(filler, cube, levels)
            filled = other.where(chosen, filled).transpose(*cube.dims)
            ends = [
                (
                    low.where(chosen, old_low).transpose(*cube.dims),
                    high.where(chosen, old_high).transpose(*cube.dims),
                )
                for (low, high), (old_low, old_high) in zip(other_ends, ends, strict=True)
            ]
        return filled, ends


def part_of(filler: Filler, location: str, measurement: str) -> Filler:
    """The one that fills the cells of a series."""
    if isinstance(filler, ByPlace):
        return filler.own if location in filler.names else filler.places
    if isinstance(filler, ByMeasurement):
        return filler.others.get(measurement, filler.own)
    return filler


def explaining(filler: Filler) -> Filler | None:
    """The same with only what can explain its values, if anything can."""
    if isinstance(filler, ByPlace):
        own, places = explaining(filler.own), explaining(filler.places)
        return replace(filler, own=own, places=places) if own or places else None  # type: ignore[arg-type]
    if isinstance(filler, ByMeasurement):
        own = explaining(filler.own)
        others = {name: explaining(other) for name, other in filler.others.items()}
        some = own or any(others.values())
        return replace(filler, own=own, others=others) if some else None  # type: ignore[arg-type]
    return filler if getattr(filler, "explains", False) else None


def _told(
    filler: Filler, cube: xr.DataArray, levels: Sequence[float]
) -> tuple[xr.DataArray, list[Ends]]:
    filled, ends = fill_and_ends(filler, cube, levels)
    nothing = xr.full_like(cube, np.nan)
    return filled, [ends.get(level, (nothing, nothing)) for level in levels]
