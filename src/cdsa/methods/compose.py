"""Several fillers for one cube."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import xarray as xr

from cdsa.core.prepare import Cube, prepare
from cdsa.methods.base import Bounds, Filler


@dataclass(frozen=True, eq=False)
class PerSite(Filler):
    """One filler for the stations of these names, another for sites without a sensor."""

    gives_intervals: ClassVar[bool] = True

    stations: Filler
    sites: Filler
    names: tuple[str, ...]

    def fill(self, cube: Cube) -> xr.DataArray:
        return self.fill_intervals(cube, ())[0]

    def fill_intervals(
        self, cube: Cube, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[Bounds]]:
        data = prepare(cube)
        at_station = data.cube["location"].isin(self.names)
        stations, sites = (f.fill_intervals(data, levels) for f in (self.stations, self.sites))
        return _choose(at_station, stations, sites)

    @property
    def primary(self) -> Filler:
        return self.stations

    def filler_of(self, location: str, measurement: str) -> Filler:
        return self.stations if location in self.names else self.sites

    def only_explainable(self) -> Filler | None:
        parts = [filler.only_explainable() for filler in (self.stations, self.sites)]
        stations, sites = (part or Filler() for part in parts)
        return replace(self, stations=stations, sites=sites) if any(parts) else None


@dataclass(frozen=True, eq=False)
class PerVariable(Filler):
    """One filler, and others for some measurements; each sees the whole cube."""

    gives_intervals: ClassVar[bool] = True

    default: Filler
    others: Mapping[str, Filler]
    """By measurement."""

    def fill(self, cube: Cube) -> xr.DataArray:
        return self.fill_intervals(cube, ())[0]

    def fill_intervals(
        self, cube: Cube, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[Bounds]]:
        data = prepare(cube)
        result = self.default.fill_intervals(data, levels)
        for filler in {id(other): other for other in self.others.values()}.values():
            names = [name for name, other in self.others.items() if other is filler]
            chosen = data.cube["measurement"].isin(names)
            result = _choose(chosen, filler.fill_intervals(data, levels), result)
        return result

    @property
    def primary(self) -> Filler:
        return self.default

    def filler_of(self, location: str, measurement: str) -> Filler:
        return self.others.get(measurement, self.default)

    def only_explainable(self) -> Filler | None:
        default = self.default.only_explainable()
        others = {name: other.only_explainable() for name, other in self.others.items()}
        if default is None and not any(others.values()):
            return None
        kept = {name: other or Filler() for name, other in others.items()}
        return replace(self, default=default or Filler(), others=kept)


Filled = tuple[xr.DataArray, list[Bounds]]


def _choose(mask: xr.DataArray, first: Filled, second: Filled) -> Filled:
    """The first result where the mask is true, the second elsewhere."""

    def choose(a: xr.DataArray, b: xr.DataArray) -> xr.DataArray:
        return a.where(mask, b).transpose(*b.dims)

    bounds = zip(first[1], second[1], strict=True)
    return choose(first[0], second[0]), [
        (choose(low, other_low), choose(high, other_high))
        for (low, high), (other_low, other_high) in bounds
    ]
