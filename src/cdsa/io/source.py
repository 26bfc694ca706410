"""Sources: files, frames and xarray objects, opened as cubes and written in their own form."""

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.atomic import stage_files
from cdsa.core.cube import DIMS, LEFT_OPEN, append_locations, append_times
from cdsa.core.times import Clock, subsecond_digits
from cdsa.errors import OutputError, TableError
from cdsa.io.arrays import Arrays
from cdsa.io.cf import to_cf_dataset
from cdsa.io.columns import LOCATION, MEASUREMENT, TIME, find_name
from cdsa.io.files import Format, check_outputs, detect_format, read_file
from cdsa.io.options import parse_options
from cdsa.io.parse_arrays import parse_arrays
from cdsa.io.parse_table import parse_table
from cdsa.io.sidecars import Sites, add_coordinates, read_frame, read_sites
from cdsa.io.table import Table
from cdsa.io.table_files import CsvStyle, RawTable, refuse_duplicate_names, to_pandas

KEY_NAMES = (*TIME, *LOCATION, *MEASUREMENT)

logger = logging.getLogger("cdsa")


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """An opened source: its cube, and how to write a filled cube in the same form."""

    content: Table | Arrays
    cube: xr.DataArray
    name: str
    style: CsvStyle | None = None
    """The style of its CSV file; None for other formats."""

    schema: Any = None
    """The Arrow schema of its Parquet file."""

    column_names: dict[str, object] = field(default_factory=dict)
    """Original names of the columns of a frame that were not text."""

    index_names: tuple[tuple[str, object], ...] = ()
    """Columns that were the index of a frame, and their names there."""

    row_index: pd.Index | None = None
    """The index of a frame, if it is neither time nor station."""

    kind: str = ""
    """The kind of data to return: 'polars', 'pyarrow', 'cube', or as the content is if empty."""

    @property
    def layout(self) -> str:
        return self.content.layout

    @property
    def notes(self) -> tuple[str, ...]:
        return self.content.notes

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may have been read wrongly, and the option that corrects it."""
        return self.content.warnings

    @property
    def passthrough(self) -> tuple[str, ...]:
        """Columns that are not part of the cube; arrays have none."""
        return self.content.roles.passthrough if isinstance(self.content, Table) else ()

    def __repr__(self) -> str:
        sizes = " x ".join(f"{size} {axis}s" for axis, size in self.cube.sizes.items())
        return f"<Source {self.name}: {self.layout}; {sizes}>"

    def with_horizon(self, n_steps: int, n_known: int = 0) -> "Source":
        """The source with room for a forecast of `n_steps`, the first `n_known` of which are its
        last steps, with covariates known in advance."""
        first, n_new = self.cube.sizes["time"] - n_known, n_steps - n_known
        content_cube, cube = self.content.cube, self.cube
        if n_new > 0:
            content_cube, cube = append_times(content_cube, n_new), append_times(cube, n_new)
        content = self.content.with_horizon(content_cube, slice(first, first + n_steps))
        return replace(self, content=content, cube=cube)

    def with_sites(self, sites: Sites | pd.DataFrame | str | Path) -> "Source":
        """The source with an empty station at each unmonitored site of a table with the columns
        name, lat and lon."""
        sites = sites if isinstance(sites, Sites) else read_sites(sites)
        cube = append_locations(self.cube, sites.names, sites.lat, sites.lon)
        return replace(self, content=self.content.with_sites(cube), cube=cube)

    def filled(self, result: xr.Dataset, *, typed: bool = False) -> Any:
        """The result in the form of the source: the same kind of frame for a table, a dataset for
        arrays."""
        self._refuse_other_cube(result)
        if isinstance(self.content, Arrays):
            return result if self.kind == "cube" else self.content.filled(result)
        frame = self._restore_labels(self.content.filled(result["value"], typed=typed))
        if self.kind not in ("polars", "pyarrow"):
            return frame
        table = nw.from_native(frame.reset_index(drop=True), eager_only=True)
        return table.to_polars() if self.kind == "polars" else table.to_arrow()

    def _refuse_other_cube(self, result: xr.Dataset) -> None:
        for axis in DIMS:
            expected, labels = self.cube[axis].to_numpy(), result[axis].to_numpy()
            if len(expected) != len(labels) or (expected != labels).any():
                raise TableError(
                    f"the result must be of this source's cube, which has {len(expected)} "
                    f"{axis}s, but it has {len(labels)}"
                    + (" others" if len(expected) == len(labels) else "")
                    + ". Fill source.cube. Save a forecast of N steps with "
                    "source.with_horizon(N), and added sites with the source that "
                    "source.with_sites(sites) returned"
                )

    def _restore_labels(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with its original index and column names."""
        if self.index_names:
            frame = frame.set_index([name for name, _ in self.index_names])
            frame.index.names = [name for _, name in self.index_names]
        elif self.row_index is not None and len(frame) == len(self.row_index):  # no rows were added
            frame = frame.set_axis(self.row_index, axis=0)
        return frame.rename(columns=self.column_names)

    def detail(self, result: xr.Dataset) -> pd.DataFrame:
        """One row per filled or forecast cell: its labels, value, source and bounds."""
        unchanged = result["source"].isin(["observed", "missing", *LEFT_OPEN]).to_numpy()
        t, l, m = np.nonzero(~unchanged)  # noqa: E741
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
        """Write the filled source atomically, in the format of the suffix of `path`."""
        save_all(self, result, path, overwrite=overwrite)

    def _output(self, result: xr.Dataset, form: Format) -> RawTable | xr.Dataset:
        """The filled source as the content of a file."""
        self._refuse_other_cube(result)
        if isinstance(self.content, Arrays):
            is_same = form.kind == "arrays"
            return self.content.filled(result) if is_same else RawTable(to_panel(result))
        if form.kind == "arrays":
            return to_cf_dataset(result)
        typed = self.style is not None and form.kind != "text"
        frame = self._restore_labels(self.content.filled(result["value"], typed=typed))
        return RawTable(frame, self.style, self.schema)


def save_all(
    source: Source,
    result: xr.Dataset,
    output: str | Path,
    *,
    detail: str | Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write a filled source and, if given, its detail file: both, or neither.

    Parameters
    ----------
    source
        The opened source, from `cdsa.open_source`.
    result
        What `cdsa.fill(source.cube)` returned.
    output
        The file to write; its suffix chooses the format.
    detail
        A second file with one row per filled cell: value, source and bounds.
    overwrite
        Replace existing files.

    Raises
    ------
    CdsaError
        If a file exists or cannot be written; nothing is left half-written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import cdsa
    >>> hours = pd.date_range("2020-01-01", periods=3, freq="h")
    >>> frame = pd.DataFrame({"time": hours, "station": "A", "pm25": [1.0, None, 3.0]})
    >>> source = cdsa.open_source(frame)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "filled.csv"
    ...     cdsa.save_all(source, cdsa.fill(source.cube, "linear"), path)
    ...     print(path.read_text().splitlines()[2])
    2020-01-01 01:00:00,A,2.0
    """
    targets = [Path(path) for path in (output, detail) if path]
    check_outputs(targets, overwrite=overwrite)
    formats = [detect_format(target) for target in targets]
    with stage_files(targets, overwrite=overwrite) as temp_files:
        formats[0].write(source._output(result, formats[0]), temp_files[0])
        if detail:
            style = source.style and replace(source.style, header=())
            formats[1].write(RawTable(source.detail(result), style), temp_files[1])


def save_cube(cube: xr.DataArray, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a cube with its gaps, in the format of the suffix of `path`."""
    check_outputs([Path(path)], overwrite=overwrite)
    form, data = detect_format(path), xr.Dataset({"value": cube})
    content = to_cf_dataset(data) if form.kind == "arrays" else RawTable(to_panel(data))
    with stage_files([Path(path)], overwrite=overwrite) as (temp_file,):
        form.write(content, temp_file)


def to_panel(result: xr.Dataset) -> pd.DataFrame:
    """A filled cube as a table with one row per time and station."""
    cube = result["value"]
    keys = ["time", "location", *(name for name in ("lat", "lon") if name in cube.coords)]
    names = [str(name) for name in cube["measurement"].to_numpy()]
    for name in names:
        if name in keys:
            raise OutputError(
                f"a table needs a column '{name}', but there is a measurement of that name. Write "
                "NetCDF or Zarr, or rename it"
            )
    n_steps, n_stations, n_measurements = cube.shape
    frame = pd.DataFrame(cube.to_numpy().reshape(-1, n_measurements), columns=names)
    frame.insert(0, "time", np.repeat(cube["time"].to_numpy(), n_stations))
    for position, name in enumerate(keys[1:], start=1):
        frame.insert(position, name, np.tile(cube[name].to_numpy(), n_steps))
    return frame


def open_source(data: object, **options: object) -> Source:
    """Open a file, a table or an xarray object, to write it back in its own form later.

    Parameters
    ----------
    data
        A path to a CSV, Parquet, NetCDF or Zarr file, a pandas, polars or pyarrow table, or an
        xarray object.
    **options
        How to read it; what is not given is detected. `layout`, `time`, `location`, `measurement`,
        `value`, `measurements`, `lat`, `lon`, `locations` and `coordinates` say which column is
        what; `missing`, `step`, `duplicates`, `tz` and `time_format` how to read its entries;
        `directions`, `bounds` and `units` what its measurements are; `refill`, `separator`,
        `decimal` and `encoding` are for single formats. They are those of the command line.

    Returns
    -------
    Source
        With the `cube`, what was detected (`layout`, `notes`, `warnings`), and methods to write a
        result: `filled(result)`, `detail(result)`, `save(result, path)`.

    Raises
    ------
    CdsaError
        If the data cannot be read; the message names the line and the option that helps.

    Examples
    --------
    >>> import pandas as pd
    >>> import cdsa
    >>> hours = pd.date_range("2020-01-01", periods=3, freq="h")
    >>> frame = pd.DataFrame({"time": hours, "station": "A", "pm25": [1.0, -999, 3.0]})
    >>> source = cdsa.open_source(frame, missing=[-999], units={"pm25": "ug/m3"})
    >>> source.filled(cdsa.fill(source.cube, "linear"))["pm25"].tolist()
    [1.0, 2.0, 3.0]
    """
    read_options = parse_options(options)
    if read_options.locations is not None:
        read_options = replace(read_options, locations=read_frame(read_options.locations))
    name, kind = type(data).__name__, type(data).__module__.partition(".")[0]
    data = data if isinstance(data, str | Path) else to_pandas(data)
    column_names: dict[str, object] = {}
    index_names: tuple[tuple[str, object], ...] = ()
    raw: RawTable | xr.Dataset
    if isinstance(data, str | Path):
        name, raw = str(data), read_file(Path(data), read_options)
    elif isinstance(data, xr.DataArray):
        raw = data.to_dataset(name=data.name or "value")
    elif isinstance(data, xr.Dataset):
        raw = data
    elif isinstance(data, pd.DataFrame):
        frame, column_names, index_names = _normalise_frame(data)
        raw = RawTable(frame)
    else:
        raise TableError(
            "cdsa opens a path, a pandas, polars or pyarrow table, or an xarray object, but found "
            f"a {name}"
        )
    content: Table | Arrays
    if isinstance(raw, RawTable):
        content, style, schema = parse_table(raw, read_options), raw.style, raw.schema
    else:
        content, style, schema = parse_arrays(raw, read_options), None, None
    cube = content.cube
    if isinstance(read_options.locations, pd.DataFrame) and read_options.coordinates:
        cube = add_coordinates(cube, read_options.locations, read_options.lat, read_options.lon)
    for warning in content.warnings:
        logger.warning("%s: %s", name, warning)
    row_index = data.index if isinstance(data, pd.DataFrame) and not index_names else None
    return Source(content, cube, name, style, schema, column_names, index_names, row_index, kind)


def source_of_cube(cube: xr.DataArray) -> Source:
    """A valid cube as a source of one variable, `value`."""
    content = Arrays(
        data=cube.to_dataset(name="value"),
        variables=("value",),
        axes={axis: axis for axis in DIMS},
        cube=cube,
        step_index=np.arange(cube.sizes["time"]),
        measurement_index=(),
        clock=Clock(digits=subsecond_digits(cube["time"].to_numpy())),
        notes=(),
        warnings=(),
    )
    return Source(content, cube, "cube", kind="cube")


def open_cube(data: object, **options: object) -> xr.DataArray:
    """Read a file, a table or an xarray object as a cube.

    Parameters
    ----------
    data
        As for `cdsa.open_source`.
    **options
        Reading options, as for `cdsa.open_source`.

    Returns
    -------
    xarray.DataArray
        The cube, with the dimensions time, location and measurement and NaN for missing values.

    Examples
    --------
    >>> import pandas as pd
    >>> import cdsa
    >>> hours = pd.date_range("2020-01-01", periods=2, freq="h")
    >>> frame = pd.DataFrame({"time": hours, "station": "A", "pm25": [12.5, None]})
    >>> dict(cdsa.open_cube(frame).sizes)
    {'time': 2, 'location': 1, 'measurement': 1}
    """
    return open_source(data, **options).cube


def _normalise_frame(
    frame: pd.DataFrame,
) -> tuple[pd.DataFrame, dict[str, object], tuple[tuple[str, object], ...]]:
    """The frame with text for column names and an index of times or stations as columns, and the
    original names of its columns and its index."""
    if isinstance(frame.columns, pd.MultiIndex):
        raise TableError(
            "each column must have one name, but the columns of this frame have several levels. "
            "Reshape it to one row per time and station with frame.stack(...)"
        )
    levels = [frame.index.get_level_values(n) for n in range(frame.index.nlevels)]
    is_date = [isinstance(level, pd.DatetimeIndex | pd.PeriodIndex) for level in levels]
    has_key_name = any(
        level.name is not None and find_name([str(level.name)], KEY_NAMES) for level in levels
    )
    has_text = pd.api.types.is_string_dtype(levels[0].dtype)
    is_station = has_text and not find_name(map(str, frame.columns), LOCATION)
    index_names: tuple[tuple[str, object], ...] = ()
    plain = frame.reset_index(drop=True)
    if any(is_date) or has_key_name or len(levels) > 1 or is_station:
        defaults = ["time" if date else "station" for date in is_date]
        names = [str(level.name or name) for level, name in zip(levels, defaults, strict=True)]
        index_names = tuple(zip(names, frame.index.names, strict=True))
        for number, (name, level) in enumerate(zip(names, levels, strict=True)):
            refuse_duplicate_names([name, *plain.columns], "the frame and its index")
            plain.insert(number, name, level)
    refuse_duplicate_names(plain.columns, "the frame")
    sparse = [name for name in plain.columns if isinstance(plain[name].dtype, pd.SparseDtype)]
    plain = plain.astype({name: plain[name].dtype.subtype for name in sparse})
    column_names: dict[str, object] = {str(n): n for n in plain.columns if not isinstance(n, str)}
    return plain.rename(columns=str), column_names, index_names
