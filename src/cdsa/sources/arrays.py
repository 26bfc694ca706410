"""Labelled arrays (xarray, NetCDF, Zarr): understood as a cube, and written back following CF.

Two forms are understood: one variable per measurement with the axes (time, station), as in a CF
time-series file, and one variable with the axes (time, station, measurement). Axes may have other
names and any order.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.cube import AXES, SOURCES, describe, make_cube, unit_of
from cdsa.errors import TableError, unknown
from cdsa.sources.columns import LAT, LOCATION, LON, MEASUREMENT, missing_codes, named
from cdsa.sources.options import ReadOptions
from cdsa.sources.tables import ONE
from cdsa.times import Clock, regular_grid

CONVENTIONS = "CF-1.11"
DEGREES = frozenset({"degree", "degrees", "deg", "°"})


@dataclass(frozen=True, eq=False)
class Arrays:
    """The user's data set, which of its axes is what, and the cube made of it."""

    data: xr.Dataset
    variables: tuple[str, ...]
    axes: dict[str, str]
    """Our name of an axis -> the data set's name; an axis it does not have is absent."""

    cube: xr.DataArray
    clock: Clock
    notes: tuple[str, ...]

    @property
    def layout(self) -> str:
        """The layout in words."""
        form = "a variable per measurement" if "measurement" not in self.axes else "one variable"
        return f"arrays: {form}, axes {', '.join(self.axes.values())}"

    def filled(self, result: xr.Dataset) -> xr.Dataset:
        """The user's data set with its gaps filled, and beside each variable its sources."""
        whole = self.data
        time = self.axes["time"]
        if not np.array_equal(whole[time].to_numpy(), self.cube["time"].to_numpy()):
            whole = whole.drop_vars(self.variables).drop_duplicates(time)
            whole = whole.reindex({time: self.cube["time"].to_numpy()}, method="nearest")
        for variable in self.variables:
            old = self.data[variable]
            for name, part in parts_of(result, variable).items():
                if "measurement" not in self.axes:
                    part = part.sel(measurement=variable)
                known = {axis: self.axes[axis] for axis in part.dims if axis in self.axes}
                part = part.isel({axis: 0 for axis in part.dims if axis not in self.axes})
                part = part.drop_vars(part.coords).rename(known).transpose(*old.dims)
                whole[name] = part.astype(old.dtype if _holds(old.dtype, part) else part.dtype)
                whole[name].attrs = dict(old.attrs) if name == variable else part.attrs
                if name == variable:
                    whole[name].encoding = old.encoding
            _link(whole, variable)
        return with_cf(whole, self.axes)


def _holds(dtype: np.dtype, part: xr.DataArray) -> bool:
    """Whether values of this type can say all that `part` says."""
    if part.dtype == np.int8:
        return False
    return np.issubdtype(dtype, np.floating) or not bool(part.isnull().any())


def parts_of(result: xr.Dataset, variable: str) -> dict[str, xr.DataArray]:
    """A filled variable and what stands beside it in a file: source flags, lower and upper ends."""
    stem = "" if variable == "value" else f"{variable}_"
    parts = {variable: result["value"]}
    flags = xr.zeros_like(result["source"], dtype=np.int8)
    for flag, word in enumerate(SOURCES):
        flags = flags.where(result["source"] != word, np.int8(flag))
    flags.attrs = {
        "long_name": f"where each {variable} comes from",
        "standard_name": "status_flag",
        "flag_values": np.arange(len(SOURCES), dtype=np.int8),
        "flag_meanings": " ".join(SOURCES),
    }
    parts[f"{stem}source"] = flags
    for end in ("lower", "upper"):
        if end in result:
            parts[f"{stem}{end}"] = result[end].assign_attrs(long_name=f"{end} end of {variable}")
    return parts


def _link(data: xr.Dataset, variable: str) -> None:
    stem = "" if variable == "value" else f"{variable}_"
    beside = [f"{stem}{part}" for part in ("source", "lower", "upper") if f"{stem}{part}" in data]
    data[variable].attrs["ancillary_variables"] = " ".join(beside)


def to_arrays(result: xr.Dataset) -> xr.Dataset:
    """A filled cube as a CF data set with one variable per measurement."""
    cube = result["value"]
    axes = {"time": "time", "location": "location"}
    keep = [name for name in ("lat", "lon") if name in cube.coords]
    data = xr.Dataset(coords={name: cube[name] for name in ("time", "location", *keep)})
    units = unit_of(cube)
    for name, unit in units.items():
        variable = name.replace("/", "_")
        for part_name, part in parts_of(result, variable).items():
            bare = part.sel(measurement=name)
            data[part_name] = bare.drop_vars([c for c in bare.coords if c not in data.coords])
            data[part_name].attrs = dict(part.attrs)
        data[variable].attrs = {"long_name": name} | ({"units": unit} if unit else {})
        _link(data, variable)
    return with_cf(data, axes)


def with_cf(data: xr.Dataset, axes: dict[str, str]) -> xr.Dataset:
    """The data set with the CF attributes it lacks; those it has stay."""
    known: dict[str, dict[str, str]] = {axes["time"]: {"standard_name": "time", "axis": "T"}}
    if "location" in axes:
        known[axes["location"]] = {"cf_role": "timeseries_id", "long_name": "station"}
    for names, word, units in (
        (LAT, "latitude", "degrees_north"),
        (LON, "longitude", "degrees_east"),
    ):
        place = named([str(name) for name in data.variables], names)
        if place is not None:
            known[place] = {"standard_name": word, "units": units}
            data = data.set_coords(place)
    for name, attrs in known.items():
        if name in data.variables:
            data[name].attrs = attrs | data[name].attrs
    data.attrs = data.attrs | {"Conventions": CONVENTIONS, "featureType": "timeSeries"}
    return data


def read_arrays(data: xr.Dataset | xr.DataArray, options: ReadOptions) -> Arrays:
    """Understand labelled arrays as a cube."""
    if isinstance(data, xr.DataArray):
        data = data.to_dataset(name=data.name or "value")
    variables = _variables(data, options)
    axes = _axes(data, variables)
    labels = {
        axis: _labels(data, axes[axis]) for axis in ("location", "measurement") if axis in axes
    }
    names = labels.get("location", [ONE])
    measured = labels.get("measurement", list(variables))
    values = np.stack([_block(data[name], axes) for name in variables], axis=-1)
    values = values[..., 0] if "measurement" in axes else values
    for code in missing_codes(options):
        values[values == code] = np.nan

    def where(step: int) -> str:
        return f"step {step} of axis '{axes['time']}'"

    times = data[axes["time"]].to_numpy().astype("datetime64[ns]")
    grid, position = regular_grid(times, where, options.step)
    on_grid = _on_grid(values, grid, position, times, options)
    lat, lon = _places(data, axes, options)
    cube = make_cube(on_grid, grid, names, measured, lat=lat, lon=lon)
    attrs = {m: data[v].attrs for m, v in zip(measured, variables, strict=False)}
    units = {name: str(a["units"]) for name, a in attrs.items() if "units" in a}
    directions = [name for name, a in attrs.items() if _is_direction(a)]
    if "measurement" in axes:
        beside = {
            n: data[n].to_numpy() for n in ("unit", "angle", "at_least", "at_most") if n in data
        }
        cube = cube.assign_coords({n: ("measurement", entries) for n, entries in beside.items()})
        units = dict(zip(measured, beside["unit"], strict=True)) if "unit" in beside else {}
        directions = []
    cube = describe(
        cube,
        units=units | dict(options.units),
        angles=[*directions, *options.angles],
        bounds={name: (low, high) for name, low, high in options.bounds},
    )
    absent = len(grid) - len(np.unique(position))
    notes = (
        (f"{absent:,} of {len(grid):,} time stamps were absent and became gaps",) if absent else ()
    )
    return Arrays(data, variables, axes, cube, Clock(), notes)


def _variables(data: xr.Dataset, options: ReadOptions) -> tuple[str, ...]:
    beside = {
        word
        for variable in data.values()
        for word in str(variable.attrs.get("ancillary_variables", "")).split()
    }
    places = {named([str(name) for name in data.variables], names) for names in (LAT, LON)}
    found = [
        str(name)
        for name, variable in data.data_vars.items()
        if np.issubdtype(variable.dtype, np.number)
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
    for name in options.measurements:
        if name not in found:
            raise TableError(f"--measurements: {unknown('variable', name, found)}")
    return tuple(name for name in found if not options.measurements or name in options.measurements)


def _is_time(data: xr.Dataset, dim: str) -> bool:
    return dim in data.coords and np.issubdtype(data[dim].dtype, np.datetime64)


def _axes(data: xr.Dataset, variables: tuple[str, ...]) -> dict[str, str]:
    dims = [str(dim) for dim in data[variables[0]].dims]
    for name in variables[1:]:
        if set(data[name].dims) != set(dims):
            raise TableError(
                f"all variables must have the same axes, but '{name}' has {data[name].dims} and "
                f"'{variables[0]}' has {tuple(dims)}. Choose with --measurements"
            )
    axes = {"time": next(dim for dim in dims if _is_time(data, dim))}
    rest = [dim for dim in dims if dim != axes["time"]]
    kind = named(rest, MEASUREMENT) if len(variables) == 1 else None
    if kind is not None:
        rest.remove(kind)
    if len(rest) > 1:
        place = named(rest, LOCATION)
        raise TableError(
            "besides time a variable may have one axis of stations"
            + (" and one of measurements" if place else "")
            + f", but '{variables[0]}' has {tuple(dims)}. Put the others together first, for "
            f"example data.stack(location={tuple(rest)})"
        )
    return axes | ({"location": rest[0]} if rest else {}) | ({"measurement": kind} if kind else {})


def _labels(data: xr.Dataset, dim: str) -> list[str]:
    """Names along an axis: its coordinate, or the variable that CF marks as the station's id."""
    if dim in data.coords:
        return [str(label) for label in data[dim].to_numpy()]
    for variable in data.variables.values():
        if variable.dims == (dim,) and variable.attrs.get("cf_role") == "timeseries_id":
            return [str(label) for label in variable.to_numpy()]
    return [str(number) for number in range(data.sizes[dim])]


def _block(variable: xr.DataArray, axes: dict[str, str]) -> NDArray[np.float64]:
    """Values as (time, location[, measurement])."""
    dims = [axes[axis] for axis in AXES if axis in axes]
    block = variable.transpose(*dims).to_numpy().astype(np.float64)
    return block if "location" in axes else np.expand_dims(block, 1)


def _on_grid(
    values: NDArray[np.float64],
    grid: NDArray[np.datetime64],
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
    whole = np.full((len(grid), *values.shape[1:]), np.nan)
    if not twice.any():
        whole[position] = values
        return whole
    groups = pd.DataFrame(values.reshape(len(values), -1)).groupby(position)
    joined = groups.mean() if options.duplicates == "mean" else groups.first()
    whole[joined.index.to_numpy()] = joined.to_numpy().reshape(-1, *values.shape[1:])
    return whole


def _places(
    data: xr.Dataset, axes: dict[str, str], options: ReadOptions
) -> tuple[list[float] | None, list[float] | None]:
    names = [str(name) for name in data.variables]
    found = [named(names, LAT), named(names, LON)]
    if not options.coordinates or options.locations is not None or None in found:
        return None, None
    dims = (axes["location"],) if "location" in axes else ()
    blocks = [data[name] for name in found if name is not None]
    if any(block.dims != dims for block in blocks):
        return None, None
    lat, lon = (np.atleast_1d(block.to_numpy().astype(float)).tolist() for block in blocks)
    return lat, lon


def _is_direction(attrs: dict[str, object]) -> bool:
    name = str(attrs.get("standard_name", ""))
    return name.endswith("direction") and str(attrs.get("units", "")) in DEGREES
