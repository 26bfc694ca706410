"""Several fillers for one cube."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import xarray as xr

from cdsa.core.prepare import Cube, prepare
from cdsa.methods.base import Filled, Filler
from cdsa.methods.blend import Blend, blend_fills


@dataclass(frozen=True, eq=False)
class BlendedFiller(Filler):
    """The weighted mean of fillers, with weights by measurement and gap class."""

    fillers: Mapping[str, Filler]
    """In the order of the blend's candidates."""

    blend: Blend

    @property
    def gives_intervals(self) -> bool:
        return any(filler.gives_intervals for filler in self.fillers.values())

    def fill(self, cube: Cube) -> xr.DataArray:
        return self.fill_intervals(cube, ())[0]

    def fill_intervals(self, cube: Cube, levels: Sequence[float]) -> Filled:
        data, fills = prepare(cube), []
        for filler in self.fillers.values():
            own = levels if filler.gives_intervals else ()
            filled, bounds = filler.fill_intervals(data, own)
            fills.append((filled, dict(zip(own, bounds, strict=True))))
        weights = self.blend.cell_weights(data.cube)
        blended, intervals = blend_fills(data.cube, fills, weights, data.domain)
        unknown = xr.full_like(data.cube, np.nan)
        return blended, [intervals.get(level, (unknown, unknown)) for level in levels]

    @property
    def primary(self) -> Filler:
        return self.fillers[self.blend.used[0]]

    def filler_of(self, location: str, measurement: str) -> Filler:
        """The filler with the largest weight for the measurement."""
        return self.fillers[self.blend.largest(measurement)]

    def only_explainable(self) -> Filler | None:
        largest = {self.blend.largest(name) for name in self.blend.measurements}
        explainable = {name: self.fillers[name].only_explainable() for name in largest}
        if not any(explainable.values()):
            return None
        fillers = {name: explainable.get(name) or Filler() for name in self.fillers}
        return replace(self, fillers=fillers)


@dataclass(frozen=True, eq=False)
class CombinedFiller(Filler):
    """One filler for stations, and another for sites without a sensor; each sees the whole cube."""

    gives_intervals: ClassVar[bool] = True

    stations: frozenset[str]
    at_stations: Filler
    at_sites: Filler

    def fill(self, cube: Cube) -> xr.DataArray:
        return self.fill_intervals(cube, ())[0]

    def fill_intervals(self, cube: Cube, levels: Sequence[float]) -> Filled:
        data = prepare(cube)
        at_stations, at_sites = (
            filler.fill_intervals(data, levels) for filler in (self.at_stations, self.at_sites)
        )
        mask = data.cube["location"].isin(list(self.stations))
        return _choose(mask, at_stations, at_sites)

    @property
    def primary(self) -> Filler:
        return self.at_stations

    def filler_of(self, location: str, measurement: str) -> Filler:
        return self.at_stations if location in self.stations else self.at_sites

    def only_explainable(self) -> Filler | None:
        at_stations, at_sites = (f.only_explainable() for f in (self.at_stations, self.at_sites))
        if at_stations is None and at_sites is None:
            return None
        return replace(self, at_stations=at_stations or Filler(), at_sites=at_sites or Filler())


def _choose(mask: xr.DataArray, first: Filled, second: Filled) -> Filled:
    """The first result where the mask is true, the second elsewhere."""

    def choose(a: xr.DataArray, b: xr.DataArray) -> xr.DataArray:
        return a.where(mask, b).transpose(*b.dims)

    pairs = zip(first[1], second[1], strict=True)
    return choose(first[0], second[0]), [(choose(a[0], b[0]), choose(a[1], b[1])) for a, b in pairs]
