"""What commands do besides parsing and printing: records, and the command itself."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cdsa.core.records import Value, plain
from cdsa.errors import ConfigError

if TYPE_CHECKING:
    from cdsa.methods.engine.estimator import NeuralFiller


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["cdsa", *sys.argv[1:]])


def refuse_other_known(filler: "NeuralFiller", known: Sequence[str], folder: Path) -> None:
    """Refuse a network that was trained with other measurements known in advance."""
    if set(filler.method.known) != set(known):
        then = ", ".join(filler.method.known) or "nothing"
        raise ConfigError(
            f"the network in {folder} was trained with {then} known in advance. Say so alike with "
            "--known, or train one with cdsa train --forecast N --known ..."
        )


def training_records(filler: "NeuralFiller") -> list[dict[str, Value]]:
    """Flat records of a training, one per measurement."""
    network = filler.network
    if network is None:
        return []
    place = network.place
    common: dict[str, Value] = {
        "method": filler.method.label,
        "variables": sum(part.numel() for part in network.model.parameters()),
        "steps": place.step,
        "best_step": place.best_step,
        "seconds": round(place.seconds, 1),
        "validation": plain(place.best) if place.best is not None else None,
    }
    nothing: list[dict[str, Value]] = [{"measurement": None, "cells": 0, "mae": None}]
    return [error | common for error in filler.errors or nothing]
