"""Commands that make something: fill, forecast, train."""

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
from cdsa.cli.reading import Reading, reads_a_file
from cdsa.cli.training import Training, make_trained, trains
from cdsa.core import defaults

if TYPE_CHECKING:
    import xarray as xr

    from cdsa.methods.base import Filler
    from cdsa.methods.engine.estimator import NeuralFiller


@reads_a_file
@trains
def fill(
    file: File,
    *,
    output: Output,
    reading: Reading,
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
    from cdsa.cli import choosing, networks, show
    from cdsa.core.atomic import staged_text
    from cdsa.errors import ConfigError
    from cdsa.io.source import open_source, save_all
    from cdsa.io.write import check_outputs
    from cdsa.methods.registry import info_of
    from cdsa.workflows import advice
    from cdsa.workflows.fill import check_share, fill_records, fill_with
    from cdsa.workflows.select import Chosen, main_part

    outputs = [output] + ([detail] if detail else [])
    check_outputs(outputs, overwrite=overwrite)
    choosing.refuse_report(report, overwrite=overwrite)
    given = _one_of(method, model, training, defaults.METHOD)
    check_share(interval)
    if model is None:
        wanted = defaults.NETWORK if given == defaults.AUTO else given
        if training or given != defaults.AUTO:
            make_trained(wanted, training)
        if "fill" not in info_of(wanted).task:
            raise ConfigError(f"'{given}' forecasts and does not fill. Use it with cdsa forecast")
    with show.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
        learnt_from = source.cube
        source = source if at is None else source.at(at)
    show.print_notes(source, show.err if json else show.out)
    if at is not None:
        advice.tell_far_places(learnt_from, source.cube, show.note)
    if model is not None:
        trained = _load(model, training, source.cube)
        told = tuple(networks.say_elsewhere(trained, source.cube)) if check else ()
        choice = Chosen(trained, trained.method.label, None, told)
    else:
        choice = choosing.chosen(given, learnt_from, source.cube, training, check=check)
        advice.tell_short_windows(main_part(choice.filler), show.note)
    for line in choice.told:
        (show.note if json else show.say)(line)
    with show.busy(f"filling with {choice.best}"):
        result = fill_with(choice.filler, source.cube, interval=interval)
    advice.tell_below_zero(source.cube, result, show.note)
    with show.busy("writing"):
        pages = {report: choosing.report_of(source, result, choice)} if report is not None else {}
        save_all(source, result, output, detail=detail, overwrite=overwrite)
        staged_text(pages, overwrite=overwrite)
        outputs += list(pages)
    records = fill_records(result, choice)
    if json:
        show.print_json(records)
    else:
        show.print_filled(
            source, result, records, choice.expected, outputs, choice.elsewhere, choice.label
        )


@reads_a_file
@trains
def forecast(
    file: File,
    *,
    steps: Annotated[int, typer.Option("--steps", help="Steps to foresee.", min=1)],
    output: Output,
    reading: Reading,
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
    from cdsa.cli import networks, progress, show, work
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
    with show.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
    past, future = split_known(source.cube, in_advance)
    longer = source.ahead(steps, future.sizes["time"])
    show.print_notes(source, show.err if json else show.out)
    advice.tell_known(past, future, in_advance, steps, show.note)
    filler: Filler
    if model is not None:
        filler = _load(model, training, source.cube, steps)
        work.refuse_other_known(filler, in_advance, model)
        given, errors = filler.method.label, list(filler.errors)
    else:
        with progress.training(training, active=info_of(given).trains) as run:
            made = make_trained(given, training, ahead=steps, run=run, known=in_advance)
            given = str(getattr(made, "label", given))
            filler = made.fit(past)
            errors = forecast_errors(filler, made, past, steps, show.note)
        advice.tell_short_windows(filler, show.note)
    if not errors:
        show.note(advice.NO_EXAM)
    with show.busy(f"foreseeing with {given}"):
        result = forecast_with(filler, past, steps, future=future, interval=interval)
    with show.busy("writing"):
        save_all(longer, result, output, detail=detail, overwrite=overwrite)
    records = forecast_records(result, given, steps, errors)
    if json:
        show.print_json(records)
    else:
        ahead = slice(past.sizes["time"], past.sizes["time"] + steps)
        trained = info_of(given).trains
        networks.print_forecast(longer, ahead, records, outputs, network=trained)


@reads_a_file
@trains
def train(
    file: File,
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the network.", metavar="MODEL_DIR")
    ],
    reading: Reading,
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
    from cdsa.cli import networks, progress, show, work
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
    with show.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
    show.print_notes(source, show.err if json else show.out)
    if open_folder(output, overwrite=overwrite):
        show.note(f"going on with the training in {output}")
    with progress.training(training, active=True, folder=output) as run:
        made = make_trained(name, training, ahead=forecast or 0, run=run, known=in_advance)
        filler: NeuralFiller = made.fit(source.cube)  # type: ignore[assignment]
    advice.tell_short_windows(filler, show.note)
    save_filler(filler, output, command=work.command_line())
    stopped = filler.network is not None and not filler.network.place.over
    if not stopped:
        finish_training(output)
    records = work.training_records(filler)
    if json:
        show.print_json(records)
    else:
        networks.print_trained(filler, output, records, stopped=stopped)


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
    from cdsa.cli import show
    from cdsa.errors import ConfigError
    from cdsa.methods.engine.persistence import load_filler

    with show.busy(f"loading {folder}"):
        filler = load_filler(folder, device=str(training.get("device", "auto")))
    fits_any = filler.network is not None and filler.network.fits_any
    filler.axes.refuse(cube, stations=not fits_any)
    ahead = filler.network.ahead if filler.network else 0
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
