"""Reading time stamps, in whatever form they come."""

import re
from dataclasses import replace
from zoneinfo import available_timezones

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cdsa.core.times import (
    EPOCHS,
    Clock,
    Times,
    Where,
    subsecond_digits,
    to_nanoseconds,
)
from cdsa.errors import TableError
from cdsa.io.columns import factorize

OFFSET = r"[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?"


ZONE = re.compile(rf"(?:\d:\d{{2}}[\d:.,]*|T\d{{2,6}}(?:[.,]\d+)?)\s*(Z|UTC|GMT|{OFFSET})$")


ZONE_AT_END = re.compile(rf"(Z|UTC|GMT|{OFFSET})$")


FORMATS = (
    *("ISO8601", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d"),
    *("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y"),
)


AMBIGUOUS = tuple(
    (f"%d{s}%m{s}%Y{t}", f"%m{s}%d{s}%Y{t}") for s in "/-" for t in (" %H:%M", " %H:%M:%S", "")
)


def parse_timestamps(
    column: pd.Series,
    where: Where,
    *,
    tz: str | None = None,
    time_format: str | None = None,
    is_repeat: NDArray[np.bool_] | None = None,
) -> tuple[Times, Clock]:
    """Stamps of any kind as `datetime64[ns]`, and how to write more of them.

    `again` marks rows whose stamp was seen before at the same station: in local time, the second
    01:30 of the night when clocks go back.
    """
    tz = parse_zone(tz)
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    numeric = pd.api.types.is_numeric_dtype(column.dtype)
    if numeric and time_format is not None and time_format not in EPOCHS:  # 20200131 as a number
        _refuse_unparsed(column.isna().to_numpy(), column, where)
        column, numeric = column.astype("int64").astype(str), False
    if time_format in EPOCHS or numeric:
        return _parse_epochs(column, where, time_format)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return _parse_datetimes(column, where, tz, is_repeat)
    return _parse_text(column, where, tz, time_format, is_repeat)


def parse_zone(tz: str | None) -> str | None:
    """A time zone by its name or, as +01:00, by its offset; one that nobody knows is refused."""
    name = None if tz is None else str(tz)
    if name is None or name in available_timezones():
        return name
    offset = re.fullmatch(rf"(?:UTC)?({OFFSET})", name)
    if offset is None and name not in ("Z", "utc"):
        raise TableError(
            f"'{name}' is not a time zone. Use a name such as UTC or Europe/Berlin, or +01:00"
        )
    return _normalise_zone(offset.group(1)) if offset else "UTC"


def _parse_epochs(column: pd.Series, where: Where, time_format: str | None) -> tuple[Times, Clock]:
    if time_format not in EPOCHS:
        raise TableError(
            f"time must be dates, but column '{column.name}' holds numbers ({column.iloc[0]} in "
            f"{where(0)}). If they are seconds since 1970, give --time-format unix; otherwise name "
            "the column of the time with --time"
        )
    ticks = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    _refuse_unparsed(~np.isfinite(ticks), column, where)
    with np.errstate(over="ignore"):  # what is too large is refused below
        micro = np.rint(ticks * (1_000_000 / EPOCHS[time_format]))
    if np.abs(micro).max() > 9e15:
        raise TableError(
            f"seconds since 1970 end with the year 2255, but {where(int(np.abs(micro).argmax()))} "
            f"has {ticks[np.abs(micro).argmax()]:g}. If they are milliseconds, give --time-format "
            "unix-ms"
        )
    times = micro.astype(np.int64).astype("datetime64[us]").astype("datetime64[ns]")
    return times, Clock(zone="UTC", pattern=time_format)


def _parse_datetimes(
    column: pd.Series, where: Where, tz: str | None, again: NDArray[np.bool_] | None
) -> tuple[Times, Clock]:
    _refuse_unparsed(column.isna().to_numpy(), column, where)
    index = pd.DatetimeIndex(column)
    if index.tz is not None:
        times, clock = to_nanoseconds(index.tz_convert("UTC")), Clock(zone=index.tz)
    elif tz is not None:
        times, clock = _localize(index, tz, where, again), Clock(zone=tz)
    else:
        times, clock = to_nanoseconds(index), Clock()
    return times, replace(clock, digits=subsecond_digits(times))


def _parse_text(
    column: pd.Series,
    where: Where,
    tz: str | None,
    time_format: str | None,
    again: NDArray[np.bool_] | None,
) -> tuple[Times, Clock]:
    codes, labels = factorize(column)
    texts = ["" if pd.isna(label) else str(label).strip() for label in labels]

    def at(label: int) -> str:
        return where(int(np.argmax(codes == label)))

    if time_format is not None and time_format.endswith("%z"):  # the zone is read by us, below
        time_format = time_format.removesuffix("%z").rstrip()
        found = [ZONE_AT_END.search(text) for text in texts]
    else:
        whole = time_format is not None and "%z" in time_format
        found = [None if whole else ZONE.search(text) for text in texts]
    zones = [_normalise_zone(match.group(1)) if match else None for match in found]
    for number, zone in enumerate(zones):
        if zone != zones[0] and tz is None and texts[number]:
            bare = zone is None or zones[0] is None
            what = "the zone of those without one" if bare else "one zone to use for all"
            raise TableError(
                f"all timestamps must be in one time zone, but '{texts[number]}' in {at(number)} "
                f"is {_describe_zone(zone)} while '{texts[0]}' in {at(0)} is "
                f"{_describe_zone(zones[0])}. Give {what} with --tz, for example --tz "
                "UTC or --tz Europe/Berlin"
            )
    bodies = [
        t if m is None else t[: m.start(1)].strip() for t, m in zip(texts, found, strict=True)
    ]
    times, used = _parse(bodies, column, at, time_format)
    offset = [pd.Timedelta(0) if z is None else _offset(z) for z in zones]
    if times.tz is not None:  # the format has read the zones itself
        return to_nanoseconds(times.tz_convert("UTC")[codes]), Clock(zone=tz or "UTC")
    rows = (pd.DatetimeIndex(to_nanoseconds(times)) - pd.TimedeltaIndex(offset))[codes]
    zoned = np.array([zone is not None for zone in zones])[codes]
    plain = to_nanoseconds(rows)
    if tz is not None and not zoned.all():
        local = np.flatnonzero(~zoned)
        twice = None if again is None else again[local]
        plain[local] = _localize(rows[local], tz, lambda row: where(int(local[row])), twice)
    zone = zones[0] if len(set(zones)) == 1 and zones[0] is not None else tz
    return plain, _infer_clock(texts, bodies, times, zone, used)


def _normalise_zone(written: str) -> str:
    if written in ("Z", "UTC", "GMT"):
        return "UTC"
    digits = written[1:].replace(":", "").ljust(4, "0")
    return "UTC" if digits == "0000" else f"{written[0]}{digits[:2]}:{digits[2:]}"


def _describe_zone(zone: str | None) -> str:
    return "without a zone" if zone is None else f"in {zone}"


def _offset(zone: str) -> pd.Timedelta:
    if zone == "UTC":
        return pd.Timedelta(0)
    span = pd.Timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    return -span if zone[0] == "-" else span


def _parse(
    texts: list[str], column: pd.Series, where: Where, time_format: str | None
) -> tuple[pd.DatetimeIndex, str]:
    """Parsed stamps and the format they were in; of seconds, some stamps may have none."""

    def parsed(used: str) -> pd.DatetimeIndex:
        utc = "%z" in used
        try:
            times = pd.DatetimeIndex(pd.to_datetime(texts, format=used, errors="coerce", utc=utc))
            longer = f"{used}:%S"
            if used.endswith("%H:%M") and times.isna().any() and not times.isna().all():
                more = pd.to_datetime(texts, format=longer, errors="coerce", utc=utc)
                times = pd.DatetimeIndex(times.where(times.notna(), more))
            return times
        except (ValueError, re.error) as bad:
            raise TableError(f"--time-format '{used}' is no way to write a time: {bad}") from bad

    for used in (time_format,) if time_format else FORMATS:
        times = parsed(used)
        if not times.isna().any():
            return times, used
    for pair in () if time_format else AMBIGUOUS:
        good = [used for used in pair if not parsed(used).isna().any()]
        if len(good) == 2:
            raise TableError(
                f"'{texts[0]}' in column '{column.name}' could be day first or month first. Say "
                f"which with --time-format '{pair[0]}' or --time-format '{pair[1]}'"
            )
        if good:
            return parsed(good[0]), good[0]
    ways = (time_format,) if time_format else (*FORMATS, *(w for pair in AMBIGUOUS for w in pair))
    # what is wrong is what the way does not read in which most of them are written
    unread = min((np.asarray(parsed(way).isna()) for way in ways), key=np.count_nonzero)
    _refuse_unparsed(unread, pd.Series(texts, name=column.name), where)
    raise AssertionError("a stamp that no format reads was refused above")


def _refuse_unparsed(unread: NDArray[np.bool_], column: pd.Series, where: Where) -> None:
    if unread.any():
        row = int(np.argmax(unread))
        text = column.iloc[row]
        found = "is empty" if pd.isna(text) or text == "" else f"is '{text}'"
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", str(text)):
            raise TableError(
                f"a time stamp has a date, but column '{column.name}' {found} in {where(row)}. If "
                "the date stands in another column, join the two into one"
            )
        if re.search(r"(?<![+-])\b24:00", str(text)):
            raise TableError(
                f"a day ends before 24:00, but column '{column.name}' {found} in {where(row)}. "
                "Write such stamps as 00:00 of the day after"
            )
        raise TableError(
            f"every row needs a time stamp, but column '{column.name}' {found} in {where(row)}. "
            "Correct it, say how stamps are written with --time-format, such as "
            "'%d/%m/%Y %H:%M', or name another column with --time"
        )


def _localize(
    index: pd.DatetimeIndex, tz: str, where: Where, again: NDArray[np.bool_] | None
) -> Times:
    """Local stamps of zone `tz` as UTC; of a doubled hour the first is summer time."""
    summer = np.ones(len(index), dtype=bool) if again is None else ~again
    local = index.tz_localize(tz, ambiguous=summer, nonexistent="NaT")
    skipped = np.asarray(local.isna())
    if skipped.any():
        row = int(np.argmax(skipped))
        raise TableError(
            f"every stamp must exist in {tz}, but {index[row]} in {where(row)} was skipped when "
            "clocks went forward. Give the zone the stamps are really in with --tz"
        )
    return to_nanoseconds(local.tz_convert("UTC"))


def _infer_clock(
    texts: list[str],
    bodies: list[str],
    times: pd.DatetimeIndex,
    zone: str | None,
    used: str,
) -> Clock:
    """The clock that writes `texts` again; ISO stamps where none does so exactly."""
    suffixes = {text[len(body) :] for text, body in zip(texts, bodies, strict=True)}
    suffix = suffixes.pop() if len(suffixes) == 1 else None
    if suffix is None and zone == "UTC":
        suffix = "Z"
    fraction = re.search(r"\.(\d{1,9})$", bodies[0]) if ":" in bodies[0] else None
    digits = len(fraction.group(1)) if fraction else 0
    clocks = ("", " %H:%M:%S", "T%H:%M:%S", " %H:%M", "T%H:%M", " %H", "T%H", "T%H%M%S", "T%H%M")
    days = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%Y-%m", "%Y")
    iso = [day + clock for day in days for clock in clocks]
    bare = re.sub(r"%([dmH])", r"%-\1", used)  # 1/13/2020 2:00
    for pattern in iso if used == "ISO8601" else (used, bare):
        clock = Clock(zone=zone, pattern=pattern, digits=digits, suffix=suffix)
        written = replace(clock, zone=None, suffix="")
        few = to_nanoseconds(times[:9])
        if written.format(few) == bodies[:9] and written.format(to_nanoseconds(times)) == bodies:
            return clock
    plainly = "%Y-%m-%dT%H:%M:%S" if used == "ISO8601" else used
    return Clock(
        zone=zone, pattern=plainly, digits=subsecond_digits(to_nanoseconds(times)), suffix=suffix
    )
