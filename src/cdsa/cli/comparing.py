"""Methods that are scored under a progress bar."""

from collections.abc import Sequence

import xarray as xr

from cdsa.cli import console
from cdsa.cli.progress import Bar, logged, say_training
from cdsa.cli.train_options import Training, make_trained
from cdsa.core import defaults
from cdsa.core.cube import has_coordinates
from cdsa.core.metrics import GROUP_KEYS
from cdsa.errors import ConfigError, unknown
from cdsa.methods.base import GRAPH, PLACES, Method
from cdsa.methods.registry import info_of, make_method
from cdsa.methods.registry import list_methods as all_methods
from cdsa.training.callbacks import RunContext
from cdsa.workflows.score import Score, best_method, compare
from cdsa.workflows.select import Choice, choose


def usable_methods(cube: xr.DataArray) -> list[str]:
    """The default network and all methods that are quick, as far as their extras are installed and
    the cube has what they need; those left out are named."""
    missing = [info for info in all_methods() if not info.installed]
    if missing:
        absent = ", ".join(f"{info.name} (extra '{info.extra}')" for info in missing)
        console.note(f"left out, because not installed: {absent}")
    names = [
        info.name
        for info in all_methods()
        if info.installed and (not info.trains or info.name == defaults.NETWORK)
    ]
    nowhere = [
        name for name in names if info_of(name).needs == PLACES and not has_coordinates(cube)
    ]
    if nowhere:
        console.note(f"left out, because there are no coordinates: {', '.join(nowhere)}")
    few = [name for name in names if info_of(name).stations > cube.sizes["location"]]
    if few:
        console.note(f"left out, because there are too few stations: {', '.join(few)}")
    return [name for name in names if name not in (*nowhere, *few)]


def best_usable(scores: Sequence[Score], hide: str) -> str | None:
    """The best of the methods that can be used for what was hidden: what forecasts, if that were
    the last steps."""
    task = "forecast" if hide.startswith("last:") else "fill"
    fitting = [scored for scored in scores if task in info_of(scored.method).task]
    return best_method(fitting) if fitting else None


def score_with_progress(
    names: Sequence[str],
    cube: xr.DataArray,
    hide: str,
    repeats: int,
    seed: int,
    test: float | None = None,
    training: Training | None = None,
) -> list[Score]:
    """Score the methods under a progress bar."""
    options = dict(training or {})
    if options and not any(info_of(name.strip()).trains for name in names):
        raise ConfigError(
            f"--{next(iter(options))} is for methods that train a network, and none is scored here"
        )
    if "graph" in options and not any(info_of(name.strip()).needs == GRAPH for name in names):
        raise ConfigError("--graph is for networks on a graph, and none is scored here")
    with Bar() as bar:
        bar.start("scoring", len(names) * repeats)
        with logged(options) as log:
            run = RunContext(on_progress=log(bar.watch), on_start=say_training)
            methods = [_for_score(name.strip(), options, run, hide, seed) for name in names]
            scores = []
            for scored in compare(
                methods, cube, hide, repeats=repeats, seed=seed, test=test, progress=bar.name
            ):
                scores.append(scored)
                bar.advance()
    return scores


def choose_with_progress(
    names: Sequence[str], cube: xr.DataArray, hide: str, training: Training
) -> Choice:
    """Try the methods on the same hidden cells under a progress bar, and keep the best."""
    with Bar() as bar:
        bar.start("scoring", len(names))
        run = RunContext(on_progress=bar.watch, on_start=say_training)
        methods = [_for_score(name, training, run, hide, 0) for name in names]

        def progress(name: str) -> None:
            if bar.named:
                bar.advance()
            bar.name(name)

        choice = choose(methods, cube, hide, progress=progress)
    return choice


def _for_score(name: str, training: Training, run: RunContext, hide: str, seed: int) -> Method:
    """A method to be scored: a network's own options, what it is asked for, and its seed."""
    info = info_of(name)
    kind, _, count = hide.partition(":")
    ahead = int(count) if kind == "last" and count.isdecimal() else 0
    if not info.trains:
        return make_method(name)[1]
    foresees = ahead if "forecast" in info.task else 0
    own = {key: value for key, value in training.items() if key != "graph" or info.needs == GRAPH}
    return make_trained(name, {**own, "seed": seed}, ahead=foresees, run=run)


def read_by(by: str) -> str:
    """The way of breaking errors down that the user asked for."""
    by = "location" if by == "station" else by
    if by not in GROUP_KEYS:
        raise ConfigError(unknown("breakdown", by, GROUP_KEYS))
    return by
