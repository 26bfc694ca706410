"""Numbers and counts as text for people."""

import math


def format_number(value: float | None, digits: int = 3) -> str:
    """A number with significant digits, in scientific notation only if very small or large."""
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        magnitude = 0 if value == 0 else math.floor(math.log10(abs(value)))
        return f"{value:,.{max(0, digits - 1 - magnitude)}f}"
    return f"{value:.{digits - 1}e}"


def format_share(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return "0" if value == 0 else f"{value:.2%}" if value >= 0.0001 else "<0.01%"


def format_interval(level: object) -> str:
    """An interval with its level, such as '90% interval'; without it if unknown."""
    return f"{100 * level:g}% interval" if isinstance(level, float) else "interval"


def format_count(count: int, word: str) -> str:
    """A count and its noun: '1 step', '2,000 steps'."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def single_line(bad: Exception) -> str:
    """The message of an error of another library, on one line."""
    return " ".join(str(bad).split())[:200].rstrip(".")
