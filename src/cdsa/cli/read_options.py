"""The options of reading a file, the same for every command that reads one."""

from functools import partial
from pathlib import Path

from cdsa.cli.options import Options, option, takes
from cdsa.errors import ConfigError

PANEL = "Reading the file (recognised if not given)"


_option = partial(option, PANEL)


Reading = dict[str, object]
"""The given options, by the names that `cdsa.open_source` takes."""


OPTIONS: Options = {
    "layout": (
        str | None,
        _option("--layout", help="panel, long or wide.", metavar="NAME"),
    ),
    "time": (str | None, _option("--time", help="Column of the time stamps.", metavar="COLUMN")),
    "location": (
        str | None,
        _option("--location", help="Column of the station names.", metavar="COLUMN"),
    ),
    "measurement": (
        str | None,
        _option("--measurement", help="Long: column naming the measurement.", metavar="COLUMN"),
    ),
    "value": (str | None, _option("--value", help="Long: column of values.", metavar="COLUMN")),
    "measurements": (
        str | None,
        _option("--measurements", help="Measurements to take; wide: its name.", metavar="A,B"),
    ),
    "lat": (str | None, _option("--lat", help="Column of the latitudes.", metavar="COLUMN")),
    "lon": (str | None, _option("--lon", help="Column of the longitudes.", metavar="COLUMN")),
    "locations": (
        Path | None,
        _option("--locations", help="Table of stations with lat and lon.", metavar="FILE"),
    ),
    "coordinates": (
        bool,
        _option("--coordinates/--no-coordinates", help="Use the coordinates.", metavar=""),
    ),
    "missing": (
        str | None,
        _option("--missing", help="What stands for missing: -999,999999.", metavar="A,B"),
    ),
    "step": (
        str | None,
        _option("--step", help="Time step: 1h, 5min, 1d, 1month.", metavar="STEP"),
    ),
    "duplicates": (
        str | None,
        _option("--duplicates", help="Join cells given twice: mean or first.", metavar="HOW"),
    ),
    "tz": (str | None, _option("--tz", help="Time zone of the stamps.", metavar="ZONE")),
    "time_format": (
        str | None,
        _option(
            "--time-format", help="How stamps are written; 'unix', 'unix-ms'.", metavar="FORMAT"
        ),
    ),
    "angle": (
        list[str] | None,
        _option("--angle", help="A measurement that is a direction in degrees.", metavar="NAME"),
    ),
    "bounds": (
        list[str] | None,
        _option("--bounds", help="Physical bounds: pm25=0: or humid=0:100.", metavar="NAME=A:B"),
    ),
    "unit": (list[str] | None, _option("--unit", help="Unit: pm25=ug/m3.", metavar="NAME=UNIT")),
    "refill": (
        bool,
        _option("--refill", help="Take cells filled before for gaps again.", metavar=""),
    ),
    "separator": (
        str | None,
        _option("--separator", help="CSV: column separator.", metavar="CHAR"),
    ),
    "decimal": (str | None, _option("--decimal", help="CSV: decimal mark.", metavar="CHAR")),
    "encoding": (str, _option("--encoding", help="CSV: character encoding.", metavar="NAME")),
}


DEFAULTS: dict[str, object] = {
    "coordinates": True,
    "refill": False,
    "encoding": "utf-8",
}


def _settled(given: Reading) -> Reading:
    """Only what was given, in the words of the library."""
    reading = {
        name: value for name, value in given.items() if value != DEFAULTS.get(name) and value != []
    }
    for name in ("measurements", "missing"):
        if name in reading:
            reading[name] = [item.strip() for item in str(reading[name]).split(",")]
    if "angle" in reading:
        reading["angles"] = reading.pop("angle")
    if "unit" in reading:
        reading["units"] = dict(
            _pair(text, "--unit", "pm25=ug/m3") for text in _texts(reading.pop("unit"))
        )
    if "bounds" in reading:
        reading["bounds"] = dict(_bound(text) for text in _texts(reading["bounds"]))
    if reading.get("separator") in ("\\t", "tab"):
        reading["separator"] = "\t"
    return reading


with_read_options = takes("reading", OPTIONS, DEFAULTS, _settled)
"""Gives a command every reading option; it receives those that were given as `reading`."""


_OF_A_CELL = {
    name: (str | None, _option(f"--{name}-column", help=f"Column of {what}.", metavar="COLUMN"))
    for name, what in (
        ("time", "the time stamps"),
        ("location", "the station names"),
        ("measurement", "the measurement's name, in a long table"),
    )
}


with_read_options_for_cell = takes("reading", OPTIONS | _OF_A_CELL, DEFAULTS, _settled)
"""The same for a command whose --time, --location and --measurement name a cell."""


def _texts(value: object) -> list[str]:
    assert isinstance(value, list)
    return value


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, mark, rest = text.partition("=")
    if not mark or not name:
        raise ConfigError(f"{option} wants a name and a value, as in {example}, but found '{text}'")
    return name, rest


def _bound(text: str) -> tuple[str, tuple[float | None, float | None]]:
    name, ends = _pair(text, "--bounds", "pm25=0:")
    low, mark, high = ends.partition(":")
    try:
        if not mark:
            raise ValueError
        return name, (float(low) if low.strip() else None, float(high) if high.strip() else None)
    except ValueError as bad:
        raise ConfigError(
            f"--bounds wants two numbers, either of which may be left out, as in pm25=0: or "
            f"humid=0:100, but found '{text}'"
        ) from bad
