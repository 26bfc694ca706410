"""From parsed cells to a cube: duplicate rows are combined, measurements annotated."""

import math
from collections.abc import Mapping, Sequence

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
    how: str,
    angle: NDArray[np.bool_],
) -> None:
    """Put numbers into their cells of `values`, those of one cell joined to their first or mean;
    the mean of directions is taken on the circle."""
    keys = np.ravel_multi_index(cells, values.shape)
    turned = np.deg2rad(numbers)
    parts = pd.DataFrame(
        {"n": numbers, "sin": np.sin(turned), "cos": np.cos(turned), "angle": angle}
    )
    groups = parts.groupby(keys)
    if how == "first":
        joined = groups["n"].first()
    else:
        means = groups.mean()
        circle = wrap_degrees(np.rad2deg(np.arctan2(means["sin"], means["cos"])).to_numpy())
        plain = (means["angle"] == 0) | (groups.size() == 1)
        joined = means["n"].where(plain, circle)
    values.ravel()[joined.index.to_numpy()] = joined.to_numpy()


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
    )
