"""Simple baselines without settings: mean, last value, linear interpolation, climatology."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.methods.wrapper import Baseline, PredictFn


@dataclass(frozen=True, kw_only=True)
class Mean(Baseline):
    """The mean of the station's own values, per measurement."""

    name: ClassVar[str] = "mean"

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return _predict_nothing


def _predict_nothing(cube: xr.DataArray) -> xr.DataArray:
    """All NaN: the wrapper fills what a method leaves open with means."""
    return xr.full_like(cube, np.nan)


@dataclass(frozen=True, kw_only=True)
class Last(Baseline):
    """The last value before the gap; the first one after it at the start of a series."""

    name: ClassVar[str] = "last"

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return _carry_forward


def _carry_forward(cube: xr.DataArray) -> xr.DataArray:
    series = _to_frame(cube).ffill().bfill()
    return cube.copy(data=series.to_numpy().reshape(cube.shape))


@dataclass(frozen=True, kw_only=True)
class Linear(Baseline):
    """Linear interpolation in time; constant before the first and after the last value."""

    name: ClassVar[str] = "linear"

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return interpolate_linear


def interpolate_linear(cube: xr.DataArray) -> xr.DataArray:
    """The cube with each gap interpolated linearly in time."""
    steps = np.arange(cube.sizes["time"])
    values = cube.to_numpy().reshape(len(steps), -1).copy()
    observed = np.isfinite(values)
    for column in np.flatnonzero(observed.any(axis=0) & ~observed.all(axis=0)):
        known = observed[:, column]
        values[~known, column] = np.interp(steps[~known], steps[known], values[known, column])
    return cube.copy(data=values.reshape(cube.shape))


@dataclass(frozen=True, kw_only=True)
class Climatology(Baseline):
    """The mean of the station's values at this hour of the day and month of the year.

    A combination that was never measured falls back to the mean of the hour, then of the month,
    then of the station.
    """

    name: ClassVar[str] = "climatology"

    def _fit(self, components: xr.DataArray) -> PredictFn:
        series = _to_frame(components)
        hour, month = _calendar(components)
        tables = [series.groupby(key).mean() for key in ([hour, month], [hour], [month])]

        def predict(cube: xr.DataArray) -> xr.DataArray:
            hour, month = _calendar(cube)
            keys = pd.MultiIndex.from_arrays([hour, month]), pd.Index(hour), pd.Index(month)
            columns = _to_frame(cube).columns
            prediction = np.full((len(hour), len(columns)), np.nan)
            for table, key in zip(tables, keys, strict=True):
                means = table.reindex(index=key, columns=columns).to_numpy()
                prediction = np.where(np.isnan(prediction), means, prediction)
            return cube.copy(data=prediction.reshape(cube.shape))

        return predict


def _calendar(cube: xr.DataArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    time = pd.DatetimeIndex(cube["time"].to_numpy())
    return time.hour.to_numpy(np.int64), time.month.to_numpy(np.int64)


def _to_frame(cube: xr.DataArray) -> pd.DataFrame:
    """A row per time step, a column per (location, measurement)."""
    columns = pd.MultiIndex.from_product(
        [cube["location"].to_numpy(), cube["measurement"].to_numpy()]
    )
    return pd.DataFrame(cube.to_numpy().reshape(cube.sizes["time"], -1), columns=columns)
