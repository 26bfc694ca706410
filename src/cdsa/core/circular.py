"""Directions in degrees: differences on the circle, and conversion to components.

A direction is averaged, scaled and learnt as two components, sine (east) and cosine (north).
"""

from collections.abc import Iterable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import (
    is_direction,
)


def wrap_degrees(degrees: NDArray[np.floating]) -> NDArray[np.floating]:
    """Directions from 0 up to but not including 360 degrees."""
    turned = degrees % 360.0
    return np.where(turned >= 360.0, 0.0, turned)  # a tiny negative angle is rounded up to 360


def angle_difference(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    """The way from b to a on the circle, -180 to 180 degrees."""
    return (a - b + 180.0) % 360.0 - 180.0


EAST, NORTH = "\0east", "\0north"  # no measurement of a user can be called that


def base_names(names: Iterable[str]) -> NDArray[np.str_]:
    """The measurements that these were before directions became components."""
    return np.array([str(name).partition("\0")[0] for name in names])


def to_components(cube: xr.DataArray) -> xr.DataArray:
    """The cube with every angle replaced by its sine (east) and cosine (north)."""
    angles = is_direction(cube)
    beside = [
        name
        for name, c in cube.coords.items()
        if c.dims == ("measurement",) and name != "measurement"
    ]
    plain = cube.drop_vars(beside).astype(np.float64)
    if not angles.any():
        return plain
    degrees = plain.isel(measurement=angles)
    turned, names = np.deg2rad(degrees.to_numpy()), degrees["measurement"].to_numpy()
    east = degrees.copy(data=np.sin(turned)).assign_coords(
        measurement=[f"{n}{EAST}" for n in names]
    )
    north = degrees.copy(data=np.cos(turned)).assign_coords(
        measurement=[f"{n}{NORTH}" for n in names]
    )
    return xr.concat([plain.isel(measurement=~angles), east, north], "measurement")


def from_components(plain: xr.DataArray, like: xr.DataArray) -> xr.DataArray:
    """Undo `to_components`, in the order and with the labels of `like`."""
    columns = []
    for name, angle in zip(like["measurement"].to_numpy(), is_direction(like), strict=True):
        if angle:
            east = plain.sel(measurement=f"{name}{EAST}").to_numpy()
            north = plain.sel(measurement=f"{name}{NORTH}").to_numpy()
            columns.append(wrap_degrees(np.rad2deg(np.arctan2(east, north))))
        else:
            columns.append(plain.sel(measurement=name).to_numpy())
    return like.copy(data=np.stack(columns, axis=-1))
