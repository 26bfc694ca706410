"""Train, validation and test sets as spans of time that no window crosses."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.errors import ConfigError

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Split:
    """Masks of time steps; no step is in two of them."""

    train: Bools
    validation: Bools
    test: Bools

    def __post_init__(self) -> None:
        if (self.train.astype(int) + self.validation + self.test > 1).any():
            raise ConfigError("a time step can be in only one of train, validation and test")


def split_chronologically(
    cube: xr.DataArray, *, validation: float = 0.0, test: float = 0.2
) -> Split:
    """Train on the first steps, validate on the next, test on the last."""
    n_steps = cube.sizes["time"]
    if validation < 0 or test < 0 or validation + test >= 1:
        raise ConfigError(
            f"validation and test are shares that must leave something to train on, but found "
            f"{validation:g} and {test:g}"
        )
    first, second = round(n_steps * (1 - validation - test)), round(n_steps * (1 - test))
    step = np.arange(n_steps)
    return Split(step < first, (step >= first) & (step < second), step >= second)


def split_by_months(
    cube: xr.DataArray, *, test: Collection[int], validation: Collection[int] = ()
) -> Split:
    """Test and validate on whole calendar months, train on the others."""
    month = pd.DatetimeIndex(cube["time"].to_numpy()).month
    is_test, is_validation = np.isin(month, list(test)), np.isin(month, list(validation))
    return Split(~(is_test | is_validation), is_validation, is_test)


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
