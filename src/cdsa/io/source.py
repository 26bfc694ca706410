"""Sources: anything a user may hand us, opened as a cube and written back in its own form."""

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.cube import DIMS, append_locations, append_times
from cdsa.errors import TableError
from cdsa.io.arrays import Arrays
from cdsa.io.cf import to_cf_dataset
from cdsa.io.columns import LOCATION, MEASUREMENT, TIME, find_name
from cdsa.io.files import (
    CsvStyle,
    Format,
    RawFile,
    detect_format,
    read_file,
    refuse_duplicate_names,
)
from cdsa.io.options import parse_options
from cdsa.io.parse_arrays import parse_arrays
from cdsa.io.parse_table import parse_table
from cdsa.io.sidecars import SITES_TABLE, Sites, add_coordinates, open_sidecar, parse_sites
from cdsa.io.table import Table
from cdsa.io.write import staged_tables, to_panel, write_arrays, write_frame

KEY_NAMES = (*TIME, *LOCATION, *MEASUREMENT)


logger = logging.getLogger("cdsa")


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """Something opened: its cube, and how to write a filled cube in its own form."""

    content: Table | Arrays
    cube: xr.DataArray
    name: str
    style: CsvStyle | None = None
    """How its CSV file is written; None for other formats."""

    schema: Any = None
    """The Arrow schema of its Parquet file."""

    column_names: dict[str, object] = field(default_factory=dict)
    """Names of a frame's columns as they were, where they were not text."""

    index_names: tuple[tuple[str, object], ...] = ()
    """Columns that were the index of a frame, and the names they had there."""

    row_index: pd.Index | None = None
    """The index of a frame that says nothing about time or place."""

    @property
    def layout(self) -> str:
        """The recognised layout in words."""
        return self.content.layout

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about how it was read."""
        return self.content.notes

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may have been read wrongly, and the option that would put it right."""
        return self.content.warnings

    @property
    def passthrough(self) -> tuple[str, ...]:
        """Columns that are no part of the cube; only a table has a place for them."""
        return self.content.roles.passthrough if isinstance(self.content, Table) else ()

    def __repr__(self) -> str:
        sizes = " x ".join(f"{size} {axis}s" for axis, size in self.cube.sizes.items())
        return f"<Source {self.name}: {self.layout}; {sizes}>"

    def with_horizon(self, n_steps: int, n_known: int = 0) -> "Source":
        """The source to be written with a forecast of so many steps: empty ones behind its end,
        less those `given` there already, with what is known in advance."""
        first, more = self.cube.sizes["time"] - n_known, n_steps - n_known
        own, cube = self.content.cube, self.cube
        if more > 0:
            own, cube = append_times(own, more), append_times(cube, more)
        content = self.content.with_horizon(own, slice(first, first + n_steps))
        return replace(self, content=content, cube=cube, row_index=None)

    def with_sites(self, sites: Sites | pd.DataFrame | str | Path) -> "Source":
        """The source with an empty station at each of these places, a table of names, lat and lon:
        virtual sensors, to be filled."""
        if not isinstance(sites, Sites):
            what = SITES_TABLE if isinstance(sites, pd.DataFrame) else Path(sites).name
            sites = parse_sites(open_sidecar(sites), what)
        cube = append_locations(self.cube, sites.names, sites.lat, sites.lon)
        content = self.content.with_sites(cube)
        return replace(self, content=content, cube=cube, row_index=None)

    def filled(self, result: xr.Dataset) -> pd.DataFrame | xr.Dataset:
        """The result in the source's own form: a frame for a table, a data set for arrays."""
        self._refuse_other_cube(result)
        if isinstance(self.content, Arrays):
            return self.content.filled(result)
        return self._restore_labels(self.content.filled(result["value"]))

    def _refuse_other_cube(self, result: xr.Dataset) -> None:
        """Refuse what is no fill of this source's own cube."""
        for axis in DIMS:
            own, other = self.cube[axis].to_numpy(), result[axis].to_numpy()
            if len(own) != len(other) or (own != other).any():
                raise TableError(
                    f"the result must be of this source's own cube, which has {len(own)} "
                    f"{axis}s, but it has {len(other)}"
                    + (" others" if len(own) == len(other) else "")
                    + ". Fill source.cube. Save a forecast of N steps with "
                    "source.with_horizon(N), and added sites with the source that "
                    "source.with_sites(sites) returned"
                )

    def _restore_labels(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with the index and the column names it came with."""
        if self.index_names:
            frame = frame.set_index([name for name, _ in self.index_names])
            frame.index.names = [name for _, name in self.index_names]
        elif self.row_index is not None and len(frame) == len(self.row_index):  # nothing was added
            frame = frame.set_axis(self.row_index, axis=0)
        return frame.rename(columns=self.column_names)

    def detail(self, result: xr.Dataset) -> pd.DataFrame:
        """One row per cell that was missing: where, what it was filled with, and its source. Of a
        forecast, one row per cell ahead."""
        kept = result["source"].isin(["observed", "missing"]).to_numpy()
        t, l, m = np.nonzero(~kept)  # noqa: E741
        columns: dict[str, object] = {
            "time": np.array(self.content.clock.format(result["time"].to_numpy()), dtype=object)[t],
            "location": result["location"].to_numpy()[l],
            "measurement": result["measurement"].to_numpy()[m],
        }
        for name in ("value", "source", "lower", "upper"):
            if name in result:
                columns[name] = result[name].transpose(*DIMS).to_numpy()[t, l, m]
        return pd.DataFrame(columns)

    def save(self, result: xr.Dataset, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the filled source whole or not at all, in the format that `path` ends with."""
        save_all(self, result, path, overwrite=overwrite)

    def write(self, result: xr.Dataset, path: Path, form: Format) -> None:
        """Write the filled source to `path` as it stands."""
        self._refuse_other_cube(result)
        own = self.content
        if form in ("netcdf", "zarr"):
            data = own.filled(result) if isinstance(own, Arrays) else to_cf_dataset(result)
            write_arrays(data, path, form)
            return
        if isinstance(own, Arrays):
            frame = to_panel(result)
        else:
            text = self.style is not None
            frame = self._restore_labels(
                own.filled(result["value"], typed=text and form == "parquet")
            )
        write_frame(frame, path, form, self.style, self.schema)


def save_all(
    source: Source,
    result: xr.Dataset,
    output: str | Path,
    *,
    detail: str | Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write the filled source and, if wanted, its detail file: both whole, or neither."""
    targets = [Path(output)] + ([Path(detail)] if detail else [])
    with staged_tables(targets, overwrite=overwrite) as parts:
        source.write(result, parts[0], detect_format(output))
        if detail is not None:
            style = source.style and replace(source.style, header=())
            write_frame(source.detail(result), parts[1], detect_format(detail), style)


def save_cube(cube: xr.DataArray, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a cube as it is, gaps and all, in the format that `path` ends with."""
    form = detect_format(path)
    only = xr.Dataset({"value": cube})
    with staged_tables([Path(path)], overwrite=overwrite) as (part,):
        if form in ("netcdf", "zarr"):
            write_arrays(to_cf_dataset(only), part, form)
        else:
            write_frame(to_panel(only), part, form)


def open_source(data: object, **options: object) -> Source:
    """Open a file, a pandas frame or an xarray object; see `ReadOptions` for the options."""
    settled = parse_options(options)
    if settled.locations is not None:
        settled = replace(settled, locations=open_sidecar(settled.locations))
    name = type(data).__name__
    columns: dict[str, object] = {}
    index: tuple[tuple[str, object], ...] = ()
    rows: pd.Index | None = None
    if isinstance(data, str | Path):
        name, read = str(data), read_file(Path(data), settled)
    elif isinstance(data, xr.DataArray):
        read = RawFile(data.to_dataset(name=data.name or "value"))
    elif isinstance(data, xr.Dataset):
        read = RawFile(data)
    elif isinstance(data, pd.DataFrame):
        frame, columns, index = _normalise_frame(data)
        read, rows = RawFile(frame), data.index
    else:
        raise TableError(
            f"cdsa opens a path, a pandas DataFrame or an xarray object, but found a {name}"
        )
    if settled.decimal is None:
        settled = replace(settled, decimal="." if read.style is None else read.style.decimal)
    if isinstance(read.content, pd.DataFrame):
        content: Table | Arrays = parse_table(
            read.content, settled, read.where, blank=None if read.style is None else ""
        )
    else:
        content = parse_arrays(read.content, settled)
    cube = content.cube
    if isinstance(settled.locations, pd.DataFrame) and settled.coordinates:
        cube = add_coordinates(cube, settled.locations)
    for doubt in content.warnings:
        logger.warning("%s: %s", name, doubt)
    rows = None if index else rows
    return Source(content, cube, name, read.style, read.schema, columns, index, rows)


def open_cube(data: object, **options: object) -> xr.DataArray:
    """The cube of a file, a pandas frame or an xarray object.

    >>> import pandas
    >>> frame = pandas.DataFrame({"time": ["2020-01-01 00:00", "2020-01-01 01:00"],
    ...                           "station": ["A", "A"], "pm25": [12.5, None]})
    >>> open_cube(frame).sizes
    Frozen({'time': 2, 'location': 1, 'measurement': 1})
    """
    return open_source(data, **options).cube


def _normalise_frame(
    frame: pd.DataFrame,
) -> tuple[pd.DataFrame, dict[str, object], tuple[tuple[str, object], ...]]:
    """The frame with text for column names and a meaningful index turned into columns; with the
    names its columns and its index had."""
    if isinstance(frame.columns, pd.MultiIndex):
        raise TableError(
            "columns must have one name each, but this frame has several levels of them. Use "
            "frame.stack(...) to bring it to one row per time and station"
        )
    levels = [frame.index.get_level_values(n) for n in range(frame.index.nlevels)]
    dated = [isinstance(level, pd.DatetimeIndex | pd.PeriodIndex) for level in levels]
    known = [
        level.name is not None and bool(find_name([str(level.name)], KEY_NAMES)) for level in levels
    ]
    stations = not find_name(map(str, frame.columns), LOCATION) and pd.api.types.is_string_dtype(
        levels[0].dtype
    )
    index: tuple[tuple[str, object], ...] = ()
    plain = frame.reset_index(drop=True)
    if any(dated) or any(known) or len(levels) > 1 or stations:
        guess = ["time" if is_date else "station" for is_date in dated]
        names = [str(level.name or word) for level, word in zip(levels, guess, strict=True)]
        index = tuple(zip(names, frame.index.names, strict=True))
        for number, (name, level) in enumerate(zip(names, levels, strict=True)):
            refuse_duplicate_names([name, *map(str, plain.columns)], "the frame and its index")
            plain.insert(number, name, level)
    refuse_duplicate_names([str(name) for name in plain.columns], "the frame")
    sparse = [name for name in plain.columns if isinstance(plain[name].dtype, pd.SparseDtype)]
    plain = plain.astype({name: plain[name].dtype.subtype for name in sparse})
    columns: dict[str, object] = {str(n): n for n in plain.columns if not isinstance(n, str)}
    return plain.rename(columns=str), columns, index
