"""From labelled arrays to a cube: the role of each axis, the values, the metadata.

Two forms are accepted: one variable per measurement with the axes (time, station), as in a CF
time-series file, and one variable with the axes (time, station, measurement). Axes may have other
names and any order.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import DEFAULT_STATION, DIMS, check_cube, is_direction, label_array
from cdsa.core.text import format_count
from cdsa.core.times import Clock, Times, regular_grid, subsecond_digits, to_nanoseconds
from cdsa.errors import ConfigError, TableError
from cdsa.io.arrays import FILLED, Arrays
from cdsa.io.assemble import annotate, combine_duplicates
from cdsa.io.cf import find_fill_flags
from cdsa.io.columns import LAT, LOCATION, LON, MEASUREMENT, check_measurements, find_name
from cdsa.io.entries import missing_codes  # fmt: skip
from cdsa.io.hints import likely_directions, likely_missing_codes, missing_timestamps
from cdsa.io.options import OPTIONS, ReadOptions

NETCDF_DEFAULT_FILL = float(np.float32(9.969209968386869e36))  # of cells that were never written
DEGREE_UNITS = frozenset({"degree", "degrees", "deg", "°"})


def parse_arrays(data: xr.Dataset, options: ReadOptions) -> Arrays:
    for option in OPTIONS.values():
        if option.tables_only and getattr(options, option.name) is not None:
            raise ConfigError(
                f"{option.command_line_flag} is for tables; the axes of labelled arrays are "
                "detected by their names and types. Leave it out"
            )
    variables = _find_variables(data, options)
    axes = _find_axes(data, variables)
    locations = _read_labels(data, axes["location"]) if "location" in axes else [DEFAULT_STATION]
    measurements, used = list(variables), data
    measurement_index: tuple[int, ...] = ()
    if "measurement" in axes:
        measurements = _read_labels(data, axes["measurement"])
        if options.measurements:
            check_measurements(options, "measurement", measurements)
            positions = [n for n, name in enumerate(measurements) if name in options.measurements]
            used = data.isel({axes["measurement"]: positions})
            measurements, measurement_index = [measurements[n] for n in positions], (*positions,)
    arrays = [_to_array(used[name], axes) for name in variables]
    values = arrays[0] if "measurement" in axes else np.stack(arrays, axis=-1)
    values[np.isin(values, missing_codes(options))] = np.nan
    warnings = _unfill(values, used, variables, axes, options)
    times, grid, step_index = _read_times(data, axes["time"], options)
    lat, lon = _find_coordinates(data, axes, options)
    empty = np.full((len(grid), *values.shape[1:]), np.nan)
    cube = label_array(empty, grid, locations, measurements, lat=lat, lon=lon)
    cube = _annotate(cube, used, variables, axes, options)
    cube = cube.copy(data=_to_grid(values, cube, step_index, times, options))
    check_cube(cube)
    return Arrays(
        data=data,
        variables=variables,
        axes=axes,
        cube=cube,
        step_index=step_index,
        measurement_index=measurement_index,
        clock=Clock(digits=subsecond_digits(grid)),
        notes=tuple(_notes(times, grid, step_index, options)),
        warnings=(*warnings, *likely_missing_codes(cube), *likely_directions(cube)),
    )


def _find_variables(data: xr.Dataset, options: ReadOptions) -> tuple[str, ...]:
    """The variables to read: numbers along a time axis, without ancillary variables and flags."""
    ancillary = {
        name
        for variable in data.values()
        for name in str(variable.attrs.get("ancillary_variables", "")).split()
    }
    coordinates = {find_name([str(name) for name in data.variables], names) for names in (LAT, LON)}
    variables = [
        str(name)
        for name, variable in data.data_vars.items()
        if variable.dtype.kind in "fiu"
        and variable.ndim
        and "flag_values" not in variable.attrs
        and name not in ancillary | coordinates
        and any(_is_time(data, str(dim)) for dim in variable.dims)
    ]
    if not variables:
        raise TableError(
            "a dataset needs at least one numeric variable along a time axis, but found "
            f"{', '.join(f'{n}{v.dims}' for n, v in data.variables.items()) or 'nothing'}. If time "
            "is not decoded as dates, give it units such as 'hours since 2020-01-01'"
        )
    if len(variables) == 1 and find_name([str(d) for d in data[variables[0]].dims], MEASUREMENT):
        return tuple(variables)  # --measurements selects along its measurement axis
    check_measurements(options, "variable", variables)
    return tuple(n for n in variables if not options.measurements or n in options.measurements)


def _is_time(data: xr.Dataset, dim: str) -> bool:
    return dim in data.coords and np.issubdtype(data[dim].dtype, np.datetime64)


def _find_axes(data: xr.Dataset, variables: tuple[str, ...]) -> dict[str, str]:
    """Axis of the cube -> dimension of the dataset."""
    dims = [str(dim) for dim in data[variables[0]].dims]
    for name in variables[1:]:
        if set(data[name].dims) != set(dims):
            raise TableError(
                f"all variables must have the same axes, but '{name}' has {data[name].dims} and "
                f"'{variables[0]}' has {tuple(dims)}. Select some with --measurements"
            )
    axes = {"time": next(dim for dim in dims if _is_time(data, dim))}
    rest = [dim for dim in dims if dim != axes["time"]]
    measurement = find_name(rest, MEASUREMENT) if len(variables) == 1 else None
    location = find_name(rest, LOCATION)
    if measurement is None and len(variables) == 1 and len(rest) == 2 and location:
        measurement = next(dim for dim in rest if dim != location)
    if measurement is not None:
        rest.remove(measurement)
    if len(rest) > 1:
        raise TableError(
            "besides time a variable may have one axis of stations"
            + (" and one of measurements" if find_name(rest, LOCATION) else "")
            + f", but '{variables[0]}' has {tuple(dims)}. Stack the others first, for example "
            f"data.stack(location={tuple(rest)})"
        )
    if rest:
        axes["location"] = rest[0]
    return axes | ({"measurement": measurement} if measurement else {})


def _read_labels(data: xr.Dataset, dim: str) -> list[str]:
    """Labels along an axis: its coordinate, or the variable that CF marks as the station's id."""
    ids = [
        variable
        for variable in data.variables.values()
        if variable.dims == (dim,) and variable.attrs.get("cf_role") == "timeseries_id"
    ]
    labels = data[dim] if dim in data.coords or not ids else ids[0]  # else numbers from 0
    texts = [x.decode(errors="replace") if isinstance(x, bytes) else x for x in labels.to_numpy()]
    return [str(text).strip() for text in texts]


def _to_array(variable: xr.DataArray, axes: dict[str, str]) -> NDArray[np.float64]:
    """Values as (time, location[, measurement])."""
    dims = [axes[axis] for axis in DIMS if axis in axes]
    values = variable.transpose(*dims).to_numpy().astype(np.float64)
    if not {"_FillValue", "missing_value"} & {*variable.encoding, *variable.attrs}:
        values[values == NETCDF_DEFAULT_FILL] = np.nan
    return values if "location" in axes else np.expand_dims(values, 1)


def _unfill(
    values: NDArray[np.float64],
    data: xr.Dataset,
    variables: tuple[str, ...],
    axes: dict[str, str],
    options: ReadOptions,
) -> list[str]:
    """Remove the cells that an earlier fill marked as filled, or warn about them."""
    warnings = []
    for number, variable in enumerate(variables):
        flags = find_fill_flags(data, variable)
        filled = np.any([_to_array(data[name], axes) == FILLED for name in flags], axis=0)
        if not filled.any():
            continue
        if options.refill:
            (values if "measurement" in axes else values[..., number])[filled] = np.nan
        else:
            warnings.append(
                f"{variable} has {format_count(int(filled.sum()), 'cell')} filled by an earlier "
                "run, read as measured; to fill again, give --refill"
            )
    return warnings


def _read_times(
    data: xr.Dataset, dim: str, options: ReadOptions
) -> tuple[Times, Times, NDArray[np.int64]]:
    """The timestamps, the regular grid, and the step of each timestamp on it."""

    def where(step: int) -> str:
        return f"step {step} of axis '{dim}'"

    index = pd.DatetimeIndex(data[dim].to_numpy())
    if not len(index):
        raise TableError(
            f"a dataset needs at least one time step, but axis '{dim}' has none. Check how the "
            "file was made"
        )
    if index.isna().any():
        raise TableError(
            f"every step needs a time, but {where(int(np.argmax(index.isna())))} has none"
        )
    times = to_nanoseconds(index)
    return times, *regular_grid(times, where, options.step)


def _find_coordinates(
    data: xr.Dataset, axes: dict[str, str], options: ReadOptions
) -> tuple[list[float] | None, list[float] | None]:
    names = [find_name([str(name) for name in data.variables], keys) for keys in (LAT, LON)]
    if not options.coordinates or options.locations is not None or None in names:
        return None, None
    dims = (axes["location"],) if "location" in axes else ()
    variables = [data[name] for name in names if name is not None]
    single = "location" not in axes or data.sizes[axes["location"]] == 1
    if any(v.dims != dims and not (single and v.size == 1) for v in variables):
        return None, None
    lat, lon = (v.to_numpy().astype(float).reshape(-1).tolist() for v in variables)
    return lat, lon


def _annotate(
    cube: xr.DataArray,
    data: xr.Dataset,
    variables: tuple[str, ...],
    axes: dict[str, str],
    options: ReadOptions,
) -> xr.DataArray:
    if "measurement" not in axes:
        attrs = {name: data[name].attrs for name in variables}
        units = {name: str(a["units"]) for name, a in attrs.items() if "units" in a}
        return annotate(cube, options, units, [n for n, a in attrs.items() if _is_direction(a)])
    for name in ("units", "is_direction", "valid_min", "valid_max", "decimals"):
        if name in data.variables and data[name].dims == (axes["measurement"],):
            cube = cube.assign_coords({name: ("measurement", data[name].to_numpy())})
    return annotate(cube, options, {})


def _is_direction(attrs: dict[str, object]) -> bool:
    if str(attrs.get("angle")) == "direction":
        return True
    name = str(attrs.get("standard_name", ""))
    return name.endswith("direction") and str(attrs.get("units", "")) in DEGREE_UNITS


def _to_grid(
    values: NDArray[np.float64],
    cube: xr.DataArray,
    step_index: NDArray[np.int64],
    times: Times,
    options: ReadOptions,
) -> NDArray[np.float64]:
    """Values on the time grid, duplicate timestamps combined."""
    duplicated = pd.Series(step_index).duplicated().to_numpy()
    if duplicated.any() and options.duplicates is None:
        raise TableError(
            f"each time may appear only once, but {pd.Timestamp(times[np.argmax(duplicated)])} "
            "occurs twice. Combine duplicates with --duplicates mean or --duplicates first"
        )
    grid = np.full(cube.shape, np.nan)
    if not duplicated.any():
        grid[step_index] = values
        return grid
    t, l, m = np.nonzero(~np.isnan(values))  # noqa: E741
    cells = step_index[t], l, m
    combine_duplicates(grid, cells, values[t, l, m], options.duplicates, is_direction(cube)[m])
    return grid


def _notes(
    times: Times, grid: Times, step_index: NDArray[np.int64], options: ReadOptions
) -> Iterator[str]:
    yield from missing_timestamps(len(grid), step_index)
    if n_moved := int((grid[step_index] != times).sum()):
        yield f"{format_count(n_moved, 'timestamp')} moved to the nearest step"
    if n_combined := len(step_index) - len(np.unique(step_index)):
        yield f"{format_count(n_combined, 'duplicate timestamp')} combined ({options.duplicates})"
