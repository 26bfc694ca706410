"""What the terminal shows: tables and sketches on standard output, progress on standard error."""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from cdsa.cube import SOURCES, unit_of
from cdsa.errors import ConfigError, unknown
from cdsa.filling import count_sources
from cdsa.inspection import Inspection, missing_over_time
from cdsa.method import MethodInfo
from cdsa.method import methods as all_methods
from cdsa.metrics import KEYS
from cdsa.results import Value, plain
from cdsa.scoring import ALL, Score, compare, summarise
from cdsa.sources.files import Source

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
SHADES = "·░▒▓█"
MOST_ROWS = 24
MOST_METHODS = 6


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["cdsa", *sys.argv[1:]])


@contextmanager
def busy(what: str) -> Iterator[None]:
    """A spinner with the time that has passed, on a terminal only."""
    with err.status(f"{escape(what)} ..."):
        yield


def note(text: str) -> None:
    """A remark beside the result."""
    err.print(f"note: {escape(text)}")


def heading(text: str) -> None:
    """A line above a part of the demo."""
    out.print()
    out.rule(f"[bold]{escape(text)}", align="left")


def print_json(records: Sequence[object]) -> None:
    """One array of flat objects on standard output."""
    print(json.dumps(list(records), indent=1))


def number(value: float | None, digits: int = 3) -> str:
    """A figure with so many significant digits, without exponents where they can be avoided."""
    if value is None or not np.isfinite(value):
        return "-"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        size = 0 if value == 0 else int(np.floor(np.log10(abs(value))))
        return f"{value:,.{max(0, digits - 1 - size)}f}"
    return f"{value:.{digits - 1}e}"


def share(value: float) -> str:
    """A share as a percentage."""
    if not np.isfinite(value):
        return "-"
    return "0" if value == 0 else f"{value:.2%}" if value >= 0.0001 else "<0.01%"


def stamp(moment: object) -> str:
    """A time without what is zero."""
    return str(pd.Timestamp(moment)).removesuffix(":00")


def print_inspection(source: Source, found: Inspection) -> None:
    """All that `cdsa info` tells."""
    out.print(f"[bold]{escape(Path(source.name).name)}[/]  {escape(source.layout)}")
    zone = source.content.clock.zone
    out.print(
        f"{stamp(found.first)} to {stamp(found.last)}{' UTC' if zone else ''}, every {found.step}: "
        f"{found.steps:,} steps"
    )
    names = ", ".join(found.locations[:8]) + (", ..." if len(found.locations) > 8 else "")
    places = "with coordinates" if found.placed else "without coordinates"
    plural = "station" if len(found.locations) == 1 else "stations"
    out.print(f"{len(found.locations)} {plural} {places}: {escape(names)}")
    for text in source.notes:
        out.print(f"[yellow]note:[/] {escape(text)}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    unit = "unit" if found.measurements["unit"].any() else ""
    for name, side in (("measurement", "left"), (unit, "left"), ("measured", "right"),
                       ("missing", "right"), ("share", "right"), ("gaps", "right"),
                       ("longest gap", "right")):  # fmt: skip
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for row in found.measurements.itertuples():
        empty = row.missing == row.cells
        table.add_row(
            escape(str(row.Index)),
            escape(str(row.unit)),
            f"{row.cells - row.missing:,}",
            f"{row.missing:,}",
            "all" if empty else share(float(row.share)),
            f"{row.gaps:,}",
            f"{row.longest:,} steps" if row.longest else "-",
        )
    out.print()
    out.print(table)
    if len(found.longest):
        _print_longest(found.longest)
        print_sketch(source.cube)


def _print_longest(longest: pd.DataFrame) -> None:
    out.print("\n[bold]Longest gaps[/]")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for row in longest.itertuples():
        table.add_row(
            escape(str(row.location)),
            escape(str(row.measurement)),
            f"{stamp(row.first)} to {stamp(row.last)}",
            f"{row.steps:,} steps",
        )
    out.print(table)


def print_sketch(cube: xr.DataArray) -> None:
    """When what is missing: a line per measurement, or per station if there is one measurement."""
    axis = "measurement" if cube.sizes["measurement"] > 1 else "location"
    labels = [str(label) for label in cube[axis].to_numpy()]
    width = min(max(map(len, labels)), 18)
    shares = missing_over_time(cube, axis, max(20, out.width - width - 3))
    order = np.arange(len(labels))
    if len(labels) > MOST_ROWS:
        order = np.sort(np.argsort(-shares.mean(axis=1), kind="stable")[:MOST_ROWS])
    out.print("\n[bold]When what is missing[/]")
    for row in order:
        marks = "".join(_shade(value) for value in shares[row])
        out.print(Text(f"{labels[row][:width]:<{width}}  {marks}"), no_wrap=True)
    first, last = stamp(cube["time"].to_numpy()[0])[:10], stamp(cube["time"].to_numpy()[-1])[:10]
    out.print(
        Text(f"{'':<{width}}  {first}{last:>{max(shares.shape[1] - len(first), 12)}}"), no_wrap=True
    )
    out.print(f"{SHADES[0]} nothing missing, {SHADES[1]} a little ... {SHADES[-1]} more than half")
    if len(order) < len(labels):
        out.print(f"the {len(order)} with most missing of {len(labels)} are shown")


def _shade(value: float) -> str:
    return SHADES[int(np.searchsorted([0, 0.05, 0.2, 0.5], value, side="left"))]


def fill_records(result: xr.Dataset, method: str, expected: Score | None) -> list[dict[str, Value]]:
    """Flat records of a fill, one per measurement."""
    figures = expected.table("measurement") if expected else pd.DataFrame()
    records: list[dict[str, Value]] = []
    for name, counts in count_sources(result).items():
        record: dict[str, Value] = {"measurement": name, "method": method, **counts}
        for figure in ("mae", "rmse"):
            known = name in figures.index
            record[f"expected_{figure}"] = plain(figures.loc[name, figure]) if known else None
        records.append(record)
    return records


def print_filled(
    source: Source, result: xr.Dataset, method: str, expected: Score | None, outputs: Sequence[Path]
) -> None:
    """What was filled, what error to expect, and where it was written."""
    for text in source.notes:
        out.print(f"[yellow]note:[/] {escape(text)}")
    records = fill_records(result, method, expected)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("measurement")
    table.add_column("unit" if any(_units(result)) else "")
    for name in ("observed", "filled", "unfillable"):
        table.add_column(name, justify="right")
    if expected is not None:
        table.add_column("expected error", justify="right")
    for record, unit in zip(records, _units(result), strict=True):
        row = [escape(str(record["measurement"])), escape(unit)]
        row += [f"{record[name]:,}" for name in ("observed", "filled", "unfillable")]
        if expected is not None:
            error = record["expected_mae"]
            row.append(f"±{number(float(error))}" if error is not None else "-")
        table.add_row(*row)
    out.print(table)
    if expected is not None:
        out.print(
            f"expected error: mean absolute error of [bold]{method}[/] on {expected.hidden:,} "
            "measured cells that were hidden from it in bursts"
        )
    totals = {word: sum(int(record[word] or 0) for record in records) for word in SOURCES}
    out.print("in all " + ", ".join(f"{count:,} {word}" for word, count in totals.items()))
    if totals["unfillable"]:
        out.print("unfillable: nothing was ever measured, so there is nothing to learn from")
    for path in outputs:
        out.print(f"wrote [bold]{escape(str(path))}[/]")


def _units(result: xr.Dataset) -> list[str]:
    return list(unit_of(result["value"]).values())


def usable_methods() -> list[str]:
    """All methods whose extras are installed; the others are named."""
    missing = [info for info in all_methods() if not info.installed]
    if missing:
        extras = sorted({info.extra for info in missing})
        note(
            f"left out: {', '.join(info.name for info in missing)} "
            f"(pip install 'cdsa[{','.join(extras)}]')"
        )
    return [info.name for info in all_methods() if info.installed]


def score_with_progress(
    names: Sequence[str], cube: xr.DataArray, hide: str, repeats: int, seed: int, test: float | None
) -> list[Score]:
    """Score the methods under a progress bar."""
    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task("scoring", total=len(names) * repeats)
        scores = []
        for scored in compare(
            [name.strip() for name in names],
            cube,
            hide,
            repeats=repeats,
            seed=seed,
            test=test,
            progress=lambda name: progress.update(task, description=name),
        ):
            scores.append(scored)
            progress.advance(task)
    return scores


def check_by(by: str) -> None:
    """Refuse a way of breaking errors down that there is not."""
    if by not in KEYS:
        raise ConfigError(unknown("breakdown", by, KEYS))


def best_method(scores: Sequence[Score]) -> str:
    """The method with the least error over everything."""
    table = summarise(scores)
    whole = table[table["measurement"] == ALL]
    whole = whole if len(whole) else table
    return str(whole.sort_values("mae", kind="stable")["method"].iloc[0])


def print_scores(scores: Sequence[Score], by: str = "measurement") -> None:
    """The methods beside each other: over everything, then one by one; the best in bold."""
    summary = summarise(scores, by)
    whole = summary[summary[by] == ALL]
    whole = whole if len(whole) else summary
    repeats = len({scored.repeat for scored in scores})
    out.print(
        f"{scores[0].hidden:,} measured cells hidden ({scores[0].hide})"
        + (f", {repeats} repeats: mean ± standard deviation" if repeats > 1 else "")
    )
    unit = _unit_words(str(whole["unit"].iloc[0]))
    out.print(f"\n[bold]Overall error[/]{unit}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("method")
    for name in ("MAE", "RMSE", "MRE", "MAPE", "seconds"):
        table.add_column(name, justify="right")
    for row in whole.sort_values("mae", kind="stable").itertuples():
        cells = [str(row.method), _with_spread(row, repeats), number(row.rmse)]
        cells += [share(row.mre), share(row.mape), number(row.seconds, 2)]
        table.add_row(*[f"[bold]{cell}[/]" if row.best else cell for cell in cells])
    out.print(table)
    if len(whole) < len(summary):
        _print_one_by_one(summary[summary[by] != ALL], by, repeats, unit)


def _unit_words(unit: str) -> str:
    words = "in standard deviations of each measurement" if unit == "spreads" else unit
    return f", {escape(words)}" if words else ""


def _with_spread(row: Any, repeats: int) -> str:
    mean = number(row.mae)
    decimals = len(mean.partition(".")[2])  # the spread to the same digit as the mean
    return mean + (f" ± {row.spread:.{decimals}f}" if repeats > 1 and "e" not in mean else "")


def _print_one_by_one(summary: pd.DataFrame, by: str, repeats: int, unit: str) -> None:
    names = list(dict.fromkeys(summary["method"]))
    what = {
        "measurement": "measurement",
        "location": "station",
        "gap": "length of the gap in steps",
    }
    out.print(f"\n[bold]Mean absolute error by {what[by]}[/]{unit if by != 'measurement' else ''}")
    beside = MOST_METHODS if repeats == 1 else MOST_METHODS // 2
    for start in range(0, len(names), beside):
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(by.replace("location", "station"))
        for name in names[start : start + beside]:
            table.add_column(name, justify="right")
        for label, rows in summary.groupby(by, sort=False):
            texts = {
                str(row.method): f"[bold]{_with_spread(row, repeats)}[/]"
                if row.best
                else _with_spread(row, repeats)
                for row in rows.itertuples()
            }
            cells = [texts[name] for name in names[start : start + beside]]
            table.add_row(escape(str(label)), *cells)
        out.print(table)


def print_methods(infos: Sequence[MethodInfo]) -> None:
    """The methods, one line each."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("method", "task", "needs", "extra", "what it does"):
        table.add_column(name)
    for info in infos:
        extra = info.extra + ("" if info.installed else " (not installed)")
        table.add_row(info.name, info.task, info.needs or "-", extra or "-", info.summary)
    out.print(table)
