"""Writing tables and arrays to files."""

import contextlib
import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.atomic import check_file, check_target, stage_files
from cdsa.core.text import single_line
from cdsa.errors import MissingExtraError, OutputError
from cdsa.io.files import CsvStyle, Format, detect_format, xarray_engine

TABLE_FORMATS: tuple[Format, ...] = ("csv", "csv.gz", "parquet")
ENCODING_KEYS = (
    *("dtype", "_FillValue", "missing_value", "scale_factor", "add_offset", "units", "calendar"),
)


def to_panel(result: xr.Dataset) -> pd.DataFrame:
    """A filled cube as a table with one row per time and station."""
    cube = result["value"]
    keys = ["time", "location"] + [name for name in ("lat", "lon") if name in cube.coords]
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


def write_frame(
    frame: pd.DataFrame, path: Path, form: Format, style: CsvStyle | None = None, schema: Any = None
) -> None:
    """Write a table as CSV or Parquet."""
    if form == "parquet":
        _write_parquet(frame, path, schema)
        return
    if form not in TABLE_FORMATS:
        raise OutputError(f"this table is written as CSV or Parquet, not as {form}")
    style = style or CsvStyle()
    index = not isinstance(frame.index, pd.RangeIndex)
    header = list(style.header) if len(style.header) == len(frame.columns) else True
    frame = frame.copy()  # defragmented: thousands of single columns are written slowly
    with _open_for_text(path, form, style) as file:
        frame.to_csv(
            file, sep=style.separator, index=index, header=header, decimal=style.decimal,
            lineterminator=style.newline,
        )  # fmt: skip


@contextlib.contextmanager
def _open_for_text(path: Path, form: Format, style: CsvStyle) -> Iterator[IO[str]]:
    if form == "csv":
        with path.open("w", encoding=style.encoding, newline="") as file:
            yield file
        return
    # without a name and a time, the same table gives the same bytes
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as compressed,
        io.TextIOWrapper(compressed, encoding=style.encoding, newline="") as file,
    ):
        yield file


def _write_parquet(frame: pd.DataFrame, path: Path, schema: Any) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as bad:
        raise MissingExtraError("Parquet", "pyarrow", "io") from bad
    if schema is None:
        table = pyarrow.Table.from_pandas(frame)
    else:
        try:
            table = pyarrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
        except (pyarrow.ArrowException, ValueError):  # new rows may have nulls
            schema = pyarrow.schema([f.with_nullable(True) for f in schema], schema.metadata)
            table = _as_schema(frame, schema)
        table = table.replace_schema_metadata(schema.metadata)
    pyarrow.parquet.write_table(table, path)


def _as_schema(frame: pd.DataFrame, schema: Any) -> Any:
    import pyarrow

    try:
        return pyarrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
    except (pyarrow.ArrowException, ValueError) as bad:
        raise OutputError(
            f"the filled table does not fit the Parquet file's types: {single_line(bad)}. Write CSV"
        ) from bad


def write_arrays(data: xr.Dataset, path: Path, form: Format) -> None:
    """Write labelled arrays as NetCDF or Zarr, packed as they were."""
    xarray_engine(form)  # refuses a missing extra
    data = data.copy()
    for name in data.variables:
        data[name].encoding = _encoding(data[name])
        if name in data.coords:
            data[name].encoding["_FillValue"] = None  # CF allows none for coordinates
    if form == "netcdf":
        data.to_netcdf(path, engine="netcdf4")
    else:
        # every reader knows version 2 of the format, with text
        data.to_zarr(path, zarr_format=2, consolidated=True)


def _encoding(variable: xr.DataArray) -> dict[str, Any]:
    """How a variable was packed, with a fill value for its gaps."""
    encoding = {key: value for key, value in variable.encoding.items() if key in ENCODING_KEYS}
    dtype = np.dtype(encoding.get("dtype", variable.dtype))
    packed = dtype.kind in "iu" and variable.dtype.kind == "f"
    if packed and not {"_FillValue", "missing_value"} & set(encoding):
        scale, offset = encoding.get("scale_factor", 1), encoding.get("add_offset", 0)
        used = np.rint((variable.to_numpy() - offset) / scale)
        limits = np.iinfo(dtype)
        unused = [code for code in (limits.max, limits.min) if not (used == code).any()]
        if not unused:  # no code is left for gaps: write it unpacked
            return {}
        encoding["_FillValue"] = unused[0]
    elif packed and "missing_value" in encoding:
        encoding.setdefault("_FillValue", encoding["missing_value"])
    return encoding


@contextlib.contextmanager
def staged_tables(targets: Sequence[Path], *, overwrite: bool = False) -> Iterator[list[Path]]:
    """Check the targets, then stage them."""
    check_outputs(targets, overwrite=overwrite)
    with stage_files(targets) as temp_files:
        yield temp_files


def check_outputs(targets: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse outputs that could not be written, before any work is done."""
    for number, target in enumerate(targets):
        form = detect_format(target)
        if number and form not in TABLE_FORMATS:
            raise OutputError(
                f"{target} can be written as CSV or Parquet only. Choose another suffix"
            )
        (check_target if form == "zarr" else check_file)(target, overwrite=overwrite)
        if form in ("netcdf", "zarr"):
            xarray_engine(form)  # refuses a missing extra
        if target.resolve() in [other.resolve() for other in targets[:number]]:
            raise OutputError(f"two outputs cannot both be {target}. Choose another name for one")
