"""cdsa fill, forecast and train."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import (
    Detail,
    File,
    Interval,
    Json,
    Known,
    Model,
    Output,
    Overwrite,
    read_names,
)
from cdsa.cli.read_options import ReadArguments, with_read_options
from cdsa.cli.train_options import Training, make_trained, trains
from cdsa.core import defaults

if TYPE_CHECKING:
    import xarray as xr

    from cdsa.io.source import Source
    from cdsa.methods.base import Filler
    from cdsa.methods.engine.estimator import NeuralFiller
    from cdsa.workflows.select import Chosen


@with_read_options
@trains
def fill(
    file: File,
    *,
    output: Output,
    read_options: ReadArguments,
    training: Training,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="See 'cdsa methods'. If not given, auto: cdsa, or a simpler one if that is better "
            "on hidden cells.",
        ),
    ] = None,
    model: Model = None,
    at: Annotated[
        Path | None,
        typer.Option(
            "--at",
            help="A table of places (name, lat, lon) without a sensor, to be filled too.",
            metavar="FILE",
        ),
    ] = None,
    detail: Detail = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", help="Also write a page about it all, to be opened offline.", metavar="HTML"
        ),
    ] = None,
    interval: Interval = defaults.INTERVAL,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="First hide a tenth of what is there and tell the error to expect.",
            metavar="",
        ),
    ] = True,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Fill the gaps of a table and write it in its own layout. Lower and upper ends of each filled
    value are in the detail file, and in NetCDF and Zarr."""
    from cdsa.cli import console, console_networks
    from cdsa.core.atomic import write_texts
    from cdsa.errors import ConfigError
    from cdsa.io.source import open_source, save_all
    from cdsa.io.write import check_outputs
    from cdsa.methods.registry import info_of
    from cdsa.workflows import advice
    from cdsa.workflows.fill import check_share, fill_records, fill_with
    from cdsa.workflows.select import Chosen, main_part

    outputs = [output] + ([detail] if detail else [])
    check_outputs(outputs, overwrite=overwrite)
    refuse_report(report, overwrite=overwrite)
    given = _one_of(method, model, training, defaults.METHOD)
    check_share(interval)
    if model is None:
        wanted = defaults.NETWORK if given == defaults.AUTO else given
        if training or given != defaults.AUTO:
            make_trained(wanted, training)
        if "fill" not in info_of(wanted).task:
            raise ConfigError(f"'{given}' forecasts and does not fill. Use it with cdsa forecast")
    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
        learnt_from = source.cube
        source = source if at is None else source.with_sites(at)
    console.print_notes(source, console.err if json else console.out)
    if at is not None:
        advice.tell_far_places(learnt_from, source.cube, console.note)
    if model is not None:
        trained = _load(model, training, source.cube)
        told = tuple(console_networks.say_elsewhere(trained, source.cube)) if check else ()
        choice = Chosen(trained, trained.method.label, None, told)
    else:
        choice = chosen(given, learnt_from, source.cube, training, check=check)
        advice.tell_short_windows(main_part(choice.filler), console.note)
    for line in choice.told:
        (console.note if json else console.say)(line)
    with console.busy(f"filling with {choice.best}"):
        result = fill_with(choice.filler, source.cube, interval=interval)
    advice.tell_below_zero(source.cube, result, console.note)
    with console.busy("writing"):
        pages = {report: report_of(source, result, choice)} if report is not None else {}
        save_all(source, result, output, detail=detail, overwrite=overwrite)
        write_texts(pages, overwrite=overwrite)
        outputs += list(pages)
    records = fill_records(result, choice)
    if json:
        console.print_json(records)
    else:
        console.print_filled(
            source, result, records, choice.expected, outputs, choice.elsewhere, choice.label
        )


@with_read_options
@trains
def forecast(
    file: File,
    *,
    steps: Annotated[int, typer.Option("--steps", help="Steps to foresee.", min=1)],
    output: Output,
    read_options: ReadArguments,
    training: Training,
    method: Annotated[
        str | None,
        typer.Option("--method", help=f"See 'cdsa methods'; {defaults.FORECAST} if not given."),
    ] = None,
    model: Model = None,
    known: Known = None,
    detail: Detail = None,
    interval: Interval = defaults.INTERVAL,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Carry a table forward: the same table with the steps after its end."""
    from cdsa.cli import console, console_networks, progress, train_options
    from cdsa.errors import ConfigError
    from cdsa.io.source import open_source, save_all
    from cdsa.io.write import check_outputs
    from cdsa.methods.registry import info_of
    from cdsa.workflows import advice
    from cdsa.workflows.fill import check_share
    from cdsa.workflows.forecast import forecast_records, forecast_with, split_known
    from cdsa.workflows.select import forecast_errors

    outputs = [output] + ([detail] if detail else [])
    check_outputs(outputs, overwrite=overwrite)
    given = _one_of(method, model, training, defaults.FORECAST)
    if given == defaults.AUTO:
        raise ConfigError(
            "'auto' is for fill. To see what foresees best: cdsa score --hide "
            f"last:{steps} --methods {defaults.FORECAST},last,climatology,ar"
        )
    check_share(interval)
    in_advance = read_names(known)
    if model is None:
        make_trained(given, training, ahead=steps, known=in_advance)
    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
    past, future = split_known(source.cube, in_advance)
    longer = source.with_horizon(steps, future.sizes["time"])
    console.print_notes(source, console.err if json else console.out)
    advice.tell_known(past, future, in_advance, steps, console.note)
    filler: Filler
    if model is not None:
        filler = _load(model, training, source.cube, steps)
        train_options.refuse_other_known(filler, in_advance, model)
        given, errors = filler.method.label, list(filler.errors)
    else:
        with progress.training(training, active=info_of(given).trains) as run:
            made = make_trained(given, training, ahead=steps, run=run, known=in_advance)
            given = str(getattr(made, "label", given))
            filler = made.fit(past)
            errors = forecast_errors(filler, made, past, steps, console.note)
        advice.tell_short_windows(filler, console.note)
    if not errors:
        console.note(advice.NO_EXAM)
    with console.busy(f"foreseeing with {given}"):
        result = forecast_with(filler, past, steps, future=future, interval=interval)
    with console.busy("writing"):
        save_all(longer, result, output, detail=detail, overwrite=overwrite)
    records = forecast_records(result, given, steps, errors)
    if json:
        console.print_json(records)
    else:
        ahead = slice(past.sizes["time"], past.sizes["time"] + steps)
        trained = info_of(given).trains
        console_networks.print_forecast(longer, ahead, records, outputs, network=trained)


@with_read_options
@trains
def train(
    file: File,
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the network.", metavar="MODEL_DIR")
    ],
    read_options: ReadArguments,
    training: Training,
    method: Annotated[
        str | None, typer.Option("--method", help=f"{defaults.TRAIN} if not given.")
    ] = None,
    forecast: Annotated[
        int | None,
        typer.Option("--forecast", help="Train to foresee so many steps.", min=1, metavar="STEPS"),
    ] = None,
    known: Known = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Start anew in a folder that holds a network.", metavar=""
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Train a network and keep it. Ctrl-C keeps the best so far; the same command goes on."""
    from cdsa.cli import console, console_networks, progress, train_options
    from cdsa.errors import ConfigError
    from cdsa.io.source import open_source
    from cdsa.methods.engine.persistence import finish_training, open_folder, save_filler
    from cdsa.methods.engine.predictor import pick_device
    from cdsa.methods.registry import info_of
    from cdsa.workflows import advice

    name = method or (defaults.FORECAST if forecast else defaults.TRAIN)
    if not info_of(name).trains:
        raise ConfigError(f"'{name}' has nothing to train; use it with cdsa fill --method {name}")
    in_advance = read_names(known)
    if in_advance and not forecast:
        raise ConfigError("--known is for forecasters. Say how many steps with --forecast")
    make_trained(name, training, ahead=forecast or 0, known=in_advance)  # refuses before any work
    pick_device(str(training.get("device", "auto")))
    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
    console.print_notes(source, console.err if json else console.out)
    if open_folder(output, overwrite=overwrite):
        console.note(f"going on with the training in {output}")
    with progress.training(training, active=True, folder=output) as run:
        made = make_trained(name, training, ahead=forecast or 0, run=run, known=in_advance)
        filler: NeuralFiller = made.fit(source.cube)  # type: ignore[assignment]
    advice.tell_short_windows(filler, console.note)
    save_filler(filler, output, command=train_options.command_line())
    stopped = filler.network is not None and not filler.network.train_state.finished
    if not stopped:
        finish_training(output)
    records = train_options.training_records(filler)
    if json:
        console.print_json(records)
    else:
        console_networks.print_trained(filler, output, records, stopped=stopped)


def _one_of(method: str | None, model: Path | None, training: Training, default: str) -> str:
    """The method to use; a trained network excludes what is for training one."""
    from cdsa.errors import ConfigError

    if model is None:
        return method or default
    if method is not None:
        raise ConfigError("give either --method or --model, not both")
    idle = [name for name in training if name != "device"]
    if idle:
        raise ConfigError(f"--{idle[0]} is for training, but the network in {model} is trained")
    return ""


def _load(folder: Path, training: Training, cube: "xr.DataArray", steps: int = 0) -> "NeuralFiller":
    """A trained network that fits the cube, and can foresee so many steps."""
    from cdsa.cli import console
    from cdsa.errors import ConfigError
    from cdsa.methods.engine.persistence import load_filler

    with console.busy(f"loading {folder}"):
        filler = load_filler(folder, device=str(training.get("device", "auto")))
    inductive = filler.network is not None and filler.network.inductive
    filler.signature.check(cube, stations=not inductive)
    ahead = filler.network.horizon if filler.network else 0
    if steps > ahead:
        can = f"foresees {ahead} steps" if ahead else "fills gaps and foresees nothing"
        raise ConfigError(
            f"the network in {folder} {can}, but {steps} steps were asked for. Train one with "
            f"cdsa train --forecast {steps}"
        )
    if ahead and not steps:
        raise ConfigError(
            f"the network in {folder} was trained to forecast. Use it with cdsa forecast --model"
        )
    return filler


def chosen(
    name: str,
    learnt_from: "xr.DataArray",
    cube: "xr.DataArray",
    options: Training,
    *,
    check: bool,
) -> "Chosen":
    """What the method of this name has learnt, and the error to expect."""
    from cdsa.cli import console
    from cdsa.cli.progress import training
    from cdsa.methods.registry import info_of
    from cdsa.workflows.select import carry_out, plan

    made_plan = plan(name, learnt_from, cube, check=check, tell=console.note)
    network = info_of(made_plan.method).trains
    with training(options, active=network) as run:
        made = make_trained(made_plan.method, options if network else {}, run=run)
        with console.busy(f"filling with {made_plan.method}", quiet=network):
            return carry_out(made_plan, made)


def report_of(source: "Source", result: "xr.Dataset", choice: "Chosen") -> str:
    """The report of a fill, as one page."""
    from cdsa.cli.train_options import command_line
    from cdsa.report.content import collect
    from cdsa.report.page import render

    name = Path(source.name).name
    return render(collect(source, result, choice, name=name, command=command_line()))


def refuse_report(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a report that could not be written, before any work is done for it."""
    from importlib.util import find_spec

    from cdsa.core.atomic import check_file
    from cdsa.errors import ConfigError, MissingExtraError

    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"a report is a page: --report report.html, but found '{path}'")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a report with pictures", "matplotlib", "plot")
    check_file(path, overwrite=overwrite)
