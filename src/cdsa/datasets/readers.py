"""Helpers that the readers of several datasets share."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import make_cube, round_significant
from cdsa.errors import TableError


def read_npz(path: Path) -> xr.DataArray:
    """The cube of a NumPy archive; pickled objects are refused."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return make_cube(
                _restore_decimals(file["X"]),
                file["time"],
                [str(name) for name in file["stations"]],
                [str(name) for name in file["measurements"]],
                lat=file["lat"],
                lon=file["lon"],
            )
    except (KeyError, ValueError, OSError, BadZipFile, EOFError) as bad:
        raise TableError(
            f"{path.name} must be a NumPy archive with X, time, stations, measurements, lat and "
            f"lon, but could not be read as one: {bad}"
        ) from bad


def _restore_decimals(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Values as they were before they were stored as float32: 1.3, not 1.2999999523162842."""
    if values.dtype == np.float32:
        return round_significant(values, 7)
    return values.astype(np.float64)


def regular_index(times: pd.Series | pd.Index, step: str, table: str) -> pd.DatetimeIndex:
    """The regular grid of timestamps; a missing timestamp or one off the grid is refused."""
    index = pd.DatetimeIndex(pd.to_datetime(times))
    if not len(index):
        raise TableError(f"{table} has no rows")
    if index.hasnans:
        raise TableError(f"{table} has a row without a timestamp")
    off_grid = index[index != index.floor(step)]
    if len(off_grid):
        raise TableError(
            f"{table} must have a timestamp every {step}, but has one at {off_grid[0]}"
        )
    return pd.date_range(index.min(), index.max(), freq=step)


def get_coordinates(
    stations: pd.DataFrame,
) -> tuple[list[float], list[float]] | tuple[None, None]:
    """The columns latitude and longitude of a table of stations; None if an entry is missing."""
    if stations[["latitude", "longitude"]].isna().any(axis=None):
        return None, None
    return stations["latitude"].tolist(), stations["longitude"].tolist()
