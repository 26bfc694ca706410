"""cdsa paper: run, tables, complexity."""

import itertools
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import DataFolder, Json, Overwrite, option
from cdsa.core.text import format_count
from cdsa.errors import CdsaError, ConfigError, OutputError, StoppedError

if TYPE_CHECKING:
    from cdsa.core.records import Value
    from cdsa.paper.tables import Experiment

MAX_SEEDS = 1000
DEFAULT_RESULTS = Path("cdsa-results.jsonl")
RESULTS_HELP = "File of records, one JSON object per line."
Results = Annotated[Path, option("--results", "FILE", RESULTS_HELP)]
TABLES = (
    "complexity, nyc, kdd2015, kdd2018, metr-la, losses, ablation-nyc, ablation-kdd2015, "
    "ablation-kdd2018, ablation-metr-la."
)

paper = typer.Typer(
    help="The paper's tables: measure them, render them, count the cost of attention.",
    no_args_is_help=True,
)


@paper.command()
def run(
    table: Annotated[str, typer.Argument(help=TABLES, metavar="TABLE")],
    *,
    methods: Annotated[
        str | None, option("--methods", "A,B", "Rows of the table; default: all.")
    ] = None,
    datasets: Annotated[
        str | None, option("--datasets", "A,B", "Data sets of the table; default: all.")
    ] = None,
    protocols: Annotated[
        str | None, option("--protocols", "A,B", "Protocols, such as out-of-sample; default: all.")
    ] = None,
    rates: Annotated[
        str | None, option("--rates", "0.2,0.5", "Missing rates; default: the paper's.")
    ] = None,
    seeds: Annotated[
        str | None, option("--seeds", "0,1|0-4", "Seeds; default: the paper's number.")
    ] = None,
    minutes: Annotated[
        float | None, option("--minutes", "N", "Training time of each network; default: 10.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smoke test: small networks, few rates, one seed.")
    ] = False,
    folder: DataFolder = None,
    results: Results = DEFAULT_RESULTS,
    force: Annotated[
        bool, typer.Option("--force", help="Measure recorded experiments again.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure a table of the paper on real data; recorded experiments are not run again."""
    from cdsa.cli import console, console_tables
    from cdsa.paper.tables import get_table, plan_experiments

    experiments = list(
        plan_experiments(
            get_table(table),
            methods=_parse_names(methods),
            data=_parse_names(datasets),
            protocols=_parse_names(protocols),
            rates=_parse_rates(rates),
            seeds=_parse_seeds(seeds),
            minutes=minutes,
            quick=quick,
        )
    )
    records, failure = _measure(table, experiments, results, folder, force=force)
    if json:
        console.print_json(records)
    elif records:
        console_tables.print_measured(table, records)
        console.out.print(f"\nrender all records as pages: cdsa paper tables --results {results}")
    if failure is not None:
        raise failure


@paper.command()
def tables(
    *,
    results: Results = DEFAULT_RESULTS,
    output: Annotated[
        Path, option("-o --output", "NAME", "Name of the pages, without .md and .html.")
    ] = Path("cdsa-tables"),
    overwrite: Overwrite = False,
) -> None:
    """Render all measured tables and the paper's numbers as Markdown and HTML."""
    from cdsa.cli import console
    from cdsa.paper.render import write_pages

    console.print_paths(*write_pages(results, output, overwrite=overwrite))


@paper.command()
def complexity(
    *,
    steps: Annotated[int, option("--steps", "N", "Time steps of a window.", min=1)] = 36,
    stations: Annotated[int, option("--stations", "N", "Locations.", min=1)] = 36,
    measurements: Annotated[int, option("--measurements", "N", "Measurements.", min=1)] = 1,
    json: Json = False,
) -> None:
    """Operations and parameters of the four manners of attention, and the paper's figures."""
    from cdsa.cli import console, console_tables
    from cdsa.nn.types import Sizes
    from cdsa.paper.complexity import compare_costs

    costs = compare_costs(Sizes(steps, stations, measurements))
    if json:
        console.print_json([asdict(cost) for cost in costs])
    else:
        console_tables.print_costs(costs, (steps, stations, measurements))


def _measure(
    table: str, experiments: "list[Experiment]", results: Path, folder: Path | None, *, force: bool
) -> "tuple[list[dict[str, Value]], CdsaError | None]":
    """Measure the experiments with a progress bar; their records, and the error if some failed."""
    from cdsa.cli import console
    from cdsa.cli.progress import ConsoleReporter
    from cdsa.cli.train_options import command_line
    from cdsa.core.records import provenance
    from cdsa.datasets.fetch import data_folders
    from cdsa.paper.runner import RunSettings, pending, run_experiments

    data_folders(folder)  # fails early if it is not a folder
    if not results.absolute().parent.is_dir():
        raise OutputError(
            f"the folder {results.parent} for the results does not exist. Create it first"
        )
    records: list[dict[str, Value]] = []
    with ConsoleReporter(total=len(experiments)) as reporter:
        reporter.progress(table)
        count = itertools.count(1)

        def on_start(experiment: "Experiment") -> None:
            reporter.progress(experiment.method)
            console.note(f"{next(count)} of {len(missing)}: {experiment.label}")

        settings = RunSettings(
            results=results,
            data_folder=folder,
            provenance=provenance(command_line()),
            run=reporter.run_context(),
            on_start=on_start,
            force=force,
        )
        missing = pending(experiments, settings)
        console.note(_describe(missing, len(experiments)))
        try:
            for measured in run_experiments(table, experiments, settings):
                records += measured
                reporter.advance()
        except KeyboardInterrupt:
            outcome = f"finished experiments are in {results}" if results.exists() else "no loss"
            raise StoppedError(f"stopped; {outcome}, and the same command resumes") from None
        except CdsaError as failure:
            return records, failure
    return records, None


def _describe(experiments: "list[Experiment]", total: int) -> str:
    text = f"{format_count(len(experiments), 'experiment')} to run"
    minutes = round(sum(experiment.minutes or 0 for experiment in experiments))
    if minutes:
        text += (
            f", with {format_count(minutes, 'minute')} of training in total (--minutes for each, "
            "--methods for fewer, --quick to try)"
        )
    recorded = total - len(experiments)
    return text + (f"; {recorded} are recorded already" if recorded else "")


def _parse_names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ConfigError(f"names must be separated by commas, as in mean,linear; found '{text}'")
    return names


def _parse_rates(text: str | None) -> list[float] | None:
    words = _parse_names(text)
    try:
        return None if words is None else [float(word) for word in words]
    except ValueError as bad:
        raise ConfigError(f"--rates must be numbers, as in 0.2,0.5, but found '{text}'") from bad


def _parse_seeds(text: str | None) -> list[int] | None:
    """Seeds from '0,1,2' or '0-4'."""
    words = _parse_names(text)
    if words is None:
        return None
    seeds: list[int] = []
    for word in words:
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", word)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ConfigError(f"--seeds must be numbers, as in 0,1,2 or 0-4, but found '{text}'")
        if last - first >= MAX_SEEDS:
            raise ConfigError(f"at most {MAX_SEEDS} seeds are allowed, but found '{text}'")
        seeds += range(first, last + 1)
    return seeds
