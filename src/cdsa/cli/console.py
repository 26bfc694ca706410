"""Output in the terminal: results on standard output, progress and notes on standard error."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cdsa.core.cube import units_of
from cdsa.core.gaps import run_lengths
from cdsa.core.summary import CubeSummary, missing_over_time
from cdsa.core.text import format_count, format_number, format_share
from cdsa.io.files import detect_format
from cdsa.io.source import Source
from cdsa.methods.registry import MethodInfo
from cdsa.workflows.fill import FILL_SOURCES
from cdsa.workflows.pipeline import FillResult
from cdsa.workflows.score import MIXED_UNITS, Score, summarise

out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)

SHADES = "·░▒▓█"
MAX_ROWS = 16
"""Rows of a sketch."""
MAX_METHODS = 6
"""Methods beside each other in a table."""


@contextmanager
def busy(status: str) -> Iterator[None]:
    """A spinner on a terminal."""
    with err.status(f"{escape(status)} ..."):
        yield


def note(text: str) -> None:
    """A remark on standard error."""
    err.print(f"note: {escape(text)}")


def say(text: str, to: Console = out) -> None:
    """A line of the result."""
    to.print(escape(text))


def print_paths(*paths: Path) -> None:
    """The files that were written."""
    for path in paths:
        out.print(f"wrote [bold]{escape(str(path))}[/]", soft_wrap=True)


def new_table(left: Sequence[str], right: Sequence[str] = (), *, header: bool = True) -> Table:
    """A table without lines, with columns aligned left, then right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=header)
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def heading(text: str) -> None:
    """A line above a section of the demo."""
    out.print()
    out.rule(f"[bold]{escape(text)}", align="left")


def print_json(records: Sequence[object]) -> None:
    """One array of flat objects on standard output."""
    print(json.dumps(list(records), indent=1))


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

    @property
    def zone(self) -> str:
        return "" if self.clock.zone is None else f" {self.clock.zone}"


def print_notes(source: Source, to: Console = out) -> None:
    """How the source was read, and warnings about it."""
    for text in source.notes:
        to.print(f"note: {escape(text)}")
    for text in source.warnings:
        to.print(f"[yellow]warning:[/] {escape(text)}")


def print_summary(source: Source, summary: CubeSummary) -> None:
    """The contents of a source, for `cdsa info`."""
    time_format = TimeFormat(source)
    out.print(f"[bold]{escape(Path(source.name).name)}[/]  {escape(source.layout)}")
    out.print(
        f"{time_format(summary.first)} to {time_format(summary.last)}{time_format.zone}, every "
        f"{summary.step}: {format_count(summary.n_steps, 'step')}"
    )
    names = ", ".join(summary.locations[:8]) + (", ..." if len(summary.locations) > 8 else "")
    coordinates = "with coordinates" if summary.has_coordinates else "without coordinates"
    out.print(f"{format_count(len(summary.locations), 'station')} {coordinates}: {escape(names)}")
    print_notes(source)
    unit = "unit" if summary.measurements["unit"].any() else ""
    table = new_table(
        ["measurement", unit], ["measured", "missing", "share", "gaps", "longest gap"]
    )
    for row in summary.measurements.itertuples():
        table.add_row(
            escape(str(row.Index)),
            escape(str(row.unit)),
            f"{row.cells - row.missing:,}",
            f"{row.missing:,}",
            format_share(float(row.share)),
            f"{row.gaps:,}",
            format_count(int(row.longest), "step") if row.longest else "-",
        )
    out.print()
    out.print(table)
    if len(summary.longest_gaps):
        _print_longest(summary.longest_gaps, time_format)
    if summary.measurements["missing"].any():
        _print_sketches(source, time_format)


def _print_longest(longest: pd.DataFrame, time_format: TimeFormat) -> None:
    out.print("\n[bold]Longest gaps[/]")
    table = new_table(["station", "measurement", "time"], ["steps"], header=False)
    for row in longest.itertuples():
        table.add_row(
            escape(str(row.location)),
            escape(str(row.measurement)),
            f"{time_format(row.first)} to {time_format(row.last)}",
            format_count(int(row.steps), "step"),
        )
    out.print(table)


def _print_sketches(source: Source, time_format: TimeFormat) -> None:
    """The share of missing values over time, by measurement and by station."""
    axes = [axis for axis in ("measurement", "location") if source.cube.sizes[axis] > 1]
    out.print("\n[bold]Missing values over time[/]")
    for axis in axes or ["measurement"]:
        _print_sketch(source.cube, axis, time_format)
    out.print(f"{SHADES[0]} none missing, {SHADES[1]} up to 5% ... {SHADES[-1]} more than half")


def _print_sketch(cube: xr.DataArray, axis: str, time_format: TimeFormat) -> None:
    labels = [str(label) for label in cube[axis].to_numpy()]
    width = min(max(map(len, labels)), 18)
    shares = missing_over_time(cube, axis, max(20, out.width - width - 3))
    order = np.arange(len(labels))
    if len(labels) > MAX_ROWS:
        order = np.sort(np.argsort(-shares.mean(axis=1), kind="stable")[:MAX_ROWS])
    for row in order:
        marks = "".join(_shade(value) for value in shares[row])
        out.print(Text(f"{labels[row][:width]:<{width}}  {marks}"), no_wrap=True, crop=True)
    first, last = (time_format(cube["time"].to_numpy()[end])[:10] for end in (0, -1))
    padded = f"{last:>{max(shares.shape[1] - len(first), len(last) + 1)}}"
    out.print(Text(f"{'':<{width}}  {first}{padded}"), no_wrap=True)
    if len(order) < len(labels):
        out.print(f"({len(order)} of {len(labels)}: those with the most missing values)")


def _shade(value: float) -> str:
    return SHADES[int(np.searchsorted([0, 0.05, 0.2, 0.5], value, side="left"))]


def print_filled(filled: FillResult, outputs: Sequence[Path]) -> None:
    """Counts of cells and expected errors by measurement, and the files that were written."""
    source, result, records = filled.source, filled.dataset, filled.records
    expected, at_sites = filled.selection.expected, filled.selection.expected_at_sites
    method = filled.selection.label
    has_errors = any(record["expected_mae"] is not None for record in records)
    columns = {"expected error": "expected_mae"} if has_errors else {}
    columns |= {"at sites": "expected_mae_at_sites"} if at_sites else {}
    unit = "unit" if any(_units(result)) else ""
    table = new_table(["measurement", unit], [*FILL_SOURCES, *columns])
    for record, unit in zip(records, _units(result), strict=True):
        row = [escape(str(record["measurement"])), escape(unit)]
        row += [f"{record[name]:,}" for name in FILL_SOURCES]
        errors = [record[name] for name in columns.values()]
        row += [format_number(float(error)) if error is not None else "-" for error in errors]
        table.add_row(*row)
    out.print(table)
    totals = {label: sum(int(record[label] or 0) for record in records) for label in FILL_SOURCES}
    out.print("in total " + ", ".join(f"{count:,} {label}" for label, count in totals.items()))
    if totals["unfillable"]:
        out.print("unfillable: never measured, so there is nothing to estimate it from")
    if expected is not None and totals["filled"]:
        has_values = (result["source"] == "observed").any("time")  # a site has no gaps
        gaps = (result["source"] == "filled") & has_values
        longest = int(run_lengths(gaps.transpose(*result["source"].dims).to_numpy()).max())
        out.print(
            f"expected error: mean absolute error of {method} on "
            f"{format_count(expected.hidden, 'measured cell')} hidden from it, in gaps of up to "
            f"{format_count(expected.longest, 'step')}"
            + (f"; the longest gap filled has {longest:,}" if longest > expected.longest else "")
        )
        coverage = expected.errors.overall()["coverage"]
        if np.isfinite(coverage):
            out.print(
                f"90% intervals contain {coverage:.0%} of those cells; they were calibrated on "
                "other hidden cells, by measurement and gap length"
            )
    elif has_errors and totals["filled"]:
        out.print(
            "expected error: mean absolute error on cells held out from the network's training, "
            "which decided when to stop"
        )
    if at_sites is not None:
        out.print(
            f"at sites: mean absolute error of {at_sites.method} on "
            f"{format_count(at_sites.hidden, 'measured cell')} of stations that were hidden"
        )
    left_out = outputs and detect_format(outputs[0]).kind == "arrays" and source.passthrough
    if left_out:
        out.print(f"left out of {escape(str(outputs[0]))}: {escape(', '.join(source.passthrough))}")
    print_paths(*outputs)


def _units(result: xr.Dataset) -> list[str]:
    return list(units_of(result["value"]).values())


def print_scores(scores: Sequence[Score], by: str = "measurement") -> None:
    """The methods side by side, overall and by measurement, station or gap; the best in bold."""
    summary = summarise(scores, by)
    overall = summary[summary["overall"]] if summary["overall"].any() else summary
    repeats = len({score.repeat for score in scores})
    out.print(
        f"{format_count(scores[0].hidden, 'measured cell')} hidden ({scores[0].hide})"
        + (f", {repeats} repeats: mean ± standard deviation" if repeats > 1 else "")
    )
    unit = _unit_phrase(str(overall["unit"].iloc[0]))
    out.print(f"\n[bold]Overall error[/]{unit}")
    has_intervals = bool(overall["coverage"].notna().any())
    columns = ["MAE", "RMSE", "MRE", "MAPE", *(["CRPS", "in 90%"] if has_intervals else [])]
    table = new_table(["method"], [*columns, "seconds"])
    ranked = overall.sort_values("mae", kind="stable")
    for row in ranked.itertuples():
        cells = [str(row.method), _with_spread(row, repeats), format_number(row.rmse)]
        cells += [format_share(row.mre), format_share(row.mape)]
        if has_intervals:
            cells += [format_number(row.crps), format_share(row.coverage)]
        cells.append(format_number(row.seconds, 2))
        table.add_row(*[f"[bold]{cell}[/]" if row.best else cell for cell in cells])
    out.print(table)
    if len(overall) < len(summary) or by != "measurement":
        _print_breakdown(summary[~summary["overall"]], by, repeats, unit, list(ranked["method"]))
    unfilled = {score.method: score.unfilled for score in scores if score.unfilled}
    for method, count in unfilled.items():
        out.print(f"{method} left {format_count(count, 'hidden cell')} open; they are not counted")


def print_best(method: str | None, hide: str) -> None:
    """How to use the best method, if there is one."""
    if method is None:
        return
    kind, _, steps = hide.partition(":")
    command = f"forecast FILE --horizon {steps}" if kind == "last" else "fill FILE"
    out.print(
        f"\nto use the best method: cdsa {command} -o OUT --method {method}, with the same reading "
        "options as here"
    )


def _unit_phrase(unit: str) -> str:
    phrase = f"in {unit} of each measurement" if unit == MIXED_UNITS else unit
    return f", {escape(phrase)}" if phrase else ""


def _with_spread(row: Any, repeats: int) -> str:
    mean = format_number(row.mae)
    decimals = len(mean.partition(".")[2])  # the spread to the same digit as the mean
    known = repeats > 1 and "e" not in mean and np.isfinite(row.spread)  # NaN of a single score
    return mean + (f" ± {row.spread:.{decimals}f}" if known else "")


def _print_breakdown(
    summary: pd.DataFrame, by: str, repeats: int, unit: str, methods: list[str]
) -> None:
    labels = {"measurement": "measurement", "location": "station", "gap": "gap length in steps"}
    out.print(
        f"\n[bold]Mean absolute error by {labels[by]}[/]{'' if by == 'measurement' else unit}"
    )
    n_columns = MAX_METHODS if repeats == 1 else MAX_METHODS // 2
    for start in range(0, len(methods), n_columns):
        names = methods[start : start + n_columns]
        if start:
            out.print()
        table = new_table([by.replace("location", "station")], ["cells", *names])
        for label, rows in summary.groupby(by, sort=False):
            texts = {
                str(row.method): f"[bold]{_with_spread(row, repeats)}[/]"
                if row.best
                else _with_spread(row, repeats)
                for row in rows.itertuples()
            }
            cells = [texts[name] for name in names]
            table.add_row(escape(str(label)), f"{rows['cells'].iloc[0]:,.0f}", *cells)
        out.print(table)


def print_methods(infos: Sequence[MethodInfo]) -> None:
    """The methods: task, requirements, summary and reference."""
    table = new_table(["name", "about"], header=False)
    table.columns[0].no_wrap = True
    for info in infos:
        facts = [info.task]
        facts += [f"needs {info.needs}"] if info.needs else []
        facts += [f"extra {info.extra}"] if info.extra else []
        lines = ["; ".join(facts) + ("" if info.installed else " (not installed)"), info.summary]
        lines += [f"[dim]{escape(info.paper)}[/]"] if info.paper else []
        table.add_row(f"[bold]{info.name}[/]", "\n".join(lines))
    out.print(table)
