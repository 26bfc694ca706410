"""Timestamps whose date and time of day are in two columns: joined to be read, and split to be
written."""

import datetime
import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ObjectArray = NDArray[np.object_]

TIME_OF_DAY = ("time", "timeofday", "localtime", "timelocal", "hour", "hours", "hr", "hh", "hhmm")
"""Usual names, in lower case and without punctuation."""

HOUR = re.compile(r"\s*\d{1,2}(\.0)?\s*")
CLOCK = re.compile(r"\s*\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?\s*")


def is_time_of_day(entry: object) -> bool:
    """Whether an entry is an hour, such as 7, or a time without a date, such as 07:30."""
    if isinstance(entry, datetime.time):
        return True
    text = str(entry)
    return bool(HOUR.fullmatch(text) or CLOCK.fullmatch(text))


def is_date_only(column: pd.Series) -> bool:
    """Whether the first entry of a column has no time of day."""
    entry = column.iloc[0]
    if isinstance(entry, datetime.datetime):
        return bool((pd.DatetimeIndex(column).normalize() == pd.DatetimeIndex(column)).all())
    return not pd.isna(entry) and ":" not in str(entry) and " " not in str(entry).strip()


def join(dates: pd.Series, times: pd.Series) -> pd.Series:
    """The timestamps of two columns as text; empty where either is."""
    if pd.api.types.is_datetime64_any_dtype(dates.dtype):
        dates = dates.dt.strftime("%Y-%m-%d")
    texts = times.astype(object).map(_clock_text, na_action="ignore")
    joined = dates.astype(object).map(lambda entry: str(entry).strip()) + " " + texts
    joined = joined.where(dates.notna() & times.notna() & (texts != ""), "")
    return joined.astype(object).rename(f"{dates.name} + {times.name}")


def _clock_text(entry: object) -> str:
    text = str(entry).strip()
    return f"{int(float(text)):02}:00" if HOUR.fullmatch(text) else text


def split(
    texts: ObjectArray, dates: pd.Series, times: pd.Series
) -> tuple[ObjectArray, ObjectArray]:
    """The entries of two columns for timestamps as `join` makes them."""
    parts = [str(text).partition(" ") for text in texts]
    first_date, first_time = dates.iloc[0], times.iloc[0]
    days: list[object] = [day for day, _, _ in parts]
    if pd.api.types.is_datetime64_any_dtype(dates.dtype):
        days = [pd.Timestamp(str(day)) for day in days]
    elif isinstance(first_date, datetime.date):
        days = [datetime.date.fromisoformat(str(day)) for day in days]
    clocks: list[object] = [clock for _, _, clock in parts]
    if isinstance(first_time, datetime.time):
        clocks = [datetime.time.fromisoformat(str(clock)) for clock in clocks]
    elif not isinstance(first_time, str):
        clocks = [int(str(clock)[:2]) for clock in clocks]
    elif HOUR.fullmatch(first_time):
        padded = all(len(str(entry).strip()) > 1 for entry in times)
        hours = [str(clock)[:2] for clock in clocks]
        clocks = [hour if padded else str(int(hour)) for hour in hours]
    return np.array(days, dtype=object), np.array(clocks, dtype=object)
