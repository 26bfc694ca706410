"""Fill a cube, or carry it forward: the library's main functions."""

from typing import Protocol, runtime_checkable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

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
    foresees = getattr(filler, "foresees", steps)
    if foresees < steps:
        can = f"can foresee {foresees} steps" if foresees else "has not learnt to foresee"
        raise ConfigError(
            f"{steps} steps are to be foreseen, but what was trained {can}. Train a forecaster "
            "with that horizon, on a table that is longer than it"
        )
    longer = append_times(cube, steps)
    # a network starts its horizon where the cube ends, and needs nothing before what it looks at
    back = min(getattr(filler, "looks_back", cube.sizes["time"]), cube.sizes["time"])
    seen = append_times(cube, foresees).isel(time=slice(-(back + foresees), None))
    ahead = fill_with(filler, seen, interval=interval).isel(time=slice(back, back + steps))
    before = {name: cube.to_numpy() for name in ahead if name != "source"}
    before["source"] = np.where(cube.isnull(), "missing", "observed").astype(object)
    told = ahead["source"].to_numpy()
    parts = {name: ahead[name].to_numpy() for name in before}
    parts["source"] = np.where(told == "filled", "forecast", told).astype(object)
    return xr.Dataset(
        {name: (cube.dims, np.concatenate([old, parts[name]])) for name, old in before.items()},
        coords=longer.coords,
        attrs=ahead.attrs,
    )


@runtime_checkable
class Foreseeing(Protocol):
    """A filler that can tell many forecasts at once."""

    def foresee(self, cube: xr.DataArray, origins: NDArray[np.int64]) -> list[xr.DataArray]: ...


def forecasts_from(
    filler: Filler, cube: xr.DataArray, origins: NDArray[np.int64], *, past: int, ahead: int
) -> list[xr.DataArray]:
    """Forecasts from many moments: what the steps `origin`, `origin + 1` ... will be, told from the
    `past` steps before each origin and nothing else. One cube per step ahead, with a time for every
    origin."""
    if isinstance(filler, Foreseeing) and (
        (getattr(filler, "looks_back", past), getattr(filler, "foresees", ahead)) == (past, ahead)
    ):
        return filler.foresee(cube, origins)
    told = np.empty((len(origins), ahead, *cube.shape[1:]), dtype=cube.dtype)
    for number, origin in enumerate(origins):
        piece = cube.isel(time=slice(origin - past, origin + ahead))
        shown = piece.where(xr.DataArray(np.arange(past + ahead) < past, dims="time"))
        told[number] = filler.fill(shown.transpose(*cube.dims)).to_numpy()[past:]
    return [cube.isel(time=origins + step).copy(data=told[:, step]) for step in range(ahead)]


def count_sources(result: xr.Dataset) -> dict[str, dict[str, int]]:
    """How many cells of each measurement are observed, filled and unfillable."""
    source = result["source"].to_numpy()
    counts = {word: (source == word).sum(axis=(0, 1)) for word in OF_A_FILL}
    names = [str(name) for name in result["measurement"].to_numpy()]
    return {n: {word: int(counts[word][m]) for word in OF_A_FILL} for m, n in enumerate(names)}
