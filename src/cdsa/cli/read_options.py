"""The reading options of every command that reads a file, derived from `cdsa.io.options`."""

from collections.abc import Callable
from pathlib import Path

import typer

from cdsa.cli.options import Command, Values, declare, option, with_options
from cdsa.errors import ConfigError
from cdsa.io.options import OPTIONS, RENAMED, ReadOptions

PANEL = "Reading the file (detected if not given)"
DEFAULTS = ReadOptions()
TYPES: dict[str, object] = {"flag": bool, "table": Path | None}
CELL = ("time", "location", "measurement")

ReadArguments = Values
"""Keyword arguments of `cdsa.open_source`."""


def _with_read_options(*, cell: bool) -> Callable[[Command], Command]:
    parameters = []
    for name, entry in OPTIONS.items():
        flag = f"--{name}-column" if cell and name in CELL else entry.command_line_flag
        declared = option(flag, entry.metavar, entry.help, rich_help_panel=PANEL)
        kind = list[str] | None if entry.repeatable else TYPES.get(entry.kind, str | None)
        empty = entry.kind in ("names", "units", "bounds", "digits", "lines")
        default = None if empty else getattr(DEFAULTS, name)
        parameters.append(declare(name, kind, declared, default))
    for old in RENAMED:
        parameters.append(declare(old, list[str] | None, typer.Option(f"--{old}", hidden=True)))
    return with_options("read_options", parameters, _refuse_renamed)


def _refuse_renamed(arguments: ReadArguments) -> ReadArguments:
    for old, new in RENAMED.items():
        if arguments.pop(old):
            raise ConfigError(f"--{old} is now {OPTIONS[new].command_line_flag}")
    return arguments


with_read_options = _with_read_options(cell=False)
"""Adds the reading options to a command, which receives them as the dict `read_options`."""

with_read_options_for_cell = _with_read_options(cell=True)
"""The same for a command whose --time, --location and --measurement select a cell."""
