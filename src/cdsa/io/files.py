"""File formats, and reading a file into a raw table or dataset."""

import gzip
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.text import single_line
from cdsa.core.times import Where
from cdsa.errors import ConfigError, MissingExtraError, TableError
from cdsa.io.columns import looks_like_date, parse_number
from cdsa.io.options import ReadOptions

Format = Literal["csv", "csv.gz", "parquet", "netcdf", "zarr"]

SUFFIXES: dict[str, Format] = {
    ".csv": "csv", ".txt": "csv", ".tsv": "csv",
    ".csv.gz": "csv.gz", ".txt.gz": "csv.gz", ".tsv.gz": "csv.gz",
    ".parquet": "parquet", ".pq": "parquet",
    ".nc": "netcdf", ".nc4": "netcdf", ".netcdf": "netcdf", ".zarr": "zarr",
}  # fmt: skip

SEPARATORS = ",;\t|"
DECIMAL_SAMPLE_ROWS = 1000  # rows from which the decimal mark is detected
COMMA_NUMBER, POINT_NUMBER = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d*\.\d+")
THOUSANDS_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written, apart from its content."""

    separator: str = ","
    newline: str = "\n"
    encoding: str = "utf-8"
    decimal: str = "."
    header: tuple[str, ...] = ()
    """The first line as it was written, with blanks and nameless columns."""


@dataclass(frozen=True, eq=False)
class RawFile:
    """The content of a file, and what is needed to write it the same way."""

    content: pd.DataFrame | xr.Dataset
    style: CsvStyle | None = None
    """The style of a CSV file; None for other formats."""

    schema: Any = None
    """The Arrow schema of a Parquet file."""

    where: Where = lambda row: f"row {row}"


def detect_format(path: str | Path) -> Format:
    """The format of a file, by its suffix."""
    name = Path(path).name.lower()
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return SUFFIXES[suffix]
    raise ConfigError(
        f"the suffix of a file gives its format, but '{path}' has none of: {', '.join(SUFFIXES)}"
        + (". Save the sheet as CSV" if name.endswith((".xls", ".xlsx", ".ods")) else "")
    )


def xarray_engine(form: Format) -> Literal["netcdf4", "zarr"]:
    """The engine of xarray for a format; refused if its package is not installed."""
    engine, package = ("netcdf4", "netCDF4") if form == "netcdf" else ("zarr", "zarr")
    if engine not in xr.backends.list_engines():
        raise MissingExtraError(form, package, "io")
    return engine  # type: ignore[return-value]


def read_file(path: Path, options: ReadOptions) -> RawFile:
    """Read a file of any format."""
    form = detect_format(path)
    try:
        if path.is_dir() and form != "zarr":
            raise TableError(
                f"{path} is a folder, but a {form} file was expected. Name the file in it"
            )
        if not path.exists():
            raise TableError(f"there is no file {path}. Check the name and the folder")
        match form:
            case "parquet":
                return _read_parquet(path, options)
            case "netcdf" | "zarr":
                return RawFile(_read_arrays(path, form))
            case _:
                return _read_csv(path, form, options)
    except PermissionError as bad:
        raise TableError(
            f"{path} could not be read: permission denied. Change its permissions"
        ) from bad
    except OSError as bad:
        raise TableError(f"{path} could not be read: {bad.strerror or bad}") from bad


def _open_text(path: Path, form: Format, encoding: str) -> IO[str]:
    if form == "csv.gz":
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")


def _open_bytes(path: Path, form: Format) -> IO[bytes] | gzip.GzipFile:
    return gzip.open(path) if form == "csv.gz" else path.open("rb")


def _read_csv(path: Path, form: Format, options: ReadOptions) -> RawFile:
    """The text of each entry. Blank lines are skipped; entries missing at the end of a line are
    empty."""
    encoding = "utf-8-sig" if options.encoding.lower() in ("utf-8", "utf8") else options.encoding
    separator = options.separator or ","
    try:
        with _open_text(path, form, encoding) as file:
            first_line = file.readline()
        if not first_line.strip():
            raise TableError(
                f"{path} is empty, or its first line is. The first line names the columns"
            )
        if options.separator is None:
            separator = max(SEPARATORS, key=re.sub(r'"[^"]*"', "", first_line).count)
        as_text: dict[str, Any] = {
            "sep": separator, "header": None, "dtype": object, "na_filter": False,
            "skip_blank_lines": False, "low_memory": False,
        }  # fmt: skip
        if options.max_columns is not None:
            with _open_text(path, form, encoding) as file:
                n_columns = pd.read_csv(file, nrows=1, **as_text).shape[1]
            _refuse_too_many_columns(path, n_columns, options)
        with _open_text(path, form, encoding) as file:
            lines = pd.read_csv(file, **as_text)
    except UnicodeError as bad:
        raise TableError(_undecodable(path, form, options.encoding)) from bad
    except (EOFError, zlib.error, gzip.BadGzipFile) as bad:
        raise TableError(f"{path} is not a complete compressed file: {bad}. Get it again") from bad
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as bad:
        reason = str(bad).removeprefix("Error tokenizing data. C error: ").strip()
        raise TableError(
            f"{path} is not a table separated by '{separator}': {reason}. Correct it, remove the "
            "lines above the column names, or give the separator with --separator"
        ) from bad
    header = tuple(str(name) for name in lines.iloc[0])
    _check_header(path, [name.strip() for name in header], separator)
    is_data = np.ones(len(lines), dtype=bool)
    is_data[0] = False
    for row in (*np.flatnonzero(lines[0] == ""), len(lines) - 1):  # the last may be blanks only
        if all(str(entry).strip() == "" for entry in lines.iloc[row]):
            is_data[row] = False
    line_index = np.flatnonzero(is_data)

    def where(row: int) -> str:
        entries = lines.iloc[: line_index[row]].to_numpy().flat
        n_breaks = sum(str(entry).count("\n") for entry in entries)  # within quoted entries
        return f"line {line_index[row] + 1 + n_breaks}"

    names = [name.strip() or f"(column {n + 1})" for n, name in enumerate(header)]
    frame = lines[is_data].set_axis(names, axis=1).reset_index(drop=True)
    has_bom = encoding == "utf-8-sig" and _starts_with_bom(path, form)
    style = CsvStyle(
        separator=separator,
        newline=next((end for end in ("\r\n", "\r") if first_line.endswith(end)), "\n"),
        encoding="utf-8-sig" if has_bom else options.encoding,
        decimal=options.decimal or _detect_decimal(frame),
        header=header,
    )
    return RawFile(frame, style, where=where)


def _refuse_too_many_columns(path: Path, n_columns: int, options: ReadOptions) -> None:
    if options.max_columns is not None and n_columns > options.max_columns:
        raise TableError(
            f"a table may have at most {options.max_columns:,} columns here, but {path} has "
            f"{n_columns:,}. Reshape it to one row per time and station"
        )


def _detect_decimal(frame: pd.DataFrame) -> str:
    """A comma if numbers have one and none has a point, unless all could be thousands."""
    sample = {str(entry).strip() for entry in frame.iloc[:DECIMAL_SAMPLE_ROWS].to_numpy().flat}
    commas = [entry for entry in sample if COMMA_NUMBER.fullmatch(entry)]
    certain = any(not THOUSANDS_NUMBER.fullmatch(entry) for entry in commas)
    return "," if certain and not any(POINT_NUMBER.fullmatch(entry) for entry in sample) else "."


def _check_header(path: Path, names: list[str], separator: str) -> None:
    if len(names) == 1:
        raise TableError(
            f"a table needs at least two columns, but the first line of {path} has one: "
            f"'{names[0][:60]}'. If the columns are not separated by '{separator}', give "
            "--separator"
        )
    all_numbers = all(parse_number(name, ReadOptions()) is not None for name in names)
    if all_numbers or any(looks_like_date(name) for name in names):
        raise TableError(
            f"the first line must name the columns, but that of {path} holds data: "
            f"'{separator.join(names)[:60]}'. Add a line of names, such as time{separator}station"
            f"{separator}pm25"
        )
    refuse_duplicate_names(names, f"the first line of {path}")


def _starts_with_bom(path: Path, form: Format) -> bool:
    with _open_bytes(path, form) as file:
        return bool(file.read(3) == b"\xef\xbb\xbf")


def _undecodable(path: Path, form: Format, encoding: str) -> str:
    """The message about a file in another encoding, with the first line that shows it."""
    position = "it has other bytes"
    with _open_bytes(path, form) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as bad:
                position = f"line {number} has the byte 0x{line[bad.start]:02x}"
                break
            except UnicodeError:  # some codecs do not report the position
                position = f"line {number} is not"
                break
    return (
        f"{path} must be {encoding} text, but {position}. Give its encoding, for example "
        "--encoding latin-1 or --encoding gb18030"
    )


def _read_parquet(path: Path, options: ReadOptions) -> RawFile:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as bad:
        raise MissingExtraError("Parquet", "pyarrow", "io") from bad
    integers = {  # pandas would turn integers with gaps into floats
        getattr(pyarrow, f"{kind.lower()}{n}")(): getattr(pd, f"{kind}{n}Dtype")()
        for kind in ("Int", "UInt")
        for n in (8, 16, 32, 64)
    }
    try:
        _refuse_too_many_columns(path, len(pyarrow.parquet.read_schema(path)), options)
        table = pyarrow.parquet.read_table(path)
        frame = table.to_pandas(types_mapper=integers.get, ignore_metadata=True)
    except (pyarrow.ArrowException, ValueError) as bad:
        raise TableError(
            f"{path} is not a complete Parquet file: {single_line(bad)}. Get it again"
        ) from bad
    refuse_duplicate_names([str(name) for name in frame.columns], str(path))
    return RawFile(frame, schema=table.schema)


def _read_arrays(path: Path, form: Format) -> xr.Dataset:
    engine = xarray_engine(form)
    # a Zarr store is read with or without consolidated metadata
    extra: dict[str, Any] = {"consolidated": False} if form == "zarr" else {}
    try:
        with xr.open_dataset(path, engine=engine, backend_kwargs=extra) as data:
            return data.load()
    except PermissionError:
        raise
    except Exception as bad:  # the engines raise errors of many types, bare RuntimeErrors too
        raise TableError(f"{path} is not a complete {form} file: {single_line(bad)}") from bad


def refuse_duplicate_names(names: list[str], where: str) -> None:
    """Refuse two columns of one name; columns without a name are accepted."""
    seen: set[str] = set()
    for name in names:
        if name in seen and name != "":
            raise TableError(
                f"each column needs a unique name, but '{name}' is there twice in {where}. Rename "
                "one"
            )
        seen.add(name)
