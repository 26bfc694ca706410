"""Writing files: whole or not at all."""

import contextlib
import gzip
import io
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pandas as pd
import xarray as xr

from cdsa.errors import MissingExtraError, OutputError
from cdsa.sources.formats import CsvStyle, Format, engine_of, format_of, one_line


def to_panel(result: xr.Dataset) -> pd.DataFrame:
    """A filled cube as a table with one row per time and station."""
    cube = result["value"]
    frame = cube.to_series().unstack("measurement")[list(cube["measurement"].to_numpy())]
    frame = frame.reset_index().sort_values(["time"], kind="stable", ignore_index=True)
    for number, name in enumerate(("lat", "lon")):
        if name in cube.coords:
            frame.insert(
                2 + number, name, cube[name].to_series().reindex(frame["location"]).to_numpy()
            )
    return frame.rename_axis(columns=None)


def write_frame(
    frame: pd.DataFrame,
    path: Path,
    form: Format,
    style: CsvStyle | None = None,
    schema: object = None,
) -> None:
    """Write a table as CSV or Parquet."""
    style = style or CsvStyle()
    if form == "parquet":
        _write_parquet(frame, path, schema)
        return
    if form not in ("csv", "csv.gz"):
        raise OutputError(f"this table is written as CSV or Parquet, not as {form}")
    keep = frame.index.name != "line" and any(name is not None for name in frame.index.names)
    with _open_for_text(path, form, style) as file:
        frame.to_csv(file, sep=style.separator, index=keep, lineterminator=style.newline)


@contextlib.contextmanager
def _open_for_text(path: Path, form: Format, style: CsvStyle) -> Iterator[IO[str]]:
    if form == "csv":
        with path.open("w", encoding=style.encoding, newline="") as file:
            yield file
        return
    # neither a name nor a time goes into the file: the same table gives the same bytes
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding=style.encoding, newline="") as file,
    ):
        yield file


def _write_parquet(frame: pd.DataFrame, path: Path, schema: Any) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as bad:
        raise MissingExtraError("Parquet", "pyarrow", "io") from bad
    if schema is None:
        plain = frame.reset_index(drop=True) if frame.index.name == "line" else frame
        table = pyarrow.Table.from_pandas(plain)
    else:
        table = pyarrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
        table = table.replace_schema_metadata(schema.metadata)
    pyarrow.parquet.write_table(table, path)


def write_arrays(data: xr.Dataset, path: Path, form: Format) -> None:
    engine_of(form)  # says which extra is missing
    kept = {"dtype", "_FillValue", "scale_factor", "add_offset", "units", "calendar"}
    for variable in data.variables.values():
        variable.encoding = {k: v for k, v in variable.encoding.items() if k in kept}
    if form == "netcdf":
        data.to_netcdf(path, engine="netcdf4")
    else:
        # version 2 of the format is the one that every reader knows, text and all
        data.to_zarr(path, zarr_format=2, consolidated=True)


@contextlib.contextmanager
def staged(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A place beside `path` to write to, which becomes `path` only if all went well."""
    target = Path(path)
    check_target(target, overwrite=overwrite)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        if part.is_file():
            with part.open("rb") as file:
                os.fsync(file.fileno())
        _move(part, target)
    except OSError as bad:
        raise OutputError(
            f"{target} could not be written: {bad.strerror or bad}. Nothing was changed"
        ) from bad
    except RuntimeError as bad:  # what the NetCDF library says of a full disk
        raise OutputError(
            f"{target} could not be written: {one_line(bad)}. Nothing was changed"
        ) from bad
    finally:
        _remove(part)


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse an output that exists, or a folder that does not."""
    if target.exists() and not overwrite:
        raise OutputError(
            f"{target} exists already. Choose another name, or replace it with --overwrite"
        )
    if not target.absolute().parent.is_dir():
        raise OutputError(
            f"there is no folder {target.parent} to write {target.name} into. Make it first"
        )
    if target.is_dir() and format_of(target) != "zarr":
        raise OutputError(f"{target} is a folder. Choose another name")


def check_outputs(targets: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse outputs that could not be written, before any work is done for them."""
    for number, target in enumerate(targets):
        format_of(target)
        check_target(target, overwrite=overwrite)
        if target in targets[:number]:
            raise OutputError(f"two outputs cannot both be {target}. Choose another name for one")


def make_folder(folder: Path) -> None:
    """Make a folder for outputs, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as bad:
        raise OutputError(f"the folder {folder} could not be made: {bad.strerror or bad}") from bad


def _move(part: Path, target: Path) -> None:
    if target.is_dir():  # a folder cannot be replaced in one go: the old one steps aside first
        aside = part.with_suffix(".old")
        target.rename(aside)
        part.rename(target)
        shutil.rmtree(aside)
    else:
        part.replace(target)


def _remove(part: Path) -> None:
    remove: Callable[[Path], object] = shutil.rmtree if part.is_dir() else Path.unlink
    if part.exists():
        remove(part)
