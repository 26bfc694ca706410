"""Train, validation and test as stretches of time that no window straddles."""

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
    """Which time steps belong to which part; no step belongs to two."""

    train: Bools
    validation: Bools
    test: Bools

    def __post_init__(self) -> None:
        if (self.train.astype(int) + self.validation + self.test > 1).any():
            raise ConfigError("a time step may belong to one of train, validation and test only")


def split_chronologically(
    cube: xr.DataArray, *, validation: float = 0.0, test: float = 0.2
) -> Split:
    """The first steps to learn from, then those to validate on, the last ones to test on."""
    steps = cube.sizes["time"]
    if validation < 0 or test < 0 or validation + test >= 1:
        raise ConfigError(
            f"validation and test are shares that leave something to learn from, but found "
            f"{validation:g} and {test:g}"
        )
    first, second = round(steps * (1 - validation - test)), round(steps * (1 - test))
    number = np.arange(steps)
    return Split(number < first, (number >= first) & (number < second), number >= second)


def split_by_months(
    cube: xr.DataArray, *, test: Collection[int], validation: Collection[int] = ()
) -> Split:
    """Whole calendar months to test and validate on, the others to learn from."""
    month = pd.DatetimeIndex(cube["time"].to_numpy()).month
    is_test, is_validation = np.isin(month, list(test)), np.isin(month, list(validation))
    return Split(~(is_test | is_validation), is_validation, is_test)


def segments(part: Bools) -> list[slice]:
    """The unbroken stretches of a part, in order; windows are cut inside one of them."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], part.astype(np.int8), [0]])))
    return [slice(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def keep_steps(cube: xr.DataArray, part: Bools) -> xr.DataArray:
    """The cube on the same grid with everything outside the part missing."""
    return cube.where(time_mask(part, cube))


def time_mask(steps: Bools, cube: xr.DataArray) -> xr.DataArray:
    """Flags of steps, with the cube's times."""
    return xr.DataArray(steps, dims="time", coords={"time": cube["time"]})
