"""Tables beside the data: station coordinates and graphs."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import COORDINATE_RANGE, check_cube
from cdsa.errors import TableError
from cdsa.io.columns import (
    LAT,
    LOCATION,
    LON,
    find_name,
    parse_labels,
    parse_numbers,
)
from cdsa.io.files import read_file
from cdsa.io.options import ReadOptions

SITES_TABLE = "the table of places"
"""What messages call one without a name."""


def open_sidecar(
    data: pd.DataFrame | str | Path, content: str = "stations", *, max_columns: int | None = None
) -> pd.DataFrame:
    """A table of stations, sites or edges with its raw entries."""
    if isinstance(data, pd.DataFrame):
        return data
    table = read_file(Path(data), ReadOptions(max_columns=max_columns)).content
    if not isinstance(table, pd.DataFrame):
        raise TableError(f"{data} is not a table of {content}")
    return table


@dataclass(frozen=True, eq=False)
class Sites:
    """Names and coordinates of places, in the order of their table."""

    names: list[str]
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]


def parse_sites(table: pd.DataFrame, what: str = "the locations table") -> Sites:
    """The places of a table with a column of names and the columns lat and lon."""
    columns = [str(column) for column in table.columns]
    key = find_name(columns, LOCATION) or columns[0]
    lat, lon = find_name(columns, LAT), find_name(columns, LON)
    if lat is None or lon is None:
        raise TableError(
            f"{what} must have a column of names and the columns lat and lon, but has "
            f"{', '.join(columns[:20])}{', ...' if len(columns) > 20 else ''}"
        )

    def where(row: int) -> str:
        return f"row {row + 1} of {what}"

    codes, texts, _ = parse_labels(table[key], where)
    if len(texts) < len(codes):
        twice = texts[int(codes[pd.Series(codes).duplicated().to_numpy()][0])]
        raise TableError(f"each place stands once in {what}, but '{twice}' does twice")
    comma = any(table[column].astype(str).str.contains(",").any() for column in (lat, lon))
    plain = ReadOptions(decimal="," if comma else ".")
    found = [parse_numbers(table[column], plain, where) for column in (lat, lon)]
    names = [texts[code] for code in codes]
    for (name, (low, high)), degrees in zip(COORDINATE_RANGE.items(), found, strict=True):
        for place, value in zip(names, degrees, strict=True):
            if not (np.isnan(value) or low <= value <= high):
                raise TableError(
                    f"{name} must be degrees from {low} to {high}, but {what} has {value:g} for "
                    f"'{place}'. Correct it there"
                )
    return Sites(names, *found)


def add_coordinates(cube: xr.DataArray, table: pd.DataFrame) -> xr.DataArray:
    """The cube with the coordinates of its stations as a table of stations gives them."""
    places = parse_sites(table)
    at = {name: number for number, name in enumerate(places.names)}
    names = [str(name) for name in cube["location"].to_numpy()]
    for name in names:
        if name not in at:
            some = ", ".join(places.names[:6]) + (", ..." if len(at) > 6 else "")
            raise TableError(
                f"every station needs coordinates, but '{name}' is not in the locations table, "
                f"which has {some}. Add it, or leave all coordinates out with --no-coordinates"
            )
    rows = [at[name] for name in names]
    placed = cube.assign_coords(
        lat=("location", places.lat[rows]), lon=("location", places.lon[rows])
    )
    check_cube(placed)
    return placed


FROM, TO, WEIGHT = ("from", "source"), ("to", "target"), ("weight",)


def read_graph(path: str | Path) -> tuple[tuple[str, str, float], ...]:
    """The edges of a table with the columns from, to and weight; without weights, all count as
    one."""
    return parse_edges(open_sidecar(path, "edges"), Path(path).name)


def parse_edges(table: pd.DataFrame, name: str = "the graph") -> tuple[tuple[str, str, float], ...]:
    """The edges of a table."""
    columns = [str(column) for column in table.columns]
    ends = [find_name(columns, names) for names in (FROM, TO)]
    if None in ends or table.empty:
        raise TableError(
            f"a graph is a table with the columns from and to, and perhaps weight, with a row for "
            f"each edge, but {name} has {', '.join(columns)} and {len(table)} rows"
        )

    def where(row: int) -> str:
        return f"row {row + 1} of {name}"

    labels = []
    for end in ends:
        codes, texts, _ = parse_labels(table[end], where)
        labels.append([texts[code] for code in codes])
    weights = np.ones(len(table))
    if (column := find_name(columns, WEIGHT)) is not None:
        weights = parse_numbers(table[column], ReadOptions(missing=()), where)
    for row in np.flatnonzero(~(weights > 0)):
        raise TableError(
            f"the weights of a graph are greater than 0, but found {weights[row]:g} in "
            f"{where(int(row))}. Leave out what is not joined"
        )
    return tuple(zip(*labels, map(float, weights), strict=True))
