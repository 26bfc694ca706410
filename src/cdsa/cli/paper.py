"""Commands about the paper's tables: reproduce, tables."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import DataFolder, Json, Overwrite
from cdsa.core.text import format_count
from cdsa.errors import CdsaError, ConfigError, OutputError, StoppedError

if TYPE_CHECKING:
    from cdsa.core.records import Value
    from cdsa.paper.tables import Experiment

MOST_SEEDS = 1000

Results = Annotated[
    Path,
    typer.Option("--results", help="Records are kept here, one JSON object a line."),
]
DEFAULT = Path("cdsa-results.jsonl")


def reproduce(
    table: Annotated[
        str,
        typer.Argument(
            help="complexity, nyc, kdd2015, kdd2018, metr-la, losses, ablation-nyc, "
            "ablation-kdd2015, ablation-kdd2018, ablation-metr-la.",
            metavar="TABLE",
        ),
    ],
    *,
    methods: Annotated[
        str | None,
        typer.Option("--methods", help="Rows of the table; all there are.", metavar="A,B"),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", help="Data sets of the table; all it has.", metavar="A,B"),
    ] = None,
    protocols: Annotated[
        str | None,
        typer.Option("--protocols", help="Of the table's, such as out-of-sample; all it has."),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option("--rates", help="Missing rates; those of the paper.", metavar="0.2,0.5"),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", help="Seeds: 0,1,2 or 0-4; as many as the paper's trials."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", help="Training of a network for each cell; 10 if not given."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Small networks, few rates, one seed: does it run?", metavar=""
        ),
    ] = False,
    folder: DataFolder = None,
    results: Results = DEFAULT,
    again: Annotated[
        bool, typer.Option("--again", help="Measure anew what is written down already.", metavar="")
    ] = False,
    json: Json = False,
) -> None:
    """Measure a table of the paper on the real data; what is written down is not run again."""
    from cdsa.cli import console
    from cdsa.cli import console_tables as printed
    from cdsa.paper.tables import get_table, plan_experiments

    cells = list(
        plan_experiments(
            get_table(table),
            methods=_words(methods),
            data=_words(on),
            protocols=_words(protocols),
            rates=_rates(rates),
            seeds=_seeds(seeds),
            minutes=minutes,
            quick=quick,
        )
    )
    records, failure = _measure(table, cells, results, folder, again=again)
    if json:
        console.print_json(records)
    elif records:
        printed.print_table(table, records)
        console.out.print(f"\nto make pages of all records: cdsa tables --results {results}")
    if failure is not None:
        raise failure


def tables(
    *,
    results: Results = DEFAULT,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Name of the pages, without .md and .html."),
    ] = Path("cdsa-tables"),
    overwrite: Overwrite = False,
) -> None:
    """All measured tables beside the paper's, as Markdown and HTML."""
    from cdsa.cli import console
    from cdsa.paper.render import write_pages

    for path in write_pages(results, output, overwrite=overwrite):
        console.out.print(f"wrote [bold]{path}[/]", soft_wrap=True)


def _measure(
    table: str, cells: "list[Experiment]", results: Path, folder: Path | None, *, again: bool
) -> "tuple[list[dict[str, Value]], CdsaError | None]":
    """Measure the cells under a progress bar; their records, and why not all could be measured."""
    from cdsa.cli import console, progress, train_options
    from cdsa.core.records import provenance
    from cdsa.datasets.fetch import data_folders
    from cdsa.paper.runner import RunSettings, pending, run_experiments
    from cdsa.training.callbacks import Run

    data_folders(folder)  # says so if there is none
    if not results.absolute().parent.is_dir():
        raise OutputError(f"there is no folder {results.parent} to keep records in. Make it first")
    records: list[dict[str, Value]] = []
    with progress.Bar() as bar:
        bar.start(table, len(cells))

        count = itertools.count(1)

        def told(cell: "Experiment") -> None:
            bar.name(cell.method)
            console.note(f"{next(count)} of {len(missing)}: {cell.label}")

        lab = RunSettings(
            results=results,
            data_folder=folder,
            provenance=provenance(train_options.command_line()),
            run=Run(watch=bar.watch),
            on_start=told,
            force=again,
        )
        missing = pending(cells, lab)
        _announce(missing, len(cells))
        try:
            for measured in run_experiments(table, cells, lab):
                records += measured
                bar.advance()
        except KeyboardInterrupt:
            there = f"what was measured is in {results}" if results.exists() else "nothing is lost"
            raise StoppedError(f"stopped; {there}, and the same command goes on") from None
        except CdsaError as failure:
            return records, failure
    return records, None


def _announce(cells: "list[Experiment]", wanted: int) -> None:
    """Say what is going to be done, and how long networks will train."""
    from cdsa.cli import console

    known = wanted - len(cells)
    minutes = round(sum(cell.minutes or 0 for cell in cells))
    training = (
        f", with {format_count(minutes, 'minute')} of training in all (--minutes for each, "
        "--methods for fewer, --quick to try)"
        if minutes
        else ""
    )
    there = f"; {known} are known already" if known else ""
    console.note(f"{format_count(len(cells), 'cell')} of the table to measure{training}{there}")


def _words(text: str | None) -> list[str] | None:
    """Names from a list with commas."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise ConfigError(f"names stand between commas, as in mean,linear, but found '{text}'")
    return words


def _rates(text: str | None) -> list[float] | None:
    """Missing rates from '0.2,0.5'."""
    words = _words(text)
    try:
        return None if words is None else [float(word) for word in words]
    except ValueError as bad:
        raise ConfigError(f"--rates wants numbers, as in 0.2,0.5, but found '{text}'") from bad


def _seeds(text: str | None) -> list[int] | None:
    """Seeds from '0,1,2' or '0-4'."""
    seeds: list[int] = []
    for word in _words(text) or []:
        first, _, last = word.partition("-")
        ends = (first, last or first)
        if not all(end.isdecimal() and len(end) < 10 for end in ends) or int(first) > int(ends[1]):
            raise ConfigError(f"--seeds wants numbers, as in 0,1,2 or 0-4, but found '{text}'")
        if int(ends[1]) - int(first) >= MOST_SEEDS:
            raise ConfigError(f"at most {MOST_SEEDS} seeds at once, but found '{text}'")
        seeds += range(int(first), int(ends[1]) + 1)
    return seeds if text is not None else None
