"""Running cells: learn, fill, measure, write down. What is written down is not run again."""

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from cdsa.core.config import override
from cdsa.core.cube import units_of
from cdsa.core.metrics import LEVELS, METRICS, Errors, measure
from cdsa.core.records import (
    Value,
    append_results,
    lock_file,
    now,
    read_results,
    to_json_value,
)
from cdsa.datasets import OpenedDataset, open_dataset
from cdsa.errors import CdsaError, ConfigError
from cdsa.methods.base import Filler, fill_and_ends
from cdsa.methods.registry import make_method
from cdsa.paper.protocols import ALL, Filling, Foresight, without
from cdsa.paper.tables import (
    AS_PUBLISHED,
    HORIZONS,
    MEAN,
    PROFILE,
    Cell,
    roads_of,
    trial_of,
)
from cdsa.training.callbacks import Run
from cdsa.workflows.forecast import forecasts_from
from cdsa.workflows.score import MIXED

if TYPE_CHECKING:
    from cdsa.nn.graph import Edge


KEYS = ("method", "data", "protocol", "rate", "seed", "loss", "minutes", "quick", "settings")
"""What makes two cells the same; the table they stand in does not."""


QUICK_ORIGINS = 24
"""Of so many moments to forecast from, a quick run takes one."""


TURN = "turn"
"""The file that a run holds while it measures a cell."""


Key = tuple[Value, ...]


Records = list[dict[str, Value]]


@dataclass(frozen=True, kw_only=True)
class Lab:
    """Where data come from and records go, and what accompanies the work."""

    results: Path
    origin: Mapping[str, Value]
    """Provenance of the records."""

    data: Path | None = None
    run: Run = field(default_factory=Run)
    told: Callable[[Cell], None] = lambda cell: None
    again: bool = False
    """Measure anew what is written down already."""


def key_of(cell: Cell) -> Key:
    """The cell's values of `KEYS`."""
    settings = " ".join(cell.settings)
    return tuple(settings if name == "settings" else getattr(cell, name) for name in KEYS)


class Bench:
    """What is read once: data sets, and the records there are."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._opened: dict[str, OpenedDataset] = {}
        self._records: dict[Key, Records] = {}
        self._seen: tuple[int, int] | None = None

    def open(self, name: str) -> OpenedDataset:
        """A data set."""
        if name not in self._opened:
            self._opened[name] = open_dataset(name, self.lab.data)
        return self._opened[name]

    def known(self, cell: Cell) -> Records | None:
        """The records of a cell if all of them are there, measured on the data there are now; of
        what was measured twice, the last. Without the data, whatever they were measured on."""
        records = self._read().get(key_of(cell), [])
        if records and cell.protocol != PROFILE:
            try:
                on = measured_on(self.open(cell.data))
            except ConfigError:
                on = str(records[-1]["measured_on"])
            records = [record for record in records if record["measured_on"] == on]
        parts = {(record["cells"], record["horizon"]): record for record in records}
        return list(parts.values()) if set(cell.parts) <= set(parts) else None

    def _read(self) -> dict[Key, Records]:
        path = self.lab.results
        told = path.stat() if path.exists() else None
        seen = (told.st_size, told.st_mtime_ns) if told else None
        if seen != self._seen:
            self._seen, self._records = seen, {}
            for record in read_results(path) if told else []:
                if set(KEYS) <= set(record):
                    key = tuple(record[name] for name in KEYS)
                    self._records.setdefault(key, []).append(record)
        return self._records


def measured_on(opened: OpenedDataset) -> str:
    """What a record says of its data."""
    return "; ".join(opened.remarks) or AS_PUBLISHED


def missing_cells(cells: Iterable[Cell], lab: Lab) -> list[Cell]:
    """Those that would be measured."""
    bench = Bench(lab)
    return [cell for cell in cells if lab.again or bench.known(cell) is None]


def run_cells(table: str, cells: Iterable[Cell], lab: Lab) -> Iterator[Records]:
    """The records of each cell in turn: those written down, or measured now and written down.

    Cells that another run has under way come last. A cell that cannot be measured does not keep the
    others from it; the reason is told at the end.
    """
    bench, failed = Bench(lab), dict[str, Cell]()
    later: list[Cell] = []
    for wait, some in ((False, cells), (True, later)):
        for cell in some:
            try:
                records = _known_or_measured(table, cell, bench, wait=wait)
            except Exception as reason:
                if not isinstance(reason, CdsaError) and os.environ.get("CDSA_DEBUG"):
                    raise
                kind = "" if isinstance(reason, CdsaError) else f"{type(reason).__name__}: "
                failed.setdefault(f"{kind}{reason}", cell)
                continue
            if records is None:
                later.append(cell)
            else:
                yield [record | {"table": table} for record in records]
    if failed:
        raise ConfigError(
            "these could not be measured: "
            + "; ".join(f"{cell.label} ({reason})" for reason, cell in failed.items())
        )


def _known_or_measured(table: str, cell: Cell, bench: Bench, *, wait: bool) -> Records | None:
    """The records of a cell; None if another run has it under way and is not waited for."""
    lab = bench.lab
    known = None if lab.again else bench.known(cell)
    if known is not None:
        return known
    if cell.protocol != PROFILE:
        bench.open(cell.data)  # or say that it is not there, before anything is begun
    folder = _folder(cell, lab)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / TURN).open("ab") as turn:
        if not lock_file(turn, wait=wait):
            return None
        known = None if lab.again else bench.known(cell)  # another run may have been faster
        try:
            if known is None:
                lab.told(cell)
                known = _measured(cell, bench)
                append_results(lab.results, [{"table": table} | record for record in known])
        finally:
            _clear(folder, whole=known is not None)
    return known


def _clear(folder: Path, *, whole: bool) -> None:
    """Remove the folder of a cell; one with a training to be gone on with only if it is done."""
    if whole or not any(path.name != TURN for path in folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # others may be under way
            folder.parent.rmdir()


def _measured(cell: Cell, bench: Bench) -> Records:
    """The records of a cell, measured now."""
    lab = bench.lab
    common: dict[str, Value] = dict(zip(KEYS, key_of(cell), strict=True))
    if cell.protocol == PROFILE:
        return [common | _profile(cell) | dict(lab.origin) | {"when": now()}]
    data = bench.open(cell.data)
    trial = trial_of(cell, data)
    if cell.quick and isinstance(trial, Foresight):
        trial = replace(trial, origins=trial.origins[::QUICK_ORIGINS])
    start = time.perf_counter()
    filler = learnt(cell, trial, lab.run, _folder(cell, lab), roads_of(data))
    errors = errors_of(trial, filler)
    seconds, trained = time.perf_counter() - start, _training(filler)
    units = list(units_of(trial.test).values())
    common |= trained | {"graph": "roads" if _on_roads(filler) else None}
    common |= {
        "unit": units[0] if len(units) == 1 else MIXED,
        "measured_on": measured_on(data),
        "prepared": "; ".join(trial.remarks) or None,
        # a training that was gone on with took longer than this part of it
        "seconds": round(max(seconds, float(trained["trained_seconds"] or 0)), 2),
    }
    return [
        common
        | {"cells": cells, "horizon": horizon}
        | _figures(errors[cells, horizon])
        | dict(lab.origin)
        | {"when": now()}
        for cells, horizon in cell.parts
    ]


def _figures(errors: Errors) -> dict[str, Value]:
    """All figures over everything; how often intervals held by length of the gap, and at the
    station where they held least."""
    told, by_gap = errors.overall(), errors.by("gap")
    return (
        {name: to_json_value(float(told[name])) for name in METRICS}
        | {"count": int(told["cells"])}
        | {f"count_gap_{gap}": int(number) for gap, number in by_gap["cells"].items()}
        | {
            f"coverage_gap_{gap}": to_json_value(float(one))
            for gap, one in by_gap["coverage"].items()
        }
        | {"coverage_least_station": to_json_value(float(errors.by("location")["coverage"].min()))}
    )


def _training(filler: Any) -> dict[str, Value]:
    """How a network was trained, nothing of what is none."""
    network = getattr(filler, "network", None)
    if network is None:
        return dict.fromkeys(("trained_seconds", "trained_steps", "threads", "variables"))
    place = network.place
    return {
        "trained_seconds": round(place.seconds, 1),
        "trained_steps": place.step,
        "threads": network.threads,
        "variables": network.variables,
    }


def _on_roads(filler: Any) -> bool:
    """Whether a network looked along roads; else distances made its graph, if it has one."""
    return bool(getattr(getattr(filler, "method", None), "edges", ()))


def learnt(
    cell: Cell, trial: Filling | Foresight, run: Run, folder: Path, roads: "Sequence[Edge]" = ()
) -> Filler:
    """What the cell's method learns from the trial, on these roads if it looks along a graph; a
    network's training is written down in `folder`, and a killed one is gone on with."""
    if cell.minutes is None:
        return make_method(cell.method)[1].fit(trial.train)
    from cdsa.training.checkpoint import TRAINING
    from cdsa.training.state import StateError

    made, known = made_for(cell, getattr(trial, "ahead", 0), roads), trial.train
    if isinstance(trial, Foresight) and trial.validation is not None:
        # a forecaster is examined on the end of what it knows
        known = xr.concat([trial.train, trial.validation], "time")
        share = trial.validation.sizes["time"] / known.sizes["time"]
        made = override(made, [f"train.validation={share}"])
    method = replace(made, run=replace(run, folder=folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        filler: Filler = method.fit(known)
    except StateError:  # of other data or other settings than now
        (folder / TRAINING).unlink()
        filler = method.fit(known)
    return filler


def made_for(cell: Cell, ahead: int = 0, roads: "Sequence[Edge]" = ()) -> Any:
    """The network of a cell with its settings, made for its horizon as `cdsa forecast` does, and on
    these roads if it looks along a graph."""
    name = f"{cell.method.partition('@')[0]}@small" if cell.quick else cell.method
    changes = [*cell.settings, f"train.minutes={cell.minutes}", f"seed={cell.seed}"]
    if (
        ahead
    ):  # what was made for more steps, such as the shared manner, foresees no more than these
        changes.append(f"horizon={ahead}")
    made: Any = override(make_method(name, ahead=ahead)[1], changes)
    return made.on_graph(roads) if roads and hasattr(made, "on_graph") else made


def errors_of(trial: Filling | Foresight, filler: Filler) -> dict[tuple[str, str | None], Errors]:
    """Errors by what is scored: (cells, horizon)."""
    if isinstance(trial, Filling):
        filled, ends = _filled(filler, trial.test, trial.piece)
        visible = without(trial.truth, trial.test.isnull())
        return {
            (name, None): measure(filled, trial.truth, asked, visible, ends)
            for name, asked in trial.asked.items()
        }
    told = forecasts_from(filler, trial.test, trial.origins, past=trial.past, ahead=trial.ahead)
    by_step = []
    for step, guess in enumerate(told):
        truth = trial.test.isel(time=trial.origins + step)
        by_step.append(measure(guess, truth, truth.notnull(), truth))
    whole = by_step[0]
    for errors in by_step[1:]:
        whole = whole + errors
    ahead: dict[tuple[str, str | None], Errors] = {(ALL, MEAN): whole}
    return ahead | {(ALL, name): by_step[step - 1] for name, step in HORIZONS.items()}


def _filled(
    filler: Filler, cube: xr.DataArray, piece: int | None
) -> tuple[xr.DataArray, dict[float, tuple[xr.DataArray, xr.DataArray]]]:
    """The cube filled and the ends of intervals, piece by piece if it is in pieces."""
    if piece is None:
        return fill_and_ends(filler, cube, LEVELS)
    starts = range(0, cube.sizes["time"], piece)
    parts = [
        fill_and_ends(filler, cube.isel(time=slice(start, start + piece)), LEVELS)
        for start in starts
    ]

    def whole(level: float, side: int) -> xr.DataArray:
        return xr.concat([ends[level][side] for _, ends in parts], "time")

    ends = {level: (whole(level, 0), whole(level, 1)) for level in parts[0][1]}
    return xr.concat([filled for filled, _ in parts], "time"), ends


def _profile(cell: Cell) -> dict[str, Value]:
    """What a manner costs."""
    from cdsa.nn.types import MANNERS
    from cdsa.paper.complexity import PAPER_SIZES, cost_of

    start = time.perf_counter()
    (manner,) = (one for one in MANNERS if one == (cell.method.partition(":")[2] or "decomposed"))
    cost = cost_of(manner, PAPER_SIZES)
    nothing: dict[str, Value] = dict.fromkeys(
        (
            *METRICS,
            "count",
            "trained_seconds",
            "trained_steps",
            "threads",
            "graph",
            "horizon",
            "unit",
            "prepared",
        )
    )
    told: dict[str, Value] = {
        "cells": ALL,
        "operations": cost.flops,
        "variables": cost.variables,
        "measured_on": "one window, with our widths",
        "seconds": round(time.perf_counter() - start, 2),
    }
    return nothing | told


def _folder(cell: Cell, lab: Lab) -> Path:
    """Where the cell's training is written down while it is under way."""
    name = hashlib.sha256(repr(key_of(cell)).encode()).hexdigest()[:16]
    return lab.results.parent / f".{lab.results.name}.under-way" / name
