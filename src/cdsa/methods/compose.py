"""Several fillers for one cube."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import xarray as xr

from cdsa.core.prepare import Cube, prepare
from cdsa.methods.base import Filled, Filler


@dataclass(frozen=True, eq=False)
class CombinedFiller(Filler):
    """One filler, and others for some stations or measurements; each sees the whole cube."""

    gives_intervals: ClassVar[bool] = True

    axis: Literal["location", "measurement"]
    others: Mapping[str, Filler]
    """By name of the station or measurement."""

    default: Filler
    """For those without a name here, such as sites without a sensor."""

    def fill(self, cube: Cube) -> xr.DataArray:
        return self.fill_intervals(cube, ())[0]

    def fill_intervals(self, cube: Cube, levels: Sequence[float]) -> Filled:
        data = prepare(cube)
        result = self.default.fill_intervals(data, levels)
        for filler in {id(other): other for other in self.others.values()}.values():
            names = [name for name, other in self.others.items() if other is filler]
            mask = data.cube[self.axis].isin(names)
            result = _choose(mask, filler.fill_intervals(data, levels), result)
        return result

    @property
    def primary(self) -> Filler:
        # all stations have a name here, but only some measurements
        return self.default if self.axis == "measurement" else next(iter(self.others.values()))

    def filler_of(self, location: str, measurement: str) -> Filler:
        name = location if self.axis == "location" else measurement
        return self.others.get(name, self.default)

    def only_explainable(self) -> Filler | None:
        default = self.default.only_explainable()
        others = {name: other.only_explainable() for name, other in self.others.items()}
        if not any([default, *others.values()]):
            return None
        explainable = {name: other or Filler() for name, other in others.items()}
        return replace(self, default=default or Filler(), others=explainable)


def _choose(mask: xr.DataArray, first: Filled, second: Filled) -> Filled:
    """The first result where the mask is true, the second elsewhere."""

    def choose(a: xr.DataArray, b: xr.DataArray) -> xr.DataArray:
        return a.where(mask, b).transpose(*b.dims)

    pairs = zip(first[1], second[1], strict=True)
    return choose(first[0], second[0]), [(choose(a[0], b[0]), choose(a[1], b[1])) for a, b in pairs]
