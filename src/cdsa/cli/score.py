"""cdsa score and cdsa demo."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import File, Hide, Json, Record, Repeat, read_names
from cdsa.cli.read_options import ReadArguments, with_read_options
from cdsa.cli.train_options import Training, command_line, with_train_options_but_seed
from cdsa.core import defaults
from cdsa.errors import ConfigError, unknown

if TYPE_CHECKING:
    import xarray as xr

    from cdsa.core.records import Value
    from cdsa.workflows.pipeline import CompareRequest
    from cdsa.workflows.score import Score

Seed = Annotated[
    int, typer.Option("--seed", help="Seed of the hidden cells and of networks.", min=0)
]


@with_read_options
@with_train_options_but_seed
def score(
    file: File,
    *,
    read_options: ReadArguments,
    training: Training,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            help="Methods to compare; default: cdsa and all that need no training.",
            metavar="A,B",
        ),
    ] = None,
    hide: Hide = defaults.HIDE,
    repeat: Repeat = 1,
    seed: Seed = 0,
    test: Annotated[
        float | None,
        typer.Option("--test", help="Fit on the first part, score on this last share of the time."),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="Errors by measurement, location or gap length (gap).")
    ] = "measurement",
    json: Json = False,
    record: Record = None,
) -> None:
    """Compare methods on your own data: hide measured cells and predict them."""
    from cdsa.cli import console
    from cdsa.io.source import open_source
    from cdsa.workflows.pipeline import CompareRequest

    by = parse_by(by)
    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
    console.print_notes(source, console.err if json else console.out)
    request = CompareRequest(
        methods=read_names(methods) or tuple(usable_methods(source.cube)),
        hide=hide,
        repeats=repeat,
        seed=seed,
        test=test,
        options=training.options(),
        device=training.device,
    )
    scores = compare_with_progress(request, source.cube, training.logdir)
    records = [row for score in scores for row in score.records(by)]
    _record(record, records, data=file.name, seed=seed)
    if json:
        console.print_json(records)
    else:
        console.print_scores(scores, by)
        console.print_best(best_usable(scores, hide), hide)


def parse_by(by: str) -> str:
    """The breakdown of errors; refused if there is none of this name."""
    from cdsa.core.metrics import GROUP_KEYS

    by = "location" if by == "station" else by
    if by not in GROUP_KEYS:
        raise ConfigError(unknown("breakdown", by, GROUP_KEYS))
    return by


def compare_with_progress(
    request: "CompareRequest", cube: "xr.DataArray", logdir: Path | None = None
) -> "list[Score]":
    """Score the methods of a request under a progress bar."""
    from cdsa.cli.progress import ConsoleReporter
    from cdsa.workflows.pipeline import run_compare

    request.validate()
    total = len(request.methods) * request.repeats
    with ConsoleReporter(total=total, logdir=logdir) as reporter:
        return run_compare(request, cube, reporter, scored=lambda score: reporter.advance())


def usable_methods(cube: "xr.DataArray") -> list[str]:
    """The default network and all methods that need no training, if they are installed and the
    cube has what they need; the others are listed in a note."""
    from cdsa.cli import console
    from cdsa.core.cube import has_coordinates
    from cdsa.methods.base import COORDINATES
    from cdsa.methods.registry import list_methods

    candidates = [m for m in list_methods() if not m.trains or m.name == defaults.NETWORK]
    missing = [m for m in list_methods() if not m.installed]
    n_stations, located = cube.sizes["location"], has_coordinates(cube)
    without_coordinates = [m for m in candidates if m.needs == COORDINATES and not located]
    with_few_stations = [m for m in candidates if m.min_stations > n_stations]
    if missing:
        names = ", ".join(f"{m.name} (extra '{m.extra}')" for m in missing)
        console.note(f"left out, because they are not installed: {names}")
    for reason, left_out in (
        ("they need coordinates", without_coordinates),
        ("they need more stations", with_few_stations),
    ):
        names = ", ".join(m.name for m in left_out if m.installed)
        if names:
            console.note(f"left out, because {reason}: {names}")
    unusable = (*missing, *without_coordinates, *with_few_stations)
    return [m.name for m in candidates if m not in unusable]


def best_usable(scores: "Sequence[Score]", hide: str) -> str | None:
    """The best method for the task: of those that forecast if the last steps were hidden."""
    from cdsa.methods.registry import info_of
    from cdsa.workflows.score import best_method

    forecast = hide.startswith("last:")
    infos = [(score, info_of(score.method)) for score in scores]
    usable = [score for score, info in infos if (info.forecasts if forecast else info.fills)]
    return best_method(usable) if usable else None


def _record(path: Path | None, records: "list[dict[str, Value]]", data: str, seed: int) -> None:
    if path is not None:
        from cdsa.core.records import append_results, provenance

        origin = provenance(command_line()) | {"data": data, "seed": seed}
        append_results(path, [record | origin for record in records])


def demo(
    *,
    folder: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the filled table.")
    ] = Path("cdsa-demo"),
    hide: Hide = "bursts:0.2",
    repeat: Repeat = 1,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Training time of the network.", metavar="N")
    ] = None,
    record: Record = None,
) -> None:
    """Inspect, score and fill the example data, and write a table and a report, in two minutes."""
    from dataclasses import replace
    from importlib.util import find_spec

    from cdsa.cli import console
    from cdsa.cli.fill import render_report
    from cdsa.cli.progress import ConsoleReporter
    from cdsa.core.atomic import make_directory, write_texts
    from cdsa.core.prepare import prepare
    from cdsa.core.summary import summarise_cube
    from cdsa.datasets.nyc_weather import open_demo_source
    from cdsa.io.source import save_all
    from cdsa.methods.registry import MethodOptions
    from cdsa.workflows.fill import fill_with
    from cdsa.workflows.pipeline import CompareRequest, FillResult
    from cdsa.workflows.select import choose

    make_directory(folder)
    source = open_demo_source()
    console.heading("1. Contents of the table (cdsa info)")
    console.print_summary(source, summarise_cube(source.cube))
    console.heading(f"2. The best method (cdsa score --hide {hide})")
    names = tuple(usable_methods(source.cube))
    request = CompareRequest(methods=names, hide=hide, options=MethodOptions(minutes=minutes))
    request.validate()
    with ConsoleReporter(total=len(names)) as reporter:

        def progress(name: str) -> None:
            if reporter.outer is not None:
                reporter.advance()
            reporter.progress(name)

        selection = choose(
            [request.build(name) for name in names],
            prepare(source.cube, checked=True),
            hide,
            run=reporter.run_context(),
            progress=progress,
        )
    scores = list(selection.scores)
    if repeat > 1:
        more = compare_with_progress(replace(request, repeats=repeat - 1, seed=1), source.cube)
        scores += [replace(score, repeat=score.repeat + 1) for score in more]
    console.print_scores(scores)
    records = [row for score in scores for row in score.records()]
    _record(record, records, data="nyc-weather", seed=0)
    best = selection.best
    console.heading(f"3. The table filled by it (cdsa fill --method {best})")
    dataset = fill_with(selection.filler, source.cube)
    result = FillResult(dataset=dataset, source=source, selection=selection)
    outputs, report = [folder / "filled.csv", folder / "detail.csv"], folder / "report.html"
    save_all(source, result.dataset, outputs[0], detail=outputs[1], overwrite=True)
    if find_spec("matplotlib") is not None:
        write_texts({report: render_report(result, source.name)}, overwrite=True)
        outputs.append(report)
    console.print_filled(result, outputs)
    sys.stdout.flush()
