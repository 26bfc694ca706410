"""The cube: what everything users give us becomes, and everything they get back is.

One `xr.DataArray` with axes (time, location, measurement), `NaN` where nothing was measured.
Beside `location` stand `lat` and `lon`; beside `measurement` stand `unit`, `angle` (a direction in
degrees, where 359 and 1 are neighbours) and the physical bounds `at_least` and `at_most`. All of
these are optional but the three axes.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.times import is_regular, next_times
from cdsa.errors import CubeError, unknown

AXES = ("time", "location", "measurement")


ONE = "station"
"""Name of the only station of a source that names none."""


SOURCES = ("observed", "filled", "unfillable", "forecast", "missing")
"""Where a value comes from; the position of a word is its flag in a file. A forecast leaves gaps
before it 'missing', as they were."""


DEGREES = {"lat": (-90, 90), "lon": (-180, 360)}
"""Between which coordinates lie."""


LARGEST = 1e100  # squares and sums of larger values leave the range of a float


DIRECTION = "degrees of direction"


DIRECTION_UNITS = frozenset(
    {
        "degrees of direction",
        "degree of direction",
        "degree_direction",
        "degrees_direction",
        "deg_dir",
    }
)


Bounds = Mapping[str, tuple[float, float]]


def make_cube(
    values: NDArray[np.floating],
    time: NDArray[np.datetime64],
    location: Sequence[str],
    measurement: Sequence[str],
    *,
    lat: Sequence[float] | None = None,
    lon: Sequence[float] | None = None,
    unit: Sequence[str] | None = None,
) -> xr.DataArray:
    """A checked cube from plain arrays."""
    coords: dict[str, object] = {
        "time": ("time", np.asarray(time, dtype="datetime64[ns]")),
        "location": ("location", np.asarray(location, dtype=object).astype(str)),
        "measurement": ("measurement", np.asarray(measurement, dtype=object).astype(str)),
    }
    if lat is not None and lon is not None:
        coords["lat"] = ("location", np.asarray(lat, dtype=float))
        coords["lon"] = ("location", np.asarray(lon, dtype=float))
    if unit is not None:
        coords["unit"] = ("measurement", np.asarray(unit, dtype=object).astype(str))
    cube = xr.DataArray(values, dims=AXES, coords=coords, name="value")
    check_cube(cube)
    return cube


def check_cube(cube: xr.DataArray) -> None:
    """Say in plain words what keeps this from being a cube."""
    if not isinstance(cube, xr.DataArray):
        raise CubeError(
            f"a cube is an xarray.DataArray, but found a {type(cube).__name__}. "
            "Make one with cdsa.open_cube(...)"
        )
    if cube.dims != AXES:
        raise CubeError(
            f"a cube has the axes {AXES} in this order, but found {cube.dims}. "
            "Rename and reorder: cube.rename(...).transpose('time', 'location', 'measurement')"
        )
    for axis in AXES:
        if cube.sizes[axis] == 0:
            raise CubeError(f"a cube needs at least one {axis}, but found none")
        if axis not in cube.coords:
            raise CubeError(
                f"every {axis} needs a label, but the axis has no coordinate. "
                f"Add it: cube.assign_coords({axis}=...)"
            )
    if not np.issubdtype(cube.dtype, np.floating):
        raise CubeError(
            f"values must be floating-point numbers (NaN where missing), but found {cube.dtype}. "
            "Convert: cube.astype(float)"
        )
    _check_time(cube)
    for axis in ("location", "measurement"):
        labels = cube.indexes[axis]
        if not all(isinstance(label, str) for label in labels):
            odd = next(label for label in labels if not isinstance(label, str))
            raise CubeError(
                f"the name of a {axis} is text, but found {odd!r}. Convert: "
                f"cube.assign_coords({axis}=cube.{axis}.astype(str))"
            )
        if not labels.is_unique:
            twice = labels[labels.duplicated()][0]
            raise CubeError(f"each {axis} stands once in a cube, but '{twice}' is there twice")
    _check_values(cube)
    _check_places(cube)


def _check_time(cube: xr.DataArray) -> None:
    if not np.issubdtype(cube["time"].dtype, np.datetime64):
        raise CubeError(
            f"time must be dates (datetime64), but found {cube['time'].dtype}. "
            "Convert: cube.assign_coords(time=pandas.to_datetime(cube.time))"
        )
    times = cube["time"].to_numpy()
    falls = np.diff(times) <= np.timedelta64(0)
    if falls.any():
        step = int(np.argmax(falls)) + 1
        raise CubeError(
            f"time must rise at every step, but step {step} ({pd.Timestamp(times[step])}) does not "
            f"come after step {step - 1} ({pd.Timestamp(times[step - 1])}). "
            "Sort or de-duplicate: cube.sortby('time')"
        )
    if not is_regular(times):
        spans, counts = np.unique(np.diff(times), return_counts=True)
        usual = spans[np.argmax(counts)]
        step = int(np.argmax(np.diff(times) != usual)) + 1
        raise CubeError(
            f"time must be a regular grid, but step {step} ({pd.Timestamp(times[step])}) comes "
            f"{pd.Timedelta(times[step] - times[step - 1])} after the one before, not "
            f"{pd.Timedelta(usual)}. Let cdsa.open_cube(cube) put it on a grid"
        )


def _check_values(cube: xr.DataArray) -> None:
    values = cube.to_numpy()
    limit = values.dtype.type(min(LARGEST, float(np.finfo(values.dtype).max)))
    with np.errstate(invalid="ignore"):
        bad = np.abs(values) > limit  # infinities too; NaN is not larger than anything
    if bad.any():
        cell = tuple(int(i) for i in np.argwhere(bad)[0])
        value = values[cell]
        what = "finite" if np.isinf(value) else f"smaller than {LARGEST:g} in size"
        raise CubeError(
            f"values must be {what}, but found {value:g} at {name_cell(cube, cell)}. If it stands "
            f"for a missing value, say so with --missing {value:g}, or correct it"
        )


def _check_places(cube: xr.DataArray) -> None:
    has = [name for name in ("lat", "lon") if name in cube.coords]
    if len(has) == 1:
        raise CubeError(
            f"coordinates come in pairs, but there is only '{has[0]}'; add the other one"
        )
    for name, (low, high) in DEGREES.items() if has else ():
        if cube[name].dims != ("location",):
            raise CubeError(f"'{name}' stands beside location, but found axes {cube[name].dims}")
        for place, value in zip(cube["location"].to_numpy(), cube[name].to_numpy(), strict=True):
            if not low <= value <= high:
                found = "has none" if np.isnan(value) else f"has {value:g}"
                raise CubeError(
                    f"{name} must be degrees from {low} to {high} for every location, but "
                    f"'{place}' {found}. Correct it, give coordinates with --locations FILE, or "
                    "leave all coordinates out with --no-coordinates"
                )


def append_times(cube: xr.DataArray, steps: int) -> xr.DataArray:
    """The cube with so many empty steps behind its end: what a forecast fills."""
    if steps < 1:
        raise CubeError(f"at least one step must be added, but found {steps}")
    times = cube["time"].to_numpy()
    if len(times) < 2:
        raise CubeError(
            "the time step cannot be told from one time stamp, so there is nothing to go on with. "
            "Give at least two"
        )
    return cube.reindex(time=np.concatenate([times, next_times(times, steps)]))


def append_places(
    cube: xr.DataArray,
    names: Sequence[str],
    lat: NDArray[np.floating] | Sequence[float],
    lon: NDArray[np.floating] | Sequence[float],
) -> xr.DataArray:
    """The cube with empty stations at these coordinates behind its own."""
    if not has_places(cube):
        raise CubeError(
            "places can be added where the stations have coordinates, but here they have none. "
            "Give them in columns lat and lon, or in a table of stations (--locations)"
        )
    twice = [name for name in names if name in cube["location"].to_numpy()]
    if twice:
        raise CubeError(
            f"a place to be added has a name of its own, but there is a station '{twice[0]}' "
            "already. Give it another name"
        )
    steps, _, measurements = cube.shape
    nothing = np.full((steps, len(names), measurements), np.nan, dtype=cube.dtype)
    coords = {name: c for name, c in cube.coords.items() if "location" not in c.dims}
    along = {
        name: ("location", np.concatenate([cube[name].to_numpy(), more]))
        for name, more in (("location", list(names)), ("lat", lat), ("lon", lon))
    }
    data = np.concatenate([cube.to_numpy(), nothing], axis=1)
    longer = xr.DataArray(data, dims=cube.dims, coords=coords | along, attrs=cube.attrs)
    check_cube(longer)
    return longer


def name_cell(cube: xr.DataArray, cell: tuple[int, ...]) -> str:
    """A cell in words: '2013-01-01 06:00:00, EWR, temp'."""
    time, location, measurement = (
        cube[axis].to_numpy()[i] for axis, i in zip(AXES, cell, strict=True)
    )
    return f"{pd.Timestamp(time)}, {location}, {measurement}"


def describe(
    cube: xr.DataArray,
    *,
    units: Mapping[str, str] | None = None,
    angles: Sequence[str] = (),
    bounds: Bounds | None = None,
) -> xr.DataArray:
    """The cube with units, angles and physical bounds noted beside its measurements."""
    names = [str(name) for name in cube["measurement"].to_numpy()]
    for kind, given in (("unit", units or {}), ("angle", angles), ("bounds", bounds or {})):
        for name in given:
            if name not in names:
                raise CubeError(f"--{kind}: {unknown('measurement', name, names)}")
    old = unit_of(cube)
    unit = {name: (units or {}).get(name, old[name]) for name in names}
    known = dict(zip(names, angle_flags(cube), strict=True))
    angle = [known[n] or n in angles or unit[n].lower() in DIRECTION_UNITS for n in names]
    unit = {n: u or (DIRECTION if a else "") for (n, u), a in zip(unit.items(), angle, strict=True)}
    low, high = bounds_of(cube)
    for name, (lowest, highest) in (bounds or {}).items():
        if not lowest <= highest:
            raise CubeError(f"bounds of '{name}' must rise, but found {lowest:g}:{highest:g}")
        low[names.index(name)], high[names.index(name)] = lowest, highest
    return cube.assign_coords(
        unit=("measurement", np.array([unit[n] for n in names])),
        angle=("measurement", np.array(angle)),
        at_least=("measurement", low),
        at_most=("measurement", high),
    )


def unit_of(cube: xr.DataArray) -> dict[str, str]:
    """The unit of each measurement, empty where none is known."""
    names = [str(name) for name in cube["measurement"].to_numpy()]
    units = cube["unit"].to_numpy() if "unit" in cube.coords else [""] * len(names)
    return {name: str(unit) for name, unit in zip(names, units, strict=True)}


def angle_flags(cube: xr.DataArray) -> NDArray[np.bool_]:
    """True for each measurement that is a direction in degrees."""
    if "angle" in cube.coords:
        return cube["angle"].to_numpy().astype(bool)
    return np.array([unit.lower() in DIRECTION_UNITS for unit in unit_of(cube).values()])


def bounds_of(cube: xr.DataArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lowest and highest physical value of each measurement, infinite where none is set."""
    count = cube.sizes["measurement"]
    low = (
        cube["at_least"].to_numpy().copy() if "at_least" in cube.coords else np.full(count, -np.inf)
    )
    high = cube["at_most"].to_numpy().copy() if "at_most" in cube.coords else np.full(count, np.inf)
    return low, high


def has_places(cube: xr.DataArray) -> bool:
    """Whether the locations have coordinates."""
    return "lat" in cube.coords and "lon" in cube.coords


def fillable(cube: xr.DataArray) -> NDArray[np.bool_]:
    """True for each measurement that was measured at all; of the others nothing can be learnt."""
    return cube.notnull().any(("time", "location")).to_numpy()


def significant(values: NDArray[np.floating], digits: int) -> NDArray[np.float64]:
    """Values rounded to so many significant digits."""
    wide = values.astype(np.float64)
    size = np.floor(np.log10(np.where(np.abs(wide) > 0, np.abs(wide), 1.0)))
    power = 10.0 ** np.clip(digits - 1 - np.where(np.isnan(size), 0, size), 0, 22)  # exact
    rounded: NDArray[np.float64] = np.round(wide * power) / power
    return rounded
