"""What a user may say about a source when the source does not say it itself."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from cdsa.errors import ConfigError, unknown

Layout = Literal["panel", "long", "wide"]


LAYOUTS: tuple[Layout, ...] = get_args(Layout)


TEXTS = (
    *("layout", "time", "location", "measurement", "value", "lat", "lon", "step"),
    *("time_format", "separator", "decimal", "encoding"),
)
"""Options that are text."""


LAYOUT_DESCRIPTIONS: dict[Layout, str] = {
    "panel": "one row per time and station, one column per measurement",
    "long": "one row per time, station and measurement",
    "wide": "one column per station, one measurement",
}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a source; whatever is not given is recognised."""

    layout: Layout | None = None
    """panel (a row per time and station), long (one per cell) or wide (a column per station)."""

    time: str | None = None
    """Column of the time stamps."""

    location: str | None = None
    """Column of the station names or ids."""

    measurement: str | None = None
    """Long layout: column that names the measurement."""

    value: str | None = None
    """Long layout: column of the values."""

    measurements: tuple[str, ...] = ()
    """The measurements to take; all if empty. Wide layout: the name of the only one."""

    lat: str | None = None
    """Column of the latitudes."""

    lon: str | None = None
    """Column of the longitudes."""

    coordinates: bool = True
    """False leaves the stations without coordinates, whatever the source says."""

    locations: str | Path | pd.DataFrame | None = None
    """A table of stations with their coordinates."""

    missing: tuple[str, ...] = ()
    """Numbers or words that stand for a missing value, such as -999."""

    step: str | None = None
    """Time step, such as 1h; stamps move to the nearest step."""

    duplicates: Literal["mean", "first"] | None = None
    """What to take where one cell is given twice."""

    tz: str | None = None
    """Time zone of stamps that carry none, and of all if they are mixed."""

    time_format: str | None = None
    """How stamps are written (strftime), or 'unix' or 'unix-ms' for (milli)seconds since 1970."""

    units: tuple[tuple[str, str], ...] = ()
    """Units by measurement."""

    angles: tuple[str, ...] = ()
    """Measurements that are directions in degrees."""

    bounds: tuple[tuple[str, float, float], ...] = ()
    """Lowest and highest possible value by measurement."""

    refill: bool = False
    """NetCDF and Zarr: take cells that an earlier fill marked as filled for gaps again."""

    separator: str | None = None
    """Column separator of a CSV file."""

    decimal: str | None = None
    """Decimal mark of a CSV file."""

    encoding: str = "utf-8"
    """Character encoding of a CSV file."""

    max_columns: int | None = None
    """Columns that a table may have; more are refused before they are looked at."""

    max_cells: int | None = None
    """Cells, time steps x stations x measurements, that a table may have; more are refused."""

    @property
    def decimal_mark(self) -> str:
        """The decimal mark; a point where nothing was said and nothing recognised."""
        return self.decimal or "."

    def __post_init__(self) -> None:
        if self.layout is not None and self.layout not in LAYOUTS:
            raise ConfigError(unknown("layout", self.layout, LAYOUTS))
        if self.duplicates not in (None, "mean", "first"):
            raise ConfigError(unknown("way to join duplicates", self.duplicates, ("mean", "first")))
        if self.decimal not in (None, ".", ","):
            raise ConfigError(f"the decimal mark is '.' or ',', but found '{self.decimal}'")
        if self.separator is not None and (
            len(self.separator) != 1 or not self.separator.isascii() or self.separator in '"\r\n\0'
        ):
            raise ConfigError(f"a separator is one ASCII character, but found {self.separator!r}")
        try:
            "time".encode(self.encoding)
        except (LookupError, ValueError) as bad:  # of no text, of no name at all
            raise ConfigError(f"'{self.encoding}' is not a character encoding; try utf-8") from bad


def make_options(given: Mapping[str, object]) -> ReadOptions:
    """Options from keyword arguments, lists and mappings welcome; a misspelt one is answered."""
    names = [field.name for field in fields(ReadOptions)]
    settled: dict[str, object] = {}
    for name, value in given.items():
        if name not in names:
            raise ConfigError(unknown("reading option", name, names))
        if value is not None:
            settled[name] = _settled(name, value)
    return ReadOptions(**settled)  # type: ignore[arg-type]  # the names were checked just above


def _settled(name: str, value: object) -> object:
    if name in TEXTS and not isinstance(value, str):
        raise ConfigError(f"{name} is given as text, but found {value!r}")
    if name in ("measurements", "missing", "angles"):
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(str(item) for item in items)
    if name == "units":
        return tuple((str(key), str(unit)) for key, unit in _pairs(name, value))
    if name == "bounds":
        return tuple((str(key), *_bound(ends)) for key, ends in _pairs(name, value))
    return value


def _pairs(name: str, value: object) -> list[tuple[object, object]]:
    """The entries of a mapping, or of a list that could be one."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple) and all(isinstance(v, list | tuple) and v for v in value):
        return [(v[0], v[1] if len(v) == 2 else v[1:]) for v in value]
    raise ConfigError(
        f"{name} are given by measurement, as in {{'pm25': ...}}, but found {value!r}"
    )


def _bound(ends: object) -> tuple[float, float]:
    try:
        low, high = list(ends)  # type: ignore[call-overload]
        return -math.inf if low is None else float(low), math.inf if high is None else float(high)
    except (TypeError, ValueError) as bad:
        raise ConfigError(
            f"bounds are a lowest and a highest value (or None), but found {ends!r}"
        ) from bad
