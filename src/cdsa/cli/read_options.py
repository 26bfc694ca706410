"""The reading options of every command that reads a file, derived from `cdsa.io.options`."""

from dataclasses import replace
from pathlib import Path

import typer

from cdsa.cli.options import Options, option, with_options
from cdsa.errors import ConfigError
from cdsa.io.options import OPTIONS, RENAMED, Option, ReadOptions

PANEL = "Reading the file (detected if not given)"
DEFAULTS = ReadOptions()

ReadArguments = dict[str, object]
"""Keyword arguments of `cdsa.open_source`."""


def _declare(*options: Option) -> Options:
    """The type and the typer option of each reading option."""
    types: dict[str, object] = {"flag": bool, "table": Path | None}
    return {
        entry.name: (
            list[str] | None if entry.repeatable else types.get(entry.kind, str | None),
            option(PANEL, entry.command_line_flag, help=entry.help, metavar=entry.metavar),
        )
        for entry in options
    }


def _refuse_renamed(arguments: ReadArguments) -> ReadArguments:
    for old, new in RENAMED.items():
        if arguments.pop(old):
            raise ConfigError(f"--{old} is now {OPTIONS[new].command_line_flag}")
    return arguments


_OPTIONS = _declare(*OPTIONS.values()) | {
    old: (list[str] | None, typer.Option(f"--{old}", hidden=True)) for old in RENAMED
}
_DEFAULTS = {
    name: getattr(DEFAULTS, name)
    for name, entry in OPTIONS.items()
    if entry.kind not in ("names", "units", "bounds")
}
_COLUMNS = _declare(
    *(
        replace(OPTIONS[name], flag=f"--{name}-column")
        for name in ("time", "location", "measurement")
    )
)

with_read_options = with_options("read_options", _OPTIONS, _DEFAULTS, _refuse_renamed)
"""Adds the reading options to a command, which receives them as the dict `read_options`."""

with_read_options_for_cell = with_options(
    "read_options", _OPTIONS | _COLUMNS, _DEFAULTS, _refuse_renamed
)
"""The same for a command whose --time, --location and --measurement select a cell."""
