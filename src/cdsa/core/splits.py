"""Steps for training and testing as spans of time that no window crosses."""

from collections.abc import Collection

import numpy as np
import xarray as xr
from numpy.typing import NDArray

Bools = NDArray[np.bool_]


def last_steps(cube: xr.DataArray, share: float) -> Bools:
    """True for the last steps, which are this share of all."""
    n_steps = cube.sizes["time"]
    return np.arange(n_steps) >= round(n_steps * (1 - share))


def steps_in_months(cube: xr.DataArray, months: Collection[int]) -> Bools:
    """True for the steps in these calendar months."""
    return np.asarray(cube["time"].dt.month.isin(list(months)))


def segments(steps: Bools) -> list[slice]:
    """The contiguous segments of a mask of steps, in order."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], steps.astype(np.int8), [0]])))
    return [slice(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def keep_steps(cube: xr.DataArray, steps: Bools) -> xr.DataArray:
    """The cube on the same grid with all other steps missing."""
    return cube.where(time_mask(steps, cube))


def time_mask(steps: Bools, cube: xr.DataArray) -> xr.DataArray:
    """A mask of steps with the times of the cube."""
    return xr.DataArray(steps, dims="time", coords={"time": cube["time"]})
