"""Fill a cube, or carry it forward: the library's main functions."""

import numpy as np
import xarray as xr

from cdsa import defaults
from cdsa.cube import append_times, check_cube
from cdsa.errors import ConfigError
from cdsa.method import Filler, IntervalFiller, Method, make_method

OF_A_FILL = ("observed", "filled", "unfillable")
"""What the cells of a filled cube may be."""


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
    source = np.where(gap, np.where(open_still, "unfillable", "filled"), "observed").astype(object)
    result = xr.Dataset({"value": filled, "source": (cube.dims, source)})
    if isinstance(filler, IntervalFiller):
        low, high = filler.interval(cube, interval)
        # a measured value is known: its interval is itself
        result["lower"] = low.where(gap, filled).transpose(*cube.dims)
        result["upper"] = high.where(gap, filled).transpose(*cube.dims)
        result.attrs["interval"] = interval
    return result


def forecast(
    cube: xr.DataArray,
    steps: int,
    method: str | Method = defaults.FORECAST,
    *,
    interval: float = defaults.INTERVAL,
) -> xr.Dataset:
    """The cube carried forward by so many steps: a fill of empty steps behind its end.

    Measured values and gaps before them stay as they are; `source` is 'observed', 'missing',
    'forecast', or 'unfillable' for what was never measured.

    >>> import numpy as np
    >>> from cdsa.cube import make_cube
    >>> hours = np.arange("2020-01-01T00", "2020-01-01T03", dtype="datetime64[h]")
    >>> cube = make_cube(np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1), hours, ["A"], ["pm25"])
    >>> forecast(cube, 2, "last").value.values.ravel().tolist()
    [1.0, 2.0, 3.0, 3.0, 3.0]
    """
    check_cube(cube)
    _, made = make_method(method, ahead=steps)
    return forecast_with(made.fit(cube), cube, steps, interval=interval)


def forecast_with(
    filler: Filler, cube: xr.DataArray, steps: int, *, interval: float = defaults.INTERVAL
) -> xr.Dataset:
    """The cube carried forward by something that has learnt already."""
    result = fill_with(filler, append_times(cube, steps), interval=interval)
    before = np.arange(result.sizes["time"])[:, None, None] < cube.sizes["time"]
    source = result["source"].to_numpy()
    gap = before & (source != "observed")
    source = np.where(gap, "missing", np.where(source == "filled", "forecast", source))
    kept = xr.DataArray(~gap, dims=result["value"].dims)
    parts = {str(name): result[name].where(kept) for name in result if name != "source"}
    return result.assign(parts).assign(source=(result["value"].dims, source.astype(object)))


def count_sources(result: xr.Dataset) -> dict[str, dict[str, int]]:
    """How many cells of each measurement are observed, filled and unfillable."""
    source = result["source"].to_numpy()
    counts = {word: (source == word).sum(axis=(0, 1)) for word in OF_A_FILL}
    names = [str(name) for name in result["measurement"].to_numpy()]
    return {n: {word: int(counts[word][m]) for word in OF_A_FILL} for m, n in enumerate(names)}
