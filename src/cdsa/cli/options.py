"""Options that several commands share, one by one or in groups."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(help="CSV, CSV.gz, Parquet, NetCDF or Zarr.", metavar="FILE")]
Interval = Annotated[
    float,
    typer.Option(
        "--interval", help="Share of hidden values that lower and upper hold.", metavar="SHARE"
    ),
]
Known = Annotated[
    str | None,
    typer.Option(
        "--known",
        help="Columns whose values ahead are in the file already, such as a weather forecast.",
        metavar="A,B",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print records as JSON and nothing else.", metavar="")
]
HOW_TO_HIDE = typer.Option(
    "--hide",
    help="What to hide: like-data:0.2 (gaps like the data's), random:0.2, bursts:0.2, "
    "blocks:0.2 (until that share is missing), like-data:+0.1 (a share of what is there), "
    "stations:2, last:12.",
    metavar="HOW",
)
Hide = Annotated[str, HOW_TO_HIDE]
Record = Annotated[
    Path | None,
    typer.Option("--record", help="Append the records to this file, with provenance."),
]
Repeat = Annotated[int, typer.Option("--repeat", help="Repeat with other cells hidden.", min=1)]
Output = Annotated[Path, typer.Option("-o", "--output", help="Where to write the table.")]
Detail = Annotated[
    Path | None,
    typer.Option("--detail", help="Also write one row per cell that was not there."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace existing outputs.", metavar="")
]
Model = Annotated[
    Path | None,
    typer.Option("--model", help="A folder that 'cdsa train' made.", metavar="DIR"),
]

DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Folder with data sets; $CDSA_DATA or the user's cache if not given."
    ),
]

Options = dict[str, tuple[object, object]]
"""For each option its type and what typer is told about it."""
Given = dict[str, object]
Command = Callable[..., None]


def option(panel: str, *names: str, help: str, metavar: str | None = None) -> object:
    """An option that the help shows in this panel."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


def read_names(text: str | None) -> tuple[str, ...]:
    """Names that were given with commas between them."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def takes(
    name: str,
    options: Options,
    defaults: Mapping[str, object],
    settle: Callable[[Given], object],
) -> Callable[[Command], Command]:
    """A decorator that gives a command all these options; it receives them, settled, as one dict
    in its parameter `name`."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.name != name]
        added = [
            inspect.Parameter(
                option,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(option),
                annotation=Annotated[kind, told],
            )
            for option, (kind, told) in options.items()
        ]

        @functools.wraps(command)
        def wrapper(**given: object) -> None:
            chosen = {option: given.pop(option) for option in options}
            command(**given, **{name: settle(chosen)})

        wrapper.__signature__ = inspect.Signature(own + added)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in own + added}
        return wrapper

    return decorate
