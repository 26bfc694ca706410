"""Figures and counts as people read them."""

import math


def format_number(value: float | None, digits: int = 3) -> str:
    """A figure with so many significant digits, without exponents where they can be avoided."""
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        size = 0 if value == 0 else math.floor(math.log10(abs(value)))
        return f"{value:,.{max(0, digits - 1 - size)}f}"
    return f"{value:.{digits - 1}e}"


def format_share(value: float) -> str:
    """A share as a percentage."""
    if not math.isfinite(value):
        return "-"
    return "0" if value == 0 else f"{value:.2%}" if value >= 0.0001 else "<0.01%"


def format_interval(level: object) -> str:
    """An interval by the share of values that it holds: '90% interval'; plainly so if unknown."""
    return f"{100 * level:g}% interval" if isinstance(level, float) else "interval"


def format_count(count: int, word: str) -> str:
    """A count and its word: '1 step', '2,000 steps'."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def single_line(bad: Exception) -> str:
    """What another library says of its error, on one line."""
    return " ".join(str(bad).split())[:200].rstrip(".")
