"""Commands that make something: fill, forecast, train."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa import defaults
from cdsa.cli.options import Detail, File, Json, Model, Output, Overwrite
from cdsa.cli.reading import Reading, reads_a_file
from cdsa.cli.training import Training, make_trained, trains

if TYPE_CHECKING:
    import xarray as xr

    from cdsa.method import Filler
    from cdsa.method.neural import NeuralFiller
    from cdsa.results import Value


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
        typer.Option("--method", help=f"See 'cdsa methods'; {defaults.METHOD} if not given."),
    ] = None,
    model: Model = None,
    detail: Detail = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="First hide a tenth of what is there and tell the error to expect.",
        ),
    ] = True,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Fill the gaps of a table and write it in its own layout."""
    from cdsa.cli import show, work
    from cdsa.errors import ConfigError
    from cdsa.filling import fill_with
    from cdsa.method import info_of
    from cdsa.scoring import score_and_keep
    from cdsa.sources.files import open_source, save_all
    from cdsa.sources.write import check_outputs

    outputs = [output] + ([detail] if detail else [])
    check_outputs(outputs, overwrite=overwrite)
    given = _one_of(method, model, training, defaults.METHOD)
    if model is None:
        make_trained(given, training)
        if "fill" not in info_of(given).task:
            raise ConfigError(f"'{given}' forecasts and does not fill. Use it with cdsa forecast")
    with show.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
    show.print_notes(source, show.err if json else show.out)
    filler: Filler
    expected = None
    errors: list[dict[str, Value]] = []
    if model is not None:
        filler = _load(model, training, source.cube)
        given, errors = filler.method.label, list(filler.errors)
    else:
        network = info_of(given).trains
        hidden = work.cells_to_check_on(source.cube) if check else None
        with work.training(training, active=network) as run:
            made = make_trained(given, training, run=run)
            given = str(getattr(made, "label", given))
            if hidden is not None:
                with show.busy("hiding a tenth in bursts to measure the error", quiet=network):
                    expected, filler = score_and_keep(made, source.cube, hidden)
            # a network that was trained for the check fills too: it never saw what was hidden
            if hidden is None or not network:
                with show.busy(f"filling with {given}", quiet=network):
                    filler = made.fit(source.cube)
        work.note_short_windows(filler)
    with show.busy(f"filling with {given}"):
        result = fill_with(filler, source.cube)
    with show.busy("writing"):
        save_all(source, result, output, detail=detail, overwrite=overwrite)
    records = work.fill_records(result, given, expected, errors)
    if json:
        show.print_json(records)
    else:
        show.print_filled(source, result, records, expected, outputs)


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
    detail: Detail = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Carry a table forward: the same table with the steps after its end."""
    from cdsa.cli import networks, show, work
    from cdsa.filling import forecast_with
    from cdsa.method import info_of
    from cdsa.sources.files import open_source, save_all
    from cdsa.sources.write import check_outputs

    outputs = [output] + ([detail] if detail else [])
    check_outputs(outputs, overwrite=overwrite)
    given = _one_of(method, model, training, defaults.FORECAST)
    if model is None:
        make_trained(given, training, ahead=steps)
    with show.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
    longer = source.ahead(steps)
    show.print_notes(source, show.err if json else show.out)
    filler: Filler
    if model is not None:
        filler = _load(model, training, source.cube, steps)
        given, errors = filler.method.label, list(filler.errors)
    else:
        with work.training(training, active=info_of(given).trains) as run:
            made = make_trained(given, training, ahead=steps, run=run)
            given = str(getattr(made, "label", given))
            filler = made.fit(source.cube)
            errors = work.forecast_errors(filler, made, source.cube, steps)
        work.note_short_windows(filler)
    with show.busy(f"foreseeing with {given}"):
        result = forecast_with(filler, source.cube, steps)
    with show.busy("writing"):
        save_all(longer, result, output, detail=detail, overwrite=overwrite)
    records = work.forecast_records(result, given, steps, errors)
    if json:
        show.print_json(records)
    else:
        networks.print_forecast(longer, steps, records, outputs, network=info_of(given).trains)


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
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start anew in a folder that holds a network.")
    ] = False,
    json: Json = False,
) -> None:
    """Train a network and keep it. Ctrl-C keeps the best so far; the same command goes on."""
    from cdsa.cli import networks, show, work
    from cdsa.errors import ConfigError
    from cdsa.method import info_of
    from cdsa.method.network import pick_device
    from cdsa.method.saved import finish_training, open_folder, save_filler
    from cdsa.sources.files import open_source

    name = method or (defaults.FORECAST if forecast else defaults.TRAIN)
    if not info_of(name).trains:
        raise ConfigError(f"'{name}' has nothing to train; use it with cdsa fill --method {name}")
    make_trained(name, training, ahead=forecast or 0)  # refuses before any work is done
    pick_device(str(training.get("device", "auto")))
    with show.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
    show.print_notes(source, show.err if json else show.out)
    if open_folder(output, overwrite=overwrite):
        show.note(f"going on with the training in {output}")
    with work.training(training, active=True, folder=output) as run:
        made = make_trained(name, training, ahead=forecast or 0, run=run)
        filler: NeuralFiller = made.fit(source.cube)  # type: ignore[assignment]
    work.note_short_windows(filler)
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
    from cdsa.method.saved import load_filler

    with show.busy(f"loading {folder}"):
        filler = load_filler(folder, device=str(training.get("device", "auto")))
    filler.axes.refuse(cube)
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
