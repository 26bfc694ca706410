"""Errors for the user: what must hold, what was found, where, and what to do."""

import difflib
import re
from collections.abc import Iterable


class CdsaError(Exception):
    """A problem that the user can fix: the base class of all errors that cdsa raises on purpose.

    The message says what must hold, what was found, where, and what to do. The command line prints
    it and exits with 2.

    Examples
    --------
    >>> import cdsa
    >>> try:
    ...     cdsa.fill(cdsa.open_demo(), "liner")
    ... except cdsa.CdsaError as error:
    ...     print(str(error).partition("?")[0])
    there is no method 'liner'; did you mean 'linear'
    """


class CubeError(CdsaError):
    """A cube that violates a rule of `cdsa.core.cube`."""


class TableError(CdsaError):
    """A file or table that cannot be read as a cube."""


class OutputError(CdsaError):
    """A result that could not be written; no incomplete file is left behind."""


class ConfigError(CdsaError):
    """A setting that is invalid or conflicts with another setting or the data."""


class StoppedError(CdsaError):
    """A command that the user stopped; the message says what was kept."""


class MissingExtraError(CdsaError):
    """An optional dependency that is not installed."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package '{package}', which is not installed. Install it with "
            f"'pip install {package}', or install cdsa with its extra '{extra}'"
        )


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for an unknown `name`: the closest known one, then all of them."""
    return f"there is no {kind} '{name}'{suggest(name, known)}"


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of a message on an unknown `name`: the closest known one, then all of them."""
    names = list(known)
    simplified = {_simplify(other): other for other in names}
    close = difflib.get_close_matches(_simplify(name), list(simplified), n=1, cutoff=0.5)
    hint = f"; did you mean '{simplified[close[0]]}'?" if close else "."
    return f"{hint} Available: {', '.join(names)}"


def _simplify(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
