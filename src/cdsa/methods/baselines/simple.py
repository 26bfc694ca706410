"""Simple baselines without settings: mean, last value, seasonal naive, linear interpolation and
climatology."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.methods.wrapper import Baseline, PredictFn

PERIODS = np.timedelta64(7, "D"), np.timedelta64(1, "D")
"""Seasons of the seasonal naive method, in the order in which they are tried."""


@dataclass(frozen=True, kw_only=True)
class Mean(Baseline):
    """The mean of the station's own values, per measurement."""

    name: ClassVar[str] = "mean"

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return lambda cube: xr.full_like(cube, np.nan)  # the wrapper fills in means


@dataclass(frozen=True, kw_only=True)
class Last(Baseline):
    """The last value before the gap; the first one after it at the start of a series."""

    name: ClassVar[str] = "last"

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return lambda cube: to_cube(to_frame(cube).ffill().bfill(), cube)


@dataclass(frozen=True, kw_only=True)
class SeasonalNaive(Baseline):
    """The last value at the same time of the week, else of the day, else the last value.

    At the start of a series, where there is none before, it is the first one after. Periods that
    are not a whole number of time steps are left out.
    """

    name: ClassVar[str] = "seasonal-naive"

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return _repeat_seasons


def _repeat_seasons(cube: xr.DataArray) -> xr.DataArray:
    frame, times = to_frame(cube), cube["time"].to_numpy()
    step = times[1] - times[0] if len(times) > 1 else PERIODS[0]
    lengths = [int(period // step) for period in PERIODS if period % step == np.timedelta64(0)]
    prediction = frame
    for length in (*lengths, 1):  # every step is at the same time of a period of one step
        seasons = frame.groupby(np.arange(len(frame)) % length)
        prediction = prediction.fillna(seasons.ffill()).fillna(seasons.bfill())
    return to_cube(prediction, cube)


@dataclass(frozen=True, kw_only=True)
class Linear(Baseline):
    """Linear interpolation in time; constant before the first and after the last value."""

    name: ClassVar[str] = "linear"

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return interpolate_linear


def interpolate_linear(cube: xr.DataArray) -> xr.DataArray:
    """The cube with each gap interpolated linearly in time."""
    return to_cube(to_frame(cube).interpolate(limit_direction="both"), cube)


@dataclass(frozen=True, kw_only=True)
class Climatology(Baseline):
    """The mean of the station's values at this hour of the day and month of the year.

    A combination that was never measured falls back to the mean of the hour, then of the month,
    then of the station.
    """

    name: ClassVar[str] = "climatology"

    def _fit(self, components: xr.DataArray) -> PredictFn:
        series = to_frame(components)
        tables = [series.groupby(key).mean() for key in _calendar_keys(components)]

        def predict(cube: xr.DataArray) -> xr.DataArray:
            prediction = to_frame(xr.full_like(cube, np.nan))
            for table, key in zip(tables, _calendar_keys(cube), strict=True):
                means = table.reindex(index=key, columns=prediction.columns).to_numpy()
                prediction = prediction.where(prediction.notna(), means)
            return to_cube(prediction, cube)

        return predict


def _calendar_keys(cube: xr.DataArray) -> tuple[pd.Index, pd.Index, pd.Index]:
    """Of each time step the hour and month, the hour, and the month."""
    time = pd.DatetimeIndex(cube["time"].to_numpy())
    return pd.MultiIndex.from_arrays([time.hour, time.month]), time.hour, time.month


def to_frame(cube: xr.DataArray) -> pd.DataFrame:
    """A row per time step, a column per (location, measurement)."""
    columns = pd.MultiIndex.from_product(
        [cube["location"].to_numpy(), cube["measurement"].to_numpy()]
    )
    return pd.DataFrame(cube.to_numpy().reshape(cube.sizes["time"], -1), columns=columns)


def to_cube(frame: pd.DataFrame, like: xr.DataArray) -> xr.DataArray:
    """The values of a frame of `to_frame` as a cube with the labels of another."""
    return like.copy(data=frame.to_numpy(copy=True).reshape(like.shape))
