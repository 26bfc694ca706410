"""The commands. Heavy imports stand inside them, so that `cdsa --help` is instant."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa import defaults
from cdsa.cli.reading import Reading, reads_a_file

if TYPE_CHECKING:
    from cdsa.results import Value

File = Annotated[Path, typer.Argument(help="CSV, CSV.gz, Parquet, NetCDF or Zarr.", metavar="FILE")]
Json = Annotated[bool, typer.Option("--json", help="Print records as JSON and nothing else.")]
Hide = Annotated[
    str,
    typer.Option(
        "--hide",
        help="What to hide: random:0.2, bursts:0.2, blocks:0.2 (until that share is missing), "
        "bursts:+0.1 (a share of what is there), stations:2, last:12.",
        metavar="HOW",
    ),
]
Record = Annotated[
    Path | None,
    typer.Option("--record", help="Append the records to this file, with provenance."),
]
Seed = Annotated[int, typer.Option("--seed", help="Chooses which cells are hidden.", min=0)]


@reads_a_file
def info(file: File, *, reading: Reading, json: Json = False) -> None:
    """What is in a file: stations, measurements, gaps, and when what is missing."""
    from cdsa.cli import show
    from cdsa.inspection import inspect_cube
    from cdsa.sources.files import open_source

    with show.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
        found = inspect_cube(source.cube)
    if json:
        show.print_notes(source, show.err)
        show.print_json(
            [record | {"layout": source.layout.split(":")[0]} for record in found.records()]
        )
    else:
        show.print_inspection(source, found)


@reads_a_file
def fill(
    file: File,
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to write the filled table.")
    ],
    reading: Reading,
    method: Annotated[str, typer.Option("--method", help="See 'cdsa methods'.")] = defaults.METHOD,
    detail: Annotated[
        Path | None,
        typer.Option("--detail", help="Also write one row per cell that was missing here."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="First hide a tenth of what is there and tell the error to expect.",
        ),
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing outputs.")
    ] = False,
    json: Json = False,
) -> None:
    """Fill the gaps of a table and write it in its own layout."""
    from cdsa.cli import show, work
    from cdsa.errors import ConfigError
    from cdsa.filling import fill as fill_cube
    from cdsa.method import make_method
    from cdsa.scoring import expected_error
    from cdsa.sources.files import open_source, save_all
    from cdsa.sources.write import check_outputs

    outputs = [output] + ([detail] if detail else [])
    check_outputs(outputs, overwrite=overwrite)
    make_method(method)
    with show.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
    show.print_notes(source, show.err if json else show.out)
    expected = None
    if check and source.cube.isnull().any():
        with show.busy("hiding a tenth in bursts to measure the error"):
            try:
                expected = expected_error(source.cube, method)
            except ConfigError as reason:
                show.note(f"no error could be measured: {reason}")
    with show.busy(f"filling with {method}"):
        result = fill_cube(source.cube, method)
    with show.busy("writing"):
        save_all(source, result, output, detail=detail, overwrite=overwrite)
    records = work.fill_records(result, method, expected)
    if json:
        show.print_json(records)
    else:
        show.print_filled(source, result, records, expected, outputs)


@reads_a_file
def score(
    file: File,
    *,
    reading: Reading,
    methods: Annotated[
        str | None,
        typer.Option("--methods", help="Methods to compare, all if not given.", metavar="A,B"),
    ] = None,
    hide: Hide = defaults.HIDE,
    repeat: Annotated[
        int, typer.Option("--repeat", help="Repeat with other cells hidden.", min=1)
    ] = 1,
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
    from cdsa.cli import show, work
    from cdsa.scoring import best_method
    from cdsa.sources.files import open_source

    with show.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
    by = work.read_by(by)
    show.print_notes(source, show.err if json else show.out)
    names = methods.split(",") if methods else work.usable_methods()
    scores = work.score_with_progress(names, source.cube, hide, repeat, seed, test)
    records = [entry for scored in scores for entry in scored.records(by)]
    _record(record, records, data=file.name, seed=seed)
    if json:
        show.print_json(records)
    else:
        show.print_scores(scores, by)
        show.print_best(best_method(scores))


def _record(path: Path | None, records: "list[dict[str, Value]]", data: str, seed: int) -> None:
    if path is not None:
        from cdsa.cli import work
        from cdsa.results import append_results, provenance

        origin = provenance(work.command_line()) | {"data": data, "seed": seed}
        append_results(path, [entry | origin for entry in records])


def methods(*, json: Json = False) -> None:
    """All methods there are, and what they need."""
    from cdsa.cli import show
    from cdsa.method import methods as all_methods

    if json:
        show.print_json(
            [
                {name: getattr(m, name) for name in ("name", "task", "needs", "extra", "paper")}
                | {"summary": m.summary, "installed": m.installed}
                for m in all_methods()
            ]
        )
    else:
        show.print_methods(all_methods())


def demo(
    *,
    folder: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the filled table.")
    ] = Path("cdsa-demo"),
    hide: Hide = "bursts:0.2",
    repeat: Annotated[
        int, typer.Option("--repeat", help="Repeat with other cells hidden.", min=1)
    ] = 1,
    record: Record = None,
) -> None:
    """The whole way on example data: look, score all methods, fill, write."""
    from cdsa.cli import show, work
    from cdsa.filling import fill as fill_cube
    from cdsa.inspection import inspect_cube
    from cdsa.scoring import best_method
    from cdsa.sources.demo import open_demo_source
    from cdsa.sources.files import save_all
    from cdsa.sources.write import make_folder

    make_folder(folder)
    source = open_demo_source()
    show.heading("1. What is in the table (cdsa info)")
    show.print_inspection(source, inspect_cube(source.cube))
    show.heading(f"2. Which method fills it best (cdsa score --hide {hide})")
    scores = work.score_with_progress(work.usable_methods(), source.cube, hide, repeat, 0, None)
    show.print_scores(scores)
    records = [entry for scored in scores for entry in scored.records()]
    _record(record, records, data="nyc-weather", seed=0)
    best = best_method(scores)
    show.heading(f"3. The table filled by the best of them (cdsa fill --method {best})")
    result = fill_cube(source.cube, best)
    output, detail = folder / "filled.csv", folder / "detail.csv"
    save_all(source, result, output, detail=detail, overwrite=True)
    chosen = next(scored for scored in scores if scored.method == best)
    show.print_filled(
        source, result, work.fill_records(result, best, chosen), chosen, [output, detail]
    )
    sys.stdout.flush()
