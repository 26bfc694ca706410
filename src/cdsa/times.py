"""Time stamps: read in whatever form they come, put on a regular grid, written as they were.

Inside the library time is `datetime64[ns]` without a zone; stamps that carry a zone are turned to
UTC on the way in, and `Clock` remembers how to write them on the way out.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cdsa.errors import TableError

Times = NDArray[np.datetime64]
Where = Callable[[int], str]
"""Names a row for the user: `where(0) -> "line 2"`."""

ZONE = re.compile(r"\d:\d{2}[\d:.,]*\s*(Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$")
FORMATS = (
    *("ISO8601", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d"),
    *("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y"),
)
AMBIGUOUS = tuple(
    (f"%d{s}%m{s}%Y{t}", f"%m{s}%d{s}%Y{t}") for s in "/-" for t in (" %H:%M", " %H:%M:%S", "")
)
UNITS: dict[str, int | str] = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86400),
    **dict.fromkeys(("mo", "month", "months"), "month"),
}
MOST_EMPTY = 50  # a grid this many times longer than its stamps is a mistyped stamp, not a gap


@dataclass(frozen=True)
class Clock:
    """How the stamps of one source are written, so that new ones can be written alike."""

    zone: str | None = None
    """Time zone of the stamps; None if they carry none."""

    pattern: str = "%Y-%m-%dT%H:%M:%S"
    """How a stamp is written, without its zone; 'unix' for seconds since 1970."""

    suffix: str | None = None
    """The zone as written behind the stamp, such as 'Z'; None: the offset from UTC, if any."""

    def write(self, times: Times) -> list[str]:
        """The stamps as text; `times` are UTC if there is a zone."""
        if self.pattern == "unix":
            return [str(seconds) for seconds in times.astype("datetime64[s]").astype(np.int64)]
        index = self.local(times)
        text = list(index.strftime(self.pattern))
        if self.suffix is not None:
            return [stamp + self.suffix for stamp in text]
        if self.zone is None:
            return text
        offsets = index.strftime("%z")
        return [f"{stamp}{z[:3]}:{z[3:]}" for stamp, z in zip(text, offsets, strict=True)]

    def local(self, times: Times) -> pd.DatetimeIndex:
        """The stamps in the zone they were written in."""
        index = pd.DatetimeIndex(times)
        return index if self.zone is None else index.tz_localize("UTC").tz_convert(self.zone)


def read_times(
    column: pd.Series,
    where: Where,
    *,
    tz: str | None = None,
    time_format: str | None = None,
    again: NDArray[np.bool_] | None = None,
) -> tuple[Times, Clock]:
    """Stamps of any kind as `datetime64[ns]`, and how to write more of them.

    `again` marks rows whose stamp was seen before at the same station: in local time, the second
    01:30 of the night when clocks go back.
    """
    check_zone(tz)
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if time_format == "unix" or pd.api.types.is_numeric_dtype(column.dtype):
        return _read_epochs(column, where, time_format), Clock(zone="UTC", pattern="unix")
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return _read_typed(column, where, tz, again)
    return _read_text(column, where, tz, time_format, again)


def check_zone(tz: str | None) -> None:
    """Refuse a time zone that nobody knows."""
    if tz is not None:
        try:
            pd.Timestamp(0, tz=tz)
        except Exception as bad:  # zoneinfo, pytz and dateutil each raise their own
            raise TableError(
                f"'{tz}' is not a time zone. Use a name such as UTC or Europe/Berlin, or +01:00"
            ) from bad


def _read_epochs(column: pd.Series, where: Where, time_format: str | None) -> Times:
    if time_format != "unix":
        raise TableError(
            f"time must be dates, but column '{column.name}' holds numbers ({column.iloc[0]} in "
            f"{where(0)}). If they are seconds since 1970, give --time-format unix; otherwise name "
            "the column of the time with --time"
        )
    seconds = pd.to_numeric(column, errors="coerce")
    times = pd.to_datetime(seconds, unit="s", errors="coerce")
    _refuse_unread(times.isna().to_numpy(), column, where)
    return np.asarray(times, dtype="datetime64[ns]")


def _read_typed(
    column: pd.Series, where: Where, tz: str | None, again: NDArray[np.bool_] | None
) -> tuple[Times, Clock]:
    _refuse_unread(column.isna().to_numpy(), column, where)
    index = pd.DatetimeIndex(column)
    if index.tz is None:
        return (
            (_at_home(index, tz, where, again), Clock(zone=tz)) if tz else (_plain(index), Clock())
        )
    return _plain(index.tz_convert("UTC")), Clock(zone=tz or str(index.tz))


def _read_text(
    column: pd.Series,
    where: Where,
    tz: str | None,
    time_format: str | None,
    again: NDArray[np.bool_] | None,
) -> tuple[Times, Clock]:
    codes, labels = pd.factorize(column.astype(object), use_na_sentinel=False)
    texts = ["" if pd.isna(label) else str(label).strip() for label in labels]

    def at(label: int) -> str:
        return where(int(np.argmax(codes == label)))

    found = [ZONE.search(text) for text in texts]
    zones = [_zone_name(match.group(1)) if match else None for match in found]
    for number, zone in enumerate(zones):
        if zone != zones[0] and tz is None and texts[number]:
            raise TableError(
                f"all stamps must be in one time zone, but '{texts[number]}' in "
                f"{at(number)} is {_in_zone(zone)} while '{texts[0]}' in "
                f"{at(0)} is {_in_zone(zones[0])}. Say which zone to use for all "
                "with --tz, for example --tz UTC"
            )
    bodies = [
        t if m is None else t[: m.start(1)].strip() for t, m in zip(texts, found, strict=True)
    ]
    times, used = _parse(bodies, column, at, time_format)
    offset = [pd.Timedelta(0) if z is None else _offset(z) for z in zones]
    rows = pd.DatetimeIndex(times - pd.TimedeltaIndex(offset))[codes]
    zoned = np.array([zone is not None for zone in zones])[codes]
    if tz is not None and not zoned.all():
        local = ~zoned
        at_home = _at_home(rows[local], tz, where, None if again is None else again[local])
        plain = _plain(rows)
        plain[local] = at_home
    else:
        plain = _plain(rows)
    return plain, _clock_like(texts, bodies, times, tz or zones[0], used)


def _zone_name(written: str) -> str:
    if written in ("Z", "UTC", "GMT"):
        return "UTC"
    digits = written[1:].replace(":", "").ljust(4, "0")
    return "UTC" if digits == "0000" else f"{written[0]}{digits[:2]}:{digits[2:]}"


def _in_zone(zone: str | None) -> str:
    return "without a zone" if zone is None else f"in {zone}"


def _offset(zone: str) -> pd.Timedelta:
    if zone == "UTC":
        return pd.Timedelta(0)
    span = pd.Timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    return -span if zone[0] == "-" else span


def _parse(
    texts: list[str], column: pd.Series, where: Where, time_format: str | None
) -> tuple[pd.DatetimeIndex, str]:
    """Parsed stamps and the format they were in."""

    def parsed(used: str) -> pd.DatetimeIndex:
        return pd.DatetimeIndex(pd.to_datetime(texts, format=used, errors="coerce"))

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
    unread = np.asarray(parsed(time_format or "ISO8601").isna())
    _refuse_unread(unread, pd.Series(texts, name=column.name), where)
    raise AssertionError("a stamp that no format reads was refused above")


def _refuse_unread(unread: NDArray[np.bool_], column: pd.Series, where: Where) -> None:
    if unread.any():
        row = int(np.argmax(unread))
        text = column.iloc[row]
        found = "is empty" if pd.isna(text) or text == "" else f"is '{text}'"
        raise TableError(
            f"every row needs a time stamp, but column '{column.name}' {found} in {where(row)}. "
            "Correct it, say how stamps are written with --time-format, such as "
            "'%d/%m/%Y %H:%M', or name another column with --time"
        )


def _plain(index: pd.DatetimeIndex) -> Times:
    try:
        return np.array(index.tz_localize(None).as_unit("ns").to_numpy())
    except (pd.errors.OutOfBoundsDatetime, OverflowError) as bad:
        raise TableError(
            f"time must lie between 1678 and 2261, but it runs from {index.min()} to "
            f"{index.max()}. Correct the stamps"
        ) from bad


def _at_home(
    index: pd.DatetimeIndex, tz: str, where: Where, again: NDArray[np.bool_] | None
) -> Times:
    """Local stamps of zone `tz` as UTC; of a doubled hour the first is summer time."""
    summer = np.ones(len(index), dtype=bool) if again is None else ~again
    try:
        return _plain(index.tz_localize(tz, ambiguous=summer).tz_convert("UTC"))
    except ValueError as bad:
        raise TableError(
            f"every stamp must exist in {tz}, but one was skipped when clocks went forward: {bad}. "
            "Give the zone the stamps are really in with --tz"
        ) from bad


def _clock_like(
    texts: list[str], bodies: list[str], times: pd.DatetimeIndex, zone: str | None, used: str
) -> Clock:
    """The clock that writes `texts` again; ISO stamps where none does so exactly."""
    suffixes = {text[len(body) :] for text, body in zip(texts, bodies, strict=True)}
    suffix = suffixes.pop() if len(suffixes) == 1 else None
    clocks = ("", " %H:%M:%S", "T%H:%M:%S", " %H:%M", "T%H:%M", " %H:%M:%S.%f", "T%H:%M:%S.%f")
    iso = [day + clock for day in ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d") for clock in clocks]
    for pattern in iso if used == "ISO8601" else [used]:
        if (
            list(times[:9].strftime(pattern)) == bodies[:9]
            and list(times.strftime(pattern)) == bodies
        ):
            return Clock(zone=zone, pattern=pattern, suffix=suffix)
    return Clock(zone=zone, suffix=suffix)


def read_step(text: str) -> pd.Timedelta | int:
    """A step such as '1h', '15min' or '1d'; whole calendar months come back as their number."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?|)\s*([A-Za-z]+)\s*", text)
    unit = found and UNITS.get(found.group(2).lower())
    if not found or not unit:
        raise TableError(
            f"a step is a number and a unit, such as 5min, 1h, 1d or 1month, but found '{text}'"
        )
    count = float(found.group(1) or 1)
    if not count > 0:
        raise TableError(f"a step must be longer than nothing, but found '{text}'")
    return int(count) if unit == "month" else pd.Timedelta(seconds=count * int(unit))


def regular_grid(
    times: Times, where: Where, step: str | None = None
) -> tuple[Times, NDArray[np.int64]]:
    """The regular grid under the stamps, and each stamp's position on it.

    Without `step` it is inferred and every stamp must lie on the grid; with it, each stamp moves to
    the nearest one.
    """
    distinct = np.unique(times)
    if step is not None:
        stamps = _snap(times, read_step(step))
    elif len(distinct) < 2:
        raise TableError(
            f"the time step cannot be told from one time stamp ({pd.Timestamp(distinct[0])}). Give "
            "it with --step, for example --step 1h"
        )
    else:
        stamps = times
    span = infer_step(distinct) if step is None else read_step(step)
    grid = _grid_through(stamps, span, where)
    position = np.searchsorted(grid, stamps)
    off = grid[np.minimum(position, len(grid) - 1)] != stamps
    if off.any():
        row = int(np.argmax(off))
        raise TableError(
            f"stamps must be {describe_step(span)} apart like most here, but "
            f"{pd.Timestamp(times[row])} in {where(row)} lies between two steps. To move stamps to "
            f"the nearest step, give it: --step {short_step(span)}"
        )
    return grid, position


def infer_step(distinct: Times) -> pd.Timedelta | int:
    """The commonest distance between neighbours, the shorter one of equals; or calendar months."""
    index = pd.DatetimeIndex(distinct)
    if len(set(index.day)) == 1 and index.day[0] <= 28 and len(set(index - index.normalize())) == 1:
        months = np.diff(np.asarray(index.year * 12 + index.month))
        return int(np.gcd.reduce(months))
    spans, counts = np.unique(np.diff(distinct), return_counts=True)
    return pd.Timedelta(spans[np.argmax(counts)])


def _snap(times: Times, span: pd.Timedelta | int) -> Times:
    if isinstance(span, int):
        return times.astype("datetime64[M]").astype("datetime64[ns]")
    first, width = _anchor(times, span), span.to_timedelta64()
    moved: Times = first + np.rint((times - first) / width).astype(np.int64) * width
    return moved


def _anchor(times: Times, span: pd.Timedelta) -> np.datetime64:
    """A point of the grid: the phase that most stamps share, else whole multiples of the step."""
    phases, counts = np.unique(times.astype(np.int64) % span.value, return_counts=True)
    phase = phases[np.argmax(counts)] if counts.max() * 2 > len(times) else 0
    return np.datetime64(int(phase), "ns")


def _grid_through(times: Times, span: pd.Timedelta | int, where: Where) -> Times:
    first, last = times.min(), times.max()
    if isinstance(span, int):
        months = pd.date_range(first, last, freq=pd.DateOffset(months=span))
        return np.asarray(months, dtype="datetime64[ns]")
    width = span.to_timedelta64()
    anchor = _anchor(times, span)
    low = int(np.floor((first - anchor) / width))
    high = int(np.ceil((last - anchor) / width))
    steps, stamps = high - low + 1, len(np.unique(times))
    if steps > max(MOST_EMPTY * stamps, 10_000):
        ends = np.argmin(times), np.argmax(times)
        raise TableError(
            f"between the first stamp {pd.Timestamp(first)} ({where(int(ends[0]))}) and the last "
            f"{pd.Timestamp(last)} ({where(int(ends[1]))}) lie {steps:,} steps of "
            f"{describe_step(span)}, but there are only {stamps:,} stamps. Correct a mistyped "
            "stamp, or give the true step with --step"
        )
    grid: Times = anchor + np.arange(low, high + 1) * width
    return grid


def is_regular(times: Times) -> bool:
    """Whether rising stamps are one fixed step, or one number of calendar months, apart."""
    if len(times) < 3 or len(np.unique(np.diff(times))) == 1:
        return True
    index = pd.DatetimeIndex(times)
    months = np.diff(np.asarray(index.year * 12 + index.month))
    same_clock = len(set(index.day)) == 1 and len(set(index - index.normalize())) == 1
    return bool(same_clock and len(set(months)) == 1)


def describe_step(span: pd.Timedelta | int) -> str:
    """A step in words: '5 min', '1 h', '3 months'."""
    if isinstance(span, int):
        return "1 month" if span == 1 else f"{span} months"
    for unit, name in (("D", "d"), ("h", "h"), ("min", "min"), ("s", "s")):
        count = span / pd.Timedelta(1, unit=unit)
        if count >= 1 and count == int(count):
            return f"{int(count)} {name}"
    return f"{span.total_seconds():g} s"


def short_step(span: pd.Timedelta | int) -> str:
    """A step as `read_step` takes it: '5min', '1h', '3months'."""
    return describe_step(span).replace(" ", "")
