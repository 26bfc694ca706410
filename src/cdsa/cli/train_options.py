"""The options of training, the same for every command that trains a network."""

import inspect
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cdsa.cli.options import Values, declare, option, with_options

if TYPE_CHECKING:
    from cdsa.methods.registry import MethodOptions


def _declare(name: str, kind: object, help: str, metavar: str) -> inspect.Parameter:
    declared = option(f"--{name}", metavar, help, rich_help_panel="Training a network")
    return declare(name, kind, declared)


GRAPH = (
    "Graph of stations, for networks that use one: a table with the columns from, to and, "
    "optionally, weight."
)
OPTIONS = [
    _declare("manner", str | None, "decomposed, shared, joint or independent.", "NAME"),
    _declare("preset", str | None, "A set of settings: paper, paper-nyc, small ...", "NAME"),
    _declare("graph", Path | None, GRAPH, "FILE"),
    _declare("minutes", float | None, "Training time.", "N"),
    _declare("epochs", int | None, "Passes over the data.", "N"),
    _declare("set", list[str] | None, "Any setting: model.n_layers=6, train.lr=3e-4.", "A.B=X"),
    _declare("device", str | None, "auto, cpu, cuda or mps.", "NAME"),
    _declare("tensorboard", Path | None, "Also log to this folder.", "DIR"),
]
SEED = _declare("seed", int | None, "Seed of the initial weights and the training.", "N")


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


with_train_options = with_options("training", [*OPTIONS, SEED], _collect)
"""Adds the options of training to a command, which receives them as `training`."""
with_train_options_but_seed = with_options("training", OPTIONS, _collect)
"""The same for a command that has its own seed."""


def command_line() -> str:
    return shlex.join(["cdsa", *sys.argv[1:]])
