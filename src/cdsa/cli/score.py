"""cdsa score and demo."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import File, Hide, Json, Record, Repeat
from cdsa.cli.read_options import Reading, with_read_options
from cdsa.cli.train_options import Training, trains_by_seed
from cdsa.core import defaults

if TYPE_CHECKING:
    from cdsa.core.records import Value
from collections.abc import Sequence

import xarray as xr

from cdsa.cli import console
from cdsa.cli.progress import Bar, logged, say_training
from cdsa.cli.train_options import make_trained
from cdsa.core.cube import has_coordinates
from cdsa.core.metrics import GROUP_KEYS
from cdsa.errors import ConfigError, unknown
from cdsa.methods.base import GRAPH, PLACES, Method
from cdsa.methods.registry import info_of, make_method
from cdsa.methods.registry import methods as all_methods
from cdsa.training.callbacks import Run
from cdsa.workflows.score import Score, best_method, compare
from cdsa.workflows.select import Choice, choose

Seed = Annotated[
    int, typer.Option("--seed", help="Chooses the hidden cells, and a network's weights.", min=0)
]


@with_read_options
@trains_by_seed
def score(
    file: File,
    *,
    reading: Reading,
    training: Training,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            help="Methods to compare; cdsa and all that need no training if not given.",
            metavar="A,B",
        ),
    ] = None,
    hide: Hide = defaults.HIDE,
    repeat: Repeat = 1,
    seed: Seed = 0,
    test: Annotated[
        float | None,
        typer.Option("--test", help="Learn from the start, score on this last share of the time."),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="Errors by measurement, location or gap (its length).")
    ] = "measurement",
    json: Json = False,
    record: Record = None,
) -> None:
    """Compare methods on your own data: hide measured cells and ask for them back."""
    from cdsa.cli import console, score
    from cdsa.io.source import open_source

    with console.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
    by = score.read_by(by)
    console.print_notes(source, console.err if json else console.out)
    names = methods.split(",") if methods else score.usable_methods(source.cube)
    scores = score.score_with_progress(names, source.cube, hide, repeat, seed, test, training)
    records = [entry for scored in scores for entry in scored.records(by)]
    _record(record, records, data=file.name, seed=seed)
    if json:
        console.print_json(records)
    else:
        console.print_scores(scores, by)
        console.print_best(score.best_usable(scores, hide), hide)


def _record(path: Path | None, records: "list[dict[str, Value]]", data: str, seed: int) -> None:
    if path is not None:
        from cdsa.cli import train_options
        from cdsa.core.records import append_results, provenance

        origin = provenance(train_options.command_line()) | {"data": data, "seed": seed}
        append_results(path, [entry | origin for entry in records])


def demo(
    *,
    folder: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the filled table.")
    ] = Path("cdsa-demo"),
    hide: Hide = "bursts:0.2",
    repeat: Repeat = 1,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Time for the network to learn.", metavar="N")
    ] = None,
    record: Record = None,
) -> None:
    """The whole way on example data: look, score all methods, fill, write a table and a report.
    Takes two minutes."""
    from dataclasses import replace
    from importlib.util import find_spec

    from cdsa.cli import console, fill, score
    from cdsa.core.atomic import make_directory, write_texts
    from cdsa.core.summary import summarise_cube
    from cdsa.datasets.nyc_weather import open_demo_source
    from cdsa.io.source import save_all
    from cdsa.workflows.fill import fill_records, fill_with
    from cdsa.workflows.select import Chosen

    make_directory(folder)
    source = open_demo_source()
    console.heading("1. What is in the table (cdsa info)")
    console.print_inspection(source, summarise_cube(source.cube))
    console.heading(f"2. Which method fills it best (cdsa score --hide {hide})")
    names = score.usable_methods(source.cube)
    training: Training = {} if minutes is None else {"minutes": minutes}
    choice = score.choose_with_progress(names, source.cube, hide, training)
    scores = list(choice.scores)
    if repeat > 1:
        more = score.score_with_progress(names, source.cube, hide, repeat - 1, 1, None, training)
        scores += [replace(scored, repeat=scored.repeat + 1) for scored in more]
    console.print_scores(scores)
    records = [entry for scored in scores for entry in scored.records()]
    _record(record, records, data="nyc-weather", seed=0)
    best = choice.best
    console.heading(f"3. The table filled by the best of them (cdsa fill --method {best})")
    result = fill_with(choice.filler, source.cube)
    output, detail = folder / "filled.csv", folder / "detail.csv"
    save_all(source, result, output, detail=detail, overwrite=True)
    told = Chosen(choice.filler, best, choice.expected, scores=choice.scores)
    outputs, report = [output, detail], folder / "report.html"
    if find_spec("matplotlib") is not None:
        write_texts({report: fill.report_of(source, result, told)}, overwrite=True)
        outputs.append(report)
    console.print_filled(source, result, fill_records(result, told), told.expected, outputs)
    sys.stdout.flush()


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
            run = Run(watch=log(bar.watch), start=say_training)
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
        run = Run(watch=bar.watch, start=say_training)
        methods = [_for_score(name, training, run, hide, 0) for name in names]

        def progress(name: str) -> None:
            if bar.named:
                bar.advance()
            bar.name(name)

        choice = choose(methods, cube, hide, progress=progress)
    return choice


def _for_score(name: str, training: Training, run: Run, hide: str, seed: int) -> Method:
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
