"""Time: regular grids, time steps as text, and timestamps written as they were read.

Inside the library time is `datetime64[ns]` without a zone. Timestamps with a zone are converted to
UTC on input; `Clock` keeps what is needed to write them as before.
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

EPOCHS = {"unix": 1, "unix-ms": 1000}  # ticks per second

MAX_SPARSE = 2
"""Steps per timestamp up to which the greatest common divisor of all distances is the step."""

MAX_EMPTY = 50
"""Steps per timestamp above which a timestamp must be mistyped."""

COMMON_STEPS = pd.to_timedelta([
    "1s", "2s", "5s", "10s", "15s", "20s", "30s", "1min", "2min", "5min", "10min", "15min", "20min",
    "30min", "1h", "2h", "3h", "6h", "12h", "24h",
])  # fmt: skip

STEP_TOLERANCE = 0.1
"""Relative deviation from a common step within which that step is suggested."""


@dataclass(frozen=True)
class Clock:
    """Time zone and notation of the timestamps of a source, so that new ones look the same."""

    zone: str | tzinfo | None = None
    """Time zone of the timestamps; None if they have none."""

    pattern: str = "%Y-%m-%dT%H:%M:%S"
    """`strftime` pattern without the zone; 'unix' and 'unix-ms' count from 1970."""

    digits: int = 0
    suffix: str | None = None
    """The zone as written after the time, such as 'Z'; None: the offset from UTC, if any."""

    wall_time: bool = False
    """Whether internal times are local ones: for daily and monthly data, whose steps differ in
    length in UTC."""

    def format(self, times: Times) -> list[str]:
        if self.pattern in EPOCHS:
            microseconds = times.astype("datetime64[us]").astype(np.int64)
            ticks = microseconds / (1_000_000 / EPOCHS[self.pattern])
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
            return [time + self.suffix for time in text]
        if self.zone is None:
            return text
        offsets = index.strftime("%z")
        return [f"{time}{z[:3]}:{z[3:]}" for time, z in zip(text, offsets, strict=True)]

    def parse(self, text: object) -> np.datetime64:
        """The internal time of a timestamp given by a user; without a zone it has that of the
        source."""
        try:
            moment = pd.Timestamp(text)
            if moment is pd.NaT:
                raise ValueError("not a time")
            if self.zone is not None and moment.tzinfo is None and not self.wall_time:
                moment = moment.tz_localize(self.zone, ambiguous=True, nonexistent="shift_forward")
            if moment.tzinfo is not None:
                home = self.zone if self.wall_time and self.zone is not None else "UTC"
                moment = moment.tz_convert(home).tz_localize(None)
            nanoseconds = moment.as_unit("ns").value
        except (ValueError, TypeError, OverflowError) as bad:
            raise ConfigError(
                f"a time is written as 2024-03-01T12:00 and lies between 1678 and 2261, but found "
                f"'{text}'"
            ) from bad
        return np.datetime64(nanoseconds, "ns")

    def to_plain(self, times: Times) -> dict[str, object]:
        """Local times in seconds since 1970 as JSON for a page: the first one and the step or, if
        steps differ, all of them; their count; and the zone."""
        seconds = self.to_local(times).tz_localize(None).as_unit("s").asi8
        spans = np.diff(seconds)
        grid: dict[str, object] = {"times": seconds.tolist()}
        if not len(spans) or (spans == spans[0]).all():
            grid = {"first": int(seconds[0]), "step": int(spans[0]) if len(spans) else 3600}
        zone = "" if self.zone is None else str(self.zone)
        return {**grid, "count": len(seconds), "zone": zone}

    def to_local(self, times: Times) -> pd.DatetimeIndex:
        """Internal times in the zone of the source."""
        index = pd.DatetimeIndex(times)
        if self.zone is None:
            return index
        if self.wall_time:
            summer = np.ones(len(index), dtype=bool)
            return index.tz_localize(self.zone, ambiguous=summer, nonexistent="shift_forward")
        return index.tz_localize("UTC").tz_convert(self.zone)

    def to_internal(self, times: Times, step: str | None) -> tuple[Times, "Clock"]:
        """UTC times and clock as used internally: local time for steps of a day or more."""
        if self.zone is None or (step is None and len(np.unique(times)) < 2):
            return times, self
        local = to_nanoseconds(self.to_local(times).tz_localize(None))
        span = parse_step(step) if step is not None else infer_step(np.unique(local))
        if isinstance(span, int) or span >= pd.Timedelta(days=1):
            return local, replace(self, wall_time=True)
        return times, self


def to_nanoseconds(index: pd.DatetimeIndex) -> Times:
    """Timestamps as `datetime64[ns]`, which ranges from 1678 to 2261."""
    try:
        return np.array(index.tz_localize(None).as_unit("ns").to_numpy())
    except (pd.errors.OutOfBoundsDatetime, OverflowError) as bad:
        raise TableError(
            f"time must lie between 1678 and 2261, but it runs from {index.min()} to "
            f"{index.max()}. Correct the timestamps"
        ) from bad


def subsecond_digits(times: Times) -> int:
    """Decimal places of seconds that the times need."""
    rest = times.astype(np.int64) % 1_000_000_000
    return next(d for d in (0, 3, 6, 9) if not (rest % 10 ** (9 - d)).any())


def parse_step(text: str) -> pd.Timedelta | int:
    """A step such as '1h', '15min' or '1d'; calendar months are returned as their number."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?|)\s*([A-Za-z]+)\s*", text)
    unit = match and UNITS.get(match.group(2).lower())
    if not match or not unit:
        raise TableError(
            f"a step is a number and a unit, such as 5min, 1h, 1d or 1month, but found '{text}'"
        )
    count = float(match.group(1) or 1)
    seconds = LONGEST_MONTH if unit == "month" else int(unit)
    try:
        span = pd.Timedelta(seconds=count * seconds).as_unit("ns")
    except (OverflowError, ValueError) as bad:
        raise TableError(f"the step '{text}' is too long") from bad
    if unit == "month":
        if count < 1 or count != int(count):
            raise TableError(f"a step must be a whole number of months, but found '{text}'")
        return int(count)
    if not span > pd.Timedelta(0):
        raise TableError(f"a step must be longer than zero, but found '{text}'")
    return span


def regular_grid(
    times: Times, where: Where, step: str | None = None
) -> tuple[Times, NDArray[np.int64]]:
    """The regular grid of the timestamps, and the position of each of them on it.

    Without `step` it is inferred and every timestamp must be on the grid; with it, each timestamp
    is moved to the nearest step (to its month, if steps are months).
    """
    distinct = np.unique(times)
    if step is None and len(distinct) < 2:
        raise TableError(
            f"the time step cannot be inferred from one timestamp ({pd.Timestamp(distinct[0])}). "
            "Give it with --step, for example --step 1h"
        )
    span = infer_step(distinct) if step is None else parse_step(step)
    if isinstance(span, int):
        return _month_grid(times, span)
    snapped = times if step is None else _snap(times, span)
    grid = _grid_through(snapped, span, where)
    position = np.searchsorted(grid, snapped)
    off_grid = grid[np.minimum(position, len(grid) - 1)] != snapped
    if off_grid.any():
        row = int(np.argmax(off_grid))
        raise TableError(
            f"timestamps must be on a regular grid, here with a step of {format_step(span)}, but "
            f"{pd.Timestamp(times[row])} in {where(row)} is between two steps. To move timestamps "
            f"to the nearest step, give it: --step {step_option(_nearest_common_step(span))}"
        )
    return grid, position


def _nearest_common_step(span: pd.Timedelta) -> pd.Timedelta:
    """The common step close to this one, or this one if none is."""
    deviation = np.abs(COMMON_STEPS / span - 1)
    return COMMON_STEPS[deviation.argmin()] if deviation.min() < STEP_TOLERANCE else span


def infer_step(distinct: Times) -> pd.Timedelta | int:
    """The most common distance between neighbours (the shorter one of a tie), or months."""
    months = _month_numbers(distinct)
    if months is not None:
        return max(1, int(np.gcd.reduce(np.diff(months))))
    spans, counts = np.unique(np.diff(distinct).astype(np.int64), return_counts=True)
    step, divisor = int(spans[np.argmax(counts)]), int(np.gcd.reduce(spans))
    n_steps = int((distinct[-1] - distinct[0]).astype(np.int64)) // divisor + 1
    # if some distances are not multiples of the most common one, the step may be their divisor
    if (spans % step).any() and divisor in spans and n_steps <= MAX_SPARSE * len(distinct):
        step = divisor
    return pd.Timedelta(step, unit="ns")


def _month_numbers(distinct: Times) -> NDArray[np.int64] | None:
    """Month numbers of times that are all on the same day of the month, or all on its last day;
    else None."""
    if len(np.unique(distinct.astype(np.int64) % 86_400_000_000_000)) > 1:
        return None  # not the same time of day
    index = pd.DatetimeIndex(distinct)
    same_day = len(set(index.day)) == 1 and index.day[0] <= 28
    numbers = np.asarray(index.year * 12 + index.month, dtype=np.int64)
    regular = same_day or bool(index.is_month_end.all())
    return numbers if regular and len(np.unique(numbers)) == len(numbers) > 1 else None


def _month_grid(times: Times, span: int) -> tuple[Times, NDArray[np.int64]]:
    """The grid of every `span` months, and the position of each timestamp's month on it."""
    month = times.astype("datetime64[M]").astype(np.int64)
    position = (month - month.min()) // span
    numbers = month.min() + span * np.arange(position.max() + 1)
    starts = numbers.astype("datetime64[M]").astype("datetime64[ns]")
    if _month_numbers(np.unique(times)) is None:
        return starts, position
    first = times[np.argmin(times)]
    within = first - first.astype("datetime64[M]").astype("datetime64[ns]")
    if len(set(pd.DatetimeIndex(times).day)) > 1:  # the last day of each month
        next_month = (numbers + 1).astype("datetime64[M]").astype("datetime64[ns]")
        return next_month - np.timedelta64(1, "D") + within % np.timedelta64(1, "D"), position
    return starts + within, position


def _snap(times: Times, span: pd.Timedelta) -> Times:
    first = _anchor(times, span).astype(np.int64)
    steps = np.floor_divide(times.astype(np.int64) - first + span.value // 2, span.value)
    moved: Times = (first + steps * span.value).astype("datetime64[ns]")
    return moved


def _anchor(times: Times, span: pd.Timedelta) -> np.datetime64:
    """A point of the grid: the phase of most timestamps, else multiples of the step."""
    phases, counts = np.unique(times.astype(np.int64) % span.value, return_counts=True)
    phase = phases[np.argmax(counts)] if counts.max() * 2 > len(times) else 0
    return np.datetime64(int(phase), "ns")


def _grid_through(times: Times, span: pd.Timedelta, where: Where) -> Times:
    ticks, anchor = times.astype(np.int64), int(_anchor(times, span).astype(np.int64))
    low = (int(ticks.min()) - anchor) // span.value
    high = -((anchor - int(ticks.max())) // span.value)  # rounded up
    n_steps, n_distinct = high - low + 1, len(np.unique(times))
    if n_steps > max(MAX_EMPTY * n_distinct, 10_000):
        first, last = int(np.argmin(times)), int(np.argmax(times))
        raise TableError(
            f"between the first timestamp {pd.Timestamp(times[first])} ({where(first)}) and the "
            f"last {pd.Timestamp(times[last])} ({where(last)}) there are {n_steps:,} steps of "
            f"{format_step(span)}, but only {n_distinct:,} timestamps. Correct a mistyped "
            "timestamp, or give the true step with --step"
        )
    grid: Times = (anchor + np.arange(low, high + 1) * span.value).astype("datetime64[ns]")
    return grid


def next_times(times: Times, n_steps: int) -> Times:
    """The times that continue a regular grid of at least two."""
    span = infer_step(times)
    last = pd.Timestamp(times[-1])
    steps = range(1, n_steps + 1)
    if not isinstance(span, int):
        return np.array([last + step * span for step in steps], dtype="datetime64[ns]")
    month_end = pd.DatetimeIndex(times).day.max() > 28
    offset = pd.offsets.MonthEnd if month_end else lambda months: pd.DateOffset(months=months)
    return np.array([last + offset(span * step) for step in steps], dtype="datetime64[ns]")


def is_regular(times: Times) -> bool:
    """Whether increasing times have one fixed step, or one step in calendar months."""
    if len(times) < 3 or len(np.unique(np.diff(times))) == 1:
        return True
    months = _month_numbers(times)
    return months is not None and len(np.unique(np.diff(months))) == 1


def format_step(span: pd.Timedelta | int) -> str:
    """A step as text: '5 min', '1 h', '3 months'."""
    if isinstance(span, int):
        return "1 month" if span == 1 else f"{span} months"
    for unit, name in (("D", "d"), ("h", "h"), ("min", "min"), ("s", "s")):
        count = span / pd.Timedelta(1, unit=unit)
        if count >= 1 and count == int(count):
            return f"{int(count)} {name}"
    return f"{span.total_seconds():g} s"


def step_option(span: pd.Timedelta | int) -> str:
    """A step for `--step`: '5min', '1h', '3months'."""
    return format_step(span).replace(" ", "")
