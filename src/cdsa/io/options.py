"""Reading options, declared once: the command line, the REST API and the keyword arguments of
`open_source` are all derived from the fields of `ReadOptions`."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cdsa.errors import ConfigError, unknown

if TYPE_CHECKING:  # the help of the command line is shown without loading pandas
    import pandas as pd

Layout = Literal["panel", "long", "wide"]
Kind = Literal["text", "separator", "flag", "names", "units", "bounds", "digits", "table", "lines"]
Bound = tuple[float | None, float | None]

LAYOUTS: dict[Layout, str] = {
    "panel": "one row per time and station, one column per measurement",
    "long": "one row per time, station and measurement",
    "wide": "one column per station, or per station and measurement",
}
MAX_DECIMALS = 15
LINES = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
MAX_SKIPPED = 1000
"""Lines of a CSV file that can be skipped."""

PATTERN = re.compile(
    r"[^{}]*(\{station\}[^{}]+\{measurement\}|\{measurement\}[^{}]+\{station\})[^{}]*"
)
SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " "}
RENAMED = {"angle": "directions", "angles": "directions", "unit": "units"}


@dataclass(frozen=True, kw_only=True)
class Option:
    """How a reading option is documented and parsed."""

    name: str
    help: str
    kind: Kind = "text"
    metavar: str = ""
    flag: str = ""
    """Name on the command line; `--name` if empty."""

    repeatable: bool = False
    """Whether the command line accepts the option several times."""

    max_items: int = 1000
    """Items that the REST API accepts."""

    choices: tuple[str, ...] = ()
    tables_only: bool = False
    """Whether the option is refused for labelled arrays."""

    @property
    def command_line_flag(self) -> str:
        return self.flag or f"--{self.name.replace('_', '-')}"

    def parse(self, value: object) -> object:
        """The value as `ReadOptions` stores it. Text is split at commas where a list is expected;
        the items of a list are taken as they are."""
        match self.kind:
            case "table":
                return value
            case "names":
                return tuple(str(item) for item in _split(value))
            case "lines":
                return _parse_lines(value)
            case "units":
                return {name: str(unit) for name, unit in self._parse_pairs(value)}
            case "bounds":
                return {name: _parse_bound(bound) for name, bound in self._parse_pairs(value)}
            case "digits":
                return {name: _parse_digits(digits) for name, digits in self._parse_pairs(value)}
            case "flag":
                if value not in (True, False):
                    raise ConfigError(f"{self.name} is True or False, but found {value!r}")
                return bool(value)
        text = str(value) if isinstance(value, tzinfo) else value
        if not isinstance(text, str):
            raise ConfigError(f"{self.name} is given as text, but found {value!r}")
        return SEPARATORS.get(text, text) if self.kind == "separator" else text

    def _parse_pairs(self, value: object) -> Iterator[tuple[str, object]]:
        """The entries of a mapping, of text such as 'pm25=0:,humid=0:100', or of a list of
        either."""
        for item in value.items() if isinstance(value, Mapping) else _split(value):
            name, mark, rest = item.partition("=") if isinstance(item, str) else ("", "", "")
            if mark and name:
                yield name, rest
            elif isinstance(item, list | tuple) and len(item) in (2, 3):
                yield str(item[0]), item[1] if len(item) == 2 else item[1:]
            else:
                raise ConfigError(
                    f"{self.name} are given by measurement, as in {self.metavar} or "
                    f"{{'NAME': ...}}, but found {item!r}"
                )


def _split(value: object) -> Iterable[object]:
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    return value if isinstance(value, list | tuple) else [value]


def _parse_bound(bound: object) -> Bound:
    try:
        limits = bound.split(":") if isinstance(bound, str) else list(bound)  # type: ignore[call-overload]
        low, high = (
            None if limit is None or str(limit).strip() == "" else float(limit) for limit in limits
        )
    except (TypeError, ValueError) as bad:
        raise ConfigError(
            "bounds are a lowest and a highest value, either of which may be left out, as in "
            f"pm25=0: or humid=0:100, but found {bound!r}"
        ) from bad
    return low, high


def _parse_digits(digits: object) -> int:
    text = str(digits).strip()
    if not text.isdecimal() or int(text) > MAX_DECIMALS:
        raise ConfigError(
            f"digits are the decimals of filled values, from 0 to {MAX_DECIMALS}, as in pm25=1, "
            f"but found {digits!r}"
        )
    return int(text)


def _parse_lines(value: object) -> tuple[int, ...]:
    """Numbers of lines, from 1 on: a count of the first ones, or a list such as '1,3-4'."""
    numbers: list[int] = []
    for item in _split(value):
        match = LINES.fullmatch(str(item).strip())
        if match is None:
            raise ConfigError(
                "lines to skip are a number of lines at the top, such as 4, or lines such as "
                f"1,3-4, but found {value!r:.60}"
            )
        numbers += range(int(match[1]), int(match[2] or match[1]) + 1)
    is_count = len(numbers) == 1 and "-" not in str(value) and not isinstance(value, list | tuple)
    lines = range(1, numbers[0] + 1) if is_count else sorted(set(numbers))
    if len(lines) > MAX_SKIPPED or 0 in lines:
        raise ConfigError(f"lines are numbered from 1, and at most {MAX_SKIPPED} can be skipped")
    return tuple(lines)


def _option(default: object, help: str, metavar: str = "", **spec: object) -> Any:
    """A field with the metadata of its `Option`."""
    metadata = {"help": help, "metavar": metavar, **spec}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def _column(help: str) -> Any:
    return _option(None, help, "COLUMN", tables_only=True)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a source; what is not given is detected."""

    # fmt: off
    layout: Layout | None = _option(  # noqa: RUF009  # returns a field
        None,
        "panel (one row per time and station), long (one row per value) or wide (one column per "
        "station).",
        "NAME", choices=tuple(LAYOUTS), tables_only=True,
    )
    time: str | None = _column("Column of the timestamps, or those of date and time: DATE,TIME.")
    location: str | None = _column("Column of the station names.")
    measurement: str | None = _column("Long layout: column of the measurement names.")
    value: str | None = _column("Long layout: column of the values.")
    column_pattern: str | None = _option(
        None, "Wide layout with several measurements: how columns are named, such as "
        "'{station}_{measurement}'.", "PATTERN", tables_only=True,
    )
    measurements: tuple[str, ...] = _option(
        (), "Measurements to read; wide layout: the name of the only one.", "A,B", kind="names"
    )
    lat: str | None = _column("Column of the latitudes, here or in --locations.")
    lon: str | None = _column("Column of the longitudes, here or in --locations.")
    locations: "str | Path | pd.DataFrame | None" = _option(  # noqa: RUF009
        None, "Table of stations with the columns station, lat and lon.", "FILE", kind="table"
    )
    coordinates: bool = _option(
        True, "Use the coordinates of the stations.", kind="flag",
        flag="--coordinates/--no-coordinates",
    )
    missing: tuple[str, ...] = _option(  # each is looked up for every entry
        (), "Values that mean missing, such as -999,999999.", "A,B", kind="names", max_items=50
    )
    step: str | None = _option(
        None, "Time step, such as 5min, 1h, 1d or 1month; timestamps move to the nearest step.",
        "STEP",
    )
    duplicates: Literal["mean", "first"] | None = _option(
        None, "How to combine duplicate rows: mean or first.", "HOW", choices=("mean", "first")
    )
    tz: str | None = _option(
        None, "Time zone of timestamps that carry none, such as UTC or Europe/Berlin.", "ZONE",
        tables_only=True,
    )
    time_format: str | None = _option(
        None,
        "Format of the timestamps, such as %d.%m.%Y %H:%M; unix or unix-ms for (milli)seconds "
        "since 1970.",
        "FORMAT", tables_only=True,
    )
    directions: tuple[str, ...] = _option(
        (), "Measurements that are directions in degrees.", "NAME", kind="names",
        flag="--direction", repeatable=True,
    )
    bounds: Mapping[str, Bound] = _option(
        dict,
        "Physical bounds of a measurement, such as pm25=0: or humid=0:100, or temp=: for none; "
        "inferred from its values if not given.",
        "NAME=A:B", kind="bounds", repeatable=True,
    )
    digits: Mapping[str, int] = _option(
        dict, "Decimals of filled values, such as pm25=1; those of the measured ones if not given.",
        "NAME=N", kind="digits", repeatable=True,
    )
    units: Mapping[str, str] = _option(
        dict, "Units of a measurement, such as pm25=ug/m3.", "NAME=UNIT", kind="units",
        repeatable=True,
    )
    refill: bool = _option(
        False, "NetCDF, Zarr: treat cells that were filled before as gaps again.", kind="flag"
    )
    skip_rows: tuple[int, ...] = _option(
        (), "CSV: lines to skip, the first N, or lines such as 1,3-4 around the column names; they "
        "are written back.", "N", kind="lines",
    )
    separator: str | None = _option(
        None, "CSV: column separator, one character, tab or space.", "CHAR", kind="separator"
    )
    decimal: str | None = _option(None, "CSV: decimal mark.", "CHAR", choices=(".", ","))
    encoding: str = _option("utf-8", "CSV: character encoding.", "NAME")
    # fmt: on

    max_columns: int | None = None
    """Columns that a table may have: a limit of the caller, not an option of the user."""

    max_cells: int | None = None
    """Cells (time steps x stations x measurements) that a table may have."""

    @property
    def decimal_mark(self) -> str:
        return self.decimal or "."

    def __post_init__(self) -> None:
        for option in OPTIONS.values():
            value = getattr(self, option.name)
            if option.choices and value is not None and value not in option.choices:
                raise ConfigError(unknown(f"{option.name} option", str(value), option.choices))
        if self.column_pattern is not None and not PATTERN.fullmatch(self.column_pattern):
            raise ConfigError(
                "a pattern of column names has {station} and {measurement} once each, with "
                "something in between, as in '{station}_{measurement}', but found "
                f"'{self.column_pattern:.60}'"
            )
        if self.separator is not None and (
            len(self.separator) != 1 or not self.separator.isascii() or self.separator in '"\r\n\0'
        ):
            raise ConfigError(f"a separator is one ASCII character, but found {self.separator!r}")
        try:
            "time".encode(self.encoding)
        except (LookupError, ValueError) as bad:  # some codecs do not encode text
            raise ConfigError(f"'{self.encoding}' is not a character encoding; try utf-8") from bad


LIMITS = ("max_columns", "max_cells")
OPTIONS = {
    entry.name: Option(name=entry.name, **entry.metadata)
    for entry in fields(ReadOptions)
    if entry.name not in LIMITS
}
"""The options that users may give, in the order of the help."""


def parse_options(given: Mapping[str, object]) -> ReadOptions:
    """Options from keyword arguments; None means not given."""
    for name in given:
        if name not in LIMITS:
            check_name(name)
    values = {name: value for name, value in given.items() if value is not None}
    parsed = {n: OPTIONS[n].parse(v) if n in OPTIONS else v for n, v in values.items()}
    return ReadOptions(**parsed)  # type: ignore[arg-type]  # the names were checked just above


def check_name(name: str) -> None:
    """Refuse a misspelt or former name of an option, with the right one."""
    if name in RENAMED:
        raise ConfigError(f"the reading option '{name}' is now called '{RENAMED[name]}'")
    if name not in OPTIONS:
        raise ConfigError(unknown("reading option", name, OPTIONS))
