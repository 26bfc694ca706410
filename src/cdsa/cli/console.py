"""What the terminal shows: tables and sketches on standard output, progress on standard error."""

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
from cdsa.workflows.score import MIXED, Score, summarise

out = Console(highlight=False, emoji=False)


err = Console(stderr=True, highlight=False, emoji=False)


SHADES = "·░▒▓█"


MOST_ROWS = 16


MOST_METHODS = 6


@contextmanager
def busy(what: str, *, quiet: bool = False) -> Iterator[None]:
    """A spinner on a terminal; `quiet` where something else shows the progress."""
    if quiet:
        yield
        return
    with err.status(f"{escape(what)} ..."):
        yield


def note(text: str) -> None:
    """A remark beside the result."""
    err.print(f"note: {escape(text)}")


def say(text: str) -> None:
    """A line of the result."""
    out.print(escape(text))


def heading(text: str) -> None:
    """A line above a part of the demo."""
    out.print()
    out.rule(f"[bold]{escape(text)}", align="left")


def print_json(records: Sequence[object]) -> None:
    """One array of flat objects on standard output."""
    print(json.dumps(list(records), indent=1))


class Stamps:
    """Times as the user knows them: in the zone of the source, without what is always zero."""

    def __init__(self, source: Source) -> None:
        self.clock = source.content.clock
        times = self.clock.to_local(source.cube["time"].to_numpy())
        self.form = "%Y-%m-%d %H:%M:%S"
        if (times.second == 0).all():
            self.form = "%Y-%m-%d %H:%M"
        if len(times) and (times == times.normalize()).all():
            self.form = "%Y-%m-%d"

    def __call__(self, moment: object) -> str:
        return str(
            self.clock.to_local(np.array([moment], dtype="datetime64[ns]")).strftime(self.form)[0]
        )

    @property
    def zone(self) -> str:
        return "" if self.clock.zone is None else f" {self.clock.zone}"


def print_notes(source: Source, to: Console = out) -> None:
    """How the source was read, and what may have been read wrongly."""
    for text in source.notes:
        to.print(f"note: {escape(text)}")
    for text in source.warnings:
        to.print(f"[yellow]look:[/] {escape(text)}")


def print_inspection(source: Source, found: CubeSummary) -> None:
    """All that `cdsa info` tells."""
    stamp = Stamps(source)
    out.print(f"[bold]{escape(Path(source.name).name)}[/]  {escape(source.layout)}")
    out.print(
        f"{stamp(found.first)} to {stamp(found.last)}{stamp.zone}, every {found.step}: "
        f"{format_count(found.n_steps, 'step')}"
    )
    names = ", ".join(found.locations[:8]) + (", ..." if len(found.locations) > 8 else "")
    places = "with coordinates" if found.has_coordinates else "without coordinates"
    out.print(f"{format_count(len(found.locations), 'station')} {places}: {escape(names)}")
    print_notes(source)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    unit = "unit" if found.measurements["unit"].any() else ""
    for name, side in (("measurement", "left"), (unit, "left"), ("measured", "right"),
                       ("missing", "right"), ("share", "right"), ("gaps", "right"),
                       ("longest gap", "right")):  # fmt: skip
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for row in found.measurements.itertuples():
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
    if len(found.longest_gaps):
        _print_longest(found.longest_gaps, stamp)
    if found.measurements["missing"].any():
        _print_sketches(source, stamp)


def _print_longest(longest: pd.DataFrame, stamp: Stamps) -> None:
    out.print("\n[bold]Longest gaps[/]")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for side in ("left", "left", "left", "right"):
        table.add_column(justify=side)
    for row in longest.itertuples():
        table.add_row(
            escape(str(row.location)),
            escape(str(row.measurement)),
            f"{stamp(row.first)} to {stamp(row.last)}",
            format_count(int(row.steps), "step"),
        )
    out.print(table)


def _print_sketches(source: Source, stamp: Stamps) -> None:
    """When what is missing: a line per measurement and a line per station."""
    axes = [axis for axis in ("measurement", "location") if source.cube.sizes[axis] > 1]
    out.print("\n[bold]When what is missing[/]")
    for axis in axes or ["measurement"]:
        _print_sketch(source.cube, axis, stamp)
    out.print(f"{SHADES[0]} nothing missing, {SHADES[1]} a little ... {SHADES[-1]} more than half")


def _print_sketch(cube: xr.DataArray, axis: str, stamp: Stamps) -> None:
    labels = [str(label) for label in cube[axis].to_numpy()]
    width = min(max(map(len, labels)), 18)
    shares = missing_over_time(cube, axis, max(20, out.width - width - 3))
    order = np.arange(len(labels))
    if len(labels) > MOST_ROWS:
        order = np.sort(np.argsort(-shares.mean(axis=1), kind="stable")[:MOST_ROWS])
    for row in order:
        marks = "".join(_shade(value) for value in shares[row])
        out.print(Text(f"{labels[row][:width]:<{width}}  {marks}"), no_wrap=True, crop=True)
    first, last = (stamp(cube["time"].to_numpy()[end])[:10] for end in (0, -1))
    rest = f"{last:>{max(shares.shape[1] - len(first), len(last) + 1)}}"
    out.print(Text(f"{'':<{width}}  {first}{rest}"), no_wrap=True)
    if len(order) < len(labels):
        out.print(f"({len(order)} of {len(labels)} are shown, those with most missing)")


def _shade(value: float) -> str:
    return SHADES[int(np.searchsorted([0, 0.05, 0.2, 0.5], value, side="left"))]


def print_filled(filled: FillResult, outputs: Sequence[Path]) -> None:
    """What was filled, the expected error, and where it was written."""
    source, result, records = filled.source, filled.dataset, filled.records
    expected, at_sites = filled.selection.expected, filled.selection.expected_at_sites
    method = filled.selection.label
    has_errors = any(record["expected_mae"] is not None for record in records)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("measurement")
    table.add_column("unit" if any(_units(result)) else "")
    for name in FILL_SOURCES:
        table.add_column(name, justify="right")
    columns = {"expected error": "expected_mae"} if has_errors else {}
    columns |= {"at sites": "expected_mae_at_sites"} if at_sites else {}
    for name in columns:
        table.add_column(name, justify="right")
    for record, unit in zip(records, _units(result), strict=True):
        row = [escape(str(record["measurement"])), escape(unit)]
        row += [f"{record[name]:,}" for name in FILL_SOURCES]
        errors = [record[name] for name in columns.values()]
        row += [format_number(float(error)) if error is not None else "-" for error in errors]
        table.add_row(*row)
    out.print(table)
    totals = {label: sum(int(record[label] or 0) for record in records) for label in FILL_SOURCES}
    out.print("in all " + ", ".join(f"{count:,} {label}" for label, count in totals.items()))
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
    left_out = outputs and detect_format(outputs[0]) in ("netcdf", "zarr") and source.passthrough
    if left_out:
        out.print(f"left out of {escape(str(outputs[0]))}: {escape(', '.join(source.passthrough))}")
    for path in outputs:
        out.print(f"wrote [bold]{escape(str(path))}[/]", soft_wrap=True)


def _units(result: xr.Dataset) -> list[str]:
    return list(units_of(result["value"]).values())


def print_scores(scores: Sequence[Score], by: str = "measurement") -> None:
    """The methods beside each other: over everything, then one by one; the best in bold."""
    summary = summarise(scores, by)
    whole = summary[summary["overall"]] if summary["overall"].any() else summary
    repeats = len({scored.repeat for scored in scores})
    out.print(
        f"{format_count(scores[0].hidden, 'measured cell')} hidden ({scores[0].hide})"
        + (f", {repeats} repeats: mean ± standard deviation" if repeats > 1 else "")
    )
    unit = _unit_words(str(whole["unit"].iloc[0]))
    out.print(f"\n[bold]Overall error[/]{unit}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("method")
    sure = bool(whole["coverage"].notna().any())
    columns = ("MAE", "RMSE", "MRE", "MAPE", *(("CRPS", "in 90%") if sure else ()), "seconds")
    for name in columns:
        table.add_column(name, justify="right")
    ranked = whole.sort_values("mae", kind="stable")
    for row in ranked.itertuples():
        cells = [str(row.method), _with_spread(row, repeats), format_number(row.rmse)]
        cells += [format_share(row.mre), format_share(row.mape)]
        if sure:
            cells += [format_number(row.crps), format_share(row.coverage)]
        cells.append(format_number(row.seconds, 2))
        table.add_row(*[f"[bold]{cell}[/]" if row.best else cell for cell in cells])
    out.print(table)
    if len(whole) < len(summary) or by != "measurement":
        _print_one_by_one(summary[~summary["overall"]], by, repeats, unit, list(ranked["method"]))
    unanswered = {scored.method: scored.unanswered for scored in scores if scored.unanswered}
    for method, count in unanswered.items():
        out.print(f"{method} left {format_count(count, 'hidden cell')} open; they are not counted")


def print_best(method: str | None, hide: str) -> None:
    """What to do next, if there is a method to do it with."""
    if method is None:
        return
    kind, _, steps = hide.partition(":")
    command = f"forecast FILE --horizon {steps}" if kind == "last" else "fill FILE"
    out.print(
        f"\nto use the best: cdsa {command} -o OUT --method {method}, with the same options for "
        "reading FILE as here"
    )


def _unit_words(unit: str) -> str:
    words = f"in {unit} of each measurement" if unit == MIXED else unit
    return f", {escape(words)}" if words else ""


def _with_spread(row: Any, repeats: int) -> str:
    mean = format_number(row.mae)
    decimals = len(mean.partition(".")[2])  # the spread to the same digit as the mean
    told = repeats > 1 and "e" not in mean and np.isfinite(row.spread)  # none if met only once
    return mean + (f" ± {row.spread:.{decimals}f}" if told else "")


def _print_one_by_one(
    summary: pd.DataFrame, by: str, repeats: int, unit: str, names: list[str]
) -> None:
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
        table.add_column("cells", justify="right")
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
            table.add_row(escape(str(label)), f"{rows['cells'].iloc[0]:,.0f}", *cells)
        out.print(table)


def print_methods(infos: Sequence[MethodInfo]) -> None:
    """The methods: what each is for and needs, what it does, and where it was published."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for info in infos:
        first = [info.task]
        first += [f"needs {info.needs}"] if info.needs else []
        first += [f"extra {info.extra}"] if info.extra else []
        lines = ["; ".join(first) + ("" if info.installed else " (not installed)"), info.summary]
        lines += [f"[dim]{escape(info.paper)}[/]"] if info.paper else []
        table.add_row(f"[bold]{info.name}[/]", "\n".join(lines))
    out.print(table)
