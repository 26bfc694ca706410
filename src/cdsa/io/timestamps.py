"""Parsing timestamps of any type and format."""

import re
from dataclasses import replace
from zoneinfo import available_timezones

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cdsa.core.times import EPOCHS, Clock, Times, Where, subsecond_digits, to_nanoseconds
from cdsa.errors import TableError
from cdsa.io.entries import factorize

OFFSET = r"[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?"
ZONE = re.compile(rf"(?:\d:\d{{2}}[\d:.,]*|T\d{{2,6}}(?:[.,]\d+)?)\s*(Z|UTC|GMT|{OFFSET})$")
ZONE_AT_END = re.compile(rf"(Z|UTC|GMT|{OFFSET})$")
MAX_LENGTH = 100
"""Characters of a timestamp."""

FORMATS = (
    *("ISO8601", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d"),
    *("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y"),
)
AMBIGUOUS_FORMATS = tuple(
    (f"%d{s}%m{s}%Y{t}", f"%m{s}%d{s}%Y{t}") for s in "/-" for t in (" %H:%M", " %H:%M:%S", "")
)
ISO_PATTERNS = tuple(
    day + time
    for day in ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%Y-%m", "%Y")
    for time in (
        *("", " %H:%M:%S", "T%H:%M:%S", " %H:%M", "T%H:%M", " %H", "T%H", "T%H%M%S", "T%H%M"),
    )
)
MAX_MICROSECONDS = 9e15
"""Since 1970, about the year 2255: `datetime64[ns]` ends in 2262."""


def parse_timestamps(
    column: pd.Series,
    where: Where,
    tz: str | None = None,
    time_format: str | None = None,
    is_repeat: NDArray[np.bool_] | None = None,
) -> tuple[Times, Clock]:
    """Timestamps of any kind as `datetime64[ns]`, and the clock that writes them the same way.

    `is_repeat` marks rows whose timestamp occurred before at the same station: in local time, the
    second 01:30 of the night when the clocks go back.
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
    """A time zone given by its name or by its offset, such as +01:00."""
    if tz is None or tz in available_timezones():
        return tz
    offset = re.fullmatch(rf"(?:UTC)?({OFFSET})", tz)
    if offset is None and tz not in ("Z", "utc"):
        raise TableError(
            f"'{tz}' is not a time zone. Use a name such as UTC or Europe/Berlin, or +01:00"
        )
    return _normalise_zone(offset.group(1)) if offset else "UTC"


def _parse_epochs(column: pd.Series, where: Where, time_format: str | None) -> tuple[Times, Clock]:
    if time_format not in EPOCHS:
        raise TableError(
            f"time must be dates, but column '{column.name}' holds numbers ({column.iloc[0]} in "
            f"{where(0)}). If they are seconds since 1970, give --time-format unix; otherwise name "
            "the time column with --time"
        )
    ticks = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    _refuse_unparsed(~np.isfinite(ticks), column, where)
    with np.errstate(over="ignore"):  # values that are too large are refused below
        microseconds = np.rint(ticks * (1_000_000 / EPOCHS[time_format]))
    row = int(np.abs(microseconds).argmax())
    if np.abs(microseconds[row]) > MAX_MICROSECONDS:
        raise TableError(
            f"seconds since 1970 end with the year 2255, but {where(row)} has {ticks[row]:g}. If "
            "they are milliseconds, give --time-format unix-ms"
        )
    times = microseconds.astype(np.int64).astype("datetime64[us]").astype("datetime64[ns]")
    return times, Clock(zone="UTC", pattern=time_format)


def _parse_datetimes(
    column: pd.Series, where: Where, tz: str | None, is_repeat: NDArray[np.bool_] | None
) -> tuple[Times, Clock]:
    _refuse_unparsed(column.isna().to_numpy(), column, where)
    index = pd.DatetimeIndex(column)
    if index.tz is not None:
        times, clock = to_nanoseconds(index.tz_convert("UTC")), Clock(zone=index.tz)
    elif tz is not None:
        times, clock = _localize(index, tz, where, is_repeat), Clock(zone=tz)
    else:
        times, clock = to_nanoseconds(index), Clock()
    return times, replace(clock, digits=subsecond_digits(times))


def _parse_text(
    column: pd.Series,
    where: Where,
    tz: str | None,
    time_format: str | None,
    is_repeat: NDArray[np.bool_] | None,
) -> tuple[Times, Clock]:
    codes, labels = factorize(column)
    texts = ["" if pd.isna(label) else str(label).strip() for label in labels]

    def where_text(code: int) -> str:
        return where(int(np.argmax(codes == code)))

    for code, text in enumerate(texts):
        if len(text) > MAX_LENGTH:  # patterns would take very long
            raise TableError(
                f"a timestamp has at most {MAX_LENGTH} characters, but column '{column.name}' has "
                f"{len(text):,} in {where_text(code)}. Name another column with --time"
            )
    if time_format is not None and time_format.endswith("%z"):  # the zone is parsed here, below
        time_format = time_format.removesuffix("%z").rstrip()
        matches = [ZONE_AT_END.search(text) for text in texts]
    else:
        has_zone = time_format is not None and "%z" in time_format
        matches = [None if has_zone else ZONE.search(text) for text in texts]
    zones = [_normalise_zone(match.group(1)) if match else None for match in matches]
    for code, zone in enumerate(zones):
        if zone != zones[0] and tz is None and texts[code]:
            naive = zone is None or zones[0] is None
            remedy = "the zone of those without one" if naive else "one zone to use for all"
            raise TableError(
                f"all timestamps must be in one time zone, but '{texts[code]}' in "
                f"{where_text(code)} is {_describe_zone(zone)} while '{texts[0]}' in "
                f"{where_text(0)} is {_describe_zone(zones[0])}. Give {remedy} with --tz, for "
                "example --tz UTC or --tz Europe/Berlin"
            )
    local_texts = [
        text if match is None else text[: match.start(1)].strip()
        for text, match in zip(texts, matches, strict=True)
    ]
    times, used_format = _parse_local(local_texts, column, where_text, time_format)
    if times.tz is not None:  # the format has parsed the zones
        return to_nanoseconds(times.tz_convert("UTC")[codes]), Clock(zone=tz or "UTC")
    offsets = pd.to_timedelta([f"{z}:00" if z not in (None, "UTC") else "0s" for z in zones])
    rows = (pd.DatetimeIndex(to_nanoseconds(times)) - offsets)[codes]
    parsed = to_nanoseconds(rows)
    naive_rows = np.flatnonzero(np.array([zone is None for zone in zones])[codes])
    if tz is not None and len(naive_rows):
        repeats = None if is_repeat is None else is_repeat[naive_rows]
        parsed[naive_rows] = _localize(
            rows[naive_rows], tz, lambda row: where(int(naive_rows[row])), repeats
        )
    zone = zones[0] if len(set(zones)) == 1 and zones[0] is not None else tz
    return parsed, _infer_clock(texts, local_texts, times, zone, used_format)


def _normalise_zone(text: str) -> str:
    """A zone at the end of a timestamp as UTC or +HH:MM."""
    digits = "0000" if text in ("Z", "UTC", "GMT") else text[1:].replace(":", "").ljust(4, "0")
    return "UTC" if digits == "0000" else f"{text[0]}{digits[:2]}:{digits[2:]}"


def _describe_zone(zone: str | None) -> str:
    return "without a zone" if zone is None else f"in {zone}"


def _parse_local(
    texts: list[str], column: pd.Series, where: Where, time_format: str | None
) -> tuple[pd.DatetimeIndex, str]:
    """Parsed times and their format; with %H:%M, some of them may have seconds."""

    def parse(used: str) -> pd.DatetimeIndex:
        utc = "%z" in used
        try:
            times = pd.DatetimeIndex(pd.to_datetime(texts, format=used, errors="coerce", utc=utc))
            if used.endswith("%H:%M") and times.isna().any() and not times.isna().all():
                seconds = pd.to_datetime(texts, format=f"{used}:%S", errors="coerce", utc=utc)
                times = pd.DatetimeIndex(times.where(times.notna(), seconds))
            return times
        except (ValueError, re.error) as bad:
            raise TableError(f"--time-format '{used}' is not a time format: {bad}") from bad

    for used in (time_format,) if time_format else FORMATS:
        times = parse(used)
        if not times.isna().any():
            return times, used
    for pair in () if time_format else AMBIGUOUS_FORMATS:
        fitting = [used for used in pair if not parse(used).isna().any()]
        if len(fitting) == 2:
            raise TableError(
                f"'{texts[0]}' in column '{column.name}' could be day first or month first. Give "
                f"--time-format '{pair[0]}' or --time-format '{pair[1]}'"
            )
        if fitting:
            return parse(fitting[0]), fitting[0]
    ambiguous = (used for pair in AMBIGUOUS_FORMATS for used in pair)
    formats = (time_format,) if time_format else (*FORMATS, *ambiguous)
    # an error is an entry that does not fit the format that fits most of them
    unparsed = min((np.asarray(parse(used).isna()) for used in formats), key=np.count_nonzero)
    _refuse_unparsed(unparsed, pd.Series(texts, name=column.name), where)
    raise AssertionError("a timestamp that fits no format was refused above")


def _refuse_unparsed(unparsed: NDArray[np.bool_], column: pd.Series, where: Where) -> None:
    if unparsed.any():
        row = int(np.argmax(unparsed))
        text = column.iloc[row]
        entry = "is empty" if pd.isna(text) or text == "" else f"is '{text}'"
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", str(text)):
            raise TableError(
                f"a timestamp has a date, but column '{column.name}' {entry} in {where(row)}. If "
                "the date is in another column, join the two into one"
            )
        if re.search(r"(?<![+-])\b24:00", str(text)):
            raise TableError(
                f"a day ends before 24:00, but column '{column.name}' {entry} in {where(row)}. "
                "Write such timestamps as 00:00 of the next day"
            )
        raise TableError(
            f"every row needs a timestamp, but column '{column.name}' {entry} in {where(row)}. "
            "Correct it, give the format with --time-format, such as '%d/%m/%Y %H:%M', or name "
            "another column with --time"
        )


def _localize(
    index: pd.DatetimeIndex, tz: str, where: Where, is_repeat: NDArray[np.bool_] | None
) -> Times:
    """Local times of zone `tz` as UTC; the first of a repeated hour is summer time."""
    summer = np.ones(len(index), dtype=bool) if is_repeat is None else ~is_repeat
    local = index.tz_localize(tz, ambiguous=summer, nonexistent="NaT")
    skipped = np.asarray(local.isna())
    if skipped.any():
        row = int(np.argmax(skipped))
        raise TableError(
            f"every timestamp must exist in {tz}, but {index[row]} in {where(row)} was skipped "
            "when the clocks went forward. Give the zone the timestamps are really in with --tz"
        )
    return to_nanoseconds(local.tz_convert("UTC"))


def _infer_clock(
    texts: list[str],
    local_texts: list[str],
    times: pd.DatetimeIndex,
    zone: str | None,
    used_format: str,
) -> Clock:
    """The clock that writes `texts` again; one that writes ISO 8601 if none does so exactly."""
    suffixes = {text[len(local) :] for text, local in zip(texts, local_texts, strict=True)}
    suffix = suffixes.pop() if len(suffixes) == 1 else None
    if suffix is None and zone == "UTC":
        suffix = "Z"
    fraction = re.search(r"\.(\d{1,9})$", local_texts[0]) if ":" in local_texts[0] else None
    digits = len(fraction.group(1)) if fraction else 0
    unpadded = re.sub(r"%([dmH])", r"%-\1", used_format)  # 1/13/2020 2:00
    iso = used_format in ("ISO8601", "mixed")  # names of pandas, not patterns
    for pattern in ISO_PATTERNS if iso else (used_format, unpadded):
        clock = Clock(zone=zone, pattern=pattern, digits=digits, suffix=suffix)
        local = replace(clock, zone=None, suffix="")
        sample = to_nanoseconds(times[:9])  # quicker than all of them
        if (
            local.format(sample) == local_texts[:9]
            and local.format(to_nanoseconds(times)) == local_texts
        ):
            return clock
    pattern = "%Y-%m-%dT%H:%M:%S" if iso else used_format
    digits = subsecond_digits(to_nanoseconds(times))
    return Clock(zone=zone, pattern=pattern, digits=digits, suffix=suffix)
