"""From parsed cells to a cube: duplicate rows are combined, measurements annotated."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import wrap_degrees
from cdsa.core.cube import assign_metadata
from cdsa.io.options import ReadOptions


def combine_duplicates(
    values: NDArray[np.float64],
    cells: tuple[NDArray[np.int64], ...],
    numbers: NDArray[np.float64],
    how: Literal["mean", "first"] | None,
    is_direction: NDArray[np.bool_],
) -> None:
    """Put numbers into their cells of `values`: the first or the mean of those of one cell. The
    mean of directions is the circular one."""
    keys = np.ravel_multi_index(cells, values.shape)
    if how != "mean":
        first = ~pd.Index(keys).duplicated()
        values.ravel()[keys[first]] = numbers[first]
        return
    radians = np.deg2rad(numbers)
    columns = {"value": numbers, "sin": np.sin(radians), "cos": np.cos(radians)}
    groups = pd.DataFrame(columns | {"is_direction": is_direction}).groupby(keys)
    means = groups.mean()
    circular = wrap_degrees(np.rad2deg(np.arctan2(means["sin"], means["cos"])).to_numpy())
    linear = (means["is_direction"] == 0) | (groups.size() == 1)
    combined = means["value"].where(linear, circular)
    values.ravel()[combined.index.to_numpy()] = combined.to_numpy()


def annotate(
    cube: xr.DataArray,
    options: ReadOptions,
    units: Mapping[str, str],
    directions: Sequence[str] = (),
) -> xr.DataArray:
    """The cube with the metadata of its source, overridden by the options."""
    return assign_metadata(
        cube,
        units={**units, **options.units},
        directions=[*directions, *options.directions],
        bounds={
            name: (-math.inf if low is None else low, math.inf if high is None else high)
            for name, (low, high) in options.bounds.items()
        },
        digits=options.digits,
    )
