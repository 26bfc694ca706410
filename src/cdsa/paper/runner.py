"""Running experiments: fit, predict, score, record. A recorded experiment is not run again."""

import contextlib
import hashlib
import operator
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import xarray as xr

from cdsa.core.config import override
from cdsa.core.cube import units_of
from cdsa.core.geo import Edge
from cdsa.core.metrics import LEVELS, METRICS, Errors, Intervals, measure
from cdsa.core.prepare import prepare
from cdsa.core.records import Value, append_results, lock_file, now, read_results, to_json_value
from cdsa.datasets.registry import OpenedDataset, open_dataset
from cdsa.errors import CdsaError, ConfigError
from cdsa.methods.base import GRAPH, Filler, Method
from cdsa.methods.registry import build_method, info_of
from cdsa.paper.protocols import (
    ALL,
    CONTEXT_LENGTH,
    HORIZON,
    ForecastTrial,
    ImputationTrial,
    drop_cells,
)
from cdsa.paper.tables import (
    AS_PUBLISHED,
    HORIZONS,
    MEAN_HORIZON,
    PROFILE,
    Experiment,
    build_trial,
    road_edges,
)
from cdsa.training.callbacks import RunContext
from cdsa.workflows.fill import fill_levels
from cdsa.workflows.score import MIXED_UNITS

KEYS = ("method", "data", "protocol", "rate", "seed", "loss", "minutes", "quick", "settings")
"""The values that identify an experiment; the table that it is run for is none of them."""
QUICK_STRIDE = 24
"""A quick run forecasts from every 24th origin."""
LOCK = "lock"
"""Name of the file that a run holds while it measures an experiment."""

Key = tuple[Value, ...]
Records = list[dict[str, Value]]


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Where data are read and records written, and what follows the work."""

    results: Path
    provenance: Mapping[str, Value]
    data_folder: Path | None = None
    run: RunContext = field(default_factory=RunContext)
    on_start: Callable[[Experiment], None] = lambda experiment: None
    force: bool = False
    """Measure recorded experiments again."""


def experiment_key(experiment: Experiment) -> Key:
    settings = " ".join(experiment.settings)
    return tuple(settings if name == "settings" else getattr(experiment, name) for name in KEYS)


class Cache:
    """Data sets and records that are read once."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self._datasets: dict[str, OpenedDataset] = {}
        self._records: dict[Key, Records] = {}
        self._version: tuple[int, int] | None = None
        """Size and time of the results file that was read."""

    def open_dataset(self, name: str) -> OpenedDataset:
        if name not in self._datasets:
            self._datasets[name] = open_dataset(name, self.settings.data_folder)
        return self._datasets[name]

    def find(self, experiment: Experiment) -> Records | None:
        """The records of an experiment, the last of duplicates; None if it is not complete.

        Only records of the data at hand count, or of any data if none are at hand.
        """
        records = self._load().get(experiment_key(experiment), [])
        if records and experiment.protocol != PROFILE:
            try:
                data = describe_data(self.open_dataset(experiment.data))
            except ConfigError:
                data = str(records[-1]["measured_on"])
            records = [record for record in records if record["measured_on"] == data]
        by_key = {(record["cells"], record["horizon"]): record for record in records}
        return list(by_key.values()) if set(experiment.record_keys) <= set(by_key) else None

    def _load(self) -> dict[Key, Records]:
        path = self.settings.results
        stat = path.stat() if path.exists() else None
        version = (stat.st_size, stat.st_mtime_ns) if stat else None
        if version != self._version:
            self._version, self._records = version, {}
            for record in read_results(path) if stat else []:
                if set(KEYS) <= set(record):
                    key = tuple(record[name] for name in KEYS)
                    self._records.setdefault(key, []).append(record)
        return self._records


def describe_data(opened: OpenedDataset) -> str:
    """The `measured_on` of records on this data set."""
    return "; ".join(opened.remarks) or AS_PUBLISHED


def pending(experiments: Iterable[Experiment], settings: RunSettings) -> list[Experiment]:
    cache = Cache(settings)
    return [each for each in experiments if settings.force or cache.find(each) is None]


def run_experiments(
    table: str, experiments: Iterable[Experiment], settings: RunSettings
) -> Iterator[Records]:
    """The records of each experiment, read from the results file or measured and added to it.

    Experiments that another process is running come last. A failure does not stop the others; it is
    raised at the end.
    """
    cache, failures = Cache(settings), dict[str, Experiment]()
    postponed: list[Experiment] = []
    for wait, queue in ((False, experiments), (True, postponed)):
        for experiment in queue:
            try:
                records = _find_or_measure(table, experiment, cache, wait=wait)
            except Exception as error:
                if not isinstance(error, CdsaError) and os.environ.get("CDSA_DEBUG"):
                    raise
                kind = "" if isinstance(error, CdsaError) else f"{type(error).__name__}: "
                failures.setdefault(f"{kind}{error}", experiment)
                continue
            if records is None:
                postponed.append(experiment)
            else:
                yield [record | {"table": table} for record in records]
    if failures:
        raise ConfigError(
            "these could not be measured: "
            + "; ".join(f"{failed.label} ({reason})" for reason, failed in failures.items())
        )


def _find_or_measure(
    table: str, experiment: Experiment, cache: Cache, *, wait: bool
) -> Records | None:
    """The records of an experiment; None if another process is running it and `wait` is false."""
    settings = cache.settings
    records = None if settings.force else cache.find(experiment)
    if records is not None:
        return records
    if experiment.protocol != PROFILE:
        cache.open_dataset(experiment.data)  # fails early if it is missing
    folder = _training_folder(experiment, settings)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("ab") as lock:
        if not lock_file(lock, wait=wait):
            return None
        records = None if settings.force else cache.find(experiment)  # another run may be done
        try:
            if records is None:
                settings.on_start(experiment)
                records = _measure(experiment, cache)
                append_results(settings.results, [{"table": table} | record for record in records])
        finally:
            _clear(folder, finished=records is not None)
    return records


def _clear(folder: Path, *, finished: bool) -> None:
    """Remove the folder of an experiment, unless it has a training to resume."""
    if finished or not any(path.name != LOCK for path in folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other experiments may be running
            folder.parent.rmdir()


def _measure(experiment: Experiment, cache: Cache) -> Records:
    settings = cache.settings
    common: dict[str, Value] = dict(zip(KEYS, experiment_key(experiment), strict=True))
    if experiment.protocol == PROFILE:
        return [common | _profile(experiment) | dict(settings.provenance) | {"when": now()}]
    data = cache.open_dataset(experiment.data)
    trial = build_trial(experiment, data)
    if experiment.quick and isinstance(trial, ForecastTrial):
        trial = replace(trial, origins=trial.origins[::QUICK_STRIDE])
    start = time.perf_counter()
    folder = _training_folder(experiment, settings)
    filler = fit_trial(experiment, trial, settings.run, folder, road_edges(data))
    errors = evaluate(trial, filler)
    seconds, training = time.perf_counter() - start, _training_stats(filler)
    units = list(units_of(trial.test).values())
    common |= training | {
        "unit": units[0] if len(units) == 1 else MIXED_UNITS,
        "measured_on": describe_data(data),
        "prepared": "; ".join(trial.remarks) or None,
        # a resumed training took longer than this session
        "seconds": round(max(seconds, float(training["trained_seconds"] or 0)), 2),
    }
    return [
        common
        | {"cells": cells, "horizon": horizon}
        | _metrics(errors[cells, horizon])
        | dict(settings.provenance)
        | {"when": now()}
        for cells, horizon in experiment.record_keys
    ]


def _metrics(errors: Errors) -> dict[str, Value]:
    """All metrics over all cells; coverage by gap length and at the worst station."""
    overall, by_gap = errors.overall(), errors.by("gap")
    return (
        {name: to_json_value(float(overall[name])) for name in METRICS}
        | {"count": int(overall["cells"])}
        | {f"count_gap_{gap}": int(number) for gap, number in by_gap["cells"].items()}
        | {
            f"coverage_gap_{gap}": to_json_value(float(share))
            for gap, share in by_gap["coverage"].items()
        }
        | {"coverage_worst_station": to_json_value(float(errors.by("location")["coverage"].min()))}
    )


def _training_stats(filler: Filler) -> dict[str, Value]:
    """Duration, size and graph of a network's training; all None for other methods."""
    from cdsa.methods.engine.estimator import NeuralFiller, OnGraph

    network = filler.network if isinstance(filler, NeuralFiller) else None
    if network is None:
        return dict.fromkeys(("trained_seconds", "trained_steps", "threads", "parameters", "graph"))
    has_roads = isinstance(filler.settings, OnGraph) and bool(filler.settings.edges)
    return {
        "trained_seconds": round(network.train_state.seconds, 1),
        "trained_steps": network.train_state.step,
        "threads": network.n_threads,
        "parameters": network.n_parameters,
        "graph": "roads" if has_roads else None,  # not the one of distances
    }


def fit_trial(
    experiment: Experiment,
    trial: ImputationTrial | ForecastTrial,
    run: RunContext,
    folder: Path,
    edges: Sequence[Edge] = (),
) -> Filler:
    """Fit the experiment's method on the trial, with these roads if it uses a graph. A network's
    training is saved in `folder`, from where an interrupted one is resumed."""
    if experiment.minutes is None:
        return build_method(experiment.method).fit(trial.train)
    from cdsa.training.checkpoint import TRAINING
    from cdsa.training.state import StateError

    horizon = HORIZON if isinstance(trial, ForecastTrial) else 0
    method, cube = build_network(experiment, horizon, edges), trial.train
    if isinstance(trial, ForecastTrial) and trial.validation is not None:
        # a forecaster is validated on the end of its cube
        cube = xr.concat([trial.train, trial.validation], "time")
        share = trial.validation.sizes["time"] / cube.sizes["time"]
        method = override(method, [f"train.holdout_share={share}"])
    run = replace(run, folder=folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return method.fit(cube, run)
    except StateError:  # saved with other data or other settings
        (folder / TRAINING).unlink()
        return method.fit(cube, run)


def build_network(experiment: Experiment, horizon: int = 0, edges: Sequence[Edge] = ()) -> Method:
    """The network of an experiment for this horizon, with these roads if it uses a graph."""
    plain_name = experiment.method.partition("@")[0]
    name = f"{plain_name}@small" if experiment.quick else experiment.method
    changes = [f"train.minutes={experiment.minutes}", f"seed={experiment.seed}"]
    if horizon:  # a preset may set a longer horizon
        changes.append(f"horizon={horizon}")
    method = override(build_method(name, horizon=horizon), [*experiment.settings, *changes])
    return method.with_graph(edges) if edges and info_of(name).needs == GRAPH else method


def evaluate(
    trial: ImputationTrial | ForecastTrial, filler: Filler
) -> dict[tuple[str, str | None], Errors]:
    if isinstance(trial, ImputationTrial):
        filled, bounds = _fill(filler, trial.test, trial.piece_length)
        visible = drop_cells(trial.truth, trial.test.isnull())
        return {
            (name, None): measure(filled, trial.truth, eval_mask, visible, bounds)
            for name, eval_mask in trial.eval_masks.items()
        }
    forecasts = filler.forecast_from(
        trial.test, trial.origins, context=CONTEXT_LENGTH, horizon=HORIZON
    )
    by_step = []
    for step, forecast in enumerate(forecasts):
        truth = trial.test.isel(time=trial.origins + step)
        by_step.append(measure(forecast, truth, truth.notnull(), truth))
    at_horizons = {name: by_step[step - 1] for name, step in HORIZONS.items()}
    at_horizons[MEAN_HORIZON] = reduce(operator.add, by_step)
    return {(ALL, horizon): errors for horizon, errors in at_horizons.items()}


def _fill(
    filler: Filler, cube: xr.DataArray, piece_length: int | None
) -> tuple[xr.DataArray, Intervals]:
    """The filled cube and its bounds by level, filled piece by piece if a length is given."""
    if piece_length is None:
        return fill_levels(filler, prepare(cube), LEVELS)
    starts = range(0, len(cube), piece_length)
    pieces = [
        fill_levels(filler, prepare(cube[start : start + piece_length]), LEVELS) for start in starts
    ]

    def join(level: float, side: int) -> xr.DataArray:
        return xr.concat([bounds[level][side] for _, bounds in pieces], "time")

    bounds = {level: (join(level, 0), join(level, 1)) for level in pieces[0][1]}
    return xr.concat([filled for filled, _ in pieces], "time"), bounds


def _profile(experiment: Experiment) -> dict[str, Value]:
    from cdsa.nn.types import MANNERS
    from cdsa.paper.complexity import measure_cost

    start = time.perf_counter()
    name = experiment.method.partition(":")[2] or "decomposed"
    cost = measure_cost(MANNERS[MANNERS.index(name)])
    absent = ("count", "trained_seconds", "trained_steps", "threads", "graph", "horizon")
    return dict.fromkeys((*METRICS, *absent, "unit", "prepared")) | {
        "cells": ALL,
        "operations": cost.flops,
        "parameters": cost.parameters,
        "measured_on": "one window, with our widths",
        "seconds": round(time.perf_counter() - start, 2),
    }


def _training_folder(experiment: Experiment, settings: RunSettings) -> Path:
    name = hashlib.sha256(repr(experiment_key(experiment)).encode()).hexdigest()[:16]
    return settings.results.parent / f".{settings.results.name}.running" / name
