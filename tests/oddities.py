"""Small sources for the tests of odd ones."""

import numpy as np
import pandas as pd
import xarray as xr

import cdsa
from cdsa.io.source import open_source

HOURS = pd.date_range("2020-01-01", periods=6, freq="h")
NAN = float("nan")


def round_trip(data, method="linear", **options):
    source = open_source(data, **options)
    return source.filled(cdsa.fill(source.cube, method))


def panel(**columns) -> pd.DataFrame:
    """One station, six hours."""
    return pd.DataFrame({"time": HOURS, "station": "A", **columns})


def dataset(**variables) -> xr.Dataset:
    """Six hours at two stations."""
    parts = {
        name: (("time", "station"), np.array(v, dtype=float).reshape(6, 2))
        for name, v in variables.items()
    }
    return xr.Dataset(parts, {"time": HOURS, "station": ["A", "B"]})


RISING = np.arange(12.0)
GAPPY = np.where(RISING == 4, NAN, RISING)


def write_csv(tmp_path, *stamps: str) -> pd.DataFrame:
    lines = [f"{stamp},A,{n}" for n, stamp in enumerate(stamps)]
    (tmp_path / "in.csv").write_text("\n".join(["time,station,x", *lines, ""]))
    return tmp_path / "in.csv"


def stamps_written(path, **options) -> list[str]:
    return round_trip(path, **options)["time"].tolist()
