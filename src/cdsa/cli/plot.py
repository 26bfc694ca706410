"""cdsa plot."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import HIDE, File, Model, Overwrite, choose_label, option, read_names
from cdsa.cli.read_options import ReadArguments, with_read_options_for_cell
from cdsa.cli.train_options import Training, with_train_options
from cdsa.errors import ConfigError, MissingExtraError, unknown

if TYPE_CHECKING:
    from cdsa.core.times import Clock

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
KINDS = {
    "gaps": "--from --to",
    "series": "--methods --model --hide --location --measurement --from --to",
    "map": "--methods --hide",
    "errors": "--methods --hide",
    "explanation": "--model --time --location --measurement",
    "attention": "--model --time --location --measurement",
}
"""The kinds of plots, and the options that each of them uses."""
KIND_HELP = (
    "gaps: when and where values are missing. series: a filled series. map: stations, missing "
    "values, and errors with --methods. errors: errors of methods by gap length. explanation: "
    "where a filled value comes from. attention: its three attention maps."
)
NO_CELL = (
    "this plot shows a cell and a network: give --model, --time and --location, and --measurement "
    "if there are several"
)
METHODS_HELP = "errors: methods to score; map: one to score; series: one to fill with."


@with_read_options_for_cell
@with_train_options
def plot(
    kind: Annotated[str, typer.Argument(help=KIND_HELP, metavar="|".join(KINDS))],
    file: File,
    *,
    read_options: ReadArguments,
    training: Training,
    output: Annotated[Path, option("-o --output", "FILE", "A .png, .svg or .pdf.")],
    methods: Annotated[str | None, option("--methods", "A,B", METHODS_HELP)] = None,
    hide: Annotated[str | None, HIDE] = None,
    model: Model = None,
    cell_time: Annotated[str | None, option("--time", "TIME", "Time of a cell.")] = None,
    cell_location: Annotated[str | None, option("--location", "NAME", "Station.")] = None,
    cell_measurement: Annotated[str | None, option("--measurement", "NAME", "Measurement.")] = None,
    first: Annotated[str | None, option("--from", "TIME", "First time to plot.")] = None,
    last: Annotated[str | None, option("--to", "TIME", "Last time to plot.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Plot a table: its gaps, its stations, filled series, errors, or where a value comes from."""
    from importlib.util import find_spec

    from cdsa.cli import console
    from cdsa.io.source import open_source

    options = {
        "--methods": methods,
        "--hide": hide,
        "--model": model,
        "--time": cell_time,
        "--location": cell_location,
        "--measurement": cell_measurement,
        "--from": first,
        "--to": last,
    }
    names = read_names(methods)
    _refuse_unused(kind, {name: value for name, value in options.items() if value}, names, training)
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a plot", "matplotlib", "plot")
    from cdsa.cli import figures
    from cdsa.plots.figures import check_figure_path, save_figure

    check_figure_path(output, overwrite=overwrite)
    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
    clock = source.content.clock
    match kind:
        case "gaps":
            figure = figures.plot_gaps(source.cube, _period(first, last, clock))
        case "series":
            figure = figures.plot_series(
                source.cube,
                model or (names[0] if names else "linear"),
                hide,
                training,
                location=cell_location,
                measurement=cell_measurement,
                period=_period(first, last, clock),
            )
        case "map":
            figure = figures.plot_map(source.cube, names, hide, training)
        case "errors":
            figure = figures.plot_errors(source.cube, names, hide, training)
        case _:  # explanation or attention
            if model is None or cell_time is None or cell_location is None:
                raise ConfigError(NO_CELL)
            from cdsa.methods.engine.persistence import load_filler
            from cdsa.workflows.pipeline import run_explain

            time = clock.parse(cell_time)
            measurement = choose_label(source.cube, "measurement", cell_measurement)
            filler = load_filler(model, device=training.device)
            explanation = run_explain(filler, source.cube, time, cell_location, measurement)
            show = figures.plot_explanation if kind == "explanation" else figures.plot_attention
            figure = show(explanation)
    save_figure(figure, output, overwrite=overwrite)
    console.print_paths(output)


def _refuse_unused(
    kind: str, options: Mapping[str, object], methods: tuple[str, ...], training: Training
) -> None:
    if kind not in KINDS:
        raise ConfigError(unknown("plot", kind, KINDS))
    used = KINDS[kind].split()
    unused = [name for name in options if name not in used]
    if unused:
        raise ConfigError(
            f"'cdsa plot {kind}' does not use {', '.join(unused)}. It uses {', '.join(used)}"
        )
    if "--methods" in options and "--model" in options:
        raise ConfigError("give either --methods or --model, not both")
    if len(methods) > 1 and kind != "errors":
        raise ConfigError(
            f"'cdsa plot {kind}' shows one method, but --methods has {', '.join(methods)}. Give "
            "one of them"
        )
    if kind == "map" and "--hide" in options and not methods:
        raise ConfigError("a map shows errors on the cells that --hide hides. Give --methods too")
    for name in training.given:
        if not (name == "device" if "--model" in options else methods):
            raise ConfigError(f"--{name} is for training a network, and none is trained here")


def _period(first: str | None, last: str | None, clock: "Clock") -> slice:
    """The period between two times in the format of the table; a day includes all its hours."""
    is_day = last is not None and DAY.fullmatch(last) is not None
    return slice(
        None if first is None else clock.parse(first),
        None if last is None else clock.parse(f"{last}T23:59:59.999999999" if is_day else last),
    )
