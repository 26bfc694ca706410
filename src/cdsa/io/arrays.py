"""Labelled arrays (xarray, NetCDF, Zarr): the user's dataset, its cube, and the filled dataset."""

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
    """A dataset, the role of its axes, and its cube."""

    data: xr.Dataset
    variables: tuple[str, ...]
    axes: dict[str, str]
    """Axis of the cube -> dimension of the dataset; an axis that the dataset lacks is absent."""

    cube: xr.DataArray
    step_index: NDArray[np.int64]
    """Step of the cube for each step of the dataset."""

    measurement_index: tuple[int, ...]
    """Positions read from the measurement axis; all if empty."""

    clock: Clock
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def layout(self) -> str:
        form = "a variable per measurement" if "measurement" not in self.axes else "one variable"
        return f"arrays: {form}, axes {', '.join(self.axes.values())}"

    def with_horizon(self, cube: xr.DataArray, horizon: slice) -> "Arrays":
        """The dataset with room for the additional steps of `cube`."""
        return replace(self, cube=cube)

    def with_sites(self, cube: xr.DataArray) -> "Arrays":
        """The dataset with room for the additional stations of `cube`."""
        axis = self.axes.get("location")
        if axis is None or axis not in self.data.indexes:
            raise TableError(
                "sites can be added to arrays whose station axis has labels, but this one has "
                "none. Give the axis a coordinate, or use a table"
            )
        old = self.data[axis].to_numpy()
        new = cube["location"].to_numpy()[len(old) :]
        try:
            labels = np.concatenate([old, new.astype(old.dtype)])
            if (labels[len(old) :].astype(str) != new.astype(str)).any():
                raise ValueError("truncated")
        except ValueError:  # a name among numbers, or a longer one: all labels become text
            labels = np.concatenate([old.astype(str), new.astype(str)])
        fill_values = {  # integers stay integers
            name: np.nan if variable.dtype.kind == "f" else np.zeros((), variable.dtype).item()
            for name, variable in self.data.variables.items()
            if variable.dtype.kind in "fiub"
        }
        data = self.data.assign_coords({axis: labels[: len(old)]})
        data = data.reindex({axis: labels}, fill_value=fill_values)
        for names, coordinate in ((LAT, "lat"), (LON, "lon")):
            name = find_name([str(name) for name in self.data.variables], names)
            if name is not None and self.data[name].dims == (axis,):
                data[name] = (axis, cube[coordinate].to_numpy(), self.data[name].attrs)
        for variable in self.variables:
            data[variable].encoding = self.data[variable].encoding
        return replace(self, cube=cube, data=data)

    def filled(self, result: xr.Dataset) -> xr.Dataset:
        """The dataset with its gaps filled, and ancillary variables for sources and bounds."""
        output = self._other_variables()
        names = ancillary_names(self.variables, [str(name) for name in self.data.variables], result)
        for variable in self.variables:
            old = self.data[variable]
            for kind, cube in output_variables(result, variable).items():
                values, attrs = self._select(cube, variable).to_numpy(), cube.attrs
                if kind == "value":
                    values, attrs = self._merge(values, variable), dict(old.attrs)
                elif kind == "source" and (flags := find_fill_flags(self.data, variable)):
                    names[variable, kind] = flags[0]  # cells filled earlier stay marked
                    earlier = self._previously_filled(variable)
                    values = np.where(earlier, FILLED, values).astype(np.int8)
                output[names[variable, kind]] = (old.dims, values, attrs)
            output[variable].encoding = dict(old.encoding)
            link_ancillary(output, variable, names)
        return add_cf_attributes(output, self.axes, describe_result(result))

    def _select(self, cube: xr.DataArray, variable: str) -> xr.DataArray:
        """The values of a cube that belong to a variable, with the variable's dimensions."""
        if "measurement" not in self.axes:
            cube = cube.sel(measurement=variable)
        cube = cube.isel({axis: 0 for axis in cube.dims if axis not in self.axes})
        names = {axis: self.axes[str(axis)] for axis in cube.dims}
        return cube.drop_vars(cube.coords).rename(names).transpose(*self.data[variable].dims)

    def _to_grid(
        self, values: NDArray[np.generic], dims: tuple[Hashable, ...]
    ) -> NDArray[np.generic]:
        """Values of the dataset on the time grid, zero at missing timestamps; the first one where
        two fall on one step."""
        time = dims.index(self.axes["time"])
        if self.measurement_index:
            axis = dims.index(self.axes["measurement"])
            values = np.take(values, self.measurement_index, axis=axis)
        steps, first = np.unique(self.step_index, return_index=True)
        shape = list(values.shape)
        shape[time] = self.cube.sizes["time"]
        grid = np.zeros(shape, dtype=values.dtype)
        cells = tuple(steps if axis == time else slice(None) for axis in range(grid.ndim))
        grid[cells] = np.take(values, first, axis=time)
        return grid

    def _previously_filled(self, variable: str) -> NDArray[np.bool_]:
        """Cells that an earlier fill marked as filled."""
        dims = self.data[variable].dims
        names = find_fill_flags(self.data, variable)
        flags = [self.data[name].transpose(*dims).to_numpy() == FILLED for name in names]
        return self._to_grid(np.any(flags, axis=0), dims).astype(bool)

    def _merge(self, filled: NDArray[np.floating], variable: str) -> NDArray[np.generic]:
        """The variable's values, unchanged to the last bit, with the missing ones filled."""
        old = self.data[variable]
        cube = self._select(self.cube, variable).to_numpy()
        values = self._to_grid(old.to_numpy(), old.dims)
        n_timestamps = np.bincount(self.step_index, minlength=self.cube.sizes["time"])
        shape = [-1 if dim == self.axes["time"] else 1 for dim in old.dims]
        gaps = np.isnan(cube)
        combined = (n_timestamps > 1).reshape(shape) & ~gaps
        if combined.any():
            values = np.where(combined, cube, values).astype(values.dtype)
        known = gaps & ~np.isnan(filled)
        values[known] = round_to_packed(filled[known], old)
        empty = gaps & ~known & (n_timestamps == 0).reshape(shape)
        return np.where(empty, np.nan, values) if empty.any() else values

    def _other_variables(self) -> xr.Dataset:
        """A copy of the variables that were not read, on the time grid."""
        time, grid = self.axes["time"], self.cube["time"].to_numpy()
        data = self.data.drop_vars(self.variables)
        for variable in self.variables:
            data = data.drop_vars(find_fill_flags(self.data, variable))
        if self.measurement_index:
            data = data.isel({self.axes["measurement"]: list(self.measurement_index)})
        if not np.array_equal(self.data[time].to_numpy(), grid):
            first = np.unique(self.step_index, return_index=True)[1]
            data = data.isel({time: first}).assign_coords({time: grid[self.step_index[first]]})
            data = data.reindex({time: grid})
            data[time].attrs = self.data[time].attrs
        return data.copy()


def round_to_packed(values: NDArray[np.floating], old: xr.DataArray) -> NDArray[np.generic]:
    """Values that the type of a variable, or the one it is packed in, can hold; none of them is
    its fill value."""
    packed = np.dtype(old.encoding.get("dtype") or old.dtype)
    if packed.kind not in "iu":
        return values.astype(old.dtype)
    scale = float(old.encoding.get("scale_factor", 1))
    offset = float(old.encoding.get("add_offset", 0))
    limits = np.iinfo(packed)
    integers = np.clip(np.rint((values - offset) / scale), limits.min, limits.max)
    metadata = {**old.attrs, **old.encoding}
    found = (metadata.get(key) for key in ("_FillValue", "missing_value"))
    codes = {int(code) for value in found if value is not None for code in np.ravel(value)}
    for code in codes:
        upwards = range(code + 1, limits.max + 1)
        downwards = range(code - 1, limits.min - 1, -1)
        free = next(n for n in (*upwards[: len(codes)], *downwards[: len(codes)]) if n not in codes)
        integers = np.where(integers == code, free, integers)
    unpacked: NDArray[np.generic] = (integers * scale + offset).astype(old.dtype)
    return unpacked
