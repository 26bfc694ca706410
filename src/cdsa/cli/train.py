"""cdsa train."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import File, Json, Known, Method, option, read_names
from cdsa.cli.read_options import ReadArguments, with_read_options
from cdsa.cli.train_options import Training, command_line, with_train_options
from cdsa.core import defaults

if TYPE_CHECKING:
    from cdsa.core.records import Value
    from cdsa.methods.engine.estimator import NeuralFiller


@with_read_options
@with_train_options
def train(
    file: File,
    *,
    output: Annotated[Path, option("-o --output", "DIR", "Folder for the network.")],
    read_options: ReadArguments,
    training: Training,
    method: Method = None,
    forecast: Annotated[
        int | None, option("--forecast", "N", "Train to forecast this many steps.", min=1)
    ] = None,
    known: Known = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start again in a folder that holds a network.")
    ] = False,
    json: Json = False,
) -> None:
    """Train a network and save it. Ctrl-C keeps the best weights; the same command resumes."""
    from cdsa.cli import console, console_results
    from cdsa.cli.progress import ConsoleReporter
    from cdsa.methods.engine.estimator import NeuralFiller
    from cdsa.methods.engine.persistence import finish_training, open_folder, save_filler
    from cdsa.methods.engine.predictor import pick_device
    from cdsa.workflows.pipeline import TrainRequest, run_train

    request = TrainRequest(
        method=method or defaults.NETWORK,
        options=training.options(),
        horizon=forecast or 0,
        known_covariates=read_names(known),
        device=training.device,
        folder=output,
    )
    request.validate()
    pick_device(training.device)
    source = console.read_file(file, read_options, json=json)
    with ConsoleReporter(logdir=training.logdir, interruptible=True, json=json) as reporter:
        if open_folder(output, overwrite=overwrite):
            console.note(f"resuming the training in {output}")
        filler = run_train(request, source.cube, reporter)
    assert isinstance(filler, NeuralFiller)
    save_filler(filler, output, command=command_line())
    stopped = filler.network is not None and not filler.network.train_state.finished
    if not stopped:
        finish_training(output)
    records = training_records(filler)
    if json:
        console.print_json(records)
    else:
        forecasts = filler.method.horizon > 0
        console_results.print_trained(records, output, forecasts=forecasts, stopped=stopped)


def training_records(filler: "NeuralFiller") -> "list[dict[str, Value]]":
    from cdsa.core.records import to_json_value

    network = filler.network
    if network is None:
        return []
    state = network.train_state
    common: dict[str, Value] = {
        "method": filler.method.label,
        "parameters": sum(weights.numel() for weights in network.model.parameters()),
        "steps": state.step,
        "best_step": state.best_step,
        "seconds": round(state.seconds, 1),
        "validation": to_json_value(state.best) if state.best is not None else None,
    }
    unknown: list[dict[str, Value]] = [{"measurement": None, "cells": 0, "mae": None}]
    return [error | common for error in filler.validation_errors or unknown]
