"""Readers that several data sets share."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import make_cube, round_significant
from cdsa.errors import TableError


def _restore_decimals(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Values as they were before they became short floats: 1.3, not 1.2999999523162842."""
    if values.dtype == np.float32:
        return round_significant(values, 7)
    return values.astype(np.float64)


def read_npz(path: Path) -> xr.DataArray:
    """The cube of such an archive; nothing in it is executed."""
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
            f"lon, but could not be read so: {bad}"
        ) from bad


def regular_index(times: pd.Series | pd.Index, step: str, name: str) -> pd.DatetimeIndex:
    """The regular grid under these stamps; one that is missing or off it is refused."""
    stamps = pd.DatetimeIndex(pd.to_datetime(times))
    if not len(stamps):
        raise TableError(f"{name} has no rows")
    if stamps.hasnans:
        raise TableError(f"{name} has a row without a time stamp")
    off = stamps[stamps != stamps.floor(step)]
    if len(off):
        raise TableError(f"{name} must have a stamp every {step}, but has one at {off[0]}")
    return pd.date_range(stamps.min(), stamps.max(), freq=step)
