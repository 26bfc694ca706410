"""Output in the terminal: results on standard output, progress and notes on standard error."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from cdsa.core.records import Record
from cdsa.core.summary import CubeSummary, missing_over_time
from cdsa.core.text import format_count, format_number, format_share
from cdsa.io.source import Source, open_source
from cdsa.methods.registry import MethodInfo
from cdsa.workflows.score import MIXED_UNITS, Score, summarise

out = Console(highlight=False, emoji=False, markup=False)
err = Console(stderr=True, highlight=False, emoji=False, markup=False)

SHADES = "·░▒▓█"
MAX_ROWS = 16
"""Rows of a sketch."""
MAX_METHODS = 6
"""Methods beside each other in a table."""


def busy(status: str) -> Status:
    return err.status(Text(f"{status} ..."))


def note(text: str) -> None:
    err.print(f"note: {text}")


def print_heading(text: str) -> None:
    out.print(f"\n{text}", style="bold")


def print_section(text: str) -> None:
    out.print()
    out.rule(Text(text, "bold"), align="left")


def print_paths(*paths: Path) -> None:
    for path in paths:
        out.print(Text.assemble("wrote ", (str(path), "bold")), soft_wrap=True)


def print_json(records: Sequence[object]) -> None:
    print(json.dumps(list(records), indent=1))


def print_table(
    left: Sequence[str],
    right: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    header: bool = True,
) -> None:
    """A table without lines, with columns aligned left, then right; empty columns are left out."""
    cells = list(rows)
    used = [n for n in range(len(left) + len(right)) if any(row[n] for row in cells)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=header)
    for n in used:
        table.add_column([*left, *right][n], justify="left" if n < len(left) else "right")
    for row in cells:
        table.add_row(*(row[n] for n in used))
    out.print(table)


def print_by_measurement(
    records: Sequence[Record], units: Mapping[str, str], columns: Mapping[str, str]
) -> None:
    """A table of records, one per measurement; `columns` has the field of each title."""
    rows = []
    for record in records:
        name = str(record["measurement"])
        values = [record[field] for field in columns.values()]
        texts = [f"{v:,}" if isinstance(v, int | str) else format_number(v) for v in values]
        rows.append([name, units.get(name, ""), *texts])
    print_table(["measurement", "unit"], list(columns), rows)


class TimeFormat:
    """Formats times in the zone of the source, without seconds or hours that are always zero."""

    def __init__(self, source: Source) -> None:
        self.clock = source.content.clock
        times = self.clock.to_local(source.cube["time"].to_numpy())
        self.pattern = "%Y-%m-%d %H:%M:%S"
        if (times.second == 0).all():
            self.pattern = "%Y-%m-%d %H:%M"
        if len(times) and (times == times.normalize()).all():
            self.pattern = "%Y-%m-%d"

    def __call__(self, time: object) -> str:
        local = self.clock.to_local(np.array([time], dtype="datetime64[ns]"))
        return str(local.strftime(self.pattern)[0])

    def period(self, first: object, last: object) -> str:
        zone = "" if self.clock.zone is None else f" {self.clock.zone}"
        return f"{self(first)} to {self(last)}{zone}"


def read_file(file: Path, read_options: Mapping[str, Any], *, json: bool = False) -> Source:
    """Read a file, and print how it was read; with `json`, on standard error."""
    with busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
    print_notes(source, err if json else out)
    return source


def print_notes(source: Source, to: Console) -> None:
    for text in source.notes:
        to.print(f"note: {text}")
    for text in source.warnings:
        to.print(Text.assemble(("warning:", "yellow"), f" {text}"))


def print_summary(source: Source, summary: CubeSummary) -> None:
    time_format = TimeFormat(source)
    out.print(Text.assemble((Path(source.name).name, "bold"), f"  {source.layout}"))
    period = time_format.period(summary.first, summary.last)
    out.print(f"{period}, every {summary.step}: {format_count(summary.n_steps, 'step')}")
    names = ", ".join(summary.locations[:8]) + (", ..." if len(summary.locations) > 8 else "")
    coordinates = "with coordinates" if summary.has_coordinates else "without coordinates"
    out.print(f"{format_count(len(summary.locations), 'station')} {coordinates}: {names}")
    print_notes(source, out)
    rows = []
    for row in summary.measurements.itertuples():
        cells = [str(row.Index), str(row.unit), f"{row.cells - row.missing:,}", f"{row.missing:,}"]
        longest = format_count(int(row.longest), "step") if row.longest else "-"
        rows.append([*cells, format_share(float(row.share)), f"{row.gaps:,}", longest])
    out.print()
    columns = ["measured", "missing", "share", "gaps", "longest gap"]
    print_table(["measurement", "unit"], columns, rows)
    _print_values(summary, time_format)
    if len(summary.longest_gaps):
        print_heading("Longest gaps")
        rows = []
        for row in summary.longest_gaps.itertuples():
            period = f"{time_format(row.first)} to {time_format(row.last)}"
            steps = format_count(int(row.steps), "step")
            rows.append([str(row.location), str(row.measurement), period, steps])
        print_table(["station", "measurement", "time"], ["steps"], rows, header=False)
    if summary.measurements["missing"].any():
        print_heading("Missing values over time")
        axes = [axis for axis in ("measurement", "location") if source.cube.sizes[axis] > 1]
        for axis in axes or ["measurement"]:
            _print_sketch(source.cube, axis, time_format)
        out.print(f"{SHADES[0]} none missing, {SHADES[1]} up to 5% ... {SHADES[-1]} more than half")


def _print_values(summary: CubeSummary, time_format: TimeFormat) -> None:
    """The values that measurements can have, and outliers."""
    print_heading("Filled values")
    rows = [
        [str(row.Index), row.bounds or "any", str(row.decimals) if row.decimals < 10 else "-"]
        for row in summary.measurements.itertuples()
    ]
    print_table(["measurement", "values"], ["decimals"], rows)
    out.print(
        "as measured values are; others with --bounds NAME=A:B and --digits NAME=N", style="dim"
    )
    outliers = summary.outliers
    if not len(outliers):
        return
    print_heading(f"{format_count(len(outliers), 'outlier')}, far from all other values")
    rows = [
        [str(row.location), str(row.measurement), time_format(row.time), f"{row.value:g}"]
        for row in outliers[:MAX_ROWS].itertuples()
    ]
    print_table(["station", "measurement", "time"], ["value"], rows, header=False)
    codes = ",".join(f"{value:g}" for value in outliers["value"].unique()[:3])
    out.print(f"to treat such values as missing: --missing {codes}", style="dim")


def _print_sketch(cube: xr.DataArray, axis: str, time_format: TimeFormat) -> None:
    """The share of missing values over time, a row for each label of the axis."""
    labels = [str(label) for label in cube[axis].to_numpy()]
    width = min(max(map(len, labels)), 18)
    shares = missing_over_time(cube, axis, max(20, out.width - width - 3))
    order = np.arange(len(labels))
    if len(labels) > MAX_ROWS:
        order = np.sort(np.argsort(-shares.mean(axis=1), kind="stable")[:MAX_ROWS])
    for row in order:
        levels = np.searchsorted([0, 0.05, 0.2, 0.5], shares[row], side="left")
        marks = "".join(SHADES[level] for level in levels)
        out.print(f"{labels[row][:width]:<{width}}  {marks}", no_wrap=True, crop=True)
    first, last = (time_format(cube["time"].to_numpy()[end])[:10] for end in (0, -1))
    padded = f"{last:>{max(shares.shape[1] - len(first), len(last) + 1)}}"
    out.print(f"{'':<{width}}  {first}{padded}", no_wrap=True)
    if len(order) < len(labels):
        out.print(f"({len(order)} of {len(labels)}: those with the most missing values)")


def print_scores(scores: Sequence[Score], by: str = "measurement") -> None:
    """The methods side by side, overall and by measurement, station or gap; the best in bold."""
    summary = summarise(scores, by)
    overall = summary[summary["overall"]] if summary["overall"].any() else summary
    repeats = len({score.repeat for score in scores})
    out.print(
        f"{format_count(scores[0].hidden, 'measured cell')} hidden ({scores[0].hide})"
        + (f", {repeats} repeats: mean ± standard deviation" if repeats > 1 else "")
    )
    unit = str(overall["unit"].iloc[0])
    unit = f"in {unit} of each measurement" if unit == MIXED_UNITS else unit
    unit = unit and f", {unit}"
    out.print(Text.assemble(("\nOverall error", "bold"), unit))
    has_intervals = bool(overall["coverage"].notna().any())
    columns = ["MAE", "RMSE", "MRE", "MAPE", *(["CRPS", "in 90%"] if has_intervals else [])]
    ranked, rows = overall.sort_values("mae", kind="stable"), []
    for row in ranked.itertuples():
        cells = [str(row.method), _with_spread(row, repeats), format_number(row.rmse)]
        cells += [format_share(row.mre), format_share(row.mape)]
        if has_intervals:
            cells += [format_number(row.crps), format_share(row.coverage)]
        cells.append(format_number(row.seconds, 2))
        rows.append([Text(cell, "bold" if row.best else "") for cell in cells])
    print_table(["method"], [*columns, "seconds"], rows)
    if len(overall) < len(summary) or by != "measurement":
        _print_breakdown(summary[~summary["overall"]], by, repeats, unit, list(ranked["method"]))
    unfilled = {score.method: score.unfilled for score in scores if score.unfilled}
    for method, count in unfilled.items():
        out.print(f"{method} left {format_count(count, 'hidden cell')} open; they are not counted")


def _with_spread(row: Any, repeats: int) -> str:
    mean = format_number(row.mae)
    decimals = len(mean.partition(".")[2])  # the spread to the same digit as the mean
    known = repeats > 1 and "e" not in mean and np.isfinite(row.spread)  # NaN of a single score
    return mean + (f" ± {row.spread:.{decimals}f}" if known else "")


def _print_breakdown(
    summary: pd.DataFrame, by: str, repeats: int, unit: str, methods: list[str]
) -> None:
    labels = {"measurement": "measurement", "location": "station", "gap": "gap length in steps"}
    title = (f"\nMean absolute error by {labels[by]}", "bold")
    out.print(Text.assemble(title, "" if by == "measurement" else unit))
    n_columns = MAX_METHODS if repeats == 1 else MAX_METHODS // 2
    for start in range(0, len(methods), n_columns):
        names, rows = methods[start : start + n_columns], []
        if start:
            out.print()
        for label, group in summary.groupby(by, sort=False):
            errors = {
                str(row.method): Text(_with_spread(row, repeats), "bold" if row.best else "")
                for row in group.itertuples()
            }
            cells = f"{group['cells'].iloc[0]:,.0f}"
            rows.append([Text(str(label)), Text(cells), *(errors[name] for name in names)])
        print_table([by.replace("location", "station")], ["cells", *names], rows)


def print_methods(infos: Sequence[MethodInfo]) -> None:
    rows = []
    for info in infos:
        needs = [f"needs {info.needs}"] if info.needs else []
        extra = [f"extra {info.extra}"] if info.extra else []
        about = Text("; ".join([info.task, *needs, *extra]))
        about.append(f"{'' if info.installed else ' (not installed)'}\n{info.summary}")
        about.append(f"\n{info.paper}" if info.paper else "", "dim")
        rows.append([Text(info.name, "bold"), about])
    print_table(["name", "about"], [], rows, header=False)
    out.print("auto, the default of cdsa fill: cdsa and simpler methods, combined")
