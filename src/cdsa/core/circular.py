"""Directions in degrees: differences on the circle, and conversion to components.

Methods average, scale and predict a direction as two components, sine (east) and cosine (north).
"""

from collections.abc import Iterable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import is_direction

EAST, NORTH = "\0east", "\0north"  # suffixes that no name of a user contains


def wrap_degrees(degrees: NDArray[np.floating]) -> NDArray[np.floating]:
    """Directions in [0, 360)."""
    wrapped = degrees % 360.0
    return np.where(wrapped >= 360.0, 0.0, wrapped)  # a tiny negative angle is rounded up to 360


def angle_difference(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    """The shortest rotation from b to a, from -180 to 180 degrees."""
    return (a - b + 180.0) % 360.0 - 180.0


def base_names(names: Iterable[str]) -> NDArray[np.str_]:
    """The names of measurements without the suffix of a component."""
    return np.array([str(name).partition("\0")[0] for name in names])


def to_components(cube: xr.DataArray) -> xr.DataArray:
    """The cube with every direction replaced by its sine (east) and cosine (north)."""
    directions = is_direction(cube)
    metadata = [
        name
        for name, coord in cube.coords.items()
        if coord.dims == ("measurement",) and name != "measurement"
    ]
    plain = cube.drop_vars(metadata).astype(np.float64)
    if not directions.any():
        return plain
    degrees = plain.isel(measurement=directions)
    radians, names = np.deg2rad(degrees.to_numpy()), degrees["measurement"].to_numpy()
    arrays = [plain.isel(measurement=~directions)]
    for suffix, function in ((EAST, np.sin), (NORTH, np.cos)):
        labels = [f"{name}{suffix}" for name in names]
        arrays.append(degrees.copy(data=function(radians)).assign_coords(measurement=labels))
    return xr.concat(arrays, "measurement")


def from_components(plain: xr.DataArray, like: xr.DataArray) -> xr.DataArray:
    """Undo `to_components`, with the order and labels of `like`."""
    columns = []
    for name, direction in zip(like["measurement"].to_numpy(), is_direction(like), strict=True):
        if direction:
            east = plain.sel(measurement=f"{name}{EAST}").to_numpy()
            north = plain.sel(measurement=f"{name}{NORTH}").to_numpy()
            columns.append(wrap_degrees(np.rad2deg(np.arctan2(east, north))))
        else:
            columns.append(plain.sel(measurement=name).to_numpy())
    return like.copy(data=np.stack(columns, axis=-1))
