"""Forecast a cube: a fill of empty steps appended to its end."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray as xr

from cdsa.core import defaults
from cdsa.core.cube import append_times
from cdsa.core.domain import Domain
from cdsa.core.prepare import Cube, prepare
from cdsa.core.records import Value
from cdsa.errors import ConfigError, unknown
from cdsa.methods.base import Filler, Method
from cdsa.workflows.advice import Message
from cdsa.workflows.fill import fill_with
from cdsa.workflows.score import try_method


def check_horizon(horizon: int) -> None:
    if not isinstance(horizon, int | np.integer) or horizon < 1:
        raise ConfigError(f"horizon is a whole number of steps from 1 on, but found {horizon!r}")


def split_known(cube: xr.DataArray, known: Sequence[str]) -> tuple[xr.DataArray, xr.DataArray]:
    """The cube up to the last step with a measured value of anything but the known covariates, and
    the known values after it."""
    names = [str(name) for name in cube["measurement"].to_numpy()]
    for name in known:
        if name not in names:
            raise ConfigError(unknown("measurement", name, names))
    targets = [name for name in names if name not in known]
    if not known:
        return cube, cube.isel(time=slice(0, 0))
    measured = cube.sel(measurement=targets).notnull().any(("location", "measurement")).to_numpy()
    if not targets or not measured.any():
        raise ConfigError(
            "at least one measurement must be forecast, but all of them are said to be known"
        )
    end = int(np.flatnonzero(measured)[-1]) + 1
    if not cube[end:].notnull().any():
        raise ConfigError(
            f"future values of {', '.join(known)} are said to be known, but there are none after "
            f"{cube['time'].to_numpy()[end - 1].astype('datetime64[s]')}, the last step with "
            "other values. Add rows with them, or leave out --known"
        )
    return cube.isel(time=slice(0, end)), cube.isel(time=slice(end, None))


def forecast_with(
    filler: Filler,
    cube: xr.DataArray,
    horizon: int,
    *,
    future: xr.DataArray | None = None,
    interval: float = defaults.INTERVAL,
) -> xr.Dataset:
    """The cube with its forecast, by a fitted filler; `future` holds known values after its end.

    Measured values and gaps before the end stay as they are.
    """
    trained = horizon if filler.horizon is None else filler.horizon
    if trained < horizon:
        ability = f"forecasts {trained} steps" if trained else "was not trained to forecast"
        raise ConfigError(
            f"a forecast of {horizon} steps was requested, but the network {ability}. Train one "
            f"for that horizon (cdsa train --forecast {horizon}), on a table that is longer than it"
        )
    n_known = 0 if future is None else future.sizes["time"]
    extended = append_times(cube, max(horizon, trained, n_known))
    if future is not None and n_known:
        extended[cube.sizes["time"] :][:n_known] = future.transpose(*cube.dims).to_numpy()
    filler = filler.adapt_to(cube)
    # a network's horizon starts where the cube ends; it needs nothing before its context
    end = cube.sizes["time"]
    context = end if filler.context_length is None else min(filler.context_length, end)
    window = prepare(extended.isel(time=slice(end - context, end + trained)), checked=True)
    window = replace(window, domain=Domain.of(cube))  # of all that was measured
    ahead = fill_with(filler, window, interval=interval).isel(
        time=slice(context, context + horizon)
    )
    source = ahead["source"].to_numpy()
    ahead["source"] = (cube.dims, np.where(source == "filled", "forecast", source).astype(object))
    complete = extended.isel(time=slice(0, end + max(horizon, n_known)))  # later known values stay
    columns = {name: complete.to_numpy().copy() for name in ahead}
    columns["source"] = np.where(complete.isnull(), "missing", "observed").astype(object)
    for name, values in columns.items():
        values[end : end + horizon] = ahead[name].to_numpy()
    return xr.Dataset(
        {name: (cube.dims, values) for name, values in columns.items()},
        coords=complete.coords,
        attrs=ahead.attrs,
    )


def forecast_errors(
    filler: Filler, method: Method, cube: Cube, horizon: int, message: Message
) -> list[dict[str, Value]]:
    """The errors to expect of a forecast: those of a network's validation, else those of a
    forecast of the last steps of the cube."""
    if method.trains:
        return list(filler.validation_errors)
    try:
        return try_method(method, cube, f"last:{horizon}").score.by_measurement()
    except ConfigError as reason:
        message(f"no error could be measured: {reason}")
        return []
