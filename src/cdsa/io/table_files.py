"""The content of a table file, and Parquet files; those of text are in `csv_files.py`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import narwhals as nw
import pandas as pd

from cdsa.core.text import single_line
from cdsa.core.times import Where
from cdsa.errors import OutputError, TableError
from cdsa.io.options import ReadOptions

BYTES_PER_ENTRY = 8


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


def refuse_too_many_columns(path: Path, n_columns: int, options: ReadOptions) -> None:
    if options.max_columns is not None and n_columns > options.max_columns:
        raise TableError(
            f"a table may have at most {options.max_columns:,} columns here, but {path} has "
            f"{n_columns:,}. Reshape it to one row per time and station"
        )


def refuse_duplicate_names(names: Iterable[object], where: str) -> None:
    """Refuse two columns of one name; columns without a name are accepted."""
    texts = pd.Series([str(name) for name in names], dtype=object)
    for name in texts[texts.duplicated() & (texts != "")]:
        raise TableError(
            f"each column needs a unique name, but '{name}' is there twice in {where}. Rename one"
        )


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
        refuse_too_many_columns(path, len(pyarrow.parquet.read_schema(path)), options)
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
