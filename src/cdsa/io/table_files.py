"""Files of tables: CSV, whose entries stay text, and Parquet."""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from cdsa.core.text import single_line
from cdsa.core.times import Where
from cdsa.errors import OutputError, TableError
from cdsa.io.columns import DATE, parse_number
from cdsa.io.options import ReadOptions

SEPARATORS = ",;\t|"
DECIMAL_SAMPLE_ROWS = 1000  # rows from which the decimal mark is detected
COMMA_NUMBER, POINT_NUMBER = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d*\.\d+")
THOUSANDS_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
BYTES_PER_ENTRY = 8
TOA5_LINES = (1, 3, 4)
"""Lines of a file of a Campbell logger that hold the station, units and processing."""

SKIP_SAMPLE = 20_000
"""Bytes in which the line of the column names is looked for."""


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written, apart from its content."""

    separator: str = ","
    newline: str = "\n"
    encoding: str = "utf-8"
    decimal: str = "."
    header: tuple[str, ...] = ()
    """The column names as they were written, with blanks and nameless columns."""

    above: str = ""
    """Lines above the column names that were skipped."""

    below: str = ""
    """Skipped lines between the column names and the first row, such as one of units."""


@dataclass(frozen=True, eq=False)
class RawTable:
    """The content of a table, and what is needed to write it the same way."""

    frame: pd.DataFrame
    style: CsvStyle | None = None
    """The style of a CSV file; None for other formats."""

    schema: Any = None
    units: Mapping[str, str] = field(default_factory=dict)
    """Units of columns from a line below the headers."""

    where: Where = lambda row: f"row {row}"


def to_pandas(data: Any) -> Any:
    """A polars or pyarrow table as a pandas frame; other data as they are."""
    if isinstance(data, pd.DataFrame):
        return data
    try:
        return nw.from_native(data, eager_only=True).to_pandas()
    except TypeError:
        return data  # refused by the caller


def read_csv(path: Path, options: ReadOptions, *, compressed: bool = False) -> RawTable:
    """The text of each entry. Blank lines are skipped; entries missing at the end of a line are
    empty."""
    try:
        data = gzip.decompress(path.read_bytes()) if compressed else path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as bad:
        raise TableError(f"{path} is not a complete compressed file: {bad}. Get it again") from bad
    encoding, separator = options.encoding, options.separator or ","
    if encoding.lower() in ("utf-8", "utf8") and data.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"

    def parse(n_rows: int | None = None) -> pd.DataFrame:
        return pd.read_csv(
            io.BytesIO(data), sep=separator, encoding=encoding, nrows=n_rows, header=None,
            dtype=object, na_filter=False, skip_blank_lines=False, low_memory=False,
        )  # fmt: skip

    above = below = ""
    is_toa5 = data.startswith((b'"TOA5"', b"TOA5,"))
    skipped = options.skip_rows or (TOA5_LINES if is_toa5 else ())
    try:
        if skipped:
            above, below, rest = _skip_lines(path, data.decode(encoding), skipped)
            data = rest.encode(encoding)
        first_line = io.TextIOWrapper(io.BytesIO(data), encoding, newline="").readline()
        if not first_line.strip():
            raise TableError(
                f"{path} is empty, or its first line is. The first line names the columns"
                + _skip_hint(data, encoding, SEPARATORS, options)
            )
        if options.separator is None:
            separator = max(SEPARATORS, key=re.sub(r'"[^"]*"', "", first_line).count)
        _refuse_too_many_columns(path, parse(n_rows=1).shape[1], options)
        lines = parse()
    except UnicodeError as bad:
        raise TableError(
            f"{path} must be {options.encoding} text, but {_find_undecodable(data, encoding)}. "
            "Give its encoding, for example --encoding latin-1 or --encoding gb18030"
        ) from bad
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as bad:
        reason = str(bad).removeprefix("Error tokenizing data. C error: ").strip()
        raise TableError(
            f"{path} is not a table separated by '{separator}': {reason}. Correct it, or give the "
            "separator with --separator" + _skip_hint(data, encoding, SEPARATORS, options)
        ) from bad
    header = tuple(str(name) for name in lines.iloc[0])
    hint = _skip_hint(data, encoding, separator, options)
    _check_header(path, [name.strip() for name in header], separator, hint)
    candidates = (*np.flatnonzero(lines[0] == ""), len(lines) - 1)  # the last may be blanks only
    blank = [row for row in candidates if not "".join(map(str, lines.iloc[row])).strip()]
    rows = lines.drop(index=[0, *blank])

    def where(row: int) -> str:
        line = int(rows.index[row])
        entries = lines.iloc[:line].to_numpy().flat
        n_breaks = sum(str(entry).count("\n") for entry in entries)  # within quoted entries
        number = line + 1 + n_breaks
        for line_number in skipped:
            number += line_number <= number
        return f"line {number}"

    names = [name.strip() or f"(column {n + 1})" for n, name in enumerate(header)]
    frame = rows.set_axis(names, axis=1).reset_index(drop=True)
    newline = next((end for end in ("\r\n", "\r") if first_line.endswith(end)), "\n")
    decimal = options.decimal or _detect_decimal(frame)
    style = CsvStyle(separator, newline, encoding, decimal, header, above, below)
    unit_line = below.partition("\n")[0] if is_toa5 and not options.skip_rows else ""
    units = dict(zip(names, next(csv.reader([unit_line]), []), strict=False))
    return RawTable(frame, style, units=units, where=where)


def _skip_lines(path: Path, text: str, numbers: tuple[int, ...]) -> tuple[str, str, str]:
    """The skipped lines above and below the column names, and all others."""
    lines = text.splitlines(keepends=True)
    first_row = len(numbers) + 1  # only the column names are in between
    if len(lines) < first_row or numbers[-1] > first_row:
        raise TableError(
            "the lines to skip are those above and right below the column names, but in "
            f"{path}, which has {len(lines):,} lines, more than one line lies before line "
            f"{numbers[-1]}. Correct --skip-rows"
            if len(lines) >= first_row
            else f"{path} has only {len(lines):,} lines. Correct --skip-rows"
        )
    header = next(n for n in range(1, first_row + 1) if n not in numbers)
    above, below = lines[: header - 1], lines[header:first_row]
    return "".join(above), "".join(below), lines[header - 1] + "".join(lines[first_row:])


def _skip_hint(data: bytes, encoding: str, separators: str, options: ReadOptions) -> str:
    """How to skip the lines at the top that have fewer columns than most."""
    lines = data[:SKIP_SAMPLE].decode(encoding, "replace").splitlines()
    if not lines or options.skip_rows:
        return ""
    counts = max(([line.count(mark) for line in lines] for mark in separators), key=max)
    first = counts.index(max(counts))
    if not first:
        return ""
    return f". If the columns are named in line {first + 1}, give --skip-rows {first}"


def _refuse_too_many_columns(path: Path, n_columns: int, options: ReadOptions) -> None:
    if options.max_columns is not None and n_columns > options.max_columns:
        raise TableError(
            f"a table may have at most {options.max_columns:,} columns here, but {path} has "
            f"{n_columns:,}. Reshape it to one row per time and station"
        )


def _find_undecodable(data: bytes, encoding: str) -> str:
    """The first line of a text that has another encoding."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError as bad:
        line = bad.object[: bad.start].count(b"\n") + 1
        return f"line {line} has the byte 0x{bad.object[bad.start]:02x}"
    except UnicodeError:  # some codecs do not report the position
        pass
    return "it is not"


def _check_header(path: Path, names: list[str], separator: str, hint: str) -> None:
    if len(names) == 1:
        raise TableError(
            f"a table needs at least two columns, but the first line of {path} has one: "
            f"'{names[0][:60]}'. If the columns are not separated by '{separator}', give "
            f"--separator{hint}"
        )
    all_numbers = all(parse_number(name, ReadOptions()) is not None for name in names)
    if all_numbers or any(DATE.match(name) for name in names):
        raise TableError(
            f"the first line must name the columns, but that of {path} holds data: "
            f"'{separator.join(names)[:60]}'. Add a line of names, such as time{separator}station"
            f"{separator}pm25"
        )
    refuse_duplicate_names(names, f"the first line of {path}")


def refuse_duplicate_names(names: Iterable[object], where: str) -> None:
    """Refuse two columns of one name; columns without a name are accepted."""
    texts = pd.Series([str(name) for name in names], dtype=object)
    for name in texts[texts.duplicated() & (texts != "")]:
        raise TableError(
            f"each column needs a unique name, but '{name}' is there twice in {where}. Rename one"
        )


def _detect_decimal(frame: pd.DataFrame) -> str:
    """A comma if numbers have one and none has a point, unless all could be thousands."""
    sample = {str(entry).strip() for entry in frame.iloc[:DECIMAL_SAMPLE_ROWS].to_numpy().flat}
    commas = [entry for entry in sample if COMMA_NUMBER.fullmatch(entry)]
    certain = any(not THOUSANDS_NUMBER.fullmatch(entry) for entry in commas)
    return "," if certain and not any(POINT_NUMBER.fullmatch(entry) for entry in sample) else "."


def write_csv(table: RawTable, path: Path, *, compressed: bool = False) -> None:
    """Write a table as text, in its own style."""
    style = table.style or CsvStyle()
    frame = table.frame.copy()  # defragmented: thousands of single columns are written slowly
    with path.open("wb") as file:
        # without a name and a time, the same table gives the same bytes
        target = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if compressed else file
        with target:
            write = partial(
                pd.DataFrame.to_csv, sep=style.separator, encoding=style.encoding,
                header=list(style.header) if len(style.header) == len(frame.columns) else True,
                index=not isinstance(frame.index, pd.RangeIndex),
                decimal=style.decimal, lineterminator=style.newline,
            )  # fmt: skip
            if not (style.above or style.below):
                write(frame, target, mode="wb")
                return
            header = write(frame.iloc[:0])
            rows = write(frame).removeprefix(header)
            target.write((style.above + header + style.below + rows).encode(style.encoding))


def csv_size(path: Path, max_bytes: int, *, compressed: bool = False) -> int:
    """Bytes of the text; counts no further than `max_bytes`."""
    if not compressed:
        return path.stat().st_size
    size = 0
    with gzip.open(path) as file:
        while size <= max_bytes and (chunk := file.read(1 << 20)):
            size += len(chunk)
    return size


def read_parquet(path: Path, options: ReadOptions) -> RawTable:
    """A table with the types of its columns."""
    import pyarrow
    import pyarrow.parquet

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
    refuse_duplicate_names(frame.columns, str(path))
    return RawTable(frame, schema=table.schema)


def write_parquet(table: RawTable, path: Path) -> None:
    """Write a table with the types it was read with, if any."""
    import pyarrow
    import pyarrow.parquet

    frame, schema = table.frame, table.schema
    if schema is None:
        pyarrow.parquet.write_table(pyarrow.Table.from_pandas(frame), path)
        return
    has_nulls = frame.isna().any()  # new rows may have some
    fields = [field.with_nullable(field.nullable or has_nulls[field.name]) for field in schema]
    new_columns = [name for name in frame.columns if name not in schema.names]  # added sites
    fields += [pyarrow.field(name, pyarrow.float64()) for name in new_columns]
    schema = pyarrow.schema(fields, schema.metadata)
    try:
        arrow = pyarrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
    except (pyarrow.ArrowException, ValueError) as bad:
        raise OutputError(
            f"the filled table does not fit the Parquet file's types: {single_line(bad)}. Write CSV"
        ) from bad
    pyarrow.parquet.write_table(arrow.replace_schema_metadata(schema.metadata), path)


def parquet_size(path: Path, max_bytes: int) -> int:
    """Bytes of the entries, approximately; counts no further than `max_bytes`. Repeated text takes
    hardly any space in the file."""
    from pyarrow import compute, parquet, types

    file = parquet.ParquetFile(path)
    for column in file.schema_arrow:
        if types.is_nested(column.type) or "binary" in str(column.type):
            raise TableError(
                f"a column has one number, text or date in each row, but column '{column.name}' of "
                f"{path} has the type {column.type!s:.60}. Remove it"
            )
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    entries = sum(group.column(n).num_values for group in groups for n in range(group.num_columns))
    size = max(sum(group.total_byte_size for group in groups), BYTES_PER_ENTRY * entries)
    text_columns = [c.name for c in file.schema_arrow if str(c.type) in ("string", "large_string")]
    if not text_columns or size > max_bytes:
        return int(size)
    encoded = parquet.ParquetFile(path, read_dictionary=text_columns)
    for batch in encoded.iter_batches(columns=text_columns):
        for column in batch.columns:
            lengths = compute.binary_length(column.dictionary).take(column.indices)
            size += compute.sum(lengths).as_py() or 0
        if size > max_bytes:
            break
    return int(size)
