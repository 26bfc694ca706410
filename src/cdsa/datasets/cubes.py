"""Cubes kept as NumPy archives: X (time, location, measurement), time, stations, measurements,
lat, lon."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import xarray as xr

from cdsa.cube import make_cube
from cdsa.errors import TableError


def read_npz(path: Path) -> xr.DataArray:
    """The cube of such an archive; nothing in it is executed."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return make_cube(
                file["X"].astype(np.float64),
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
