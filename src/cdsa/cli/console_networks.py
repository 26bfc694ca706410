"""What the terminal shows of networks: what they cost, how they were trained, what they foresee."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from cdsa.cli import console
from cdsa.core import defaults
from cdsa.core.cube import units_of
from cdsa.core.records import Value
from cdsa.core.text import format_count, format_number
from cdsa.errors import ConfigError
from cdsa.io.source import Source
from cdsa.methods.base import Learnt
from cdsa.workflows.score import Score, hidden_cells, try_method

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
            f"{first['method']}: {first['variables']:,} variables, {steps} in "
            f"{format_number(float(first['seconds'] or 0))} s, "
            f"best after step {first['best_step']:,}"
        )
        if first["measurement"] is not None:
            _print_errors(records, "error on cells kept from training")
    console.out.print(f"wrote [bold]{escape(str(folder))}[/]", soft_wrap=True)
    if stopped:
        console.out.print("stopped before the end: give the same command again to go on")
    command = "forecast FILE --steps N" if filler.method.horizon else "fill FILE"
    console.out.print(
        f"to use it: cdsa {command} --model {escape(str(folder))} -o OUT", soft_wrap=True
    )


def say_elsewhere(filler: "NeuralFiller", cube: xr.DataArray) -> list[str]:
    """The errors to expect of a kept network at stations that it was not trained on: told by hiding
    some of what they measured, and where they measured nothing by its own exam."""
    network = filler.network
    if network is None or network.context_builder is None or not network.inductive:
        return []
    told = []
    strange = (
        ~network.context_builder.is_known(cube)
        & cube.notnull().any(("time", "measurement")).to_numpy()
    )
    scored = _score_at(filler, cube, strange) if strange.any() else None
    if scored is not None:
        errors = {str(r["measurement"]): r["mae"] for r in scored.records() if not r["overall"]}
        told.append(
            f"at {format_count(int(strange.sum()), 'station')} that the network was not trained "
            f"on: error {_listed(errors, units_of(cube))} on "
            f"{format_count(scored.hidden, 'measured cell')} hidden from it"
        )
    silent = network.adapt_to(cube).unobserved(cube)
    errors = {str(error["measurement"]): error["mae_unmonitored"] for error in filler.errors}
    if silent.any() and any(error is not None for error in errors.values()):
        told.append(
            f"at {format_count(int(silent.sum()), 'place')} without a sensor: error "
            f"{_listed(errors, units_of(cube))} when stations it was trained on were hidden whole"
        )
    return told


def _score_at(
    filler: "NeuralFiller", cube: xr.DataArray, stations: NDArray[np.bool_]
) -> Score | None:
    """How what has learnt does at some stations; None if too little was measured there."""
    try:
        hidden = hidden_cells(cube.isel(location=stations), defaults.HIDE, seed=0)
    except ConfigError:
        return None
    hidden = hidden.reindex_like(cube, fill_value=False).astype(bool)
    return try_method(Learnt(filler), cube, hidden).score


def _listed(errors: Mapping[str, Value], units: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name} {format_number(float(error))} {units.get(name, '')}".rstrip()
        for name, error in errors.items()
        if error is not None
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


def print_forecast(
    source: Source,
    ahead: slice,
    records: Sequence[Mapping[str, Value]],
    outputs: Sequence[Path],
    *,
    network: bool,
) -> None:
    """What was foreseen, what error to expect, and where it was written."""
    stamp = console.Stamps(source)
    times = source.cube["time"].to_numpy()
    steps = ahead.stop - ahead.start
    span = f"{stamp(times[ahead.start])} to {stamp(times[ahead.stop - 1])}{stamp.zone}"
    console.out.print(f"{format_count(steps, 'step')} ahead: {span}")
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
            "on steps kept from the network's training, which told it when to stop"
            if network
            else f"of foreseeing the last {format_count(steps, 'step')} there are"
        )
        console.out.print(f"expected error: mean absolute error {where}")
    for path in outputs:
        console.out.print(f"wrote [bold]{escape(str(path))}[/]", soft_wrap=True)
