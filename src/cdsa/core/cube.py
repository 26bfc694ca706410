"""The cube: the one data structure that everything users give is converted to and returned as.

A cube is an `xr.DataArray` with dimensions (time, location, measurement), a regular time grid and
`NaN` for missing values. Optional coordinates: `lat` and `lon` along `location`; `units`,
`is_direction` (a direction in degrees, where 359 and 1 are neighbours), the physical limits
`valid_min` and `valid_max` and the number of `decimals` along `measurement`; NaN where it is to be
inferred from the values (`domain.py`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.times import is_regular, next_times
from cdsa.errors import CubeError, unknown

DIMS = ("time", "location", "measurement")

DEFAULT_STATION = "station"
"""Name of the only station of a source that names none."""

LEFT_OPEN = ("gap_too_long", "outside_lifetime", "never_measured")
"""Why a fill leaves a cell as it is (`scope.py`)."""

SOURCES = ("observed", "filled", "unfillable", "forecast", "missing", *LEFT_OPEN)
"""Origin of a value; the position of a word is its flag in a file. A forecast leaves earlier gaps
'missing'."""

COORDINATE_RANGE = {"lat": (-90, 90), "lon": (-180, 360)}  # degrees

MAX_ABS = 1e100  # squares and sums of larger values overflow a float

DIRECTION = "degrees of direction"
DIRECTION_UNITS = frozenset(
    {DIRECTION, "degree of direction", "degree_direction", "degrees_direction", "deg_dir"}
)

RENAMED_COORDS = {
    "unit": "units",
    "angle": "is_direction",
    "at_least": "valid_min",
    "at_most": "valid_max",
}


def make_cube(
    values: NDArray[np.floating],
    time: NDArray[np.datetime64],
    location: Sequence[str],
    measurement: Sequence[str],
    *,
    lat: Sequence[float] | None = None,
    lon: Sequence[float] | None = None,
    units: Sequence[str] | None = None,
) -> xr.DataArray:
    """Build a checked cube from plain arrays.

    Parameters
    ----------
    values
        Array of the shape (time, location, measurement), with NaN for missing values.
    time
        Times, rising in equal steps.
    location
        Names of the stations.
    measurement
        Names of the measurements.
    lat
        Latitudes of the stations in degrees; with `lon`, or not at all.
    lon
        Longitudes of the stations in degrees.
    units
        Units of the measurements.

    Returns
    -------
    xarray.DataArray
        The cube.

    Raises
    ------
    CdsaError
        If the arrays do not make a valid cube.

    Examples
    --------
    >>> import numpy as np
    >>> import cdsa
    >>> hours = np.arange("2020-01-01T00", "2020-01-01T03", dtype="datetime64[h]")
    >>> values = np.array([1.0, np.nan, 3.0]).reshape(3, 1, 1)
    >>> cube = cdsa.make_cube(values, hours, ["A"], ["pm25"], units=["ug/m3"])
    >>> cdsa.fill(cube, "linear")["value"].to_numpy().ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    cube = label_array(values, time, location, measurement, lat, lon)
    if units is not None:
        cube["units"] = ("measurement", np.asarray(units, dtype=object).astype(str))
    check_cube(cube)
    return cube


def label_array(
    values: NDArray[np.floating],
    time: NDArray[np.datetime64],
    location: Sequence[str],
    measurement: Sequence[str],
    lat: Sequence[float] | None = None,
    lon: Sequence[float] | None = None,
) -> xr.DataArray:
    """The array with the coordinates of a cube, not yet checked."""
    coords: dict[str, object] = {
        "time": ("time", np.asarray(time, dtype="datetime64[ns]")),
        "location": ("location", np.asarray(location, dtype=object).astype(str)),
        "measurement": ("measurement", np.asarray(measurement, dtype=object).astype(str)),
    }
    if lat is not None and lon is not None:
        coords["lat"] = ("location", np.asarray(lat, dtype=float))
        coords["lon"] = ("location", np.asarray(lon, dtype=float))
    return xr.DataArray(values, dims=DIMS, coords=coords, name="value")


def check_cube(cube: xr.DataArray) -> None:
    """Raise a `CubeError` if this is not a valid cube."""
    if not isinstance(cube, xr.DataArray):
        raise CubeError(
            f"a cube is an xarray.DataArray, but this is a {type(cube).__name__}. "
            "Make one with cdsa.open_cube(...)"
        )
    if cube.dims != DIMS:
        raise CubeError(
            f"a cube has the dimensions {DIMS} in this order, but found {cube.dims}. "
            "Rename and reorder: cube.rename(...).transpose('time', 'location', 'measurement')"
        )
    for dim in DIMS:
        if cube.sizes[dim] == 0:
            raise CubeError(f"a cube needs at least one {dim}, but found none")
        if dim not in cube.coords:
            raise CubeError(
                f"every {dim} needs a label, but the dimension has no coordinate. "
                f"Add it: cube.assign_coords({dim}=...)"
            )
    if not np.issubdtype(cube.dtype, np.floating):
        raise CubeError(
            f"values must be floating-point numbers (NaN where missing), but found {cube.dtype}. "
            "Convert: cube.astype(float)"
        )
    _check_time(cube)
    for dim in ("location", "measurement"):
        labels = cube.indexes[dim]
        for label in labels:
            if not isinstance(label, str):
                raise CubeError(
                    f"the name of a {dim} must be text, but found {label!r}. Convert: "
                    f"cube.assign_coords({dim}=cube.{dim}.astype(str))"
                )
        if not labels.is_unique:
            duplicate = labels[labels.duplicated()][0]
            raise CubeError(f"every {dim} must be unique, but '{duplicate}' occurs twice")
    for old, new in RENAMED_COORDS.items():
        if old in cube.coords and cube[old].dims == ("measurement",):
            raise CubeError(
                f"the coordinate '{old}' is called '{new}' now; rename it: "
                f"cube.rename({old}='{new}')"
            )
    _check_values(cube)
    _check_coordinates(cube)


def _check_time(cube: xr.DataArray) -> None:
    if not np.issubdtype(cube["time"].dtype, np.datetime64):
        raise CubeError(
            f"time must be datetime64, but found {cube['time'].dtype}. "
            "Convert: cube.assign_coords(time=pandas.to_datetime(cube.time))"
        )
    times = cube["time"].to_numpy()
    not_after = np.diff(times) <= np.timedelta64(0)
    if not_after.any():
        step = int(np.argmax(not_after)) + 1
        raise CubeError(
            f"time must increase at every step, but step {step} ({pd.Timestamp(times[step])}) does "
            f"not come after step {step - 1} ({pd.Timestamp(times[step - 1])}). Sort it and drop "
            "duplicates: cube.sortby('time').drop_duplicates('time')"
        )
    if not is_regular(times):
        spans, counts = np.unique(np.diff(times), return_counts=True)
        typical = spans[np.argmax(counts)]
        step = int(np.argmax(np.diff(times) != typical)) + 1
        raise CubeError(
            f"time must be a regular grid, but step {step} ({pd.Timestamp(times[step])}) is "
            f"{pd.Timedelta(times[step] - times[step - 1])} after the previous one, not "
            f"{pd.Timedelta(typical)}. Put it on a grid with cdsa.open_cube(cube)"
        )


def _check_values(cube: xr.DataArray) -> None:
    values = cube.to_numpy()
    limit = values.dtype.type(min(MAX_ABS, float(np.finfo(values.dtype).max)))
    with np.errstate(invalid="ignore"):
        too_large = np.abs(values) > limit  # also infinities; comparisons with NaN are False
    if too_large.any():
        cell = tuple(int(i) for i in np.argwhere(too_large)[0])
        value = values[cell]
        condition = "finite" if np.isinf(value) else f"smaller than {MAX_ABS:g} in magnitude"
        raise CubeError(
            f"values must be {condition}, but found {value:g} at {format_cell(cube, cell)}. If it "
            f"is a code for missing values, give --missing {value:g}; otherwise correct it"
        )


def _check_coordinates(cube: xr.DataArray) -> None:
    names = [name for name in COORDINATE_RANGE if name in cube.coords]
    if len(names) == 1:
        raise CubeError(
            f"coordinates come in pairs, but there is only '{names[0]}'; add the other one"
        )
    for name in names:
        low, high = COORDINATE_RANGE[name]
        if cube[name].dims != ("location",):
            raise CubeError(
                f"'{name}' must have the dimension location, but it has {cube[name].dims}"
            )
        for location, value in zip(cube["location"].to_numpy(), cube[name].to_numpy(), strict=True):
            if not low <= value <= high:
                problem = "has none" if np.isnan(value) else f"has {value:g}"
                raise CubeError(
                    f"{name} must be from {low} to {high} degrees for every location, but "
                    f"'{location}' {problem}. Correct it, give coordinates with --locations FILE, "
                    "or ignore all coordinates with --no-coordinates"
                )


def append_times(cube: xr.DataArray, n_steps: int) -> xr.DataArray:
    if n_steps < 1:
        raise CubeError(f"at least one step must be appended, but found {n_steps}")
    times = cube["time"].to_numpy()
    if len(times) < 2:
        raise CubeError(
            "the time step cannot be inferred from one timestamp, so no steps can be appended. "
            "Give at least two timestamps"
        )
    return cube.reindex(time=np.concatenate([times, next_times(times, n_steps)]))


def append_locations(
    cube: xr.DataArray,
    names: Sequence[str],
    lat: NDArray[np.floating] | Sequence[float],
    lon: NDArray[np.floating] | Sequence[float],
) -> xr.DataArray:
    """The cube with empty locations appended at these coordinates."""
    if not has_coordinates(cube):
        raise CubeError(
            "sites can be added only if the stations have coordinates, but these have none. "
            "Give them in columns lat and lon, or in a table of stations (--locations)"
        )
    for name in names:
        if name in cube["location"].to_numpy():
            raise CubeError(
                f"a new site needs a new name, but there is already a station '{name}'. Rename it"
            )
    new = {"location": list(names), "lat": lat, "lon": lon}
    extended = {
        name: ("location", np.concatenate([cube[name].to_numpy(), values]))
        for name, values in new.items()
    }
    others = [name for name, c in cube.coords.items() if "location" in c.dims and name not in new]
    longer = cube.drop_vars(others).reindex(location=extended["location"][1])
    longer = longer.assign_coords(extended)
    check_cube(longer)
    return longer


def format_cell(cube: xr.DataArray, cell: tuple[int, ...]) -> str:
    """The labels of a cell, such as '2013-01-01 06:00:00, EWR, temp'."""
    time, location, measurement = (
        cube[dim].to_numpy()[i] for dim, i in zip(DIMS, cell, strict=True)
    )
    return f"{pd.Timestamp(time)}, {location}, {measurement}"


def assign_metadata(
    cube: xr.DataArray,
    *,
    units: Mapping[str, str] | None = None,
    directions: Sequence[str] = (),
    bounds: Mapping[str, tuple[float, float]] | None = None,
    digits: Mapping[str, int] | None = None,
) -> xr.DataArray:
    """The cube with units, direction flags, valid ranges and decimals as coordinates of
    `measurement`."""
    units, bounds, digits = units or {}, bounds or {}, digits or {}
    names = [str(name) for name in cube["measurement"].to_numpy()]
    given = {"units": units, "direction": directions, "bounds": bounds, "digits": digits}
    for option, measurements in given.items():
        for name in measurements:
            if name not in names:
                raise CubeError(f"--{option}: {unknown('measurement', name, names)}")
    new_units = units_of(cube) | dict(units)
    direction_flags = is_direction(cube)
    (low, high), decimals = stated_range(cube), stated_decimals(cube)
    for m, name in enumerate(names):
        direction_flags[m] |= name in directions or new_units[name].lower() in DIRECTION_UNITS
        if direction_flags[m] and not new_units[name]:
            new_units[name] = DIRECTION
        if name in bounds:
            low[m], high[m] = bounds[name]
            if not low[m] <= high[m]:
                raise CubeError(
                    f"the lower bound of '{name}' must not exceed the upper one, but found "
                    f"{low[m]:g}:{high[m]:g}"
                )
            for bound in (low[m], high[m]):
                if np.isnan(bound) or MAX_ABS < abs(bound) < np.inf:
                    raise CubeError(
                        f"the bounds of '{name}' must be numbers of at most {MAX_ABS:g} in "
                        f"magnitude, but found {bound:g}. Leave a bound out if there is none"
                    )
        decimals[m] = digits.get(name, decimals[m])
    return cube.assign_coords(
        units=("measurement", np.array([new_units[name] for name in names])),
        is_direction=("measurement", direction_flags),
        valid_min=("measurement", low),
        valid_max=("measurement", high),
        decimals=("measurement", decimals),
    )


def units_of(cube: xr.DataArray) -> dict[str, str]:
    """The units of each measurement, empty where unknown."""
    names = [str(name) for name in cube["measurement"].to_numpy()]
    units = cube["units"].to_numpy() if "units" in cube.coords else [""] * len(names)
    return {name: str(unit) for name, unit in zip(names, units, strict=True)}


def is_direction(cube: xr.DataArray) -> NDArray[np.bool_]:
    """True for each measurement that is a direction in degrees."""
    if "is_direction" in cube.coords:
        return cube["is_direction"].to_numpy().astype(bool)
    return np.array([unit.lower() in DIRECTION_UNITS for unit in units_of(cube).values()])


def stated_range(cube: xr.DataArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The physical minimum and maximum of each measurement: NaN where none is stated, infinite
    where it is stated that there is none."""
    low, high = (_stated(cube, name) for name in ("valid_min", "valid_max"))
    return low, high


def stated_decimals(cube: xr.DataArray) -> NDArray[np.float64]:
    """Decimals of each measurement, NaN where they are not stated."""
    return _stated(cube, "decimals")


def _stated(cube: xr.DataArray, name: str) -> NDArray[np.float64]:
    if name in cube.coords:
        return cube[name].to_numpy().astype(np.float64)
    return np.full(cube.sizes["measurement"], np.nan)


def has_coordinates(cube: xr.DataArray) -> bool:
    """Whether the locations have latitude and longitude."""
    return "lat" in cube.coords and "lon" in cube.coords


def fillable(cube: xr.DataArray) -> NDArray[np.bool_]:
    """True for each measurement with at least one observation; the others cannot be filled."""
    return cube.notnull().any(("time", "location")).to_numpy()


def round_significant(values: NDArray[np.floating], digits: int) -> NDArray[np.float64]:
    wide = values.astype(np.float64)
    magnitude = np.floor(np.log10(np.where(np.abs(wide) > 0, np.abs(wide), 1.0)))
    decimals = digits - 1 - np.where(np.isnan(magnitude), 0, magnitude)
    power = 10.0 ** np.clip(decimals, 0, 22)  # larger powers of ten are not exact
    rounded: NDArray[np.float64] = np.round(wide * power) / power
    return rounded
