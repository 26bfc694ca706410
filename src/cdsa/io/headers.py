"""What a header says of its column: a unit, as in 'Level [cm]', or a station and a measurement, as
in 'P1_level' and 'P1_rain'."""

import re
from collections.abc import Sequence
from typing import NamedTuple

IN_BRACKETS = re.compile(r"(.*[^\s(\[])\s*(?:\[([^][]+)\]|\(([^()]+)\))")
UNIT_MARKS = re.compile(r"[%°/µμ²³^]")
UNITS = frozenset(
    (
        *("c", "f", "k", "degc", "degf", "celsius", "m", "cm", "mm", "km", "in", "ft", "l", "ml"),
        *("pa", "hpa", "kpa", "mbar", "bar", "inhg", "ppm", "ppb", "v", "mv", "ma", "w", "kw"),
        *("kwh", "wh", "ntu", "fnu", "psu", "db", "dba", "lux", "hz", "s", "min", "h", "mph"),
        *("kn", "knots", "deg", "degrees", "umol"),
    )
)
"""Units without such a mark. In parentheses, other words are remarks; in brackets, anything is a
unit."""

MARKS = ("_", ":", "/", "|", ".", "-", " ")
"""What may separate the two names, the most likely first."""

MIN_SHARE = 0.75
"""Share of the pairs of a station and a measurement that have a column."""

MEASUREMENTS = frozenset(
    (
        *("pm1", "pm25", "pm10", "no", "no2", "nox", "o3", "so2", "co", "co2", "ch4", "nh3", "h2s"),
        *("voc", "bc", "temp", "temperature", "airtemp", "rh", "humid", "humidity", "dewp"),
        *("pres", "pressure", "press", "rain", "rainfall", "precip", "precipitation", "snow"),
        *("wind", "windspeed", "winddir", "winddirection", "wspd", "wdir", "ws", "wd", "wspm"),
        *("gust", "radiation", "solar", "ghi", "visib", "visibility", "level", "waterlevel"),
        *("stage", "flow", "discharge", "depth", "turb", "turbidity", "cond", "conductivity"),
        *("ph", "do", "oxygen", "salinity", "chl", "chlorophyll", "nitrate", "moisture", "speed"),
        *("volume", "count", "occupancy", "power", "energy", "voltage", "current", "noise"),
    )
)
"""Usual names of measurements, in lower case and without punctuation."""


STATISTIC = re.compile(r"[ _.](avg|mean|tot|smp|min|max)$")


class Pattern(NamedTuple):
    """How headers are made of the names of a station and a measurement."""

    text: str
    """Such as '{station}_{measurement}'."""

    certain: bool
    """Whether the measurements are known by name."""


class Header(NamedTuple):
    """What a column holds, as far as its header says; empty where it does not."""

    station: str
    measurement: str
    unit: str


def parse_header(header: str, pattern: str | None = None, *, units: bool = True) -> Header:
    """The names in a header of this pattern and the unit of the measurement, or without `units`
    the unit as a part of its name. Where the mark between the names is there several times, the
    last one separates them. Without a station, the header has another pattern."""
    split = split_unit if units else lambda name: (name, "")
    header, unit = split(header)
    if pattern is None:
        return Header("", header, unit)
    expression = re.escape(pattern)
    for name in ("station", "measurement"):
        expression = expression.replace(rf"\{{{name}\}}", f"(?P<{name}>.+)")
    match = re.fullmatch(expression, header.strip())
    if match is None:
        return Header("", header, unit)
    return Header(match["station"].strip(), match["measurement"].strip(), unit)


def split_unit(header: str) -> tuple[str, str]:
    """The name and the unit of a header such as 'Level [cm]' or 'Temp (°C)'; the unit is empty if
    there is none."""
    match = IN_BRACKETS.fullmatch(header.strip())
    if match is None:
        return header, ""
    name, in_brackets, in_parentheses = match.groups()
    unit = (in_brackets or in_parentheses).strip()
    is_unit = in_brackets or UNIT_MARKS.search(unit) or unit.lower() in UNITS
    return (name, unit) if is_unit and unit else (header, "")


def detect_pattern(headers: Sequence[str]) -> Pattern | None:
    """The pattern of headers that form a grid of stations and measurements, if they do."""
    for mark in MARKS:
        parts = [split_unit(header)[0].rpartition(mark) for header in headers]
        first, second = ({part[n].strip() for part in parts} for n in (0, 2))
        is_grid = len(headers) >= MIN_SHARE * len(first) * len(second)
        if "" in first or "" in second or min(len(first), len(second)) < 2 or not is_grid:
            continue
        if all(map(is_measurement, first)) and not all(map(is_measurement, second)):
            return Pattern(f"{{measurement}}{mark}{{station}}", certain=True)
        certain = all(map(is_measurement, second))
        return Pattern(f"{{station}}{mark}{{measurement}}", certain)
    return None


def is_measurement(name: str) -> bool:
    """Whether this is a usual name of a measurement."""
    plain = STATISTIC.sub("", split_unit(name)[0].lower())
    return re.sub(r"[^a-z0-9]", "", plain) in MEASUREMENTS
