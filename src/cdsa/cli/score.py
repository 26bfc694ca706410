"""cdsa score and demo."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import File, Hide, Json, Record, Repeat
from cdsa.cli.read_options import ReadArguments, with_read_options
from cdsa.cli.train_options import Training, trains_by_seed
from cdsa.core import defaults

if TYPE_CHECKING:
    from cdsa.core.records import Value

Seed = Annotated[
    int, typer.Option("--seed", help="Chooses the hidden cells, and a network's weights.", min=0)
]


@with_read_options
@trains_by_seed
def score(
    file: File,
    *,
    read_options: ReadArguments,
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
    from cdsa.cli import comparing, console
    from cdsa.io.source import open_source

    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
    by = comparing.read_by(by)
    console.print_notes(source, console.err if json else console.out)
    names = methods.split(",") if methods else comparing.usable_methods(source.cube)
    scores = comparing.score_with_progress(names, source.cube, hide, repeat, seed, test, training)
    records = [entry for scored in scores for entry in scored.records(by)]
    _record(record, records, data=file.name, seed=seed)
    if json:
        console.print_json(records)
    else:
        console.print_scores(scores, by)
        console.print_best(comparing.best_usable(scores, hide), hide)


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

    from cdsa.cli import comparing, console, fill
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
    names = comparing.usable_methods(source.cube)
    training: Training = {} if minutes is None else {"minutes": minutes}
    choice = comparing.choose_with_progress(names, source.cube, hide, training)
    scores = list(choice.scores)
    if repeat > 1:
        more = comparing.score_with_progress(
            names, source.cube, hide, repeat - 1, 1, None, training
        )
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
