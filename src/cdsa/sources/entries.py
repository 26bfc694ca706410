"""Entries of a column: numbers and stamps in the form that the column's own entries have."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cdsa.core.times import Clock, Times

Index = NDArray[np.int64]
Numbers = NDArray[np.float64]
Objects = NDArray[np.object_]


def is_text(column: pd.Series) -> bool:
    """Whether the entries are strings: those of a text file, or any others."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return is_text(column.dtype.categories.to_series())
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")
    return bool(pd.api.types.is_string_dtype(column.dtype))


def is_whole(dtype: object) -> bool:
    """Whether a type holds whole numbers only."""
    return bool(pd.api.types.is_integer_dtype(dtype))


def whole_numbers(numbers: Numbers, dtype: object) -> Numbers:
    """The nearest whole numbers that an integer type can hold."""
    kind = np.dtype(str(getattr(dtype, "numpy_dtype", dtype)))
    limits = np.iinfo(kind)
    return np.clip(np.rint(numbers), limits.min, limits.max)


def entries_like(column: pd.Series, numbers: Numbers, decimal: str) -> Objects | Numbers:
    """Numbers as this column would hold them: text as text, whole numbers in integer columns."""
    if is_text(column):
        # the shortest text that reads back to the same number
        texts = ["" if np.isnan(n) else repr(float(n)).removesuffix(".0") for n in numbers]
        return np.array([text.replace(".", decimal) for text in texts], dtype=object)
    if is_whole(column.dtype):
        return whole_numbers(numbers, column.dtype)
    decimals = [x for x in column if isinstance(x, Decimal)] if column.dtype == object else []
    if decimals:
        step = Decimal(1).scaleb(min(int(x.as_tuple().exponent) for x in decimals))
        exact = [None if np.isnan(n) else Decimal(repr(float(n))).quantize(step) for n in numbers]
        return np.array(exact, dtype=object)
    return numbers


def stamps_like(column: pd.Series, clock: Clock, times: Times) -> Objects:
    """Times as this column would hold them."""
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        local = clock.local(times)
        zone = getattr(column.dtype, "tz", None)
        local = local.tz_localize(None) if zone is None else local.tz_convert(zone)
        return np.asarray(local, dtype=object)
    if isinstance(column.dtype, pd.PeriodDtype):
        return np.asarray(pd.DatetimeIndex(times).to_period(column.dtype.freq), dtype=object)
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = [float(text) for text in clock.write(times)]
        return np.array([int(n) if n == int(n) else n for n in numbers], dtype=object)
    if not is_text(column):
        first = next(entry for entry in column if not pd.isna(entry))
        moments = [moment.to_pydatetime() for moment in clock.local(times)]
        if isinstance(first, datetime.datetime):
            return np.array(moments, dtype=object)
        if isinstance(first, datetime.date):
            return np.array([moment.date() for moment in moments], dtype=object)
    return np.array(clock.write(times), dtype=object)


def put(frame: pd.DataFrame, column: str, rows: Index, numbers: Numbers, decimal: str) -> None:
    """Put numbers into these rows of a column, whose type stays what it was."""
    if len(rows) == 0:
        return
    old = frame[column]
    entries = entries_like(old, numbers, decimal)
    if old.dtype == object or is_text(old) or isinstance(old.dtype, pd.CategoricalDtype):
        whole = np.array(old.astype(object), dtype=object)
        whole[rows] = entries
        frame[column] = as_before(pd.Series(whole, index=frame.index, dtype=object), old.dtype)
    else:
        changed = old.copy()
        changed.iloc[rows] = pd.array(entries).astype(old.dtype)
        frame[column] = changed


def as_before(column: pd.Series, dtype: object) -> pd.Series:
    """The column in its former type, or the nearest kin that can hold what is new in it."""
    if isinstance(dtype, pd.CategoricalDtype):
        new = [x for x in pd.unique(column.dropna()) if x not in set(dtype.categories)]
        return column.astype(pd.CategoricalDtype([*dtype.categories, *new], ordered=dtype.ordered))
    if pd.api.types.is_bool_dtype(dtype) and column.isna().any():
        return column.astype("boolean")
    try:
        return column.astype(dtype)
    except (TypeError, ValueError):
        return column.convert_dtypes()
