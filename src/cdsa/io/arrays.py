"""Labelled arrays (xarray, NetCDF, Zarr): the user's data set, the cube of it, and it filled."""

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import SOURCES
from cdsa.core.times import Clock
from cdsa.errors import TableError
from cdsa.io.cf import (
    add_cf_attributes,
    ancillary_names,
    describe_result,
    find_fill_flags,
    link_ancillary,
    output_variables,
)
from cdsa.io.columns import LAT, LON, find_name

FILLED = SOURCES.index("filled")


@dataclass(frozen=True, eq=False)
class Arrays:
    """The user's data set, which of its axes is what, and the cube made of it."""

    data: xr.Dataset
    variables: tuple[str, ...]
    axes: dict[str, str]
    """Our name of an axis -> the data set's name; an axis it does not have is absent."""

    cube: xr.DataArray
    step_index: NDArray[np.int64]
    """The step of the cube behind each of the data set's."""

    measurement_index: tuple[int, ...]
    """Positions taken from the measurement axis; all if empty."""

    clock: Clock
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def with_horizon(self, cube: xr.DataArray, horizon: slice) -> "Arrays":
        """The data set with room for the steps that `cube` has beyond it."""
        return replace(self, cube=cube)

    def with_sites(self, cube: xr.DataArray) -> "Arrays":
        """The data set with room for the stations that `cube` has beyond it."""
        axis = self.axes.get("location")
        if axis is None or axis not in self.data.indexes:
            raise TableError(
                "places can be added to arrays whose axis of stations has names, but this one has "
                "none. Give it a coordinate of that name, or use a table"
            )
        old = self.data[axis].to_numpy()
        new = cube["location"].to_numpy()[len(old) :]
        try:
            labels = np.concatenate([old, new.astype(old.dtype)])
            if (labels[len(old) :].astype(str) != new.astype(str)).any():
                raise ValueError("cut short")
        except ValueError:  # numbers, and a name among them: all become text
            labels = np.concatenate([old.astype(str), new.astype(str)])
        empty = {  # whole numbers stay whole numbers
            name: np.nan if variable.dtype.kind == "f" else np.zeros((), variable.dtype).item()
            for name, variable in self.data.variables.items()
            if variable.dtype.kind in "fiub"
        }
        data = self.data.assign_coords({axis: labels[: len(old)]})
        data = data.reindex({axis: labels}, fill_value=empty)
        for names, place in ((LAT, "lat"), (LON, "lon")):
            found = find_name([str(name) for name in self.data.variables], names)
            if found is not None and self.data[found].dims == (axis,):
                data[found] = (axis, cube[place].to_numpy(), self.data[found].attrs)
        for variable in self.variables:
            data[variable].encoding = self.data[variable].encoding
        return replace(self, cube=cube, data=data)

    @property
    def layout(self) -> str:
        """The layout in words."""
        form = "a variable per measurement" if "measurement" not in self.axes else "one variable"
        return f"arrays: {form}, axes {', '.join(self.axes.values())}"

    def filled(self, result: xr.Dataset) -> xr.Dataset:
        """The user's data set with its gaps filled, and beside each variable its sources."""
        whole = self._other_variables()
        names = ancillary_names(self.variables, [str(name) for name in self.data.variables], result)
        for variable in self.variables:
            old = self.data[variable]
            for kind, part in output_variables(result, variable).items():
                values = self._select(part, variable).to_numpy()
                attrs = part.attrs
                if kind == "value":
                    values, attrs = self._merge(values, variable), dict(old.attrs)
                elif kind == "source" and (before := find_fill_flags(self.data, variable)):
                    names[variable, kind] = before[0]  # what was filled once stays marked as such
                    values = np.where(self._previously_filled(variable), FILLED, values).astype(
                        np.int8
                    )
                whole[names[variable, kind]] = (old.dims, values, attrs)
            whole[variable].encoding = dict(old.encoding)
            link_ancillary(whole, variable, names)
        return add_cf_attributes(whole, self.axes, describe_result(result))

    def _select(self, cube: xr.DataArray, variable: str) -> xr.DataArray:
        """The part of a cube that one variable holds, with the variable's own axes."""
        part = cube if "measurement" in self.axes else cube.sel(measurement=variable)
        part = part.isel({axis: 0 for axis in part.dims if axis not in self.axes})
        names = {axis: self.axes[str(axis)] for axis in part.dims}
        return part.drop_vars(part.coords).rename(names).transpose(*self.data[variable].dims)

    def _to_grid(
        self, values: NDArray[np.generic], dims: tuple[Hashable, ...]
    ) -> NDArray[np.generic]:
        """Values of the data set on the grid, zero where stamps were absent; of two that fell onto
        one step the first."""
        time = dims.index(self.axes["time"])
        if self.measurement_index:
            values = np.take(
                values, self.measurement_index, axis=dims.index(self.axes["measurement"])
            )
        steps, first = np.unique(self.step_index, return_index=True)
        shape = [
            len(self.cube["time"]) if n == time else size for n, size in enumerate(values.shape)
        ]
        whole = np.zeros(shape, dtype=values.dtype)
        where = tuple(steps if n == time else slice(None) for n in range(whole.ndim))
        whole[where] = np.take(values, first, axis=time)
        return whole

    def _previously_filled(self, variable: str) -> NDArray[np.bool_]:
        flags = [
            self.data[name].transpose(*self.data[variable].dims)
            for name in find_fill_flags(self.data, variable)
        ]
        before = np.any([flag.to_numpy() == FILLED for flag in flags], axis=0)
        return self._to_grid(before, self.data[variable].dims).astype(bool)

    def _merge(self, filled: NDArray[np.floating], variable: str) -> NDArray[np.generic]:
        """The variable's own values, bit for bit, with what was missing put in."""
        old = self.data[variable]
        cube = self._select(self.cube, variable).to_numpy()
        whole = self._to_grid(old.to_numpy(), old.dims)
        joined = np.bincount(self.step_index, minlength=len(self.cube["time"])) > 1
        shape = [-1 if dim == self.axes["time"] else 1 for dim in old.dims]
        again = joined.reshape(shape) & ~np.isnan(cube)
        gaps = np.isnan(cube)
        known = gaps & ~np.isnan(filled)
        whole = np.where(again, cube, whole).astype(whole.dtype) if again.any() else whole
        whole[known] = round_to_packed(filled[known], old)
        absent = np.ones(len(self.cube["time"]), dtype=bool)
        absent[self.step_index] = False
        empty = gaps & ~known & absent.reshape(shape)
        return np.where(empty, np.nan, whole) if empty.any() else whole

    def _other_variables(self) -> xr.Dataset:
        """A copy of all that was not read, on the regular grid; gaps where stamps were absent."""
        time, grid = self.axes["time"], self.cube["time"].to_numpy()
        whole = self.data.drop_vars(self.variables)
        for variable in self.variables:
            whole = whole.drop_vars(find_fill_flags(self.data, variable))
        if self.measurement_index:  # only some labels of the measurement axis were read
            whole = whole.isel({self.axes["measurement"]: list(self.measurement_index)})
        if not np.array_equal(self.data[time].to_numpy(), grid):
            first = np.unique(self.step_index, return_index=True)[1]
            attrs = self.data[time].attrs
            whole = whole.isel({time: first}).assign_coords({time: grid[self.step_index[first]]})
            whole = whole.reindex({time: grid})
            whole[time].attrs = attrs
        return whole.copy()


def round_to_packed(values: NDArray[np.floating], old: xr.DataArray) -> NDArray[np.generic]:
    """Values as the variable's own type, or the one it is packed in, can hold them; none of them
    becomes its mark for missing."""
    packed = np.dtype(old.encoding.get("dtype") or old.dtype)
    if packed.kind not in "iu":
        return values.astype(old.dtype)
    scale = float(old.encoding.get("scale_factor", 1))
    offset = float(old.encoding.get("add_offset", 0))
    limits = np.iinfo(packed)
    whole = np.clip(np.rint((values - offset) / scale), limits.min, limits.max)
    marks = {**old.attrs, **old.encoding}
    for mark in (marks.get("_FillValue"), marks.get("missing_value")):
        if mark is not None:
            whole = np.where(whole == mark, mark + (1 if mark < limits.max else -1), whole)
    packed_values: NDArray[np.generic] = (whole * scale + offset).astype(old.dtype)
    return packed_values
