"""What the terminal shows of networks: what they cost, how they were trained, what they foresee."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

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
    """How a training went and where the network is."""
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
    console.out.print(f"wrote [bold]{escape(str(folder))}[/]", soft_wrap=True)
    if stopped:
        console.out.print("stopped before the end: repeat the command to resume")
    command = "forecast FILE --horizon N" if filler.method.horizon else "fill FILE"
    console.out.print(
        f"to use it: cdsa {command} --model {escape(str(folder))} -o OUT", soft_wrap=True
    )


def _print_errors(records: Sequence[Mapping[str, Value]], title: str) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    units = any(record.get("unit") for record in records)
    table.add_column("measurement")
    table.add_column("unit" if units else "")
    table.add_column("cells", justify="right")
    table.add_column(title, justify="right")
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
    """The forecast period, the expected error, and where it was written."""
    source, records, horizon = forecast.source, forecast.records, forecast.horizon
    stamp = console.Stamps(source)
    times = source.cube["time"].to_numpy()[forecast.steps]
    period = f"{stamp(times[0])} to {stamp(times[-1])}{stamp.zone}"
    console.out.print(f"{format_count(horizon, 'step')} ahead: {period}")
    units = units_of(source.cube)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("measurement")
    table.add_column("unit" if any(units.values()) else "")
    for name in ("forecast", "unfillable", "expected error"):
        table.add_column(name, justify="right")
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
    for path in outputs:
        console.out.print(f"wrote [bold]{escape(str(path))}[/]", soft_wrap=True)
