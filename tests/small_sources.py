"""Small tables and datasets."""

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import cdsa
from cdsa.io.source import open_source

HOURS = pd.date_range("2020-01-01", periods=6, freq="h")
NAN = float("nan")


def round_trip(data, method="linear", **options):
    """The source filled, in its own form."""
    source = open_source(data, **options)
    return source.filled(cdsa.fill(source.cube, method, check=False))


def panel(**columns) -> pd.DataFrame:
    """One station, six hours."""
    return pd.DataFrame({"time": HOURS, "station": "A", **columns})


def dataset(**variables) -> xr.Dataset:
    """Six hours at two stations."""
    data_vars = {
        name: (("time", "station"), np.array(v, dtype=float).reshape(6, 2))
        for name, v in variables.items()
    }
    return xr.Dataset(data_vars, {"time": HOURS, "station": ["A", "B"]})


RISING = np.arange(12.0)
GAPPY = np.where(RISING == 4, NAN, RISING)


def write_csv(tmp_path, *timestamps: str) -> Path:
    """A table of one station with these timestamps."""
    lines = [f"{timestamp},A,{n}" for n, timestamp in enumerate(timestamps)]
    (tmp_path / "in.csv").write_text("\n".join(["time,station,x", *lines, ""]))
    return tmp_path / "in.csv"


def written_timestamps(path, **options) -> list[str]:
    return round_trip(path, **options)["time"].tolist()
