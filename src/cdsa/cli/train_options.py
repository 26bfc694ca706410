"""The options of training a network, the same for every command that trains one."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cdsa.cli.options import Options, option, takes
from cdsa.errors import ConfigError

if TYPE_CHECKING:
    from cdsa.methods.base import Method
    from cdsa.training.callbacks import RunContext
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdsa.core.records import Value, to_json_value

if TYPE_CHECKING:
    from cdsa.methods.engine.estimator import NeuralFiller


PANEL = "Training a network"


Training = dict[str, object]
"""The options that were given, by their names."""


_option = partial(option, PANEL)


OPTIONS: Options = {
    "manner": (
        str | None,
        _option("--manner", help="decomposed, shared, joint or independent.", metavar="NAME"),
    ),
    "preset": (
        str | None,
        _option("--preset", help="Settings by name: paper, paper-nyc, small ...", metavar="NAME"),
    ),
    "graph": (
        Path | None,
        _option(
            "--graph",
            help="Who hears of whom, for networks on a graph: a table with from, to and, if you "
            "like, weight.",
            metavar="FILE",
        ),
    ),
    "minutes": (float | None, _option("--minutes", help="Time to learn for.", metavar="N")),
    "epochs": (int | None, _option("--epochs", help="Passes over the data.", metavar="N")),
    "set": (
        list[str] | None,
        _option("--set", help="Any setting: model.n_layers=6, train.lr=3e-4.", metavar="A.B=X"),
    ),
    "device": (str | None, _option("--device", help="auto, cpu, cuda or mps.", metavar="NAME")),
    "tensorboard": (
        Path | None,
        _option("--tensorboard", help="Also log to this folder.", metavar="DIR"),
    ),
}


SEED: Options = {
    "seed": (
        int | None,
        _option("--seed", help="Of the first weights and their training.", metavar="N"),
    )
}


def _settled(given: Training) -> Training:
    return {name: value for name, value in given.items() if value not in (None, [])}


trains_by_seed = takes("training", OPTIONS, {}, _settled)
"""Gives a command every option of training; it has a seed of its own."""


trains = takes("training", OPTIONS | SEED, {}, _settled)
"""Gives a command every option of training; it receives those that were given as `training`."""


def make_trained(
    name: str,
    training: Training,
    *,
    ahead: int = 0,
    run: "RunContext | None" = None,
    known: tuple[str, ...] = (),
) -> "Method":
    """The method of this name with the given options; those of training are for networks only."""
    from cdsa.methods.registry import REGISTRY, info_of, make_method

    info, (_, made) = info_of(name), make_method(name)
    if "graph" in training and not hasattr(made, "on_graph"):
        can = ", ".join(other.name for other in REGISTRY.values() if "graph" in other.needs)
        raise ConfigError(f"'{name}' makes no use of a graph (--graph). These do: {can}")
    if not info.trains:
        if training:
            first = next(iter(training))
            networks = ", ".join(other.name for other in REGISTRY.values() if other.trains)
            raise ConfigError(
                f"--{first} is for methods that train a network ({networks}); '{name}' is none"
            )
        return make_method(name, ahead=ahead)[1]
    from cdsa.core.config import override
    from cdsa.methods.engine.estimator import Neural
    from cdsa.training.callbacks import RunContext

    assert isinstance(made, Neural)
    method: Neural = made
    if "preset" in training:
        again = f"{name.partition('@')[0]}@{training['preset']}"
        method = make_method(again)[1]  # type: ignore[assignment]
    if "manner" in training:
        if not hasattr(method, "in_manner"):
            raise ConfigError(f"'{name}' has no manners; --manner is for cdsa-paper")
        method = method.in_manner(str(training["manner"]))
    budget = [key for key in ("minutes", "epochs") if key in training]
    if budget:  # what is given takes the place of the preset's budget, of either kind
        method = override(method, ["train.minutes=none", "train.epochs=none"])
        method = override(method, [f"train.{key}={training[key]}" for key in budget])
    if "seed" in training:
        method = override(method, [f"seed={training['seed']}"])
    make_method(name, ahead=ahead)  # says what can forecast, if this cannot
    if ahead:
        method = method.foreseeing(ahead)
    if known:
        method = method.knowing(known)
    if "graph" in training:
        from cdsa.io.sidecars import read_graph
        from cdsa.methods.engine.estimator import OnGraph

        assert isinstance(method, OnGraph)
        method = method.on_graph(read_graph(cast("Path", training["graph"])))
    method = override(method, cast("list[str]", training.get("set", [])))
    if ahead and method.horizon < ahead:
        raise ConfigError(f"{ahead} steps are to be foreseen, but horizon={method.horizon} was set")
    run = run or RunContext()
    device = str(training.get("device", run.device))
    return dataclasses.replace(method, run=dataclasses.replace(run, device=device))


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["cdsa", *sys.argv[1:]])


def refuse_other_known(filler: "NeuralFiller", known: Sequence[str], folder: Path) -> None:
    """Refuse a network that was trained with other measurements known in advance."""
    if set(filler.method.known_covariates) != set(known):
        then = ", ".join(filler.method.known_covariates) or "nothing"
        raise ConfigError(
            f"the network in {folder} was trained with {then} known in advance. Say so alike with "
            "--known, or train one with cdsa train --forecast N --known ..."
        )


def training_records(filler: "NeuralFiller") -> list[dict[str, Value]]:
    """Flat records of a training, one per measurement."""
    network = filler.network
    if network is None:
        return []
    place = network.train_state
    common: dict[str, Value] = {
        "method": filler.method.label,
        "variables": sum(part.numel() for part in network.model.parameters()),
        "steps": place.step,
        "best_step": place.best_step,
        "seconds": round(place.seconds, 1),
        "validation": to_json_value(place.best) if place.best is not None else None,
    }
    nothing: list[dict[str, Value]] = [{"measurement": None, "cells": 0, "mae": None}]
    return [error | common for error in filler.errors or nothing]
