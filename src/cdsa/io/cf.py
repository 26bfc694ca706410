"""Labelled arrays as the CF conventions want them: attributes, flags, names that do not clash."""

import re
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
import xarray as xr

from cdsa.core.cube import SOURCES, is_direction, units_of
from cdsa.io.columns import LAT, LON, find_name

CONVENTIONS = "CF-1.8"


FLAG_MEANINGS = " ".join(SOURCES)


def output_variables(result: xr.Dataset, variable: str) -> dict[str, xr.DataArray]:
    """A filled variable and what stands beside it in a file: source flags, lower and upper ends."""
    if "source" not in result:
        return {"value": result["value"]}
    flags = xr.zeros_like(result["source"], dtype=np.int8)
    for flag, word in enumerate(SOURCES):
        flags = flags.where(result["source"] != word, np.int8(flag))
    flags.attrs = {
        "long_name": f"where each {variable} comes from",
        "standard_name": "status_flag",
        "flag_values": np.arange(len(SOURCES), dtype=np.int8),
        "flag_meanings": FLAG_MEANINGS,
    }
    share = result.attrs.get("interval")
    which = f"the {share:.0%} interval of " if share else ""
    ends = {
        end: result[end].assign_attrs(long_name=f"{end} end of {which}{variable}")
        for end in ("lower", "upper")
        if end in result
    }
    return {"value": result["value"], "source": flags, **ends}


def ancillary_names(
    variables: Sequence[str], taken: Sequence[str], result: xr.Dataset
) -> dict[tuple[str, str], str]:
    """A free name for everything that stands beside a variable, by (variable, kind)."""
    names: dict[tuple[str, str], str] = {}
    used = {*variables, *taken}
    for variable in variables:
        names[variable, "value"] = variable
        for kind in [k for k in ("source", "lower", "upper") if k in result]:
            plain = kind if variable == "value" else f"{variable}_{kind}"
            names[variable, kind] = unique_name(plain, used)
    return names


def unique_name(name: str, used: set[str]) -> str:
    """The name, or the first of its kin that nobody has; it is used from now on."""
    chosen, number = name, 1
    while chosen in used:
        number += 1
        chosen = f"{name}_{number}"
    used.add(chosen)
    return chosen


def link_ancillary(data: xr.Dataset, variable: str, names: dict[tuple[str, str], str]) -> None:
    """Name what stands beside a variable in its attributes, as CF wants."""
    beside = str(data[variable].attrs.get("ancillary_variables", "")).split()
    beside += [n for (v, kind), n in names.items() if v == variable and kind != "value"]
    if beside:
        data[variable].attrs["ancillary_variables"] = " ".join(dict.fromkeys(beside))


def to_cf_dataset(result: xr.Dataset) -> xr.Dataset:
    """A cube, filled or as it is, as a CF data set with one variable per measurement, stations
    before times."""
    cube = result["value"]
    keep = ["time", "location", *(name for name in ("lat", "lon") if name in cube.coords)]
    data = xr.Dataset({name: (cube[name].dims, cube[name].to_numpy()) for name in keep})
    data = data.set_coords(keep)
    data["time"].encoding = {"dtype": "float64", "units": "seconds since 1970-01-01"}
    used = {"time", "location", "lat", "lon"}  # what every reader takes for coordinates
    allowed = {n: re.sub(r"/|^\.+$", "_", str(n)) for n in cube["measurement"].to_numpy()}
    variables = {name: unique_name(plain, used) for name, plain in allowed.items()}
    names = ancillary_names(list(variables.values()), keep, result)
    angles = dict(zip(variables, is_direction(cube), strict=True))
    for name, variable in variables.items():
        for kind, part in output_variables(result, variable).items():
            own = part.sel(measurement=name).transpose("location", "time")
            data[names[variable, kind]] = (own.dims, own.to_numpy(), part.attrs)
        unit = units_of(cube)[name]
        told = {"units": "degree", "angle": "direction"} if angles[name] else {"units": unit}
        data[variable].attrs = {"long_name": str(name)} | (told if angles[name] or unit else {})
        link_ancillary(data, variable, names)
    done = describe_result(result)
    also = f", {done}" if "source" in result else ""
    data.attrs["title"] = f"{cube.sizes['location']} stations{also}"
    return add_cf_attributes(data, {"time": "time", "location": "location"}, done)


def describe_result(result: xr.Dataset) -> str:
    """What became of a cube, in words."""
    if "source" not in result:
        return "written"
    return "carried forward" if (result["source"] == "forecast").any() else "gaps filled"


def add_cf_attributes(data: xr.Dataset, axes: dict[str, str], done: str) -> xr.Dataset:
    """The data set with the CF attributes it lacks, and a word on what was done; the rest stays."""
    known: dict[str, dict[str, str]] = {axes["time"]: {"standard_name": "time", "axis": "T"}}
    if "location" in axes and not any("cf_role" in v.attrs for v in data.variables.values()):
        known[axes["location"]] = {"cf_role": "timeseries_id", "long_name": "station"}
    for names, word, units in (
        (LAT, "latitude", "degrees_north"),
        (LON, "longitude", "degrees_east"),
    ):
        place = find_name([str(name) for name in data.variables], names)
        if place is not None:
            known[place] = {"standard_name": word, "units": units}
            data = data.set_coords(place)
    for name, attrs in known.items():
        if name in data.variables:
            data[name].attrs = attrs | data[name].attrs
    conventions = str(data.attrs.get("Conventions", ""))
    if "CF-" not in conventions:
        conventions = ", ".join(word for word in (CONVENTIONS, conventions) if word)
    history = [str(data.attrs.get("history", "")), f"{done} by cdsa {version('cdsa')}"]
    data.attrs = {"featureType": "timeSeries"} | data.attrs
    data.attrs |= {"Conventions": conventions, "history": "\n".join(filter(None, history))}
    return data


def find_fill_flags(data: xr.Dataset, variable: str) -> list[str]:
    """Names of the flags that an earlier fill put beside a variable."""
    beside = str(data[variable].attrs.get("ancillary_variables", "")).split()
    ours = [n for n in beside if n in data and data[n].attrs.get("flag_meanings") == FLAG_MEANINGS]
    return [n for n in ours if set(data[n].dims) == set(data[variable].dims)]
