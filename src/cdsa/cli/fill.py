"""cdsa fill and cdsa forecast."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import (
    Detail,
    File,
    Interval,
    Json,
    Known,
    Method,
    Model,
    Output,
    Overwrite,
    option,
    read_names,
)
from cdsa.cli.read_options import ReadArguments, with_read_options
from cdsa.cli.train_options import Training, command_line, with_train_options
from cdsa.core import defaults
from cdsa.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from cdsa.methods.base import Filler

METHOD_HELP = (
    "See 'cdsa methods'. By default auto: cdsa and simpler methods, combined by their errors on "
    "hidden cells."
)
AT_HELP = "A table of sites without a sensor (name, lat, lon), to fill as well."
REPORT_HELP = "Also write a report, a page to open offline."
MAX_GAP_HELP = "Longest gap to fill, such as 6h; longer ones are left open."
EXTEND_HELP = (
    "Fill before the first and after the last value of a station too, and measurements that it "
    "never had."
)
CHECK_HELP = (
    "Hide a tenth of the measured cells first, to estimate the error. With --no-check, no methods "
    "are compared, and auto is cdsa alone."
)


@with_read_options
@with_train_options
def fill(
    file: File,
    *,
    output: Output,
    read_options: ReadArguments,
    training: Training,
    method: Annotated[str | None, option("--method", "NAME", METHOD_HELP)] = None,
    model: Model = None,
    at: Annotated[Path | None, option("--at", "FILE", AT_HELP)] = None,
    max_gap: Annotated[str | None, option("--max-gap", "TIME", MAX_GAP_HELP)] = None,
    extend: Annotated[bool, typer.Option("--extend", help=EXTEND_HELP)] = False,
    detail: Detail = None,
    report: Annotated[Path | None, option("--report", "HTML", REPORT_HELP)] = None,
    interval: Interval = defaults.INTERVAL,
    check: Annotated[bool, typer.Option("--check/--no-check", help=CHECK_HELP)] = True,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Fill the gaps of a table and write it in its own layout.

    Lower and upper bounds of each value are in the detail file, and in NetCDF and Zarr."""
    from cdsa.cli import console, console_results
    from cdsa.cli.progress import ConsoleReporter
    from cdsa.core.atomic import write_texts
    from cdsa.io.files import check_outputs
    from cdsa.io.sidecars import read_sites
    from cdsa.io.source import save_all
    from cdsa.workflows.pipeline import FillRequest, run_fill

    outputs = [output] + ([detail] if detail else [])
    check_outputs(outputs, overwrite=overwrite, file=file)
    refuse_report(report, overwrite=overwrite)
    request = FillRequest(
        method=_pick_method(method, model, training, default=defaults.METHOD),
        options=training.options(),
        interval=interval,
        check=check,
        at=None if at is None else read_sites(at),
        max_gap=max_gap,
        extend=extend,
        device=training.device,
    )
    request.validate()
    source = console.read_file(file, read_options, json=json)
    with ConsoleReporter(logdir=training.logdir, interruptible=True, json=json) as reporter:
        result = run_fill(request, source, reporter)
        reporter.progress("writing")
        pages = {}
        if report is not None:
            from cdsa.report.page import render_report  # loads matplotlib

            pages[report] = render_report(result, file.name, command_line())
        save_all(result.source, result.dataset, output, detail=detail, overwrite=overwrite)
        write_texts(pages, overwrite=overwrite)
    if json:
        console.print_json(result.records)
    else:
        console_results.print_filled(result, [*outputs, *pages])


@with_read_options
@with_train_options
def forecast(
    file: File,
    *,
    horizon: Annotated[int, option("--horizon", "N", "Steps to forecast.", min=1)],
    output: Output,
    read_options: ReadArguments,
    training: Training,
    method: Method = None,
    model: Model = None,
    known: Known = None,
    detail: Detail = None,
    interval: Interval = defaults.INTERVAL,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Forecast a table: the same table with the steps after its end. Gaps stay as they are."""
    from cdsa.cli import console, console_results
    from cdsa.cli.progress import ConsoleReporter
    from cdsa.io.files import check_outputs
    from cdsa.io.source import save_all
    from cdsa.workflows.pipeline import ForecastRequest, run_forecast

    outputs = [output] + ([detail] if detail else [])
    check_outputs(outputs, overwrite=overwrite, file=file)
    request = ForecastRequest(
        horizon=horizon,
        method=_pick_method(method, model, training, default=defaults.FORECAST),
        options=training.options(),
        interval=interval,
        known_covariates=read_names(known),
        device=training.device,
    )
    request.validate()
    source = console.read_file(file, read_options, json=json)
    with ConsoleReporter(logdir=training.logdir, interruptible=True, json=json) as reporter:
        result = run_forecast(request, source, reporter)
        reporter.progress("writing")
        save_all(result.source, result.dataset, output, detail=detail, overwrite=overwrite)
    if json:
        console.print_json(result.records)
    else:
        console_results.print_forecast(result, outputs)


def _pick_method(
    method: str | None, model: Path | None, training: Training, *, default: str
) -> "str | Filler":
    """The method, or the trained network; refused if both are given, or options of training."""
    if model is None:
        return method or default
    if method is not None:
        raise ConfigError("give either --method or --model, not both")
    unused = [name for name in training.given if name != "device"]
    if unused:
        raise ConfigError(f"--{unused[0]} is for training, but the network in {model} is trained")
    from cdsa.methods.engine.persistence import load_filler

    return load_filler(model, device=training.device)


def refuse_report(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a report that could not be written, before any work is done for it."""
    from cdsa.core.atomic import check_file

    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"a report is an HTML page, as in report.html, but found '{path}'")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a report with plots", "matplotlib", "plot")
    check_file(path, overwrite=overwrite)
