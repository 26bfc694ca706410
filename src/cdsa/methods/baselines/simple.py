"""Methods without anything to tune; each stands in every table, so that nothing worse is sold."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.methods.wrapper import GuardedFiller, Guess, guarded


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The mean of the station's own values, per measurement."""

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        return guarded(cube, lambda plain: _nothing)


def _nothing(cube: xr.DataArray) -> xr.DataArray:
    """No guess of one's own: the means that stand behind every method are the answer."""
    return xr.full_like(cube, np.nan)


@dataclass(frozen=True, kw_only=True)
class Last:
    """The last value before the gap; the first one after it at the start of a series."""

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        return guarded(cube, lambda plain: last_value)


def last_value(cube: xr.DataArray) -> xr.DataArray:
    """Each gap with the value before it, or after it where nothing comes before."""
    series = _series(cube)
    return _cube_of(series.ffill().bfill(), cube)


@dataclass(frozen=True, kw_only=True)
class Linear:
    """A straight line in time across the gap; level where one end is missing."""

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        return guarded(cube, lambda plain: straight_line)


def straight_line(cube: xr.DataArray) -> xr.DataArray:
    """Each gap bridged by a straight line between the values around it."""
    steps = np.arange(cube.sizes["time"])
    values = cube.to_numpy().reshape(len(steps), -1).copy()
    known = np.isfinite(values)
    for number in np.flatnonzero(known.any(axis=0) & ~known.all(axis=0)):
        there = known[:, number]
        values[~there, number] = np.interp(steps[~there], steps[there], values[there, number])
    return cube.copy(data=values.reshape(cube.shape))


@dataclass(frozen=True, kw_only=True)
class Climatology:
    """The usual value of the station at this hour of the day and month of the year.

    Where that combination was never measured: at this hour in any month, then in this month at any
    hour, then the station's mean.
    """

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        return guarded(cube, _usual)


def _usual(plain: xr.DataArray) -> Guess:
    """Learn the mean of every series by (hour, month), hour and month."""
    series = _series(plain)
    hour, month = _calendar(plain)
    tables = [series.groupby(key).mean() for key in ([hour, month], [hour], [month])]

    def guess(cube: xr.DataArray) -> xr.DataArray:
        hour, month = _calendar(cube)
        keys = pd.MultiIndex.from_arrays([hour, month]), pd.Index(hour), pd.Index(month)
        wanted = _series(cube).columns
        found = np.full((len(hour), len(wanted)), np.nan)
        for table, key in zip(tables, keys, strict=True):
            usual = table.reindex(index=key, columns=wanted).to_numpy()
            found = np.where(np.isnan(found), usual, found)
        return cube.copy(data=found.reshape(cube.shape))

    return guess


def _calendar(cube: xr.DataArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    time = pd.DatetimeIndex(cube["time"].to_numpy())
    return time.hour.to_numpy(np.int64), time.month.to_numpy(np.int64)


def _series(cube: xr.DataArray) -> pd.DataFrame:
    """Time down, one column per (location, measurement)."""
    names = pd.MultiIndex.from_product(
        [cube["location"].to_numpy(), cube["measurement"].to_numpy()]
    )
    return pd.DataFrame(cube.to_numpy().reshape(cube.sizes["time"], -1), columns=names)


def _cube_of(series: pd.DataFrame, like: xr.DataArray) -> xr.DataArray:
    return like.copy(data=series.to_numpy().reshape(like.shape))
