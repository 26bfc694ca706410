"""Time: a regular grid under stamps, steps in words, and stamps written as they were read.

Inside the library time is `datetime64[ns]` without a zone; stamps that carry a zone are turned to
UTC on the way in, and `Clock` remembers how to write them on the way out.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cdsa.errors import ConfigError, TableError

Times = NDArray[np.datetime64]


Where = Callable[[int], str]
"""Names a row for the user: `where(0) -> "line 2"`."""


UNITS: dict[str, int | str] = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86400),
    **dict.fromkeys(("mo", "month", "months"), "month"),
}


LONGEST_MONTH = 31 * 86400  # seconds


EPOCHS = {"unix": 1, "unix-ms": 1000}


MAX_SPARSE = 2  # a grid this many times longer than its stamps may still be their own


COMMON_STEPS = tuple(
    pd.Timedelta(n, unit=unit)
    for unit, numbers in (
        ("s", (1, 2, 5, 10, 15, 20, 30)),
        ("min", (1, 2, 5, 10, 15, 20, 30)),
        ("h", (1, 2, 3, 6, 12, 24)),
    )
    for n in numbers
)
"""Steps that clocks are set to."""


STEP_TOLERANCE = 0.1
"""How far a step may be off one of them, as a share."""


MAX_EMPTY = 50  # a grid this many times longer than its stamps is a mistyped stamp, not a gap


@dataclass(frozen=True)
class Clock:
    """How the stamps of one source are written, so that new ones can be written alike."""

    zone: str | tzinfo | None = None
    """Time zone of the stamps; None if they carry none."""

    pattern: str = "%Y-%m-%dT%H:%M:%S"
    """How a stamp is written, without its zone; 'unix' and 'unix-ms' count from 1970."""

    digits: int = 0
    """Decimal places of the seconds."""

    suffix: str | None = None
    """The zone as written behind the stamp, such as 'Z'; None: the offset from UTC, if any."""

    wall_time: bool = False
    """Whether times inside are those of a clock on the wall: so for daily and monthly data, whose
    steps are not all of one length in UTC."""

    def format(self, times: Times) -> list[str]:
        """The stamps as text; `times` are UTC if there is a zone."""
        if self.pattern in EPOCHS:
            ticks = times.astype("datetime64[us]").astype(np.int64) / (
                1_000_000 / EPOCHS[self.pattern]
            )
            return [repr(float(tick)).removesuffix(".0") for tick in ticks]
        index = self.to_local(times)
        text = list(index.strftime(self.pattern))
        if self.digits:
            nanoseconds = times.astype("datetime64[ns]").astype(np.int64) % 1_000_000_000
            text = [
                f"{t}.{n:09}"[: len(t) + 1 + self.digits]
                for t, n in zip(text, nanoseconds, strict=True)
            ]
        if self.suffix is not None:
            return [stamp + self.suffix for stamp in text]
        if self.zone is None:
            return text
        offsets = index.strftime("%z")
        return [f"{stamp}{z[:3]}:{z[3:]}" for stamp, z in zip(text, offsets, strict=True)]

    def parse(self, stamp: object) -> np.datetime64:
        """A stamp that a user gave, as times are inside: one without a zone is in that of the
        source."""
        try:
            moment = pd.Timestamp(stamp)
            if moment is pd.NaT:
                raise ValueError("no time at all")
            if self.zone is not None and moment.tzinfo is None and not self.wall_time:
                moment = moment.tz_localize(self.zone, ambiguous=True, nonexistent="shift_forward")
            if moment.tzinfo is not None:
                home = self.zone if self.wall_time and self.zone is not None else "UTC"
                moment = moment.tz_convert(home).tz_localize(None)
            nanoseconds = moment.as_unit("ns").value
        except (ValueError, TypeError, OverflowError) as bad:
            raise ConfigError(
                f"a time is written as 2024-03-01T12:00 and lies between 1678 and 2261, but found "
                f"'{stamp}'"
            ) from bad
        return np.datetime64(nanoseconds, "ns")

    def to_plain(self, times: Times) -> dict[str, object]:
        """When steps are by this clock, in seconds since 1970, for a page to draw: the first and
        the step or, where steps differ, all of them; how many; and the zone."""
        seconds = self.to_local(times).tz_localize(None).as_unit("s").asi8
        apart = np.diff(seconds)
        told: dict[str, object] = {"times": seconds.tolist()}
        if not len(apart) or (apart == apart[0]).all():
            told = {"first": int(seconds[0]), "step": int(apart[0]) if len(apart) else 3600}
        zone = "" if self.zone is None else str(self.zone)
        return {**told, "count": len(seconds), "zone": zone}

    def to_local(self, times: Times) -> pd.DatetimeIndex:
        """The stamps in the zone they were written in."""
        index = pd.DatetimeIndex(times)
        if self.zone is None:
            return index
        if self.wall_time:
            summer = np.ones(len(index), dtype=bool)
            return index.tz_localize(self.zone, ambiguous=summer, nonexistent="shift_forward")
        return index.tz_localize("UTC").tz_convert(self.zone)

    def to_internal(self, times: Times, step: str | None) -> tuple[Times, "Clock"]:
        """Times and clock as kept inside: wall time for steps of a day and more, else UTC."""
        if self.zone is None or (step is None and len(np.unique(times)) < 2):
            return times, self
        wall = to_nanoseconds(self.to_local(times).tz_localize(None))
        span = parse_step(step) if step is not None else infer_step(np.unique(wall))
        if isinstance(span, int) or span >= pd.Timedelta(days=1):
            return wall, replace(self, wall_time=True)
        return times, self


def to_nanoseconds(index: pd.DatetimeIndex) -> Times:
    """Stamps as `datetime64[ns]`, which reaches from 1678 to 2261."""
    try:
        return np.array(index.tz_localize(None).as_unit("ns").to_numpy())
    except (pd.errors.OutOfBoundsDatetime, OverflowError) as bad:
        raise TableError(
            f"time must lie between 1678 and 2261, but it runs from {index.min()} to "
            f"{index.max()}. Correct the stamps"
        ) from bad


def subsecond_digits(times: Times) -> int:
    """Decimal places of seconds that the stamps need."""
    rest = times.astype(np.int64) % 1_000_000_000
    return next(d for d in (0, 3, 6, 9) if not (rest % 10 ** (9 - d)).any())


def parse_step(text: str) -> pd.Timedelta | int:
    """A step such as '1h', '15min' or '1d'; whole calendar months come back as their number."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?|)\s*([A-Za-z]+)\s*", text)
    unit = found and UNITS.get(found.group(2).lower())
    if not found or not unit:
        raise TableError(
            f"a step is a number and a unit, such as 5min, 1h, 1d or 1month, but found '{text}'"
        )
    count = float(found.group(1) or 1)
    seconds = LONGEST_MONTH if unit == "month" else int(unit)
    try:
        span = pd.Timedelta(seconds=count * seconds).as_unit("ns")
    except (OverflowError, ValueError) as bad:
        raise TableError(f"'{text}' is longer than any time we know") from bad
    if unit == "month":
        if count < 1 or count != int(count):
            raise TableError(f"months are counted whole, but found '{text}'")
        return int(count)
    if not span > pd.Timedelta(0):
        raise TableError(f"a step must be longer than nothing, but found '{text}'")
    return span


def regular_grid(
    times: Times, where: Where, step: str | None = None
) -> tuple[Times, NDArray[np.int64]]:
    """The regular grid under the stamps, and each stamp's position on it.

    Without `step` it is inferred and every stamp must lie on the grid; with it, each stamp moves to
    the nearest one (to its month, if steps are months).
    """
    distinct = np.unique(times)
    if step is None and len(distinct) < 2:
        raise TableError(
            f"the time step cannot be told from one time stamp ({pd.Timestamp(distinct[0])}). Give "
            "it with --step, for example --step 1h"
        )
    span = infer_step(distinct) if step is None else parse_step(step)
    if isinstance(span, int):
        return _months(times, span)
    stamps = times if step is None else _snap(times, span)
    grid = _grid_through(stamps, span, where)
    position = np.searchsorted(grid, stamps)
    off = grid[np.minimum(position, len(grid) - 1)] != stamps
    if off.any():
        row = int(np.argmax(off))
        raise TableError(
            f"stamps must be one step apart, here usually {format_step(span)}, but "
            f"{pd.Timestamp(times[row])} in {where(row)} lies between two steps. To move stamps to "
            f"the nearest step, give it: --step {step_option(_rounded(span))}"
        )
    return grid, position


def _rounded(span: pd.Timedelta) -> pd.Timedelta:
    """The step of a clock that is meant by one that is a little off it."""
    nearest = min(COMMON_STEPS, key=lambda step: abs(step / span - 1))
    return nearest if abs(nearest / span - 1) < STEP_TOLERANCE else span


def infer_step(distinct: Times) -> pd.Timedelta | int:
    """The commonest distance between neighbours, the shorter one of equals; or calendar months."""
    months = _month_numbers(distinct)
    if months is not None:
        return max(1, int(np.gcd.reduce(np.diff(months))))
    spans, counts = np.unique(np.diff(distinct).astype(np.int64), return_counts=True)
    usual, common = int(spans[np.argmax(counts)]), int(np.gcd.reduce(spans))
    steps = int((distinct[-1] - distinct[0]).astype(np.int64)) // common + 1
    # where the commonest distance is not the step, the one that all are multiples of may be
    if (spans % usual).any() and common in spans and steps <= MAX_SPARSE * len(distinct):
        usual = common
    return pd.Timedelta(usual, unit="ns")


def _month_numbers(distinct: Times) -> NDArray[np.int64] | None:
    """The months of stamps that all stand on one day of it, or all on its last; else None."""
    if len(np.unique(distinct.astype(np.int64) % 86_400_000_000_000)) > 1:
        return None  # not the same time of day
    index = pd.DatetimeIndex(distinct)
    one_day = len(set(index.day)) == 1 and index.day[0] <= 28
    numbers = np.asarray(index.year * 12 + index.month, dtype=np.int64)
    regular = one_day or bool(index.is_month_end.all())
    return numbers if regular and len(np.unique(numbers)) == len(numbers) > 1 else None


def _months(times: Times, span: int) -> tuple[Times, NDArray[np.int64]]:
    """The grid of every `span` months, and each stamp's position; a stamp belongs to its month."""
    month = times.astype("datetime64[M]").astype(np.int64)
    position = (month - month.min()) // span
    numbers = month.min() + span * np.arange(position.max() + 1)
    starts = numbers.astype("datetime64[M]").astype("datetime64[ns]")
    regular = _month_numbers(np.unique(times))
    if regular is None:
        return starts, position
    first = times[np.argmin(times)]
    within = first - first.astype("datetime64[M]").astype("datetime64[ns]")
    if len(set(pd.DatetimeIndex(times).day)) > 1:  # the last day of the month, whichever that is
        ends = (numbers + 1).astype("datetime64[M]").astype("datetime64[ns]")
        return ends - np.timedelta64(1, "D") + within % np.timedelta64(1, "D"), position
    return starts + within, position


def _snap(times: Times, span: pd.Timedelta) -> Times:
    first = _anchor(times, span).astype(np.int64)
    steps = np.floor_divide(times.astype(np.int64) - first + span.value // 2, span.value)
    moved: Times = (first + steps * span.value).astype("datetime64[ns]")
    return moved


def _anchor(times: Times, span: pd.Timedelta) -> np.datetime64:
    """A point of the grid: the phase that most stamps share, else whole multiples of the step."""
    phases, counts = np.unique(times.astype(np.int64) % span.value, return_counts=True)
    phase = phases[np.argmax(counts)] if counts.max() * 2 > len(times) else 0
    return np.datetime64(int(phase), "ns")


def _grid_through(times: Times, span: pd.Timedelta, where: Where) -> Times:
    ticks, anchor = times.astype(np.int64), int(_anchor(times, span).astype(np.int64))
    low = (int(ticks.min()) - anchor) // span.value
    high = -((anchor - int(ticks.max())) // span.value)  # rounded up
    steps, stamps = high - low + 1, len(np.unique(times))
    if steps > max(MAX_EMPTY * stamps, 10_000):
        ends = int(np.argmin(times)), int(np.argmax(times))
        raise TableError(
            f"between the first stamp {pd.Timestamp(times[ends[0]])} ({where(ends[0])}) and the "
            f"last {pd.Timestamp(times[ends[1]])} ({where(ends[1])}) lie {steps:,} steps of "
            f"{format_step(span)}, but there are only {stamps:,} stamps. Correct a mistyped "
            "stamp, or give the true step with --step"
        )
    grid: Times = (anchor + np.arange(low, high + 1) * span.value).astype("datetime64[ns]")
    return grid


def next_times(times: Times, n_steps: int) -> Times:
    """The stamps that come after a regular grid of at least two."""
    span = infer_step(times)
    last = pd.Timestamp(times[-1])
    numbers = range(1, n_steps + 1)
    if not isinstance(span, int):
        return np.array([last + number * span for number in numbers], dtype="datetime64[ns]")
    to_the_end = pd.DatetimeIndex(times).day.max() > 28  # of the month, whichever day that is
    later = pd.offsets.MonthEnd if to_the_end else lambda months: pd.DateOffset(months=months)
    return np.array([last + later(span * number) for number in numbers], dtype="datetime64[ns]")


def is_regular(times: Times) -> bool:
    """Whether rising stamps are one fixed step, or one number of calendar months, apart."""
    if len(times) < 3 or len(np.unique(np.diff(times))) == 1:
        return True
    months = _month_numbers(times)
    return months is not None and len(np.unique(np.diff(months))) == 1


def format_step(span: pd.Timedelta | int) -> str:
    """A step in words: '5 min', '1 h', '3 months'."""
    if isinstance(span, int):
        return "1 month" if span == 1 else f"{span} months"
    for unit, name in (("D", "d"), ("h", "h"), ("min", "min"), ("s", "s")):
        count = span / pd.Timedelta(1, unit=unit)
        if count >= 1 and count == int(count):
            return f"{int(count)} {name}"
    return f"{span.total_seconds():g} s"


def step_option(span: pd.Timedelta | int) -> str:
    """A step as `parse_step` takes it: '5min', '1h', '3months'."""
    return format_step(span).replace(" ", "")
