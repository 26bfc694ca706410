"""Fill a cube: the library's main function."""

import numpy as np
import xarray as xr

from cdsa import defaults
from cdsa.cube import SOURCES, check_cube
from cdsa.errors import ConfigError
from cdsa.method import Filler, IntervalFiller, Method, make_method


def fill(
    cube: xr.DataArray,
    method: str | Method = defaults.METHOD,
    *,
    interval: float = defaults.INTERVAL,
) -> xr.Dataset:
    """The cube filled: `value`, `source` of each cell ('observed', 'filled' or 'unfillable'), and
    `lower` and `upper` where the method can tell them.

    >>> import numpy as np
    >>> from cdsa.cube import make_cube
    >>> hours = np.arange("2020-01-01T00", "2020-01-01T03", dtype="datetime64[h]")
    >>> cube = make_cube(np.array([1.0, np.nan, 3.0]).reshape(3, 1, 1), hours, ["A"], ["pm25"])
    >>> fill(cube, "linear").value.values.ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    check_cube(cube)
    _, made = make_method(method)
    return fill_with(made.fit(cube), cube, interval=interval)


def fill_with(
    filler: Filler, cube: xr.DataArray, *, interval: float = defaults.INTERVAL
) -> xr.Dataset:
    """The cube filled by something that has learnt already."""
    if not 0 < interval < 1:
        raise ConfigError(f"an interval holds a share between 0 and 1, but found {interval:g}")
    filled = filler.fill(cube)
    gap, open_still = cube.isnull().to_numpy(), filled.isnull().to_numpy()
    source = np.array(SOURCES, dtype=object)[np.where(gap, np.where(open_still, 2, 1), 0)]
    result = xr.Dataset({"value": filled, "source": (cube.dims, source)})
    if isinstance(filler, IntervalFiller):
        low, high = filler.interval(cube, interval)
        # a measured value is known: its interval is itself
        result["lower"] = low.where(gap, filled).transpose(*cube.dims)
        result["upper"] = high.where(gap, filled).transpose(*cube.dims)
        result.attrs["interval"] = interval
    return result


def count_sources(result: xr.Dataset) -> dict[str, dict[str, int]]:
    """How many cells of each measurement are observed, filled and unfillable."""
    source = result["source"].to_numpy()
    counts = {word: (source == word).sum(axis=(0, 1)) for word in SOURCES}
    names = [str(name) for name in result["measurement"].to_numpy()]
    return {name: {word: int(counts[word][m]) for word in SOURCES} for m, name in enumerate(names)}
