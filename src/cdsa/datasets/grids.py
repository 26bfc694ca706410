"""Rows by time brought onto the grid that a data set has."""

import pandas as pd

from cdsa.errors import TableError


def on_grid(times: pd.Series | pd.Index, step: str, name: str) -> pd.DatetimeIndex:
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
