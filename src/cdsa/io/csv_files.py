"""CSV files, whose entries stay text: read and written in the same style."""

import codecs
import csv
import gzip
import io
import re
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from cdsa.errors import TableError
from cdsa.io.columns import DATE
from cdsa.io.entries import parse_number
from cdsa.io.options import ReadOptions
from cdsa.io.table_files import (
    CsvStyle,
    RawTable,
    refuse_duplicate_names,
    refuse_too_many_columns,
)

SEPARATORS = ",;\t|"
DECIMAL_SAMPLE_ROWS = 1000  # rows from which the decimal mark is detected
COMMA_NUMBER, POINT_NUMBER = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d*\.\d+")
THOUSANDS_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")

TOA5, TOA5_LINES = (b'"TOA5"', b"TOA5,"), (1, 3, 4)
"""How a file of a Campbell logger begins, and its lines that hold the station, units and
processing."""

SKIP_SAMPLE = 20_000
"""Bytes in which the line of the column names is looked for."""


def read_csv(path: Path, options: ReadOptions, *, compressed: bool = False) -> RawTable:
    """The text of each entry. Blank lines are skipped; entries missing at the end of a line are
    empty."""
    data, encoding = _read_bytes(path, compressed=compressed), options.encoding
    if encoding.lower() in ("utf-8", "utf8") and data.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    is_toa5 = data.startswith(TOA5)
    skipped = options.skip_rows or (TOA5_LINES if is_toa5 else ())
    try:
        above, below, data = _skip_lines(path, data, encoding, skipped)
        first_line = _first_line(data, encoding)
        lines, separator = _split(path, data, encoding, first_line, options)
    except UnicodeError as bad:
        raise TableError(
            f"{path} must be {options.encoding} text, but {_find_undecodable(data, encoding)}. "
            "Give its encoding, for example --encoding latin-1 or --encoding gb18030"
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


def _read_bytes(path: Path, *, compressed: bool) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if compressed else path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as bad:
        raise TableError(f"{path} is not a complete compressed file: {bad}. Get it again") from bad


def _first_line(data: bytes, encoding: str) -> str:
    return io.TextIOWrapper(io.BytesIO(data), encoding, newline="").readline()


def _split(
    path: Path, data: bytes, encoding: str, first_line: str, options: ReadOptions
) -> tuple[pd.DataFrame, str]:
    """The entries of all lines, the names of the columns among them, and what separates them."""
    separator = options.separator or ","
    if not first_line.strip():
        raise TableError(
            f"{path} is empty, or its first line is. The first line names the columns"
            + _skip_hint(data, encoding, SEPARATORS, options)
        )
    if options.separator is None:
        separator = max(SEPARATORS, key=re.sub(r'"[^"]*"', "", first_line).count)

    def parse(n_rows: int | None = None) -> pd.DataFrame:
        return pd.read_csv(
            io.BytesIO(data), sep=separator, encoding=encoding, nrows=n_rows, header=None,
            dtype=object, na_filter=False, skip_blank_lines=False, low_memory=False,
        )  # fmt: skip

    try:
        refuse_too_many_columns(path, parse(n_rows=1).shape[1], options)
        return parse(), separator
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as bad:
        reason = str(bad).removeprefix("Error tokenizing data. C error: ").strip()
        raise TableError(
            f"{path} is not a table separated by '{separator}': {reason}. Correct it, or give the "
            "separator with --separator" + _skip_hint(data, encoding, SEPARATORS, options)
        ) from bad


def _skip_lines(
    path: Path, data: bytes, encoding: str, numbers: tuple[int, ...]
) -> tuple[str, str, bytes]:
    """The skipped lines above and below the column names, and all others."""
    if not numbers:
        return "", "", data
    lines = list(io.TextIOWrapper(io.BytesIO(data), encoding, newline=""))
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
    rest = "".join([lines[header - 1], *lines[first_row:]])
    return "".join(above), "".join(below), rest.encode(encoding)


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
