"""Labelled arrays (xarray, NetCDF, Zarr): understood as a cube, and written back following CF.

Two forms are understood: one variable per measurement with the axes (time, station), as in a CF
time-series file, and one variable with the axes (time, station, measurement). Axes may have other
names and any order.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.cube import (
    AXES,
    SOURCES,
    angle_flags,
    check_cube,
    describe,
    make_cube,
    unit_of,
)
from cdsa.errors import TableError, unknown
from cdsa.sources.cells import join, likely_angles, likely_codes
from cdsa.sources.columns import LAT, LOCATION, LON, MEASUREMENT, missing_codes, named
from cdsa.sources.options import ReadOptions
from cdsa.sources.tables import ONE
from cdsa.times import Clock, digits_of, regular_grid, to_nanoseconds

CONVENTIONS = "CF-1.8"
MEANINGS = " ".join(SOURCES)
NEVER_WRITTEN = float(np.float32(9.969209968386869e36))  # what NetCDF leaves where nothing is put
DEGREES = frozenset({"degree", "degrees", "deg", "°"})


@dataclass(frozen=True, eq=False)
class Arrays:
    """The user's data set, which of its axes is what, and the cube made of it."""

    data: xr.Dataset
    variables: tuple[str, ...]
    axes: dict[str, str]
    """Our name of an axis -> the data set's name; an axis it does not have is absent."""

    cube: xr.DataArray
    position: NDArray[np.int64]
    """The step of the cube behind each of the data set's."""

    chosen: tuple[str, ...]
    """Labels taken from the measurement axis; all if empty."""

    clock: Clock
    notes: tuple[str, ...]
    doubts: tuple[str, ...]

    @property
    def layout(self) -> str:
        """The layout in words."""
        form = "a variable per measurement" if "measurement" not in self.axes else "one variable"
        return f"arrays: {form}, axes {', '.join(self.axes.values())}"

    def filled(self, result: xr.Dataset) -> xr.Dataset:
        """The user's data set with its gaps filled, and beside each variable its sources."""
        whole = self._on_grid()
        names = beside_names(self.variables, [str(name) for name in self.data.variables], result)
        for variable in self.variables:
            old = self.data[variable]
            for kind, part in parts_of(result, variable).items():
                part = self._own(part, variable)
                if kind == "value":
                    gaps = self._own(self.cube.isnull(), variable).to_numpy()
                    part = part.copy(data=_packable(part.to_numpy(), gaps, old))
                    part.attrs, part.encoding = dict(old.attrs), dict(old.encoding)
                whole[names[variable, kind]] = part
            _link(whole, variable, names)
        return with_cf(whole, self.axes)

    def _own(self, cube: xr.DataArray, variable: str) -> xr.DataArray:
        """The part of a cube that one variable holds, with the variable's own axes."""
        part = cube if "measurement" in self.axes else cube.sel(measurement=variable)
        part = part.isel({axis: 0 for axis in part.dims if axis not in self.axes})
        names = {axis: self.axes[str(axis)] for axis in part.dims}
        return part.drop_vars(part.coords).rename(names).transpose(*self.data[variable].dims)

    def _on_grid(self) -> xr.Dataset:
        """A copy of the data set on the regular grid, with gaps where stamps were absent."""
        time, grid = self.axes["time"], self.cube["time"].to_numpy()
        whole = self.data.drop_vars(self.variables)
        if self.chosen:  # only some labels of the measurement axis were read
            whole = whole.sel({self.axes["measurement"]: list(self.chosen)})
        if not np.array_equal(self.data[time].to_numpy(), grid):
            first = np.unique(self.position, return_index=True)[1]
            attrs = self.data[time].attrs
            whole = whole.isel({time: first}).assign_coords({time: grid[self.position[first]]})
            whole = whole.reindex({time: grid})
            whole[time].attrs = attrs
        return whole.copy()


def _packable(
    values: NDArray[np.floating], gaps: NDArray[np.bool_], old: xr.DataArray
) -> NDArray[np.generic]:
    """Filled values that the variable's own type, or the one it is packed in, can hold."""
    packed = np.dtype(old.encoding.get("dtype") or old.dtype)
    if packed.kind in "iu" and not np.isnan(values).all():
        limits = np.iinfo(packed)
        scale = float(old.encoding.get("scale_factor", 1))
        offset = float(old.encoding.get("add_offset", 0))
        # the ends of the range are left out: one of them is usually the mark for missing
        ends = sorted(((limits.min + 1) * scale + offset, (limits.max - 1) * scale + offset))
        values = np.where(gaps, np.clip(values, ends[0], ends[1]), values)
    if old.dtype.kind in "iu":
        if np.isnan(values).any():
            return values
        values = np.where(gaps, np.rint(values), values)
    return values.astype(old.dtype)


def parts_of(result: xr.Dataset, variable: str) -> dict[str, xr.DataArray]:
    """A filled variable and what stands beside it in a file: source flags, lower and upper ends."""
    flags = xr.zeros_like(result["source"], dtype=np.int8)
    for flag, word in enumerate(SOURCES):
        flags = flags.where(result["source"] != word, np.int8(flag))
    flags.attrs = {
        "long_name": f"where each {variable} comes from",
        "standard_name": "status_flag",
        "flag_values": np.arange(len(SOURCES), dtype=np.int8),
        "flag_meanings": MEANINGS,
    }
    ends = {
        end: result[end].assign_attrs(long_name=f"{end} end of {variable}")
        for end in ("lower", "upper")
        if end in result
    }
    return {"value": result["value"], "source": flags, **ends}


def beside_names(
    variables: Sequence[str], taken: Sequence[str], result: xr.Dataset
) -> dict[tuple[str, str], str]:
    """A free name for everything that stands beside a variable, by (variable, kind)."""
    names: dict[tuple[str, str], str] = {}
    used = {*variables, *taken}
    for variable in variables:
        names[variable, "value"] = variable
        for kind in [k for k in ("source", "lower", "upper") if k in result]:
            plain = kind if variable == "value" else f"{variable}_{kind}"
            names[variable, kind] = _free(plain, used)
    return names


def _free(name: str, used: set[str]) -> str:
    """The name, or the first of its kin that nobody has; it is used from now on."""
    chosen, number = name, 1
    while chosen in used:
        number += 1
        chosen = f"{name}_{number}"
    used.add(chosen)
    return chosen


def _link(data: xr.Dataset, variable: str, names: dict[tuple[str, str], str]) -> None:
    """Name what stands beside a variable in its attributes, as CF wants."""
    beside = str(data[variable].attrs.get("ancillary_variables", "")).split()
    beside += [n for (v, kind), n in names.items() if v == variable and kind != "value"]
    data[variable].attrs["ancillary_variables"] = " ".join(dict.fromkeys(beside))


def to_arrays(result: xr.Dataset) -> xr.Dataset:
    """A filled cube as a CF data set with one variable per measurement, stations before times."""
    cube = result["value"]
    keep = ["time", "location", *(name for name in ("lat", "lon") if name in cube.coords)]
    data = xr.Dataset({name: (cube[name].dims, cube[name].to_numpy()) for name in keep})
    data = data.set_coords(keep)
    data["time"].encoding = {"dtype": "float64", "units": "seconds since 1970-01-01"}
    used = {"time", "location", "lat", "lon"}  # what every reader takes for coordinates
    allowed = {n: re.sub(r"/|^\.+$", "_", str(n)) for n in cube["measurement"].to_numpy()}
    variables = {name: _free(plain, used) for name, plain in allowed.items()}
    names = beside_names(list(variables.values()), keep, result)
    angles = dict(zip(variables, angle_flags(cube), strict=True))
    for name, variable in variables.items():
        for kind, part in parts_of(result, variable).items():
            own = part.sel(measurement=name).transpose("location", "time")
            data[names[variable, kind]] = (own.dims, own.to_numpy(), part.attrs)
        unit = unit_of(cube)[name]
        told = {"units": "degree", "angle": "direction"} if angles[name] else {"units": unit}
        data[variable].attrs = {"long_name": str(name)} | (told if angles[name] or unit else {})
        _link(data, variable, names)
    data.attrs["title"] = f"{cube.sizes['location']} stations, gaps filled"
    return with_cf(data, {"time": "time", "location": "location"})


def with_cf(data: xr.Dataset, axes: dict[str, str]) -> xr.Dataset:
    """The data set with the CF attributes it lacks; those it has stay."""
    known: dict[str, dict[str, str]] = {axes["time"]: {"standard_name": "time", "axis": "T"}}
    if "location" in axes and not any("cf_role" in v.attrs for v in data.variables.values()):
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
    conventions = str(data.attrs.get("Conventions", ""))
    if "CF-" not in conventions:
        conventions = ", ".join(word for word in (CONVENTIONS, conventions) if word)
    history = [str(data.attrs.get("history", "")), f"gaps filled by cdsa {version('cdsa')}"]
    data.attrs = {"featureType": "timeSeries"} | data.attrs
    data.attrs |= {"Conventions": conventions, "history": "\n".join(filter(None, history))}
    return data


def read_arrays(data: xr.Dataset, options: ReadOptions) -> Arrays:
    """Understand labelled arrays as a cube."""
    variables = _variables(data, options)
    axes = _axes(data, variables)
    names = _labels(data, axes["location"]) if "location" in axes else [ONE]
    values = np.stack([_block(data[name], axes) for name in variables], axis=-1)
    measured = list(variables)
    chosen: tuple[str, ...] = ()
    if "measurement" in axes:
        measured, values = _labels(data, axes["measurement"]), values[..., 0]
        if options.measurements:
            for name in options.measurements:
                if name not in measured:
                    raise TableError(f"--measurements: {unknown('measurement', name, measured)}")
            chosen = tuple(name for name in measured if name in options.measurements)
            values = np.take(values, [measured.index(name) for name in chosen], axis=-1)
            measured = list(chosen)
    for code in missing_codes(options):
        values[values == code] = np.nan
    doubts = _unfill(values, data, variables, axes, options)

    def where(step: int) -> str:
        return f"step {step} of axis '{axes['time']}'"

    index = pd.DatetimeIndex(data[axes["time"]].to_numpy())
    if index.isna().any():
        raise TableError(
            f"every step needs a time, but {where(int(np.argmax(index.isna())))} has none"
        )
    times = to_nanoseconds(index)
    grid, position = regular_grid(times, where, options.step)
    lat, lon = _places(data, axes, options)
    empty = np.full((len(grid), *values.shape[1:]), np.nan)
    cube = make_cube(empty, grid, names, measured, lat=lat, lon=lon)
    cube = _described(cube, data, variables, axes, options)
    cube = cube.copy(data=_on_grid(values, cube, position, times, options))
    check_cube(cube)
    absent = len(grid) - len(np.unique(position))
    notes = (
        [f"{absent:,} of {len(grid):,} time stamps were absent and became gaps"] if absent else []
    )
    return Arrays(
        data=data,
        variables=variables,
        axes=axes,
        cube=cube,
        position=position,
        chosen=chosen,
        clock=Clock(digits=digits_of(grid)),
        notes=tuple(notes),
        doubts=(*doubts, *likely_codes(cube), *likely_angles(cube)),
    )


def _unfill(
    values: NDArray[np.float64],
    data: xr.Dataset,
    variables: tuple[str, ...],
    axes: dict[str, str],
    options: ReadOptions,
) -> list[str]:
    """Take back what an earlier fill put in, if wanted; else say that it is there."""
    doubts = []
    for number, variable in enumerate(variables):
        beside = str(data[variable].attrs.get("ancillary_variables", "")).split()
        flags = [
            data[n] for n in beside if n in data and data[n].attrs.get("flag_meanings") == MEANINGS
        ]
        if flags and set(flags[0].dims) == set(data[variable].dims):
            filled = _block(flags[0], axes) == SOURCES.index("filled")
            if options.refill:
                part = values if "measurement" in axes else values[..., number]
                part[filled] = np.nan
            elif filled.any():
                doubts.append(
                    f"{int(filled.sum()):,} cells of {variable} were filled before and are taken "
                    "as measured; to fill them anew, give --refill"
                )
    return doubts


def _described(
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
        labels = _labels(data, axis)
        rows = [labels.index(name) for name in measured]
        for name in ("unit", "angle", "at_least", "at_most"):
            if name in data.variables and data[name].dims == (axis,):
                cube = cube.assign_coords({name: ("measurement", data[name].to_numpy()[rows])})
    else:
        attrs = {name: data[name].attrs for name in variables}
        units = {name: str(a["units"]) for name, a in attrs.items() if "units" in a}
        directions = [name for name, a in attrs.items() if _is_direction(a)]
    return describe(
        cube,
        units=units | dict(options.units),
        angles=[*directions, *options.angles],
        bounds={name: (low, high) for name, low, high in options.bounds},
    )


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
    if len(found) == 1 and named([str(dim) for dim in data[found[0]].dims], MEASUREMENT):
        return tuple(found)  # the measurements stand along an axis
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
        return [_text(label) for label in data[dim].to_numpy()]
    for variable in data.variables.values():
        if variable.dims == (dim,) and variable.attrs.get("cf_role") == "timeseries_id":
            return [_text(label) for label in variable.to_numpy()]
    return [str(number) for number in range(data.sizes[dim])]


def _text(label: object) -> str:
    return (label.decode(errors="replace") if isinstance(label, bytes) else str(label)).strip()


def _block(variable: xr.DataArray, axes: dict[str, str]) -> NDArray[np.float64]:
    """Values as (time, location[, measurement])."""
    dims = [axes[axis] for axis in AXES if axis in axes]
    block = variable.transpose(*dims).to_numpy().astype(np.float64)
    if not {"_FillValue", "missing_value"} & {*variable.encoding, *variable.attrs}:
        block[block == NEVER_WRITTEN] = np.nan
    return block if "location" in axes else np.expand_dims(block, 1)


def _on_grid(
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
    angles = angle_flags(cube)[kind]
    numbers = values[step, place, kind]
    join(whole, (position[step], place, kind), numbers, str(options.duplicates), angles)
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
    alone = "location" not in axes or data.sizes[axes["location"]] == 1
    if any(block.dims != dims and not (alone and block.size == 1) for block in blocks):
        return None, None
    lat, lon = (block.to_numpy().astype(float).reshape(-1).tolist() for block in blocks)
    return lat, lon


def _is_direction(attrs: dict[str, object]) -> bool:
    if attrs.get("angle") == "direction":
        return True
    name = str(attrs.get("standard_name", ""))
    return name.endswith("direction") and str(attrs.get("units", "")) in DEGREES
