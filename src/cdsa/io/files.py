"""File formats: which there are, and reading a file into a raw table or dataset."""

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


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written, apart from its content."""

    separator: str = ","
    newline: str = "\n"
    encoding: str = "utf-8"
    decimal: str = "."
    header: tuple[str, ...] = ()
    """The first line as it was written, blanks and nameless columns included."""


def detect_format(path: str | Path) -> Format:
    """The format that the end of the name promises."""
    name = Path(path).name.lower()
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return SUFFIXES[suffix]
    raise ConfigError(
        f"the format is told by the end of the name, but '{path}' ends in none of: "
        f"{', '.join(SUFFIXES)}"
        + (". Save the sheet as CSV" if name.endswith((".xls", ".xlsx", ".ods")) else "")
    )


def xarray_engine(form: Format) -> Literal["netcdf4", "zarr"]:
    """xarray's engine for a format of labelled arrays."""
    import xarray as xr

    engine, package = ("netcdf4", "netCDF4") if form == "netcdf" else ("zarr", "zarr")
    if engine not in xr.backends.list_engines():
        raise MissingExtraError(form, package, "io")
    return engine  # type: ignore[return-value]


SEPARATORS = ",;\t|"


DECIMAL_SAMPLE_ROWS = 1000
"""That are looked at for the decimal mark."""


COMMA_NUMBER, POINT_NUMBER = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d*\.\d+")


THOUSANDS_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")


@dataclass(frozen=True, eq=False)
class RawFile:
    """What was in a file, and what must be known to write it again."""

    content: pd.DataFrame | xr.Dataset
    style: CsvStyle | None = None
    """How a CSV file is written; None for other formats."""

    schema: Any = None
    """The Arrow schema of a Parquet file."""

    where: Where = lambda row: f"row {row}"


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
            f"{path} may not be read: permission denied. Change its permissions"
        ) from bad
    except OSError as bad:
        raise TableError(f"{path} could not be read: {bad.strerror or bad}") from bad


def _open_text(path: Path, form: Format, encoding: str) -> IO[str]:
    if form == "csv.gz":
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")


def _read_csv(path: Path, form: Format, options: ReadOptions) -> RawFile:
    """The file's own text, cell by cell.

    Blank lines are skipped; entries missing at the end of a line are empty.
    """
    encoding = "utf-8-sig" if options.encoding.lower() in ("utf-8", "utf8") else options.encoding
    separator = options.separator or ","
    try:
        with _open_text(path, form, encoding) as file:
            first = file.readline()
        if not first.strip():
            raise TableError(
                f"{path} is empty, or its first line is. The first line names the columns"
            )
        if options.separator is None:
            separator = max(SEPARATORS, key=re.sub(r'"[^"]*"', "", first).count)
        plain: dict[str, Any] = {
            "sep": separator, "header": None, "dtype": object, "na_filter": False,
            "skip_blank_lines": False, "low_memory": False,
        }  # fmt: skip
        if options.max_columns is not None:
            with _open_text(path, form, encoding) as file:
                _refuse_too_many_columns(
                    path, pd.read_csv(file, nrows=1, **plain).shape[1], options
                )
        with _open_text(path, form, encoding) as file:
            cells = pd.read_csv(file, **plain)
    except UnicodeError as bad:
        raise TableError(_undecodable(path, form, options.encoding)) from bad
    except (EOFError, zlib.error, gzip.BadGzipFile) as bad:
        raise TableError(f"{path} is not a whole compressed file: {bad}. Get it again") from bad
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as bad:
        reason = str(bad).removeprefix("Error tokenizing data. C error: ").strip()
        raise TableError(
            f"{path} is not a table separated by '{separator}': {reason}. Correct it, take out "
            "lines above the names of the columns, or give the separator with --separator"
        ) from bad
    header = tuple(str(name) for name in cells.iloc[0])
    _check_header(path, [name.strip() for name in header], separator)
    blank = [*np.flatnonzero(cells[0] == ""), len(cells) - 1]  # the last line may hold only blanks
    kept = np.ones(len(cells), dtype=bool)
    kept[[row for row in blank if all(str(e).strip() == "" for e in cells.iloc[row])]] = False
    kept[0] = False
    rows = np.flatnonzero(kept)

    def where(row: int) -> str:
        # a quoted entry may go over several lines
        before = sum(str(entry).count("\n") for entry in cells.iloc[: rows[row]].to_numpy().flat)
        return f"line {rows[row] + 1 + before}"

    names = [name.strip() or f"(column {n + 1})" for n, name in enumerate(header)]
    frame = cells[kept].set_axis(names, axis=1).reset_index(drop=True)
    marked = encoding == "utf-8-sig" and _starts_with_bom(path, form)
    newline = next((end for end in ("\r\n", "\r") if first.endswith(end)), "\n")
    coding = "utf-8-sig" if marked else options.encoding
    decimal = options.decimal or _detect_decimal(frame)
    style = CsvStyle(separator, newline, coding, decimal, header)
    return RawFile(frame, style, where=where)


def _refuse_too_many_columns(path: Path, columns: int, options: ReadOptions) -> None:
    """Refuse more columns than a table may have: each takes its time to be understood."""
    if options.max_columns is not None and columns > options.max_columns:
        raise TableError(
            f"a table may have {options.max_columns:,} columns here, but {path} has {columns:,}. "
            "Bring it to one row per time and station"
        )


def _detect_decimal(frame: pd.DataFrame) -> str:
    """A comma where numbers have one and never a point; if all of them could be thousands, and
    nothing else tells, it is asked for."""
    some = {str(entry).strip() for entry in frame.iloc[:DECIMAL_SAMPLE_ROWS].to_numpy().flat}
    commas = [entry for entry in some if COMMA_NUMBER.fullmatch(entry)]
    sure = any(not THOUSANDS_NUMBER.fullmatch(entry) for entry in commas)
    return "," if sure and not any(POINT_NUMBER.fullmatch(entry) for entry in some) else "."


def _check_header(path: Path, names: list[str], separator: str) -> None:
    if len(names) == 1:
        raise TableError(
            f"a table needs at least two columns, but the first line of {path} is one: "
            f"'{names[0][:60]}'. If the columns are not separated by '{separator}', give "
            "--separator"
        )
    number = [parse_number(name, ReadOptions()) is not None for name in names]
    if any(looks_like_date(name) for name in names) or all(number):
        raise TableError(
            f"the first line must name the columns, but that of {path} holds data: "
            f"'{separator.join(names)[:60]}'. Add a line of names, such as time{separator}station"
            f"{separator}pm25"
        )
    refuse_duplicate_names(names, f"the first line of {path}")


def _starts_with_bom(path: Path, form: Format) -> bool:
    with gzip.open(path) if form == "csv.gz" else path.open("rb") as file:
        return bool(file.read(3) == b"\xef\xbb\xbf")


def _undecodable(path: Path, form: Format, encoding: str) -> str:
    with gzip.open(path) if form == "csv.gz" else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as bad:
                found = f"line {number} has the byte 0x{line[bad.start]:02x}"
                break
            except UnicodeError:  # some codecs do not say where
                found = f"line {number} is none"
                break
        else:
            found = "it has other bytes"
    return (
        f"{path} must be {encoding} text, but {found}. Give its encoding, for example "
        "--encoding latin-1 or --encoding gb18030"
    )


def _read_parquet(path: Path, options: ReadOptions) -> RawFile:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as bad:
        raise MissingExtraError("Parquet", "pyarrow", "io") from bad
    whole = {getattr(pyarrow, f"int{n}")(): getattr(pd, f"Int{n}Dtype")() for n in (8, 16, 32, 64)}
    whole |= {
        getattr(pyarrow, f"uint{n}")(): getattr(pd, f"UInt{n}Dtype")() for n in (8, 16, 32, 64)
    }
    try:
        _refuse_too_many_columns(path, len(pyarrow.parquet.read_schema(path)), options)
        table = pyarrow.parquet.read_table(path)
        frame = table.to_pandas(types_mapper=whole.get, ignore_metadata=True)
    except (pyarrow.ArrowException, ValueError) as bad:
        raise TableError(
            f"{path} is not a whole Parquet file: {single_line(bad)}. Get it again"
        ) from bad
    refuse_duplicate_names([str(name) for name in frame.columns], str(path))
    return RawFile(frame, schema=table.schema)


def _read_arrays(path: Path, form: Format) -> xr.Dataset:
    engine = xarray_engine(form)
    # of a Zarr store read what is there, whether or not it has an index of its own
    extra: dict[str, Any] = {"consolidated": False} if form == "zarr" else {}
    try:
        with xr.open_dataset(path, engine=engine, backend_kwargs=extra) as data:
            return data.load()
    except PermissionError:
        raise
    except Exception as bad:  # each engine has errors of its own, some of them bare RuntimeErrors
        raise TableError(f"{path} is not a whole {form} file: {single_line(bad)}") from bad


def refuse_duplicate_names(names: list[str], where: str) -> None:
    """Refuse two columns of one name; columns without any are left alone."""
    seen: set[str] = set()
    for name in names:
        if name in seen and name != "":
            raise TableError(
                f"each column needs a name of its own, but '{name}' stands twice in {where}. "
                "Rename one"
            )
        seen.add(name)
