"""Entries of a table as numbers or labels."""

import math
import re
import shlex
from collections.abc import Hashable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cdsa.core.times import Where
from cdsa.errors import TableError
from cdsa.io.options import ReadOptions

EMPTY_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "--"})
DECIMAL_COMMA = re.compile(r"\s*-?\d+,\d+\s*")

Labels = tuple[NDArray[np.int64], list[str], list[object]]
"""A code for each row, and the distinct labels in order of appearance, as text and as they are."""


def factorize(column: pd.Series) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """A code for each row, and the distinct entries in order of appearance, None for missing."""
    entries = column.to_numpy(dtype=object)
    try:
        codes, labels = pd.factorize(entries)
    except TypeError as bad:  # lists or structures, as Parquet has them
        nested = next(entry for entry in entries if not isinstance(entry, Hashable))
        raise TableError(
            f"column '{column.name}' should have one number, text or date in each row, but found "
            f"{nested!r:.60}. Write its parts as columns, or name another column"
        ) from bad
    missing = codes < 0
    if missing.any():
        codes = np.where(missing, len(labels), codes)
        labels = np.concatenate([labels, np.array([None], dtype=object)])
    return codes, labels


def parse_number(text: str, options: ReadOptions) -> float | None:
    """The number in a text, NaN if it means missing, None if it is not a number."""
    text = text.strip()
    if text.lower() in EMPTY_WORDS or text in options.missing:
        return float("nan")
    if options.decimal_mark == ",":
        text = text.replace(".", "x").replace(",", ".")
    if "_" in text:  # float() reads 1_000
        return None
    try:
        return float(text)
    except ValueError:
        return None


def parse_numbers(column: pd.Series, options: ReadOptions, where: Where) -> NDArray[np.float64]:
    """A column as numbers, NaN where missing; other text is refused."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    else:
        codes, labels = factorize(column)
        distinct = _parse_plain_numbers(labels) if options.decimal_mark == "." else None
        if distinct is None:
            parsed = [math.nan if pd.isna(x) else parse_number(str(x), options) for x in labels]
            if None in parsed:
                code = parsed.index(None)
                row = int(np.argmax(codes == code))
                raise TableError(not_a_number(str(labels[code]), str(column.name), where(row)))
            distinct = np.array(parsed, dtype=np.float64)
        numbers = distinct[codes]
    numbers[np.isin(numbers, missing_codes(options))] = np.nan
    return np.asarray(numbers)


def _parse_plain_numbers(labels: NDArray[np.object_]) -> NDArray[np.float64] | None:
    """Labels that are all numbers or empty, parsed at once; else None."""
    texts = np.where(labels == "", "nan", labels)
    try:
        return None if "_" in "".join(texts) else texts.astype(np.float64)
    except (TypeError, ValueError):
        return None


def not_a_number(text: str, column: str, place: str) -> str:
    remedy = (
        "If the comma is the decimal mark, give --decimal ,"
        if DECIMAL_COMMA.fullmatch(text)
        else f"If it means missing, give --missing {shlex.quote(text)}"
    )
    return (
        f"column '{column}' must hold numbers, but found '{text}' in {place}. {remedy}; if the "
        "column is not a measurement, list the measurements with --measurements; otherwise "
        "correct it"
    )


def missing_codes(options: ReadOptions) -> list[float]:
    """The numbers among the user's codes for missing."""
    codes = [parse_number(code, ReadOptions()) for code in options.missing]
    return [code for code in codes if code is not None]


def parse_labels(column: pd.Series, where: Where) -> Labels:
    """The labels of a column; missing ones are refused."""
    codes, labels = factorize(column)
    for code, label in enumerate(labels):
        if pd.isna(label) or str(label).strip() == "":
            row = int(np.argmax(codes == code))
            raise TableError(
                f"every row needs an entry in column '{column.name}', but {where(row)} has none. "
                "Complete or drop the row, or name another column"
            )
    texts = [str(label).strip() for label in labels]
    if len(set(texts)) < len(texts):
        repeated = next(text for number, text in enumerate(texts) if text in texts[:number])
        raise TableError(
            f"column '{column.name}' writes '{repeated}' in two ways that differ only in blanks or "
            "type. Write it one way"
        )
    return codes, texts, list(labels)
