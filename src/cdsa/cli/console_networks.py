"""Trained networks and forecasts in the terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from cdsa.cli import console
from cdsa.core.cube import units_of
from cdsa.core.records import Value
from cdsa.core.text import format_count, format_number
from cdsa.workflows.pipeline import ForecastResult

if TYPE_CHECKING:
    from cdsa.methods.engine.estimator import NeuralFiller


def print_trained(
    filler: "NeuralFiller", folder: Path, records: Sequence[Mapping[str, Value]], *, stopped: bool
) -> None:
    """Size, duration and validation errors of a training, and where the network is."""
    if records:
        first = records[0]
        steps = format_count(int(first["steps"] or 0), "step")
        console.out.print(
            f"{first['method']}: {first['parameters']:,} parameters, {steps} in "
            f"{format_number(float(first['seconds'] or 0))} s, "
            f"best after step {first['best_step']:,}"
        )
        if first["measurement"] is not None:
            _print_errors(records, "error on cells held out from training")
    console.print_paths(folder)
    if stopped:
        console.out.print("stopped before the end: repeat the command to resume")
    command = "forecast FILE --horizon N" if filler.method.horizon else "fill FILE"
    console.out.print(
        f"to use it: cdsa {command} --model {escape(str(folder))} -o OUT", soft_wrap=True
    )


def _print_errors(records: Sequence[Mapping[str, Value]], title: str) -> None:
    unit = "unit" if any(record.get("unit") for record in records) else ""
    table = console.new_table(["measurement", unit], ["cells", title])
    for record in records:
        error = record["mae"]
        table.add_row(
            escape(str(record["measurement"])),
            escape(str(record.get("unit") or "")),
            f"{record['cells']:,}",
            format_number(float(error)) if error is not None else "-",
        )
    console.out.print(table)


def print_forecast(forecast: ForecastResult, outputs: Sequence[Path]) -> None:
    """The period and the expected errors of a forecast, and the files that were written."""
    source, records, horizon = forecast.source, forecast.records, forecast.horizon
    time_format = console.TimeFormat(source)
    times = source.cube["time"].to_numpy()[forecast.steps]
    period = f"{time_format(times[0])} to {time_format(times[-1])}{time_format.zone}"
    console.out.print(f"{format_count(horizon, 'step')} ahead: {period}")
    units = units_of(source.cube)
    unit = "unit" if any(units.values()) else ""
    table = console.new_table(["measurement", unit], ["forecast", "unfillable", "expected error"])
    for record in records:
        error = record["expected_mae"]
        table.add_row(
            escape(str(record["measurement"])),
            escape(units[str(record["measurement"])]),
            f"{record['forecast']:,}",
            f"{record['unfillable']:,}",
            format_number(float(error)) if error is not None else "-",
        )
    console.out.print(table)
    if any(record["expected_mae"] is not None for record in records):
        where = (
            "on steps held out from the network's training, which decided when to stop"
            if forecast.network
            else f"of a forecast of the last {format_count(horizon, 'step')} of the table"
        )
        console.out.print(f"expected error: mean absolute error {where}")
    console.print_paths(*outputs)
