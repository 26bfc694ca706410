"""Understanding labelled arrays: which axis is what, and the cube made of them.

Two forms are understood: one variable per measurement with the axes (time, station), as in a CF
time-series file, and one variable with the axes (time, station, measurement). Axes may have other
names and any order.
"""

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import DEFAULT_STATION, DIMS, check_cube, is_direction, make_cube
from cdsa.core.times import Clock, regular_grid, subsecond_digits, to_nanoseconds
from cdsa.errors import ConfigError, TableError, unknown
from cdsa.io.arrays import FILLED, Arrays
from cdsa.io.assemble import annotate, combine_duplicates
from cdsa.io.cf import find_fill_flags
from cdsa.io.columns import (
    LAT,
    LOCATION,
    LON,
    MEASUREMENT,
    find_name,
    missing_codes,
)
from cdsa.io.hints import likely_directions, likely_missing_codes, missing_timestamps
from cdsa.io.options import OPTIONS, ReadOptions

NETCDF_DEFAULT_FILL = float(
    np.float32(9.969209968386869e36)
)  # what NetCDF leaves where nothing is put


DEGREE_UNITS = frozenset({"degree", "degrees", "deg", "°"})


def parse_arrays(data: xr.Dataset, options: ReadOptions) -> Arrays:
    """Understand labelled arrays as a cube."""
    for option in OPTIONS.values():
        if option.tables_only and getattr(options, option.name) is not None:
            raise ConfigError(
                f"{option.command_line_flag} is for tables; the axes of labelled arrays are "
                "detected by their names and types. Leave it out"
            )
    variables = _find_variables(data, options)
    axes = _find_axes(data, variables)
    names = _read_labels(data, axes["location"]) if "location" in axes else [DEFAULT_STATION]
    values = np.stack([_to_array(data[name], axes) for name in variables], axis=-1)
    measured = list(variables)
    chosen: tuple[int, ...] = ()
    if "measurement" in axes:
        measured, values = _read_labels(data, axes["measurement"]), values[..., 0]
        if options.measurements:
            for name in options.measurements:
                if name not in measured:
                    raise TableError(f"--measurements: {unknown('measurement', name, measured)}")
            chosen = tuple(n for n, name in enumerate(measured) if name in options.measurements)
            values = np.take(values, chosen, axis=-1)
            measured = [measured[number] for number in chosen]
    values[np.isin(values, missing_codes(options))] = np.nan
    doubts = _unfill(values, data, variables, axes, chosen, options)

    def where(step: int) -> str:
        return f"step {step} of axis '{axes['time']}'"

    index = pd.DatetimeIndex(data[axes["time"]].to_numpy())
    if index.isna().any():
        raise TableError(
            f"every step needs a time, but {where(int(np.argmax(index.isna())))} has none"
        )
    times = to_nanoseconds(index)
    grid, position = regular_grid(times, where, options.step)
    lat, lon = _find_coordinates(data, axes, options)
    empty = np.full((len(grid), *values.shape[1:]), np.nan)
    cube = make_cube(empty, grid, names, measured, lat=lat, lon=lon)
    cube = _annotate(cube, data, variables, axes, options)
    cube = cube.copy(data=_to_grid(values, cube, position, times, options))
    check_cube(cube)
    moved = int((grid[position] != times).sum())
    joined = len(position) - len(np.unique(position))
    notes = list(missing_timestamps(len(grid), position))
    if moved:
        notes.append(f"time stamps between steps were moved to the nearest, {moved:,} in all")
    if joined:
        notes.append(
            f"time stamps given again were joined ({options.duplicates}), {joined:,} in all"
        )
    return Arrays(
        data=data,
        variables=variables,
        axes=axes,
        cube=cube,
        step_index=position,
        measurement_index=chosen,
        clock=Clock(digits=subsecond_digits(grid)),
        notes=tuple(notes),
        warnings=(*doubts, *likely_missing_codes(cube), *likely_directions(cube)),
    )


def _unfill(
    values: NDArray[np.float64],
    data: xr.Dataset,
    variables: tuple[str, ...],
    axes: dict[str, str],
    chosen: tuple[int, ...],
    options: ReadOptions,
) -> list[str]:
    """Take back what an earlier fill put in, if wanted; else say that it is there."""
    doubts = []
    for number, variable in enumerate(variables):
        before = np.zeros(1, dtype=bool)
        for name in find_fill_flags(data, variable):
            before = before | (_to_array(data[name], axes) == FILLED)
        if not before.any():
            continue
        if "measurement" in axes:
            before, part = (np.take(before, chosen, axis=-1) if chosen else before), values
        else:
            part = values[..., number]
        if options.refill:
            part[before] = np.nan
        else:
            doubts.append(
                f"cells of {variable} that were filled before, {int(before.sum()):,} in all, are "
                "taken as measured; to fill them anew, give --refill"
            )
    return doubts


def _annotate(
    cube: xr.DataArray,
    data: xr.Dataset,
    variables: tuple[str, ...],
    axes: dict[str, str],
    options: ReadOptions,
) -> xr.DataArray:
    """The cube with what the data set says about its measurements."""
    measured = [str(name) for name in cube["measurement"].to_numpy()]
    units: dict[str, str] = {}
    directions: list[str] = []
    if "measurement" in axes:
        axis = axes["measurement"]
        labels = _read_labels(data, axis)
        rows = [labels.index(name) for name in measured]
        for name in ("units", "is_direction", "valid_min", "valid_max"):
            if name in data.variables and data[name].dims == (axis,):
                cube = cube.assign_coords({name: ("measurement", data[name].to_numpy()[rows])})
    else:
        attrs = {name: data[name].attrs for name in variables}
        units = {name: str(a["units"]) for name, a in attrs.items() if "units" in a}
        directions = [name for name, a in attrs.items() if _is_direction(a)]
    return annotate(cube, options, units, directions)


def _find_variables(data: xr.Dataset, options: ReadOptions) -> tuple[str, ...]:
    beside = {
        word
        for variable in data.values()
        for word in str(variable.attrs.get("ancillary_variables", "")).split()
    }
    places = {find_name([str(name) for name in data.variables], names) for names in (LAT, LON)}
    found = [
        str(name)
        for name, variable in data.data_vars.items()
        if variable.dtype.kind in "fiu"
        and variable.ndim
        and "flag_values" not in variable.attrs
        and name not in beside | places
        and any(_is_time(data, str(dim)) for dim in variable.dims)
    ]
    if not found:
        raise TableError(
            "a data set needs at least one variable of numbers along a time axis, but found "
            f"{', '.join(f'{n}{v.dims}' for n, v in data.variables.items()) or 'nothing'}. If time "
            "is not decoded as dates, give it units such as 'hours since 2020-01-01'"
        )
    if len(found) == 1 and find_name([str(dim) for dim in data[found[0]].dims], MEASUREMENT):
        return tuple(found)  # the measurements stand along an axis
    for name in options.measurements:
        if name not in found:
            raise TableError(f"--measurements: {unknown('variable', name, found)}")
    return tuple(name for name in found if not options.measurements or name in options.measurements)


def _is_time(data: xr.Dataset, dim: str) -> bool:
    return dim in data.coords and np.issubdtype(data[dim].dtype, np.datetime64)


def _find_axes(data: xr.Dataset, variables: tuple[str, ...]) -> dict[str, str]:
    dims = [str(dim) for dim in data[variables[0]].dims]
    for name in variables[1:]:
        if set(data[name].dims) != set(dims):
            raise TableError(
                f"all variables must have the same axes, but '{name}' has {data[name].dims} and "
                f"'{variables[0]}' has {tuple(dims)}. Choose with --measurements"
            )
    axes = {"time": next(dim for dim in dims if _is_time(data, dim))}
    rest = [dim for dim in dims if dim != axes["time"]]
    kind = find_name(rest, MEASUREMENT) if len(variables) == 1 else None
    if kind is None and len(variables) == 1 and len(rest) == 2 and find_name(rest, LOCATION):
        kind = next(dim for dim in rest if dim != find_name(rest, LOCATION))
    if kind is not None:
        rest.remove(kind)
    if len(rest) > 1:
        place = find_name(rest, LOCATION)
        raise TableError(
            "besides time a variable may have one axis of stations"
            + (" and one of measurements" if place else "")
            + f", but '{variables[0]}' has {tuple(dims)}. Put the others together first, for "
            f"example data.stack(location={tuple(rest)})"
        )
    return axes | ({"location": rest[0]} if rest else {}) | ({"measurement": kind} if kind else {})


def _read_labels(data: xr.Dataset, dim: str) -> list[str]:
    """Names along an axis: its coordinate, or the variable that CF marks as the station's id."""
    if dim in data.coords:
        return [_to_text(label) for label in data[dim].to_numpy()]
    for variable in data.variables.values():
        if variable.dims == (dim,) and variable.attrs.get("cf_role") == "timeseries_id":
            return [_to_text(label) for label in variable.to_numpy()]
    return [str(number) for number in range(data.sizes[dim])]


def _to_text(label: object) -> str:
    return (label.decode(errors="replace") if isinstance(label, bytes) else str(label)).strip()


def _to_array(variable: xr.DataArray, axes: dict[str, str]) -> NDArray[np.float64]:
    """Values as (time, location[, measurement])."""
    dims = [axes[axis] for axis in DIMS if axis in axes]
    block = variable.transpose(*dims).to_numpy().astype(np.float64)
    if not {"_FillValue", "missing_value"} & {*variable.encoding, *variable.attrs}:
        block[block == NETCDF_DEFAULT_FILL] = np.nan
    return block if "location" in axes else np.expand_dims(block, 1)


def _to_grid(
    values: NDArray[np.float64],
    cube: xr.DataArray,
    position: NDArray[np.int64],
    times: NDArray[np.datetime64],
    options: ReadOptions,
) -> NDArray[np.float64]:
    twice = pd.Series(position).duplicated().to_numpy()
    if twice.any() and options.duplicates is None:
        raise TableError(
            f"a cell may be given once, but time {pd.Timestamp(times[np.argmax(twice)])} is there "
            "twice. Say what to take: --duplicates mean or --duplicates first"
        )
    whole = np.full(cube.shape, np.nan)
    if not twice.any():
        whole[position] = values
        return whole
    step, place, kind = np.nonzero(np.isfinite(values))
    angles = is_direction(cube)[kind]
    numbers = values[step, place, kind]
    combine_duplicates(
        whole, (position[step], place, kind), numbers, str(options.duplicates), angles
    )
    return whole


def _find_coordinates(
    data: xr.Dataset, axes: dict[str, str], options: ReadOptions
) -> tuple[list[float] | None, list[float] | None]:
    names = [str(name) for name in data.variables]
    found = [find_name(names, LAT), find_name(names, LON)]
    if not options.coordinates or options.locations is not None or None in found:
        return None, None
    dims = (axes["location"],) if "location" in axes else ()
    blocks = [data[name] for name in found if name is not None]
    alone = "location" not in axes or data.sizes[axes["location"]] == 1
    if any(block.dims != dims and not (alone and block.size == 1) for block in blocks):
        return None, None
    lat, lon = (block.to_numpy().astype(float).reshape(-1).tolist() for block in blocks)
    return lat, lon


def _is_direction(attrs: dict[str, object]) -> bool:
    if attrs.get("angle") == "direction":
        return True
    name = str(attrs.get("standard_name", ""))
    return name.endswith("direction") and str(attrs.get("units", "")) in DEGREE_UNITS
