"""Fill a cube with a fitted filler."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from cdsa.core import defaults
from cdsa.core.cube import LEFT_OPEN
from cdsa.core.metrics import Intervals
from cdsa.core.prepare import Cube, PreparedCube, prepare
from cdsa.core.scope import Codes
from cdsa.errors import ConfigError
from cdsa.methods.base import Filler

MAX_INTERVAL = 0.99
"""The widest interval that can be calibrated."""
FILL_SOURCES = ("observed", "filled", "unfillable", *LEFT_OPEN)
"""What `source` may say about a cell of a filled cube."""


FIRST_OPEN = FILL_SOURCES.index(LEFT_OPEN[0])


def fill_with(
    filler: Filler,
    cube: Cube,
    *,
    interval: float = defaults.INTERVAL,
    open_cells: Codes | None = None,
) -> xr.Dataset:
    """The cube filled: `value`, `source` and, if the filler gives intervals, `lower` and `upper`,
    which contain the true value with the probability `interval`. Some cells may be left open
    (`scope.left_open`)."""
    check_interval(interval)
    data = prepare(cube)
    cube = data.cube
    filled, intervals = fill_levels(filler, data, [interval])
    missing, still_missing = cube.isnull().to_numpy(), filled.isnull().to_numpy()
    codes = missing.astype(np.int8) + (missing & still_missing)
    if open_cells is not None:
        is_open = (open_cells > 0) & ~still_missing
        codes = np.where(is_open, FIRST_OPEN + open_cells - 1, codes)
        filled = filled.where(~is_open)
    source = np.array(FILL_SOURCES, dtype=object)[codes]
    result = xr.Dataset({"value": filled, "source": (cube.dims, source)})
    for lower, upper in intervals.values():
        # the interval of a measured value is the value itself
        for name, bound in (("lower", lower), ("upper", upper)):
            bounds = bound.where(missing, filled).where(filled.notnull())
            result[name] = bounds.transpose(*cube.dims)
        result.attrs["interval"] = interval
    return result


def fill_levels(
    filler: Filler, cube: PreparedCube, levels: Sequence[float]
) -> tuple[xr.DataArray, Intervals]:
    """The cube filled, and the intervals of each level if the filler gives any."""
    levels = levels if filler.gives_intervals else ()
    filled, bounds = filler.fill_intervals(cube, levels)
    return filled, dict(zip(levels, bounds, strict=True))


def check_interval(interval: float) -> None:
    if not 0 < interval <= MAX_INTERVAL:
        raise ConfigError(
            f"interval is a probability greater than 0 and at most {MAX_INTERVAL:g}, but found "
            f"{interval:g}"
        )
