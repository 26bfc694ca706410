"""The options of training a network, the same for every command that trains one."""

import shlex
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cdsa.cli.options import Options, option, takes

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
        _option("--preset", help="Settings by name: paper, paper-nyc, small ...", metavar="NAME"),
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
        _option("--seed", help="Seed of the first weights and the training.", metavar="N"),
    )
}


@dataclass(frozen=True)
class Training:
    """The options that were given, by name."""

    given: dict[str, object]

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


def _given(options: dict[str, object]) -> Training:
    return Training({name: v for name, v in options.items() if v not in (None, [])})


with_train_options = takes("training", OPTIONS | SEED, {}, _given)
"""Gives a command every training option; it receives them as `training`."""
with_train_options_but_seed = takes("training", OPTIONS, {}, _given)
"""The same for a command with a seed of its own."""


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["cdsa", *sys.argv[1:]])
