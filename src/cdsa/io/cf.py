"""Datasets that follow the CF conventions: attributes, status flags, unique names."""

import re
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
import xarray as xr

from cdsa.core.cube import SOURCES, is_direction, units_of
from cdsa.io.columns import LAT, LON, find_name

CONVENTIONS = "CF-1.8"
FLAG_MEANINGS = " ".join(SOURCES)

AncillaryNames = dict[tuple[str, str], str]
"""(variable, kind) -> name in the dataset; kind is value, source, lower or upper."""


def to_cf_dataset(result: xr.Dataset) -> xr.Dataset:
    """A cube, filled or not, as a CF dataset with one variable (location, time) per measurement."""
    cube = result["value"]
    coords = ["time", "location", *(name for name in ("lat", "lon") if name in cube.coords)]
    data = xr.Dataset({name: (cube[name].dims, cube[name].to_numpy()) for name in coords})
    data = data.set_coords(coords)
    data["time"].encoding = {"dtype": "float64", "units": "seconds since 1970-01-01"}
    used = {"time", "location", "lat", "lon"}  # which readers take for coordinates
    allowed = {n: re.sub(r"/|^\.+$", "_", str(n)) for n in cube["measurement"].to_numpy()}
    variables = {name: unique_name(plain, used) for name, plain in allowed.items()}
    names = ancillary_names(list(variables.values()), coords, result)
    units, directions = units_of(cube), dict(zip(variables, is_direction(cube), strict=True))
    for name, variable in variables.items():
        for kind, values in output_variables(result, variable).items():
            series = values.sel(measurement=name).transpose("location", "time")
            data[names[variable, kind]] = (series.dims, series.to_numpy(), values.attrs)
        attrs = {"long_name": str(name)}
        if directions[name]:
            attrs |= {"units": "degree", "angle": "direction"}
        elif units[name]:
            attrs["units"] = units[name]
        data[variable].attrs = attrs
        link_ancillary(data, variable, names)
    action = describe_result(result)
    suffix = f", {action}" if "source" in result else ""
    data.attrs["title"] = f"{cube.sizes['location']} stations{suffix}"
    return add_cf_attributes(data, {"time": "time", "location": "location"}, action)


def output_variables(result: xr.Dataset, variable: str) -> dict[str, xr.DataArray]:
    """The values of a filled variable, and its source flags and lower and upper bounds."""
    if "source" not in result:
        return {"value": result["value"]}
    flags = xr.zeros_like(result["source"], dtype=np.int8)
    for flag, source in enumerate(SOURCES):
        flags = flags.where(result["source"] != source, np.int8(flag))
    flags.attrs = {
        "long_name": f"source of each value of {variable}",
        "standard_name": "status_flag",
        "flag_values": np.arange(len(SOURCES), dtype=np.int8),
        "flag_meanings": FLAG_MEANINGS,
    }
    level = result.attrs.get("interval")
    interval = f"the {level:.0%} prediction interval of " if level else ""
    bounds = {
        bound: result[bound].assign_attrs(long_name=f"{bound} bound of {interval}{variable}")
        for bound in ("lower", "upper")
        if bound in result
    }
    return {"value": result["value"], "source": flags, **bounds}


def ancillary_names(
    variables: Sequence[str], taken: Sequence[str], result: xr.Dataset
) -> AncillaryNames:
    """Unique names of the ancillary variables of each variable."""
    names: AncillaryNames = {}
    used = {*variables, *taken}
    for variable in variables:
        names[variable, "value"] = variable
        for kind in [k for k in ("source", "lower", "upper") if k in result]:
            name = kind if variable == "value" else f"{variable}_{kind}"
            names[variable, kind] = unique_name(name, used)
    return names


def unique_name(name: str, used: set[str]) -> str:
    """The name, with a number if it is in `used`, to which it is added."""
    unique, number = name, 1
    while unique in used:
        number += 1
        unique = f"{name}_{number}"
    used.add(unique)
    return unique


def link_ancillary(data: xr.Dataset, variable: str, names: AncillaryNames) -> None:
    """List the ancillary variables of a variable in its attributes."""
    linked = str(data[variable].attrs.get("ancillary_variables", "")).split()
    linked += [n for (v, kind), n in names.items() if v == variable and kind != "value"]
    if linked:
        data[variable].attrs["ancillary_variables"] = " ".join(dict.fromkeys(linked))


def find_fill_flags(data: xr.Dataset, variable: str) -> list[str]:
    """Names of the flags that an earlier fill wrote for a variable."""
    linked = str(data[variable].attrs.get("ancillary_variables", "")).split()
    return [
        name
        for name in linked
        if name in data
        and f"{FLAG_MEANINGS} ".startswith(f"{data[name].attrs.get('flag_meanings')} ")
        and set(data[name].dims) == set(data[variable].dims)
    ]


def describe_result(result: xr.Dataset) -> str:
    """What was done to a cube, for the history of a file."""
    if "source" not in result:
        return "written"
    return "forecast" if (result["source"] == "forecast").any() else "gaps filled"


def add_cf_attributes(data: xr.Dataset, axes: dict[str, str], action: str) -> xr.Dataset:
    """The dataset with the CF attributes it lacks and a line of history."""
    attributes: dict[str, dict[str, str]] = {axes["time"]: {"standard_name": "time", "axis": "T"}}
    if "location" in axes and not any("cf_role" in v.attrs for v in data.variables.values()):
        attributes[axes["location"]] = {"cf_role": "timeseries_id", "long_name": "station"}
    for names, standard_name, units in (
        (LAT, "latitude", "degrees_north"),
        (LON, "longitude", "degrees_east"),
    ):
        coordinate = find_name([str(name) for name in data.variables], names)
        if coordinate is not None:
            attributes[coordinate] = {"standard_name": standard_name, "units": units}
            data = data.set_coords(coordinate)
    for name, attrs in attributes.items():
        if name in data.variables:
            data[name].attrs = attrs | data[name].attrs
    conventions = str(data.attrs.get("Conventions", ""))
    if "CF-" not in conventions:
        conventions = ", ".join(filter(None, (CONVENTIONS, conventions)))
    history = [str(data.attrs.get("history", "")), f"{action} by cdsa {version('cdsa')}"]
    data.attrs = {"featureType": "timeSeries"} | data.attrs
    data.attrs |= {"Conventions": conventions, "history": "\n".join(filter(None, history))}
    return data
