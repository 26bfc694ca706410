"""Columns of a table: the role of each, and their entries as numbers or labels."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from cdsa.core.times import Where
from cdsa.errors import TableError, unknown
from cdsa.io.date_and_time import TIME_OF_DAY, is_date_only, is_time_of_day, join
from cdsa.io.entries import DECIMAL_COMMA, not_a_number, parse_number
from cdsa.io.headers import Header, detect_pattern, is_measurement, parse_header, split_unit
from cdsa.io.options import Layout, ReadOptions

# Usual column names, the most specific first, in lower case and without punctuation.
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
    *("measurement", "variable", "parameter", "pollutant", "quantity", "species", "metric"),
    "measure",
)
VALUE = ("value", "values", "reading", "concentration", "result", "measuredvalue")
LAT = ("lat", "latitude")
LON = ("lon", "lng", "long", "longitude")
UNIT = ("unit", "units")

ROW_NUMBER = re.compile(r"$|Unnamed: \d+$|__index_level_\d+__$|\(column \d+\)$|RECORD$")
"""Names of columns that hold the row numbers of another program or logger, or have no name."""

DATE = re.compile(r"\s*(\d{4}[-/]\d{1,2}([-/]\d{1,2}|$)|\d{1,2}[./-]\d{1,2}[./-]\d{4})\b")

FLAG_NAME = re.compile(r"(^|[^a-z])(flags?|qc|qa|qf|qcode|quality|qualifiers?)([^a-z]|$)")
"""Lower-case names of columns that say how good other values are."""

MAX_FLAGS = 20
"""Distinct whole numbers of such a column, at most."""

SAMPLE_ROWS = 100
MAX_SAMPLE = 10_000
"""Distinct entries that are looked at to decide whether a column holds numbers."""

MAX_NAMES = 12
"""Columns that a message lists."""


@dataclass(frozen=True)
class ColumnRoles:
    """The role of each column of a table."""

    layout: Layout
    time: str
    time_of_day: str | None
    """The column of times or hours, if that of the timestamps has dates only."""

    location: str | None
    measurement: str | None
    values: tuple[str, ...]
    lat: str | None
    lon: str | None
    unit: str | None
    passthrough: tuple[str, ...]
    """Columns without a role, which are returned as they are."""

    pattern: str | None = None
    """How the headers of a wide table name a station and a measurement, if they do."""

    flags: tuple[str, ...] = ()
    """Those of the other columns that hold numbers and are taken for quality flags."""

    units: Mapping[str, str] = field(default_factory=dict)
    """Units of columns from a line below the headers."""

    def time_column(self, frame: pd.DataFrame) -> pd.Series:
        """The timestamps of a frame, those of two columns joined."""
        dates = frame[self.time]
        return dates if self.time_of_day is None else join(dates, frame[self.time_of_day])

    @cached_property
    def headers(self) -> list[Header]:
        """What each value column holds, by its header. Names that would be the same without their
        units stay whole."""
        if self.layout == "wide" and self.pattern is None:
            return [Header(column, "", "") for column in self.values]
        headers = [parse_header(column, self.pattern) for column in self.values]
        if len({(header.station, header.measurement) for header in headers}) < len(headers):
            return [parse_header(column, self.pattern, units=False) for column in self.values]
        return [
            header._replace(unit=header.unit or self.units.get(column, ""))
            for header, column in zip(headers, self.values, strict=True)
        ]


def detect_roles(
    frame: pd.DataFrame, options: ReadOptions, where: Where, units: Mapping[str, str] | None = None
) -> ColumnRoles:
    """Detect the layout of a table and the role of each column; `units` are those of a line below
    the headers."""
    units = units or {}
    columns = [str(name) for name in frame.columns]
    time, time_of_day = _find_time_columns(frame, columns, options)
    if time is None:
        raise TableError(
            "a table needs a column of timestamps, but none of these is one: "
            f"{_join_names(columns)}. Name it with --time COLUMN; if the date and the hour are in "
            "separate columns, name both with --time DATE,HOUR"
        )
    _check_names(options, (time, time_of_day), columns)
    free = [name for name in columns if name not in (time, time_of_day)]
    is_wide = options.layout == "wide" or options.column_pattern is not None
    location = options.location or (None if is_wide else find_name(free, LOCATION))
    free = [name for name in free if name != location]
    measurement = options.measurement or find_name(free, MEASUREMENT)
    value = options.value or find_name(free, VALUE)
    is_long = measurement is not None and value is not None
    one_station = location is not None or (
        not is_wide and _are_of_one_station(free, options, units)
    )
    detected: Layout = "long" if is_long else "panel" if one_station else "wide"
    layout = options.layout or ("wide" if is_wide else detected)
    if layout == "long" and (measurement is None or value is None):
        raise TableError(
            "the long layout has a column of measurement names and a column of values, but found "
            f"{_join_names(columns)}. Name them with --measurement COLUMN and --value COLUMN"
        )
    lat = options.lat if options.lat in free else find_name(free, LAT)
    lon = options.lon if options.lon in free else find_name(free, LON)
    unit = find_name(free, UNIT) if layout == "long" else None
    if layout == "wide":
        lat = lon = None
    measurement = measurement if layout == "long" else None
    rest = [name for name in free if name not in {location, lat, lon, unit, measurement}]
    values, flags = ([value] if value is not None else []), list[str]()
    if layout != "long":
        values, flags = _find_value_columns(frame, rest, options, layout, where)
    pattern = None
    if layout == "wide":
        pattern = _find_pattern(values, options)
        values = _columns_with(pattern, values, options) if pattern else values
    return ColumnRoles(
        layout=layout,
        time=time,
        time_of_day=time_of_day,
        location=location,
        measurement=measurement,
        values=tuple(values),
        lat=lat,
        lon=lon,
        unit=unit,
        passthrough=tuple(name for name in rest if name not in values),
        pattern=pattern,
        flags=tuple(flags),
        units=units,
    )


def _are_of_one_station(
    columns: Sequence[str], options: ReadOptions, units: Mapping[str, str]
) -> bool:
    """Whether columns without one of stations are measurements: at least half of them have a unit
    or the name of one."""
    named = [n for n in columns if not ROW_NUMBER.match(n) and not FLAG_NAME.search(n.lower())]
    known = [n for n in named if units.get(n) or split_unit(n)[1] or is_measurement(n)]
    as_stations = options.measurements or options.locations is not None
    return bool(known) and not as_stations and len(known) >= len(named) / 2


def _find_time_columns(
    frame: pd.DataFrame, columns: list[str], options: ReadOptions
) -> tuple[str | None, str | None]:
    """The column of the timestamps, and that of the time of day if the first has dates only."""
    if options.time is not None:
        first, comma, second = (part.strip() for part in options.time.partition(","))
        joined = comma and options.time not in columns
        return (first, second) if joined else (options.time, None)
    time = find_name(columns, TIME) or _find_date_column(frame)
    if time is None:
        return None, None
    if is_time_of_day(frame[time].iloc[0]):  # a column 'time' beside one of dates
        others = [name for name in columns if name != time]
        date = find_name(others, TIME) or _find_date_column(frame[others])
        return (time, None) if date is None or not is_date_only(frame[date]) else (date, time)
    time_of_day = find_name([name for name in columns if name != time], TIME_OF_DAY)
    if time_of_day is None or not is_date_only(frame[time]) or not frame[time].duplicated().any():
        return time, None
    return time, time_of_day if is_time_of_day(frame[time_of_day].iloc[0]) else None


def _check_names(options: ReadOptions, time: tuple[str, str | None], columns: list[str]) -> None:
    """Refuse column names that the table lacks, and one column in two roles."""
    roles = ("location", "lat", "lon", "measurement", "value")
    names = [("time", name) for name in time] + [(role, getattr(options, role)) for role in roles]
    given = [(option, name) for option, name in names if name is not None]
    for option, name in given:
        if options.locations is not None and option in ("lat", "lon") and name not in columns:
            continue  # a column of the table of stations
        if name not in columns:
            raise TableError(f"--{option}: {unknown('column', name, columns)}")
        if [other for _, other in given].count(name) > 1:
            raise TableError(f"a column has one role, but '{name}' was given for two")


def _find_pattern(columns: Sequence[str], options: ReadOptions) -> str | None:
    """The pattern of headers that is given, or that is certain without any option."""
    if options.column_pattern is not None:
        return options.column_pattern
    found = None if options.layout or options.measurements else detect_pattern(columns)
    return found.text if found and found.certain else None


def _columns_with(pattern: str, columns: list[str], options: ReadOptions) -> list[str]:
    """The columns with headers of this pattern, and with the measurements that are asked for."""
    headers = {column: parse_header(column, pattern) for column in columns}
    headers = {column: header for column, header in headers.items() if header.station}
    if not headers:
        raise TableError(
            f"--column-pattern: no column of numbers has the pattern '{pattern}': "
            f"{_join_names(columns)}"
        )
    check_measurements(options, "measurement", [x.measurement for x in headers.values()])
    wanted = options.measurements or [header.measurement for header in headers.values()]
    return [column for column, header in headers.items() if header.measurement in wanted]


def _find_value_columns(
    frame: pd.DataFrame, names: list[str], options: ReadOptions, layout: Layout, where: Where
) -> tuple[list[str], list[str]]:
    """The columns of values, and those of numbers that are taken for quality flags."""
    if layout == "panel" and options.measurements:
        by_name = {split_unit(name)[0]: name for name in reversed(names)}
        known = by_name | {name: name for name in names}
        check_measurements(options, "column", [*names, *by_name])
        return [known[name] for name in options.measurements], []
    columns = [n for n in names if not ROW_NUMBER.match(n) and _is_numeric(frame[n], options)]
    flags = [name for name in columns if _is_flag(frame[name], options)]
    if len(flags) < len(columns):
        columns = [name for name in columns if name not in flags]
    else:
        flags = []
    if not columns:
        texts = {name: str(frame[name].iloc[0]) for name in names}
        comma = next((n for n, text in texts.items() if DECIMAL_COMMA.fullmatch(text)), None)
        if comma is not None:
            raise TableError(not_a_number(texts[comma], comma, where(0)))
        examples = ", ".join(f"'{text}' in '{name}'" for name, text in list(texts.items())[:3])
        raise TableError(
            "a table needs at least one column of numbers, but found only "
            + _join_names(frame.columns)
            + (f" (such as {examples} in {where(0)})" if examples else "")
            + ". If the separator or the decimal mark is unusual, give --separator or --decimal"
        )
    return columns, flags


def _is_flag(column: pd.Series, options: ReadOptions) -> bool:
    """Whether a column of numbers says how good other values are, by its name and its entries."""
    if not FLAG_NAME.search(str(column.name).lower()):
        return False
    entries = column.dropna().unique()
    numbers = [parse_number(str(entry), options) for entry in entries[: MAX_FLAGS + 1]]
    whole = all(n is None or math.isnan(n) or n.is_integer() for n in numbers)
    return whole and len(entries) <= MAX_FLAGS


def check_measurements(options: ReadOptions, kind: str, names: Sequence[str]) -> None:
    """Refuse a name in --measurements that the source does not have."""
    for name in options.measurements:
        if name not in names:
            raise TableError(f"--measurements: {unknown(kind, name, names)}")


def _is_numeric(column: pd.Series, options: ReadOptions) -> bool:
    """True if any entry is a number or all are empty."""
    dtype = column.dtype
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_datetime64_any_dtype(dtype):
        return False
    if pd.api.types.is_numeric_dtype(dtype):
        return True
    empty = True
    for sample in (column.iloc[:SAMPLE_ROWS], column):
        try:
            labels = pd.unique(sample.dropna().astype(object))
        except TypeError:  # unhashable entries, such as lists
            return False
        for label in labels[:MAX_SAMPLE]:
            number = parse_number(str(label), options)
            if number is not None and not math.isnan(number):
                return True
            empty = empty and number is not None
    return empty


def find_name(columns: Iterable[str], names: tuple[str, ...]) -> str | None:
    """The column with the first of these names, regardless of case and punctuation."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(list(columns))}
    return next((plain[name] for name in names if name in plain), None)


def _find_date_column(frame: pd.DataFrame) -> str | None:
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_datetime64_any_dtype(column.dtype):
            return str(name)
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        if not numeric and len(column) and DATE.match(str(column.iloc[0])):
            return str(name)
    return None


def _join_names(columns: Iterable[object]) -> str:
    names = [f"'{name}'" for name in columns]
    rest = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + rest
