"""Columns of a table: which one is what, and their entries as numbers or labels."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cdsa.core.times import Where
from cdsa.errors import TableError, unknown
from cdsa.io.options import Layout, ReadOptions

TIME = (
    *("time", "timestamp", "datetime", "timehour", "timeutc", "utctime", "datetimeutc", "dateutc"),
    *("validtime", "stamp", "ts", "date", "period"),
)


LOCATION = (
    *("location", "locationid", "station", "stationid", "stationcode", "site", "siteid", "sensor"),
    *("sensorid", "detector", "detectorid", "camera", "cameraid", "device", "deviceid", "node"),
    *("origin", "place", "stid", "loc", "id", "stationname", "sitename", "name"),
)


MEASUREMENT = (
    *(
        "measurement",
        "variable",
        "parameter",
        "pollutant",
        "quantity",
        "species",
        "metric",
        "measure",
    ),
)


VALUE = ("value", "values", "reading", "concentration", "result", "measuredvalue")


LAT = ("lat", "latitude")


LON = ("lon", "lng", "long", "longitude")


UNIT = ("unit", "units")


DECIMAL_COMMA = re.compile(r"\s*-?\d+,\d+\s*")


ROW_NUMBER = re.compile(r"$|Unnamed: \d+$|__index_level_\d+__$|\(column \d+\)$")
"""Names of row numbers that another program wrote beside the data, or of no name at all."""


EMPTY_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "--"})


@dataclass(frozen=True)
class ColumnRoles:
    """Which column of a table is what."""

    layout: Layout
    time: str
    location: str | None
    measurement: str | None
    values: tuple[str, ...]
    lat: str | None
    lon: str | None
    unit: str | None
    passthrough: tuple[str, ...]
    """Columns that are none of these and come back as they are."""


def detect_roles(frame: pd.DataFrame, options: ReadOptions, where: Where) -> ColumnRoles:
    """Recognise the layout of a table and the role of each column."""
    columns = [str(name) for name in frame.columns]
    time = options.time or find_name(columns, TIME) or _find_date_column(frame)
    if time is None:
        raise TableError(
            "a table needs a column of timestamps, but none of these is one: "
            f"{_join_names(columns)}. Name it with --time COLUMN; if the date and the hour are in "
            "separate columns, join them into one first"
        )
    given = {"time": time, "location": options.location, "lat": options.lat, "lon": options.lon}
    given |= {"measurement": options.measurement, "value": options.value}
    for option, name in given.items():
        if name is not None and name not in columns:
            raise TableError(f"--{option}: {unknown('column', name, columns)}")
    twice = [name for name in given.values() if name and list(given.values()).count(name) > 1]
    if twice:
        raise TableError(f"one column cannot play two parts, but '{twice[0]}' was given for two")
    free = [name for name in columns if name != time]
    location = options.location or (None if options.layout == "wide" else find_name(free, LOCATION))
    free = [name for name in free if name != location]
    measurement = options.measurement or find_name(free, MEASUREMENT)
    value = options.value or find_name(free, VALUE)
    layout = options.layout or _detect_layout(location, measurement, value)
    if layout == "long" and (measurement is None or value is None):
        raise TableError(
            "the long layout has a column that names the measurement and a column of values, but "
            f"found {_join_names(columns)}. Name them with --measurement COLUMN and --value COLUMN"
        )
    lat, lon = options.lat or find_name(free, LAT), options.lon or find_name(free, LON)
    unit = find_name(free, UNIT) if layout == "long" else None
    if layout == "wide":
        lat = lon = None
    taken = {location, lat, lon, unit, measurement if layout == "long" else None}
    rest = [name for name in free if name not in taken]
    if layout == "long":
        values = [value] if value is not None else []
    else:
        values = _find_value_columns(frame, rest, options, layout, where)
    return ColumnRoles(
        layout=layout,
        time=time,
        location=location,
        measurement=measurement if layout == "long" else None,
        values=tuple(values),
        lat=lat,
        lon=lon,
        unit=unit,
        passthrough=tuple(name for name in rest if name not in values),
    )


def _detect_layout(location: str | None, measurement: str | None, value: str | None) -> Layout:
    if measurement is not None and value is not None:
        return "long"
    return "wide" if location is None else "panel"


def _find_value_columns(
    frame: pd.DataFrame, names: list[str], options: ReadOptions, layout: Layout, where: Where
) -> list[str]:
    if layout == "panel" and options.measurements:
        for name in options.measurements:
            if name not in names:
                raise TableError(f"--measurements: {unknown('column', name, names)}")
        return list(options.measurements)
    found = [n for n in names if not ROW_NUMBER.match(n) and _is_numeric(frame[n], options)]
    if not found:
        texts = {name: str(frame[name].iloc[0]) for name in names}
        comma = next((n for n, text in texts.items() if DECIMAL_COMMA.fullmatch(text)), None)
        if comma is not None:
            raise TableError(_not_a_number(texts[comma], comma, where(0)))
        seen = ", ".join(f"'{text}' in '{name}'" for name, text in list(texts.items())[:3])
        raise TableError(
            "a table needs at least one column of numbers, but found only "
            + _join_names(frame.columns)
            + (f" (such as {seen} in {where(0)})" if seen else "")
            + ". If the separator or the decimal mark is unusual, give --separator or --decimal"
        )
    return found


def _is_numeric(column: pd.Series, options: ReadOptions) -> bool:
    """True if anything in the column is a number, or everything is empty; text is carried along."""
    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(
        column.dtype
    ):
        return False
    if pd.api.types.is_numeric_dtype(column.dtype):
        return True
    empty = True
    for part in (column.iloc[:100], column):
        try:
            labels = pd.unique(part.dropna().astype(object))
        except TypeError:  # lists and the like
            return False
        for label in labels[:10_000]:
            number = parse_number(str(label), options)
            if number is not None and not math.isnan(number):
                return True
            empty = empty and number is not None
    return empty


def find_name(columns: Iterable[str], names: tuple[str, ...]) -> str | None:
    """The column with the first of these names, whatever its case and punctuation."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(list(columns))}
    return next((plain[name] for name in names if name in plain), None)


def _find_date_column(frame: pd.DataFrame) -> str | None:
    """The first column that holds dates."""
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_datetime64_any_dtype(column.dtype):
            return str(name)
        texts = not pd.api.types.is_numeric_dtype(column.dtype)
        if texts and len(column) and looks_like_date(str(column.iloc[0])):
            return str(name)
    return None


def looks_like_date(text: str) -> bool:
    """Whether this is a date rather than a name or a number."""
    return bool(
        re.match(r"\s*(\d{4}[-/]\d{1,2}([-/]\d{1,2}|$)|\d{1,2}[./-]\d{1,2}[./-]\d{4})\b", text)
    )


def _join_names(columns: Iterable[object]) -> str:
    names = [f"'{name}'" for name in columns]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def factorize(column: pd.Series) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """For each row the number of its entry, and the different entries in order of appearance."""
    codes, labels = pd.factorize(column.to_numpy(dtype=object))
    missing = codes < 0
    if missing.any():
        codes = np.where(missing, len(labels), codes)
        labels = np.concatenate([labels, np.array([None], dtype=object)])
    return codes, labels


def parse_number(text: str, options: ReadOptions) -> float | None:
    """The number a text stands for, NaN for an empty one, None if it is neither."""
    bare = text.strip()
    if bare.lower() in EMPTY_WORDS or bare in options.missing:
        return float("nan")
    if options.decimal_mark == ",":
        bare = bare.replace(".", "x").replace(",", ".")
    if "_" in bare:  # Python would read 1_000 as a number
        return None
    try:
        return float(bare)
    except ValueError:
        return None


def parse_numbers(column: pd.Series, options: ReadOptions, where: Where) -> NDArray[np.float64]:
    """A column as numbers, NaN where missing; text that is not a number is refused."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    else:
        codes, labels = factorize(column)
        read = _parse_plain_numbers(labels) if options.decimal_mark == "." else None
        if read is None:
            found = [math.nan if pd.isna(x) else parse_number(str(x), options) for x in labels]
            for code, number in enumerate(found):
                if number is None:
                    row = int(np.argmax(codes == code))
                    raise TableError(_not_a_number(str(labels[code]), str(column.name), where(row)))
            read = np.array(found, dtype=np.float64)
        numbers = read[codes]
    numbers[np.isin(numbers, missing_codes(options))] = np.nan
    return np.asarray(numbers)


def _parse_plain_numbers(labels: NDArray[np.object_]) -> NDArray[np.float64] | None:
    """Labels that are nothing but numbers and blanks, read in one go; None if they are not."""
    texts = np.where(labels == "", "nan", labels)
    try:
        return None if "_" in "".join(texts) else texts.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _not_a_number(text: str, column: str, place: str) -> str:
    comma = bool(DECIMAL_COMMA.fullmatch(text))
    mend = "give --decimal ," if comma else f"say so with --missing '{text}'"
    meaning = "the comma is the decimal mark" if comma else "it stands for a missing value"
    return (
        f"column '{column}' must hold numbers, but found '{text}' in {place}. If {meaning}, "
        f"{mend}; if the column is no measurement, list those that are with --measurements; else "
        "correct it"
    )


def missing_codes(options: ReadOptions) -> list[float]:
    """Those of the user's marks for missing that are numbers."""
    codes = []
    for mark in options.missing:
        try:
            codes.append(float(mark))
        except ValueError:
            continue
    return codes


def parse_labels(
    column: pd.Series, where: Where
) -> tuple[NDArray[np.int64], list[str], list[object]]:
    """For each row the number of its label; the labels as text, and as they were, in order of
    appearance."""
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
        first = next(text for number, text in enumerate(texts) if text in texts[:number])
        raise TableError(
            f"column '{column.name}' writes '{first}' in two ways that differ only in blanks or "
            "type. Write it one way"
        )
    return codes, texts, list(labels)
