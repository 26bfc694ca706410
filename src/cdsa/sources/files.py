"""Sources: anything a user may hand us, opened as a cube and written back in its own form."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.cube import AXES
from cdsa.errors import TableError
from cdsa.sources.arrays import Arrays, read_arrays, to_arrays
from cdsa.sources.columns import read_number
from cdsa.sources.formats import CsvStyle, Format, format_of
from cdsa.sources.options import ReadOptions, make_options
from cdsa.sources.places import with_places
from cdsa.sources.read import read_file, refuse_twice
from cdsa.sources.tables import Table, is_text, read_table
from cdsa.sources.write import staged, to_panel, write_arrays, write_frame
from cdsa.times import Where, read_times


@dataclass(frozen=True, eq=False)
class Source:
    """Something opened: its cube, and how to write a filled cube in its own form."""

    content: Table | Arrays
    cube: xr.DataArray
    name: str
    style: CsvStyle
    schema: object
    """The Arrow schema of a Parquet file."""

    index: tuple[object, ...]
    """Columns that were the index of a frame."""

    @property
    def layout(self) -> str:
        """The recognised layout in words."""
        return self.content.layout

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about how it was read."""
        return self.content.notes

    def filled(self, result: xr.Dataset) -> pd.DataFrame | xr.Dataset:
        """The result in the source's own form: a frame for a table, a data set for arrays."""
        if isinstance(self.content, Arrays):
            return self.content.filled(result)
        frame = self.content.filled(result["value"])
        return frame.set_index(list(self.index)) if self.index else frame

    def detail(self, result: xr.Dataset) -> pd.DataFrame:
        """One row per cell that was missing: where, what it was filled with, and its source."""
        t, l, m = np.nonzero((result["source"] != "observed").to_numpy())  # noqa: E741
        columns: dict[str, object] = {
            "time": np.array(self.content.clock.write(result["time"].to_numpy()), dtype=object)[t],
            "location": result["location"].to_numpy()[l],
            "measurement": result["measurement"].to_numpy()[m],
        }
        for name in ("value", "source", "lower", "upper"):
            if name in result:
                columns[name] = result[name].transpose(*AXES).to_numpy()[t, l, m]
        return pd.DataFrame(columns)

    def save(self, result: xr.Dataset, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the filled source whole or not at all, in the format that `path` ends with."""
        save_all(self, result, path, overwrite=overwrite)

    def write(self, result: xr.Dataset, path: Path, form: Format) -> None:
        """Write the filled source to `path` as it stands."""
        if form in ("netcdf", "zarr"):
            whole = self.filled(result) if isinstance(self.content, Arrays) else to_arrays(result)
            write_arrays(whole, path, form)
        else:
            frame = to_panel(result) if isinstance(self.content, Arrays) else self.filled(result)
            assert isinstance(frame, pd.DataFrame)
            write_frame(self._typed(frame, form), path, form, self.style, self.schema)

    def _typed(self, frame: pd.DataFrame, form: Format) -> pd.DataFrame:
        """Text of a CSV file as numbers and dates, for a format that has types."""
        if form != "parquet" or not isinstance(self.content, Table):
            return frame
        table, typed = self.content, frame.copy()
        for name in (*table.roles.values, table.roles.lat, table.roles.lon):
            if name is not None and is_text(typed[name]):
                numbers = [read_number(str(text), table.options) for text in typed[name]]
                typed[name] = np.array(numbers, dtype=float)
        time = table.roles.time
        if time in typed and is_text(typed[time]):
            times, clock = read_times(
                typed[time], str, tz=table.options.tz, time_format=table.options.time_format
            )
            typed[time] = clock.local(times)
        return typed


def save_all(
    source: Source,
    result: xr.Dataset,
    output: str | Path,
    *,
    detail: str | Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write the filled source and, if wanted, its detail file: both whole, or neither."""
    with ExitStack() as stack:
        part = stack.enter_context(staged(output, overwrite=overwrite))
        beside = stack.enter_context(staged(detail, overwrite=overwrite)) if detail else None
        source.write(result, part, format_of(output))
        if detail is not None and beside is not None:
            write_frame(source.detail(result), beside, format_of(detail))


def open_source(data: object, **options: object) -> Source:
    """Open a file, a pandas frame or an xarray object; see `ReadOptions` for the options."""
    settled = make_options(options)
    if isinstance(settled.locations, str | Path):
        places = read_file(Path(settled.locations), ReadOptions())[0]
        if not isinstance(places, pd.DataFrame):
            raise TableError(f"{settled.locations} is not a table of locations")
        settled = replace(settled, locations=places)
    index: tuple[object, ...] = ()
    if isinstance(data, str | Path):
        content, style, schema = read_file(Path(data), settled)
        name = str(data)
    elif isinstance(data, xr.DataArray | xr.Dataset):
        content, style, schema, name = data, CsvStyle(), None, "data"
    elif isinstance(data, pd.DataFrame):
        content, index = _with_index_as_columns(data)
        style, schema, name = CsvStyle(), None, "frame"
    else:
        raise TableError(
            "cdsa opens a path, a pandas DataFrame or an xarray object, but found a "
            f"{type(data).__name__}"
        )
    if isinstance(content, pd.DataFrame):
        understood: Table | Arrays = read_table(content, settled, _row_names(content))
    else:
        understood = read_arrays(content, settled)
    cube = understood.cube
    if settled.locations is not None and settled.coordinates:
        cube = with_places(cube, settled.locations, settled)
    return Source(understood, cube, name, style, schema, index)


def open_cube(data: object, **options: object) -> xr.DataArray:
    """The cube of a file, a pandas frame or an xarray object.

    >>> import pandas
    >>> frame = pandas.DataFrame({"time": ["2020-01-01 00:00", "2020-01-01 01:00"],
    ...                           "station": ["A", "A"], "pm25": [12.5, None]})
    >>> open_cube(frame).sizes
    Frozen({'time': 2, 'location': 1, 'measurement': 1})
    """
    return open_source(data, **options).cube


def _with_index_as_columns(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[object, ...]]:
    """The frame with a meaningful index turned into columns, and the names of those columns."""
    if isinstance(frame.columns, pd.MultiIndex):
        raise TableError(
            "columns must have one name each, but this frame has several levels of them. Use "
            "frame.stack(...) to bring it to one row per time and station"
        )
    if isinstance(frame.index, pd.RangeIndex) or (
        frame.index.names == [None]
        and not isinstance(frame.index, pd.DatetimeIndex | pd.PeriodIndex)
    ):
        plain, names = frame, []
    else:
        names = [name or "time" for name in frame.index.names]
        plain = frame.rename_axis(index=names).reset_index()
    refuse_twice([str(name) for name in plain.columns], "the frame")
    return plain.rename(columns=str), tuple(names)


def _row_names(frame: pd.DataFrame) -> Where:
    """Rows by their line in the file where there is one, else by their number."""
    if frame.index.name == "line":
        return lambda row: f"line {frame.index[row]}"
    return lambda row: f"row {row}"
