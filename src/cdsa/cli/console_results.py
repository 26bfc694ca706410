"""Filled tables, forecasts, trained networks and explanations in the terminal."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.text import Text

from cdsa.cli.console import TimeFormat, out, print_by_measurement, print_paths, print_table
from cdsa.core.cube import LEFT_OPEN, units_of
from cdsa.core.gaps import run_lengths
from cdsa.core.records import Record, Value
from cdsa.core.text import format_count, format_number
from cdsa.core.times import Clock
from cdsa.io.files import detect_format
from cdsa.methods.explanation import Cell, Explanation
from cdsa.workflows.fill import FILL_SOURCES
from cdsa.workflows.pipeline import FillResult, ForecastResult


def print_filled(filled: FillResult, outputs: Sequence[Path]) -> None:
    source, result, records = filled.source, filled.dataset, filled.records
    expected, at_sites = filled.selection.expected, filled.selection.expected_at_sites
    has_errors = any(record["expected_mae"] is not None for record in records)
    columns = {label: label for label in ("observed", "filled")}
    open_cells = {label: sum(int(r[label] or 0) for r in records) for label in LEFT_OPEN}
    if any(open_cells.values()):
        columns["left open"] = "left_open"
        records = [r | {"left_open": sum(int(r[n] or 0) for n in LEFT_OPEN)} for r in records]
    columns["unfillable"] = "unfillable"
    columns |= {"expected error": "expected_mae"} if has_errors else {}
    columns |= {"at sites": "expected_mae_at_sites"} if at_sites else {}
    print_by_measurement(records, units_of(result["value"]), columns)
    totals = {
        label: sum(int(record[name] or 0) for record in records)
        for label, name in columns.items()
        if name in ("left_open", *FILL_SOURCES)
    }
    out.print("in total " + ", ".join(f"{count:,} {label}" for label, count in totals.items()))
    if totals["unfillable"]:
        out.print("unfillable: never measured, so there is nothing to estimate it from")
    if open_cells["gap_too_long"]:
        out.print(f"left open: {format_count(open_cells['gap_too_long'], 'cell')} in longer gaps")
    outside = {
        "outside_lifetime": "before the first or after the last value of their station",
        "never_measured": "of measurements that their station never had",
    }
    parts = [
        f"{format_count(open_cells[label], 'cell')} {where}"
        for label, where in outside.items()
        if open_cells[label]
    ]
    if parts:
        out.print(f"left open: {', '.join(parts)}; --extend fills them")
    if expected is not None and totals["filled"]:
        has_values = (result["source"] == "observed").any("time")  # a site has no gaps
        gaps = (result["source"] == "filled") & has_values
        longest = int(run_lengths(gaps.transpose(*result["source"].dims).to_numpy()).max())
        out.print(
            f"expected error: mean absolute error of {filled.selection.label} on "
            f"{format_count(expected.hidden, 'measured cell')} hidden from it, in gaps of up to "
            f"{format_count(expected.longest, 'step')}"
            + (f"; the longest gap filled has {longest:,}" if longest > expected.longest else "")
        )
        coverage = expected.errors.overall()["coverage"]
        if np.isfinite(coverage):
            out.print(f"90% intervals contain {coverage:.0%} of those cells")
    elif has_errors and totals["filled"]:
        out.print(
            "expected error: mean absolute error on cells not used to fit the network, but used to "
            "decide when to stop training"
        )
    if at_sites is not None:
        out.print(
            f"at sites: mean absolute error of {at_sites.method} on "
            f"{format_count(at_sites.hidden, 'measured cell')} of stations that were hidden"
        )
    if source.passthrough and outputs and detect_format(outputs[0]).kind == "arrays":
        out.print(f"left out of {outputs[0]}: {', '.join(source.passthrough)}")
    print_paths(*outputs)


def print_forecast(forecast: ForecastResult, outputs: Sequence[Path]) -> None:
    source, horizon = forecast.source, format_count(forecast.horizon, "step")
    times = source.cube["time"].to_numpy()[forecast.steps]
    period = TimeFormat(source).period(times[0], times[-1])
    out.print(f"{horizon} ahead: {period}")
    columns = {"forecast": "forecast", "unfillable": "unfillable", "expected error": "expected_mae"}
    print_by_measurement(forecast.records, units_of(source.cube), columns)
    if any(record["expected_mae"] is not None for record in forecast.records):
        where = (
            "on steps not used to fit the network, but used to decide when to stop training"
            if forecast.network
            else f"of a forecast of the last {horizon} of the table"
        )
        out.print(f"expected error: mean absolute error {where}")
    print_paths(*outputs)


def print_trained(
    records: Sequence[Record], folder: Path, *, forecasts: bool, stopped: bool
) -> None:
    if records:
        first = records[0]
        steps = format_count(int(first["steps"] or 0), "step")
        out.print(
            f"{first['method']}: {first['parameters']:,} parameters, {steps} in "
            f"{format_number(float(first['seconds'] or 0))} s, "
            f"best after step {first['best_step']:,}"
        )
        if first["measurement"] is not None:
            units = {
                str(record["measurement"]): str(record.get("unit") or "") for record in records
            }
            columns = {"cells": "cells", "error on cells held out from training": "mae"}
            print_by_measurement(records, units, columns)
    print_paths(folder)
    if stopped:
        out.print("stopped before the end: repeat the command to resume")
    command = "forecast FILE --horizon N" if forecasts else "fill FILE"
    out.print(f"to use it: cdsa {command} --model {folder} -o OUT", soft_wrap=True)


def explanation_records(explanation: Explanation, top: int, clock: Clock) -> list[dict[str, Value]]:
    explained: dict[str, Value] = {
        f"of_{name}": value for name, value in _describe(explanation.cell, clock).items()
    }
    explained["of_value"] = explanation.value
    for group, share in explanation.by_group().items():
        explained[f"from_{group.replace(',', '').replace(' ', '_')}"] = share
    return [
        {**_describe(item.cell, clock), "value": item.value, "share": item.share, **explained}
        for item in explanation.top(top)
    ]


def _describe(cell: Cell, clock: Clock) -> dict[str, str]:
    """The labels of a cell, with the time in the format of the table."""
    time = clock.format(np.array([cell.time]))[0]
    return {"time": time, "location": cell.location, "measurement": cell.measurement}


def print_explanation(explanation: Explanation, top: int, unit: str, clock: Clock) -> None:
    cell = explanation.cell
    contributions = [item for item in explanation.top(top) if item.share >= 0.0005]  # 0.1%
    where = ((cell.measurement, "bold"), " at ", (cell.location, "bold"))
    time = f", {_describe(cell, clock)['time']}: filled with "
    value = (format_number(explanation.value, 4), "bold")
    out.print(Text.assemble(*where, time, value, unit and f" {unit}"))
    if not contributions:
        out.print("nothing was measured nearby: this is the climatology")
        return
    groups = [f"{share:.0%} {name}" for name, share in explanation.by_group().items()]
    out.print(f"comes from: {'; '.join(groups)}")
    rows = [
        [f"{item.share:5.1%}", *_describe(item.cell, clock).values(), format_number(item.value, 4)]
        for item in contributions
    ]
    print_table(["share", "time", "station", "measurement"], ["value"], rows)
    rest = 1 - sum(item.share for item in contributions)
    if rest > 0.005:
        out.print(f"other cells contribute the remaining {rest:.1%} (--top for more)")
