"""A cube as a frame in each layout."""

import pandas as pd
import xarray as xr


def panel(cube: xr.DataArray) -> pd.DataFrame:
    """One row per time and station, with coordinates."""
    frame = cube.to_series().unstack("measurement").reset_index()
    frame["lat"] = cube["lat"].to_series().reindex(frame["location"]).to_numpy()
    frame["lon"] = cube["lon"].to_series().reindex(frame["location"]).to_numpy()
    return frame.rename_axis(columns=None).rename(columns={"location": "station"})


def long(cube: xr.DataArray) -> pd.DataFrame:
    """One row per time, station and measurement."""
    return cube.to_series().rename("value").reset_index()


def wide(cube: xr.DataArray) -> pd.DataFrame:
    """One column per station, of the first measurement."""
    return cube[:, :, 0].to_series().unstack("location").rename_axis(columns=None).reset_index()
