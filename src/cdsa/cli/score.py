"""cdsa score and cdsa demo."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cdsa.cli.options import File, Hide, Json, Record, Repeat, option, read_names
from cdsa.cli.read_options import ReadArguments, with_read_options
from cdsa.cli.train_options import Training, command_line, with_train_options_but_seed
from cdsa.core import defaults
from cdsa.errors import ConfigError, unknown

if TYPE_CHECKING:
    import xarray as xr

    from cdsa.core.records import Value
    from cdsa.workflows.pipeline import CompareRequest
    from cdsa.workflows.score import Score

METHODS_HELP = "Methods to compare; default: cdsa and all that need no training."
SEED_HELP = "Seed of the hidden cells and of networks."
TEST_HELP = "Fit on the first part, score on this last share of the time."
BY_HELP = "Errors by measurement, location or gap length (gap)."


@with_read_options
@with_train_options_but_seed
def score(
    file: File,
    *,
    read_options: ReadArguments,
    training: Training,
    methods: Annotated[str | None, option("--methods", "A,B", METHODS_HELP)] = None,
    hide: Hide = defaults.HIDE,
    repeat: Repeat = 1,
    seed: Annotated[int, option("--seed", "N", SEED_HELP, min=0)] = 0,
    test: Annotated[float | None, option("--test", "SHARE", TEST_HELP)] = None,
    by: Annotated[str, option("--by", "NAME", BY_HELP)] = "measurement",
    json: Json = False,
    record: Record = None,
) -> None:
    """Compare methods on your own data: hide measured cells and predict them."""
    from cdsa.cli import console
    from cdsa.core.metrics import GROUP_KEYS
    from cdsa.workflows.pipeline import CompareRequest

    by = "location" if by == "station" else by
    if by not in GROUP_KEYS:
        raise ConfigError(unknown("breakdown", by, GROUP_KEYS))
    source = console.read_file(file, read_options, json=json)
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
        _print_best(scores, hide)


def compare_with_progress(
    request: "CompareRequest", cube: "xr.DataArray", logdir: Path | None = None
) -> "list[Score]":
    from cdsa.cli.progress import ConsoleReporter
    from cdsa.workflows.pipeline import run_compare

    request.validate()
    total = len(request.methods) * request.repeats
    with ConsoleReporter(total=total, logdir=logdir) as reporter:
        return run_compare(request, cube, reporter, scored=lambda score: reporter.advance())


def usable_methods(cube: "xr.DataArray") -> list[str]:
    """The default network and all methods that need no training, if they are installed and the
    cube has what they need; notes name the others."""
    from cdsa.cli import console
    from cdsa.core.cube import has_coordinates
    from cdsa.methods.base import COORDINATES
    from cdsa.methods.registry import list_methods

    names, left_out = [], dict[str, list[str]]()
    for method in list_methods():
        label = method.name
        if not method.installed:
            reason, label = "they are not installed", f"{label} (extra '{method.extra}')"
        elif method.trains and method.name != defaults.NETWORK:
            continue
        elif method.needs == COORDINATES and not has_coordinates(cube):
            reason = "they need coordinates"
        elif method.min_stations > cube.sizes["location"]:
            reason = "they need more stations"
        else:
            names.append(label)
            continue
        left_out.setdefault(reason, []).append(label)
    for reason, labels in left_out.items():
        console.note(f"left out, because {reason}: {', '.join(labels)}")
    return names


def _print_best(scores: "Sequence[Score]", hide: str) -> None:
    """How to use the best method for the task: a forecast if the last steps were hidden."""
    from cdsa.cli.console import out
    from cdsa.methods.registry import info_of
    from cdsa.workflows.score import best_method

    kind, _, steps = hide.partition(":")
    forecast = kind == "last"
    infos = [(score, info_of(score.method)) for score in scores]
    usable = [score for score, info in infos if (info.forecasts if forecast else info.fills)]
    if usable:
        command = f"forecast FILE --horizon {steps}" if forecast else "fill FILE"
        command += f" -o OUT --method {best_method(usable)}"
        out.print(
            f"\nto use the best method: cdsa {command}, with the same reading options as here"
            + (
                ""
                if forecast
                else "; without --method, cdsa fill combines several where that helps"
            )
        )


def _record(path: Path | None, records: "list[dict[str, Value]]", data: str, seed: int) -> None:
    if path is not None:
        from cdsa.core.records import append_results, provenance

        origin = provenance(command_line()) | {"data": data, "seed": seed}
        append_results(path, [record | origin for record in records])


def demo(
    *,
    folder: Annotated[Path, option("-o --output", "DIR", "Folder for the filled table.")] = Path(
        "cdsa-demo"
    ),
    hide: Hide = "bursts:0.2",
    repeat: Repeat = 1,
    minutes: Annotated[
        float | None, option("--minutes", "N", "Training time of the network.")
    ] = None,
    record: Record = None,
) -> None:
    """Inspect, score and fill the example data, and write a table and a report, in two minutes."""
    from dataclasses import replace
    from importlib.util import find_spec

    from cdsa.cli import console, console_results
    from cdsa.cli.progress import ConsoleReporter
    from cdsa.core.atomic import make_directory, write_texts
    from cdsa.core.prepare import prepare
    from cdsa.core.scope import left_open
    from cdsa.core.summary import summarise_cube
    from cdsa.datasets.nyc_weather import open_demo_source
    from cdsa.io.source import save_all
    from cdsa.methods.registry import MethodOptions
    from cdsa.workflows.fill import fill_with
    from cdsa.workflows.pipeline import CompareRequest, FillResult
    from cdsa.workflows.select import choose

    make_directory(folder)
    source = open_demo_source()
    console.print_section("1. Contents of the table (cdsa info)")
    console.print_summary(source, summarise_cube(source.cube))
    console.print_section(f"2. Methods compared (cdsa score --hide {hide})")
    names = tuple(usable_methods(source.cube))
    request = CompareRequest(methods=names, hide=hide, options=MethodOptions(minutes=minutes))
    request.validate()
    with ConsoleReporter(total=len(names)) as reporter:

        def progress(name: str) -> None:
            if reporter.outer is not None:
                reporter.advance()
            reporter.progress(name)

        selection = choose(
            request.built,
            prepare(source.cube, checked=True),
            hide,
            combine=True,
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
    console.print_section(f"3. The table filled by {selection.label} (cdsa fill)")
    dataset = fill_with(selection.filler, source.cube, open_cells=left_open(source.cube))
    dataset.attrs["method"] = selection.label
    result = FillResult(dataset=dataset, source=source, selection=selection)
    outputs, report = [folder / "filled.csv", folder / "detail.csv"], folder / "report.html"
    save_all(source, result.dataset, outputs[0], detail=outputs[1], overwrite=True)
    if find_spec("matplotlib") is not None:
        from cdsa.report.page import render_report

        write_texts(
            {report: render_report(result, Path(source.name).name, command_line())}, overwrite=True
        )
        outputs.append(report)
    console_results.print_filled(result, outputs)
