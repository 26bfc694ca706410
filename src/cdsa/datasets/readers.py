"""Helpers that the readers of several datasets share."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.cube import assign_metadata, make_cube, round_significant
from cdsa.errors import TableError


def table_to_cube(
    table: pd.DataFrame,
    name: str,
    unit: str,
    bounds: tuple[float, float],
    lat: list[float] | None = None,
    lon: list[float] | None = None,
) -> xr.DataArray:
    """The cube of one measurement from a table with a row per step and a column per station."""
    values = table.to_numpy(dtype=float)[:, :, None]
    stations = [str(station) for station in table.columns]
    cube = make_cube(values, table.index.to_numpy(), stations, [name], lat=lat, lon=lon)
    return assign_metadata(cube, units={name: unit}, bounds={name: bounds})


def read_npz(path: Path) -> xr.DataArray:
    """The cube of a NumPy archive; pickled objects are refused."""
    try:
        with np.load(path, allow_pickle=False) as file:
            values = file["X"]
            # as they were before they were stored as float32: 1.3, not 1.2999999523162842
            is_single = values.dtype == np.float32
            return make_cube(
                round_significant(values, 7) if is_single else values.astype(np.float64),
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


def get_coordinates(stations: pd.DataFrame) -> tuple[list[float], list[float]] | tuple[None, None]:
    """The columns latitude and longitude of a table of stations; None if an entry is missing."""
    if stations[["latitude", "longitude"]].isna().any(axis=None):
        return None, None
    return stations["latitude"].tolist(), stations["longitude"].tolist()
