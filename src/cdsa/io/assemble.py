"""From parsed cells to a cube: duplicate rows are combined, measurements annotated."""

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
    angles: Sequence[str] = (),
) -> xr.DataArray:
    """The cube with what its source says about its measurements, and the user, who has the last
    word."""
    return assign_metadata(
        cube,
        units={**units, **dict(options.units)},
        angles=[*angles, *options.angles],
        bounds={name: (low, high) for name, low, high in options.bounds},
    )
