"""Where the stations are, from a table of their own."""

from dataclasses import replace

import pandas as pd
import xarray as xr

from cdsa.cube import check_cube
from cdsa.errors import TableError
from cdsa.sources.columns import LAT, LOCATION, LON, named, read_labels, read_numbers
from cdsa.sources.options import ReadOptions


def with_places(cube: xr.DataArray, places: pd.DataFrame, options: ReadOptions) -> xr.DataArray:
    """The cube with the coordinates of its stations as a table of stations gives them."""
    columns = [str(column) for column in places.columns]
    key = named(columns, LOCATION) or columns[0]
    lat, lon = named(columns, LAT), named(columns, LON)
    if lat is None or lon is None:
        raise TableError(
            "a locations table has a column of station names and the columns lat and lon, but "
            f"found {', '.join(columns)}"
        )

    def where(row: int) -> str:
        return f"row {row + 1} of the locations table"

    codes, texts, _ = read_labels(places[key], where)
    if len(texts) < len(codes):
        twice = texts[int(codes[pd.Series(codes).duplicated().to_numpy()][0])]
        raise TableError(
            f"each station stands once in the locations table, but '{twice}' does twice"
        )
    at = {text: number for number, text in enumerate(texts)}
    names = [str(name) for name in cube["location"].to_numpy()]
    for name in names:
        if name not in at:
            raise TableError(
                f"every station needs coordinates, but '{name}' is not in the locations table, "
                f"which has {', '.join(texts[:6])}{', ...' if len(texts) > 6 else ''}. Add it, or "
                "leave all coordinates out with --no-coordinates"
            )
    rows = [at[name] for name in names]
    found = {
        axis: ("location", read_numbers(places[column], replace(options, missing=()), where)[rows])
        for axis, column in (("lat", lat), ("lon", lon))
    }
    placed = cube.assign_coords(found)
    check_cube(placed)
    return placed
