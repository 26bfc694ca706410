"""Errors that speak to the user: what must hold, what was found, where, and what to do."""

import difflib
import re
from collections.abc import Iterable


class CdsaError(Exception):
    """Something the user can mend; the text says how. The command line prints it, exit code 2."""


class CubeError(CdsaError):
    """A cube that breaks one of the rules of `cdsa.core.cube`."""


class TableError(CdsaError):
    """A file or table that cannot be understood as a cube."""


class OutputError(CdsaError):
    """A result that could not be written; nothing half-written is left behind."""


class ConfigError(CdsaError):
    """A setting that contradicts another, the data, or what exists."""


class StoppedError(CdsaError):
    """A command that its user stopped; the text says what is left of it."""


class MissingExtraError(CdsaError):
    """Something optional that is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package '{package}', which is not installed. Install it with "
            f"'pip install {package}', or install cdsa with its extra '{extra}'"
        )


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence that answers a misspelt `name`: the nearest known one, then all of them."""
    names = list(known)
    plain = {re.sub(r"[^a-z0-9]", "", other.lower()): other for other in names}
    wanted = re.sub(r"[^a-z0-9]", "", name.lower())
    near = difflib.get_close_matches(wanted, list(plain), n=1, cutoff=0.5)
    hint = f"; did you mean '{plain[near[0]]}'?" if near else "."
    return f"there is no {kind} '{name}'{hint} There is: {', '.join(names)}"
