"""Tables beside the data: station coordinates, unmonitored sites and graphs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import COORDINATE_RANGE, check_cube
from cdsa.core.geo import Edge
from cdsa.errors import TableError
from cdsa.io.columns import LAT, LOCATION, LON, find_name
from cdsa.io.entries import parse_labels, parse_numbers
from cdsa.io.files import read_file
from cdsa.io.options import ReadOptions
from cdsa.io.table_files import RawTable, to_pandas

SITES_TABLE = "the table of sites"
"""The name of a table without one, in messages."""

FROM, TO, WEIGHT = ("from", "source"), ("to", "target"), ("weight",)


@dataclass(frozen=True, eq=False)
class Sites:
    """Names and coordinates, in the order of their table."""

    names: list[str]
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]


def read_frame(
    data: Any, content: str = "stations", *, max_columns: int | None = None
) -> pd.DataFrame:
    """A table of stations, sites or edges, from a path or a frame, with its raw entries."""
    if isinstance(data, str | Path):
        table = read_file(Path(data), ReadOptions(max_columns=max_columns))
        frame = table.frame if isinstance(table, RawTable) else None
    else:
        frame = to_pandas(data)
    if not isinstance(frame, pd.DataFrame):
        raise TableError(f"a table of {content} is a file or a frame, but found {data!r}")
    return frame


def read_sites(sites: Any) -> Sites:
    """The sites of a file or frame with names, lat and lon."""
    name = Path(sites).name if isinstance(sites, str | Path) else SITES_TABLE
    return parse_sites(read_frame(sites), name)


def parse_sites(
    table: pd.DataFrame,
    table_name: str = "the locations table",
    lat: str | None = None,
    lon: str | None = None,
) -> Sites:
    """The sites of a table with a column of names and those of latitude and longitude, which have
    their usual names or these."""
    columns = [str(column) for column in table.columns]
    key = find_name(columns, LOCATION) or columns[0]
    lat = lat if lat in columns else find_name(columns, LAT)
    lon = lon if lon in columns else find_name(columns, LON)
    if lat is None or lon is None:
        raise TableError(
            f"{table_name} must have a column of names and the columns lat and lon, but has "
            f"{', '.join(columns[:20])}{', ...' if len(columns) > 20 else ''}. Name those of the "
            "locations table with --lat COLUMN and --lon COLUMN"
        )

    def where(row: int) -> str:
        return f"row {row + 1} of {table_name}"

    codes, labels, _ = parse_labels(table[key], where)
    if len(labels) < len(codes):
        repeated = labels[int(codes[pd.Series(codes).duplicated().to_numpy()][0])]
        raise TableError(f"each site may be in {table_name} once, but '{repeated}' is there twice")
    has_comma = any(table[column].astype(str).str.contains(",").any() for column in (lat, lon))
    options = ReadOptions(decimal="," if has_comma else ".")
    degrees = [parse_numbers(table[column], options, where) for column in (lat, lon)]
    names = [labels[code] for code in codes]
    for (axis, (low, high)), values in zip(COORDINATE_RANGE.items(), degrees, strict=True):
        for row in np.flatnonzero((values < low) | (values > high)):
            raise TableError(
                f"{axis} must be from {low} to {high} degrees, but {table_name} has "
                f"{values[row]:g} for '{names[row]}'. Correct it there"
            )
    return Sites(names, *degrees)


def add_coordinates(
    cube: xr.DataArray, table: pd.DataFrame, lat: str | None = None, lon: str | None = None
) -> xr.DataArray:
    """The cube with the coordinates of its stations from a table of stations, in which their
    columns may have these names."""
    sites = parse_sites(table, lat=lat, lon=lon)
    stations = cube["location"].to_numpy()
    rows = pd.Index(sites.names).get_indexer(stations)
    for station in stations[rows < 0]:
        examples = ", ".join(sites.names[:6]) + (", ..." if len(sites.names) > 6 else "")
        raise TableError(
            f"every station needs coordinates, but '{station}' is not in the locations table, "
            f"which has {examples}. Add it, or ignore all coordinates with --no-coordinates"
        )
    coords = {"lat": ("location", sites.lat[rows]), "lon": ("location", sites.lon[rows])}
    located = cube.assign_coords(coords)
    check_cube(located)
    return located


def read_graph(path: str | Path) -> tuple[Edge, ...]:
    """The edges of a table with the columns from, to and, optionally, weight (1 by default)."""
    table, table_name = read_frame(path, "edges"), Path(path).name
    columns = [str(column) for column in table.columns]
    node_columns = [find_name(columns, names) for names in (FROM, TO)]
    if None in node_columns or table.empty:
        raise TableError(
            "a graph is a table with one row per edge and the columns from, to and, optionally, "
            f"weight, but {table_name} has {', '.join(columns)} and {len(table)} rows"
        )

    def where(row: int) -> str:
        return f"row {row + 1} of {table_name}"

    nodes = []
    for column in node_columns:
        codes, labels, _ = parse_labels(table[column], where)
        nodes.append([labels[code] for code in codes])
    weights = np.ones(len(table))
    if (weight_column := find_name(columns, WEIGHT)) is not None:
        weights = parse_numbers(table[weight_column], ReadOptions(), where)
    for row in np.flatnonzero(~(weights > 0)):
        raise TableError(
            f"the weights of a graph are greater than 0, but found {weights[row]:g} in "
            f"{where(int(row))}. Omit edges without a weight"
        )
    return tuple(zip(*nodes, map(float, weights), strict=True))
