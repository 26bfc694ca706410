"""Options that several commands share, one by one or in groups."""

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdsa.core.defaults import NETWORK
from cdsa.errors import ConfigError, unknown

if TYPE_CHECKING:
    import xarray as xr


def option(flags: str, metavar: str, help: str, **settings: Any) -> Any:
    """An option with these flags, separated by spaces."""
    return typer.Option(*flags.split(), help=help, metavar=metavar, **settings)


File = Annotated[Path, typer.Argument(help="CSV, CSV.gz, Parquet, NetCDF or Zarr.", metavar="FILE")]
Interval = Annotated[
    float, option("--interval", "LEVEL", "Probability that a true value is in its interval.")
]
Method = Annotated[
    str | None, option("--method", "NAME", f"See 'cdsa methods'; default: {NETWORK}.")
]
KNOWN = "Columns whose future values are in the file already, such as a weather forecast."
Known = Annotated[str | None, option("--known", "A,B", KNOWN)]
Json = Annotated[bool, typer.Option("--json", help="Print records as JSON and nothing else.")]
HIDE = option(
    "--hide",
    "HOW",
    "What to hide: like-data:0.2 (gaps like the data's), random:0.2, bursts:0.2, "
    "blocks:0.2 (until that share is missing), like-data:+0.1 (that share of the measured), "
    "stations:2, last:12.",
)
Hide = Annotated[str, HIDE]
Record = Annotated[
    Path | None, option("--record", "FILE", "Append the records to this file, with provenance.")
]
Repeat = Annotated[int, option("--repeat", "N", "Repeat with other cells hidden.", min=1)]
Output = Annotated[Path, option("-o --output", "FILE", "File to write the table to.")]
DETAIL = "Also write one row per filled or forecast cell, with bounds."
Detail = Annotated[Path | None, option("--detail", "FILE", DETAIL)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs.")]
MODEL = option("--model", "DIR", "A folder written by 'cdsa train'.")
Model = Annotated[Path | None, MODEL]
DATA = "Folder of the data sets; default: $CDSA_DATA or the user's cache."
DataFolder = Annotated[Path | None, option("--data", "DIR", DATA)]

Values = dict[str, object]
"""The values of options, by name."""
Command = Callable[..., None]


def read_names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def choose_label(cube: "xr.DataArray", axis: str, name: str | None) -> str:
    """This label of an axis, or the only one."""
    labels = [str(label) for label in cube[axis].to_numpy()]
    if name is None and len(labels) > 1:
        raise ConfigError(f"choose one {axis} with --{axis}: {', '.join(labels)}")
    if name is not None and name not in labels:
        raise ConfigError(unknown(axis, name, labels))
    return name or labels[0]


def declare(name: str, kind: Any, declared: Any, default: object = None) -> inspect.Parameter:
    annotation = Annotated[kind, declared]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def with_options(
    parameter: str, options: Sequence[inspect.Parameter], convert: Callable[[Values], object]
) -> Callable[[Command], Command]:
    """A decorator that adds all these options to a command. The command receives their values,
    converted to one object, in this parameter."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        parameters = [p for p in signature.parameters.values() if p.name != parameter]
        parameters += options

        @functools.wraps(command)
        def wrapper(**values: object) -> None:
            added = {option.name: values.pop(option.name) for option in options}
            command(**values, **{parameter: convert(added)})

        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
        return wrapper

    return decorate
