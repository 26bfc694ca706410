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
        "--interval", help="Probability that a true value is in its interval.", metavar="LEVEL"
    ),
]
Known = Annotated[
    str | None,
    typer.Option(
        "--known",
        help="Columns whose future values are in the file already, such as a weather forecast.",
        metavar="A,B",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print records as JSON and nothing else.", metavar="")
]
HIDE = typer.Option(
    "--hide",
    help="What to hide: like-data:0.2 (gaps like the data's), random:0.2, bursts:0.2, "
    "blocks:0.2 (until that share is missing), like-data:+0.1 (that share of the measured), "
    "stations:2, last:12.",
    metavar="HOW",
)
Hide = Annotated[str, HIDE]
Record = Annotated[
    Path | None,
    typer.Option("--record", help="Append the records to this file, with provenance."),
]
Repeat = Annotated[int, typer.Option("--repeat", help="Repeat with other cells hidden.", min=1)]
Output = Annotated[Path, typer.Option("-o", "--output", help="File to write the table to.")]
Detail = Annotated[
    Path | None,
    typer.Option("--detail", help="Also write one row per filled or forecast cell, with bounds."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace existing outputs.", metavar="")
]
MODEL = typer.Option("--model", help="A folder written by 'cdsa train'.", metavar="DIR")
Model = Annotated[Path | None, MODEL]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Folder of the data sets; default: $CDSA_DATA or the user's cache."
    ),
]

Options = dict[str, tuple[object, object]]
"""The type and the typer option of each option, by name."""
Values = dict[str, object]
"""The values of options, by name."""
Command = Callable[..., None]


def option(panel: str, *names: str, help: str, metavar: str | None = None) -> object:
    """An option that the help shows in this panel."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


def read_names(text: str | None) -> tuple[str, ...]:
    """Names from a comma-separated list."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def with_options(
    parameter: str,
    options: Options,
    defaults: Mapping[str, object],
    convert: Callable[[Values], object],
) -> Callable[[Command], Command]:
    """A decorator that adds all these options to a command. The command receives their values,
    converted to one object, in this parameter."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        parameters = [p for p in signature.parameters.values() if p.name != parameter]
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name),
                annotation=Annotated[kind, typer_option],
            )
            for name, (kind, typer_option) in options.items()
        ]

        @functools.wraps(command)
        def wrapper(**values: object) -> None:
            added = {name: values.pop(name) for name in options}
            command(**values, **{parameter: convert(added)})

        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
        return wrapper

    return decorate
