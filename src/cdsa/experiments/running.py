"""Running cells: learn, fill, measure, write down. What is written down is not run again."""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import xarray as xr

from cdsa.config import override
from cdsa.datasets import Opened, open_dataset
from cdsa.errors import CdsaError, ConfigError
from cdsa.experiments.protocols import ALL, Filling, Foresight, without
from cdsa.experiments.recipes import AS_PUBLISHED, HORIZONS, MEAN, Cell, trial_of
from cdsa.filling import forecasts_from
from cdsa.method import Filler, make_method
from cdsa.metrics import FIGURES, Errors, measure
from cdsa.results import Record, Value, append_results, plain, read_results
from cdsa.train.run import Run

KEYS = ("method", "data", "protocol", "rate", "seed", "loss", "minutes", "quick", "settings")
"""What makes two cells the same; the table they stand in does not."""
QUICK_ORIGINS = 24
"""Of so many moments to forecast from, a quick run takes one."""
Key = tuple[Value, ...]
Known = dict[Key, list[dict[str, Value]]]


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


def known_records(path: Path) -> Known:
    """What is written down, by cell; of what was measured twice, the last."""
    known: dict[Key, dict[Key, dict[str, Value]]] = {}
    for record in read_results(path) if path.exists() else []:
        if set(KEYS) <= set(record):
            parts = known.setdefault(tuple(record[name] for name in KEYS), {})
            parts[record["cells"], record["horizon"]] = record
    return {key: list(parts.values()) for key, parts in known.items()}


def is_known(cell: Cell, known: Mapping[Key, Sequence[Record]]) -> bool:
    """Whether every record of a cell is there."""
    there = {(record["cells"], record["horizon"]) for record in known.get(key_of(cell), ())}
    return set(cell.parts) <= there


def missing_cells(cells: Iterable[Cell], lab: Lab) -> list[Cell]:
    """Those that would be measured."""
    known = known_records(lab.results)
    return [cell for cell in cells if lab.again or not is_known(cell, known)]


def run_cells(table: str, cells: Iterable[Cell], lab: Lab) -> Iterator[list[dict[str, Value]]]:
    """The records of each cell in turn: those written down, or measured now and written down.

    A cell that cannot be measured does not keep the others from it; the reason is told at the end.
    """
    failed: dict[str, Cell] = {}
    opened: dict[str, Opened] = {}
    for cell in cells:
        known = known_records(lab.results)
        if lab.again or not is_known(cell, known):
            lab.told(cell)
            try:
                records = _measured(cell, opened, lab)
            except CdsaError as reason:
                failed.setdefault(str(reason), cell)
                continue
            append_results(lab.results, [{"table": table} | record for record in records])
            shutil.rmtree(_folder(cell, lab), ignore_errors=True)
            known = known_records(lab.results)
        yield [record | {"table": table} for record in known[key_of(cell)]]
    if failed:
        raise ConfigError(
            "not all could be measured; what was is written down. "
            + ". ".join(f"{cell.label}: {reason}" for reason, cell in failed.items())
        )


def _measured(cell: Cell, opened: dict[str, Opened], lab: Lab) -> list[dict[str, Value]]:
    """The records of a cell, measured now."""
    common: dict[str, Value] = dict(zip(KEYS, key_of(cell), strict=True))
    if cell.protocol == "profile":
        return [common | _profile(cell) | dict(lab.origin)]
    if cell.data not in opened:
        opened[cell.data] = open_dataset(cell.data, lab.data)
    data = opened[cell.data]
    trial = trial_of(cell, data)
    if cell.quick and isinstance(trial, Foresight):
        trial = replace(trial, origins=trial.origins[::QUICK_ORIGINS])
    start = time.perf_counter()
    filler = learnt(cell, trial, lab.run, _folder(cell, lab))
    errors = errors_of(trial, filler)
    seconds, trained = time.perf_counter() - start, _training(filler)
    common |= trained
    common |= {
        "measured_on": "; ".join([*data.remarks, *trial.remarks]) or AS_PUBLISHED,
        # a training that was gone on with took longer than this part of it
        "seconds": round(max(seconds, float(trained["trained_seconds"] or 0)), 2),
    }
    return [
        common
        | {"cells": cells, "horizon": horizon, "crps": None}
        | _figures(errors[cells, horizon])
        | dict(lab.origin)
        for cells, horizon in cell.parts
    ]


def _figures(errors: Errors) -> dict[str, Value]:
    told = errors.overall()
    return {name: plain(float(told[name])) for name in FIGURES} | {"count": int(told["cells"])}


def _training(filler: Any) -> dict[str, Value]:
    """How a network was trained, nothing of what is none."""
    network = getattr(filler, "network", None)
    if network is None:
        return {"trained_seconds": None, "trained_steps": None, "threads": None}
    place = network.place
    return {
        "trained_seconds": round(place.seconds, 1),
        "trained_steps": place.step,
        "threads": network.threads,
    }


def learnt(cell: Cell, trial: Filling | Foresight, run: Run, folder: Path) -> Filler:
    """What the cell's method learns from the trial; a network's training is written down in
    `folder`, and a killed one is gone on with."""
    if cell.minutes is None:
        return make_method(cell.method)[1].fit(trial.train)
    from cdsa.train.state import StateError

    name = f"{cell.method.partition('@')[0]}@small" if cell.quick else cell.method
    changes = [*cell.settings, f"train.minutes={cell.minutes}", f"seed={cell.seed}"]
    known = trial.train
    if isinstance(trial, Foresight):
        changes.append(f"horizon={trial.ahead}")
    if trial.validation is not None:
        known = xr.concat([trial.train, trial.validation], "time")
        share = trial.validation.sizes["time"] / known.sizes["time"]
        changes.append(f"train.validation={share}")
    made: Any = override(make_method(name)[1], changes)
    method = replace(made, run=replace(run, folder=folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        filler: Filler = method.fit(known)
    except StateError:  # of other data or other settings than now
        shutil.rmtree(folder)
        folder.mkdir(parents=True)
        filler = method.fit(known)
    return filler


def errors_of(trial: Filling | Foresight, filler: Filler) -> dict[tuple[str, str | None], Errors]:
    """Errors by what is scored: (cells, horizon)."""
    if isinstance(trial, Filling):
        filled = _filled(filler, trial.test, trial.piece)
        visible = without(trial.truth, trial.test.isnull())
        return {
            (name, None): measure(filled, trial.truth, asked, visible)
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


def _filled(filler: Filler, cube: xr.DataArray, piece: int | None) -> xr.DataArray:
    """The cube filled, piece by piece if it is in pieces."""
    if piece is None:
        return filler.fill(cube)
    starts = range(0, cube.sizes["time"], piece)
    parts = [filler.fill(cube.isel(time=slice(start, start + piece))) for start in starts]
    return xr.concat(parts, "time")


def _profile(cell: Cell) -> dict[str, Value]:
    """What a manner costs."""
    from cdsa.experiments.complexity import cost_of
    from cdsa.models.attention import MANNERS
    from cdsa.models.complexity import PAPER_SIZES

    start = time.perf_counter()
    (manner,) = (one for one in MANNERS if one == (cell.method.partition(":")[2] or "decomposed"))
    cost = cost_of(manner, PAPER_SIZES)
    nothing: dict[str, Value] = dict.fromkeys(
        (*FIGURES, "crps", "count", "trained_seconds", "trained_steps", "threads", "horizon")
    )
    told: dict[str, Value] = {
        "cells": ALL,
        "operations": cost.flops,
        "variables": cost.variables,
        "measured_on": AS_PUBLISHED,
        "seconds": round(time.perf_counter() - start, 2),
    }
    return nothing | told


def _folder(cell: Cell, lab: Lab) -> Path:
    """Where the cell's training is written down while it is under way."""
    name = hashlib.sha256(repr(key_of(cell)).encode()).hexdigest()[:16]
    return lab.results.parent / f".{lab.results.name}.under-way" / name
