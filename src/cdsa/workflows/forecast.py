"""Carry a cube forward: a fill of empty steps behind its end."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core import defaults
from cdsa.core.cube import append_times, check_cube
from cdsa.core.records import Value
from cdsa.errors import ConfigError, unknown
from cdsa.methods.base import Acquainted, Filler, Foreseeing, Method
from cdsa.methods.registry import make_method
from cdsa.workflows.fill import check_share, fill_with
from cdsa.workflows.score import within


def forecast(
    cube: xr.DataArray,
    steps: int,
    method: str | Method = defaults.FORECAST,
    *,
    known: Sequence[str] = (),
    interval: float = defaults.INTERVAL,
    minutes: float | None = None,
) -> xr.Dataset:
    """The cube carried forward by so many steps: a fill of empty steps behind its end.

    Values ahead of measurements that are `known` in advance stand at the cube's end already: the
    forecast begins behind the last step at which something else was measured. Measured values and
    gaps before them stay as they are; `source` is 'observed', 'missing', 'forecast', or
    'unfillable' for what was never measured. `minutes` is the time a network may learn for.

    >>> import numpy as np
    >>> from cdsa.core.cube import make_cube
    >>> hours = np.arange("2020-01-01T00", "2020-01-01T03", dtype="datetime64[h]")
    >>> cube = make_cube(np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1), hours, ["A"], ["pm25"])
    >>> forecast(cube, 2, "last").value.values.ravel().tolist()
    [1.0, 2.0, 3.0, 3.0, 3.0]
    """
    check_cube(cube)
    check_share(interval)
    if not isinstance(steps, int | np.integer) or steps < 1:
        raise ConfigError(f"steps to foresee are a whole number from 1 on, but found {steps!r}")
    past, future = split_known(cube, known)
    _, made = make_method(method, ahead=steps, known=known)
    filler = within(made, minutes).fit(past)
    return forecast_with(filler, past, steps, future=future, interval=interval)


def split_known(cube: xr.DataArray, known: Sequence[str]) -> tuple[xr.DataArray, xr.DataArray]:
    """The cube up to the last step at which anything was measured but what is known in advance, and
    what is known behind it."""
    names = [str(name) for name in cube["measurement"].to_numpy()]
    for name in known:
        if name not in names:
            raise ConfigError(unknown("measurement", name, names))
    others = [name for name in names if name not in known]
    if not known:
        return cube, cube.isel(time=slice(0, 0))
    measured = cube.sel(measurement=others).notnull().any(("location", "measurement")).to_numpy()
    if not others or not measured.any():
        raise ConfigError(
            "something must be foreseen, but all that was measured is said to be known in advance"
        )
    end = int(np.flatnonzero(measured)[-1]) + 1
    if not cube[end:].notnull().any():
        raise ConfigError(
            f"values ahead of {', '.join(known)} are said to be known, but nothing stands behind "
            f"{cube['time'].to_numpy()[end - 1].astype('datetime64[s]')}, the last step with "
            "anything else. Add rows with them, or leave out --known"
        )
    return cube.isel(time=slice(0, end)), cube.isel(time=slice(end, None))


def forecast_with(
    filler: Filler,
    cube: xr.DataArray,
    steps: int,
    *,
    future: xr.DataArray | None = None,
    interval: float = defaults.INTERVAL,
) -> xr.Dataset:
    """The cube carried forward by something that has learnt already; `future` has what is known of
    the steps ahead."""
    foresees = getattr(filler, "foresees", steps)
    if foresees < steps:
        can = f"can foresee {foresees} steps" if foresees else "has not learnt to foresee"
        raise ConfigError(
            f"{steps} steps are to be foreseen, but what was trained {can}. Train a forecaster "
            "with that horizon, on a table that is longer than it"
        )
    given = 0 if future is None else future.sizes["time"]
    longer = append_times(cube, max(steps, foresees, given))
    if future is not None and given:
        longer[cube.sizes["time"] :][:given] = future.transpose(*cube.dims).to_numpy()
    if isinstance(filler, Acquainted):
        filler = filler.acquainted(cube)
    # a network starts its horizon where the cube ends, and needs nothing before what it looks at
    end = cube.sizes["time"]
    back = min(getattr(filler, "looks_back", end), end)
    seen = longer.isel(time=slice(end - back, end + foresees))
    ahead = fill_with(filler, seen, interval=interval).isel(time=slice(back, back + steps))
    told = ahead["source"].to_numpy()
    ahead["source"] = (cube.dims, np.where(told == "filled", "forecast", told).astype(object))
    whole = longer.isel(time=slice(0, end + max(steps, given)))  # what is known further on stays
    parts = {name: whole.to_numpy().copy() for name in ahead}
    parts["source"] = np.where(whole.isnull(), "missing", "observed").astype(object)
    for name, part in parts.items():
        part[end : end + steps] = ahead[name].to_numpy()
    return xr.Dataset(
        {name: (cube.dims, part) for name, part in parts.items()},
        coords=whole.coords,
        attrs=ahead.attrs,
    )


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


def forecast_records(
    result: xr.Dataset, method: str, steps: int, errors: Sequence[dict[str, Value]]
) -> list[dict[str, Value]]:
    """Flat records of a forecast, one per measurement."""
    known = {str(error["measurement"]): error for error in errors}
    source = result["source"].to_numpy()
    return [
        {
            "measurement": str(name),
            "method": method,
            "steps": steps,
            "forecast": int((source[:, :, number] == "forecast").sum()),
            "unfillable": int((source[:, :, number] == "unfillable").sum()),
            **{f"expected_{f}": known.get(str(name), {}).get(f) for f in ("mae", "rmse")},
        }
        for number, name in enumerate(result["measurement"].to_numpy())
    ]
