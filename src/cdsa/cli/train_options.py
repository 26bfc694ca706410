"""The options of training, the same for every command that trains a network."""

import shlex
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cdsa.cli.options import Options, Values, option, with_options

if TYPE_CHECKING:
    from cdsa.methods.registry import MethodOptions

PANEL = "Training a network"
_option = partial(option, PANEL)

OPTIONS: Options = {
    "manner": (
        str | None,
        _option("--manner", help="decomposed, shared, joint or independent.", metavar="NAME"),
    ),
    "preset": (
        str | None,
        _option("--preset", help="A set of settings: paper, paper-nyc, small ...", metavar="NAME"),
    ),
    "graph": (
        Path | None,
        _option(
            "--graph",
            help="Graph of stations, for networks that use one: a table with the columns from, to "
            "and, optionally, weight.",
            metavar="FILE",
        ),
    ),
    "minutes": (float | None, _option("--minutes", help="Training time.", metavar="N")),
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
        _option("--seed", help="Seed of the initial weights and the training.", metavar="N"),
    )
}


@dataclass(frozen=True)
class Training:
    """The options of training that were given, by name."""

    given: Values

    @property
    def device(self) -> str:
        return str(self.given.get("device", "auto"))

    @property
    def logdir(self) -> Path | None:
        return cast("Path | None", self.given.get("tensorboard"))

    @property
    def seed(self) -> int:
        return int(str(self.given.get("seed", 0)))

    def options(self) -> "MethodOptions":
        """The options of the method."""
        from cdsa.io.sidecars import read_graph
        from cdsa.methods.registry import MethodOptions

        given = {k: v for k, v in self.given.items() if k not in ("device", "tensorboard")}
        if "graph" in given:
            given["graph"] = tuple(read_graph(cast("Path", given["graph"])))
        if "set" in given:
            given["set"] = tuple(cast("list[str]", given["set"]))
        return MethodOptions(**given)  # type: ignore[arg-type]


def _collect(values: Values) -> Training:
    return Training({name: value for name, value in values.items() if value not in (None, [])})


with_train_options = with_options("training", OPTIONS | SEED, {}, _collect)
"""Adds the options of training to a command, which receives them as `training`."""
with_train_options_but_seed = with_options("training", OPTIONS, {}, _collect)
"""The same for a command that has its own seed."""


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["cdsa", *sys.argv[1:]])
