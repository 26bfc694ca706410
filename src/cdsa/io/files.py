"""File formats: one table of them, reading and writing a file, and checks of outputs."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from cdsa.core.atomic import check_file
from cdsa.core.text import single_line
from cdsa.errors import ConfigError, MissingExtraError, OutputError, TableError
from cdsa.io import csv_files
from cdsa.io import table_files as tables
from cdsa.io.options import ReadOptions

ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.IGNORECASE)

ENCODING_KEYS = (
    *("dtype", "_FillValue", "missing_value", "scale_factor", "add_offset", "units", "calendar"),
)


def _read_arrays(path: Path, options: ReadOptions, **engine: Any) -> xr.Dataset:
    try:
        with warnings.catch_warnings():
            # of several codes for missing values: all are understood
            warnings.simplefilter("ignore", xr.SerializationWarning)
            with xr.open_dataset(path, **engine) as data:
                _refuse_scales(data)
                return data.load()
    except (PermissionError, TableError):
        raise
    except Exception as bad:  # the engines raise errors of many types, bare RuntimeErrors too
        name = detect_format(path).name
        raise TableError(f"{path} is not a complete {name} file: {single_line(bad)}") from bad


def _refuse_scales(data: xr.Dataset) -> None:
    """Refuse variables that cannot be unpacked."""
    for name, variable in data.variables.items():
        scale = variable.encoding.get("scale_factor")
        if scale is not None and not (np.isfinite(scale).all() and np.all(scale)):
            raise TableError(
                f"the scale_factor of '{name}' must be a number other than 0, but it is {scale}: "
                "its values cannot be restored. Correct the attribute"
            )


def _write_netcdf(data: xr.Dataset, path: Path) -> None:
    _pack(data).to_netcdf(path, engine="netcdf4")


def _write_zarr(data: xr.Dataset, path: Path) -> None:
    # every reader knows version 2 of the format, with text
    _pack(data).to_zarr(path, zarr_format=2, consolidated=True)


def _pack(data: xr.Dataset) -> xr.Dataset:
    """The dataset with its variables packed as they were read."""
    data = data.copy()
    for name in data.variables:
        data[name].encoding = _encoding(data[name])
        if name in data.coords:
            data[name].encoding["_FillValue"] = None  # CF allows none for coordinates
    return data


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
    if {"_FillValue", "missing_value"} <= set(encoding):
        codes = {*np.ravel(encoding["_FillValue"]), *np.ravel(encoding["missing_value"])}
        if len(codes) > 1:  # a file has one code for its gaps
            del encoding["missing_value"]
            encoding["_FillValue"] = np.ravel(encoding["_FillValue"])[0]
    return encoding


@dataclass(frozen=True)
class Format:
    """A file format."""

    name: str
    suffixes: tuple[str, ...]
    kind: Literal["text", "table", "arrays"]
    """A table whose entries are text, a table with types, or labelled arrays."""

    read: Callable[[Path, ReadOptions], tables.RawTable | xr.Dataset]
    write: Callable[[Any, Path], None]
    """Writes what `read` returns."""

    package: str = ""
    """The optional package that it needs."""

    is_folder: bool = False
    content_size: Callable[[Path, int], int] | None = None
    """Bytes of the uncompressed content of a file, counted up to a limit. The server accepts only
    formats that have it."""

    def check_package(self) -> None:
        """Refuse the format if its package is not installed."""
        if self.package and find_spec(self.package) is None:
            raise MissingExtraError(self.name, self.package, "io")


FORMATS = (
    Format(
        "CSV", (".csv", ".txt", ".tsv"), "text", csv_files.read_csv, csv_files.write_csv,
        content_size=csv_files.csv_size,
    ),
    Format(
        "compressed CSV", (".csv.gz", ".txt.gz", ".tsv.gz"), "text",
        partial(csv_files.read_csv, compressed=True), partial(csv_files.write_csv, compressed=True),
        content_size=partial(csv_files.csv_size, compressed=True),
    ),
    Format(
        "Parquet", (".parquet", ".pq"), "table", tables.read_parquet, tables.write_parquet,
        "pyarrow", content_size=tables.parquet_size,
    ),
    Format(
        "NetCDF", (".nc", ".nc4", ".netcdf"), "arrays",
        partial(_read_arrays, engine="netcdf4"), _write_netcdf, "netCDF4",
    ),
    Format(  # a store is read with or without consolidated metadata
        "Zarr", (".zarr",), "arrays",
        partial(_read_arrays, engine="zarr", consolidated=False), _write_zarr, "zarr",
        is_folder=True,
    ),
)  # fmt: skip
"""Every format that is read and written. An entry here is all that a new one needs."""

SUFFIXES = tuple(suffix for form in FORMATS for suffix in form.suffixes)
TABLE_SUFFIXES = tuple(s for form in FORMATS if form.kind != "arrays" for s in form.suffixes)
UPLOAD_SUFFIXES = tuple(s for form in FORMATS if form.content_size for s in form.suffixes)


def detect_format(path: str | Path) -> Format:
    name = Path(path).name.lower()
    for form in FORMATS:
        if name.endswith(form.suffixes):
            return form
    raise ConfigError(
        f"the suffix of a file gives its format, but '{path}' has none of: {', '.join(SUFFIXES)}"
        + (". Save the sheet as CSV" if name.endswith((".xls", ".xlsx", ".ods")) else "")
    )


def read_file(path: Path, options: ReadOptions) -> tables.RawTable | xr.Dataset:
    _refuse_address(path)
    form = detect_format(path)
    try:
        if path.is_dir() and not form.is_folder:
            raise TableError(
                f"{path} is a folder, but a {form.name} file was expected. Name the file in it"
            )
        if not path.exists():
            raise TableError(f"there is no file {path}. Check the name and the folder")
        form.check_package()
        return form.read(path, options)
    except PermissionError as bad:
        raise TableError(
            f"{path} could not be read: permission denied. Change its permissions"
        ) from bad
    except OSError as bad:
        raise TableError(f"{path} could not be read: {bad.strerror or bad}") from bad


def _refuse_address(path: Path) -> None:
    """Refuse an address of another machine, which a path has with one slash less."""
    if address := ADDRESS.match(str(path)):
        rest = str(path)[address.end() :]
        raise ConfigError(
            f"files are read and written on this machine, but '{address[1]}://{rest}' is an "
            "address. Download or mount it first, and give its path"
        )


def check_outputs(targets: Sequence[Path], *, overwrite: bool, file: Path | None = None) -> None:
    """Refuse outputs that could not be written or are the input `file`, before any work is done."""
    for number, target in enumerate(targets):
        _refuse_address(target)
        if not target.name.lower().endswith(SUFFIXES):
            raise ConfigError(
                f"cannot write '{target}': its suffix must be one of {', '.join(SUFFIXES)}"
            )
        if file is not None and target.resolve() == file.resolve():
            raise OutputError(f"{target} is the input and is not replaced. Choose another name")
        form = detect_format(target)
        if number and form.kind == "arrays":
            raise OutputError(
                f"{target} is a table, which cannot be written as {form.name}. Choose one of the "
                f"suffixes {', '.join(TABLE_SUFFIXES)}"
            )
        check_file(target, overwrite=overwrite, may_be_folder=form.is_folder)
        form.check_package()
        if target.resolve() in [other.resolve() for other in targets[:number]]:
            raise OutputError(f"two outputs cannot both be {target}. Choose another name for one")
