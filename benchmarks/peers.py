"""Our methods, and BRITS and SAITS of PyPOTS, on three open networks of sensors.

    python benchmarks/peers.py --networks beijing,logan --methods mice,kalman,cdsa,auto
    python benchmarks/peers.py --methods BRITS,SAITS --pypots PYTHON

Two kinds of cells are hidden at once, and a method is fitted once on the rest: `blocks`, where a
station is silent for 6 to 48 hours, and `bursts`, gaps in single series like those of the data.
The error is in standard deviations of each measurement.

Needs the folder `open` in the folder CDSA_DATA, and for the networks of PyPOTS the Python of a
separate environment: pip install pypots. With --record FILE the records are appended to a results
file.
"""

import argparse
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from pypots_networks import SIZES, Settings, fill_series

import cdsa
from cdsa.core import defaults
from cdsa.core.cube import make_cube
from cdsa.core.masks import Bursts
from cdsa.core.metrics import Errors, Intervals, measure
from cdsa.core.prepare import prepare
from cdsa.core.records import Value, append_results, provenance, to_json_value
from cdsa.methods.engine.estimator import NeuralFiller
from cdsa.methods.registry import MethodOptions, build_method, info_of
from cdsa.workflows.fill import fill_levels

NETWORKS = {
    "beijing": ("beijing_multisite_2013-03_2014-03.npz", slice("2013-03-01", "2014-02-28")),
    "auckland": ("auckland_pedestrians.npz", slice("2024", "2024")),
    "logan": ("logan_river_2019-01_2020-03.npz", slice("2019", "2019")),
}
"""File and year of each network."""
METHODS = "linear,climatology,idw,knn,mice,mf,st-mvl,kalman,cdsa,auto"
BLOCK_HOURS, BLOCK_SHARE, BURST_SHARE = (6, 48), 0.05, 0.2
MIN_CELLS = 200
"""Cells that a group needs for its coverage to be reported."""


@dataclass(frozen=True, eq=False)
class Result:
    """A filled cube and what it took."""

    filled: xr.DataArray
    cpu_seconds: float
    intervals: Intervals = field(default_factory=dict)
    figures: Mapping[str, Value] = field(default_factory=dict)


def open_network(name: str) -> xr.DataArray:
    """A year of a network, without stations that measured nothing; without coordinates unless all
    stations have them."""
    file, year = NETWORKS[name]
    arrays = np.load(Path(os.environ["CDSA_DATA"]) / "open" / file)
    cube = make_cube(
        arrays["X"].astype(np.float64), arrays["time"], arrays["stations"], arrays["measurements"]
    )
    cube = cube.assign_coords({c: ("location", arrays[c]) for c in ("lat", "lon")}).sel(time=year)
    cube = cube.isel(location=cube.notnull().any(("time", "measurement")).to_numpy())
    located = bool(np.isfinite(cube["lat"]).all())
    return cube if located else cube.drop_vars(["lat", "lon"])


def hide_cells(cube: xr.DataArray, seed: int) -> dict[str, xr.DataArray]:
    """The cells of the silent stations, and those of bursts outside of these."""
    rng = np.random.default_rng(seed)
    hour = round(np.timedelta64(1, "h") / np.diff(cube["time"][:2])[0])  # steps
    n_steps, n_stations = cube.shape[:2]
    silent = np.zeros((n_steps, n_stations), dtype=bool)
    while silent.mean() < BLOCK_SHARE:
        length = int(rng.integers(BLOCK_HOURS[0] * hour, BLOCK_HOURS[1] * hour + 1))
        start, station = int(rng.integers(n_steps - length + 1)), int(rng.integers(n_stations))
        if not silent[max(0, start - 1) : start + length + 1, station].any():  # no longer blocks
            silent[start : start + length, station] = True
    bursts = Bursts(share=BURST_SHARE)(cube, rng)  # of the lengths of gaps before the blocks
    blocks = cube.notnull() & silent[:, :, None]
    return {"bursts": bursts & ~blocks, "blocks": blocks}


def fill_ours(name: str, visible: xr.DataArray, options: argparse.Namespace) -> Result:
    """A method of the registry, or 'auto'."""
    trains = name == defaults.AUTO or info_of(name).trains
    minutes = options.minutes if trains else None
    figures: dict[str, Value] = {"minutes": minutes, "threads": torch.get_num_threads()}
    if name == defaults.AUTO:
        start = time.process_time()
        result = cdsa.fill(visible, minutes=minutes, seed=options.seed, details=True)
        cpu_seconds, filled = time.process_time() - start, result.dataset
        bounds = {defaults.INTERVAL: (filled["lower"], filled["upper"])}
        return Result(filled["value"], cpu_seconds, bounds, figures | {"chosen": result.method})
    method = build_method(name, MethodOptions(minutes=minutes, seed=options.seed))
    start = time.process_time()
    data = prepare(visible)
    filler = method.fit(data)
    values, intervals = fill_levels(filler, data, [defaults.INTERVAL])
    cpu_seconds = time.process_time() - start
    if isinstance(filler, NeuralFiller) and filler.network is not None:
        figures["steps"] = filler.network.train_state.step
    return Result(values, cpu_seconds, intervals, figures)


def fill_pypots(name: str, visible: xr.DataArray, options: argparse.Namespace) -> Result:
    """A network of PyPOTS on windows of all series, each with mean 0 and standard deviation 1."""
    mean, std = visible.mean("time").fillna(0.0), visible.std("time")
    std = std.where(std > 0, 1.0)  # also of a series without values
    scaled = ((visible - mean) / std).to_numpy().reshape(len(visible), -1)
    settings = Settings(name=name, minutes=options.minutes, seed=options.seed)
    [(series, figures)] = fill_series(options.pypots, settings, scaled, scaled)
    filled = visible.copy(data=series.reshape(visible.shape)) * std + mean
    cpu_seconds = float(figures["train_cpu_seconds"]) + float(figures["fill_cpu_seconds"])
    return Result(filled, cpu_seconds, figures={"minutes": options.minutes} | figures)


def summarise(errors: Errors) -> dict[str, Value]:
    """Error over all cells in standard deviations, of each measurement in its unit, and by length
    of gap; coverage over all cells and of the worst groups."""
    sums, by_gap = errors.sums, errors.by("gap")
    scaled = errors.sums.groupby(level="gap")[["z_abs", "weight"]].sum()
    record: dict[str, Value] = {
        "cells": int(sums["cells"].sum()),
        "mae": float(sums["z_abs"].sum() / sums["weight"].sum()),
        "coverage": to_json_value(float(errors.overall()["coverage"])),
    }
    for name, figures in errors.by("measurement").iterrows():
        record[f"mae_{name}"] = float(figures["mae"])
    for gap, n_cells in by_gap["cells"].items():
        record[f"cells_gap_{gap}"] = int(n_cells)
        record[f"mae_gap_{gap}"] = float(scaled["z_abs"][gap] / scaled["weight"][gap])
    if record["coverage"] is None:
        return record
    for key in ("gap", "location", "measurement"):
        table = errors.by(key)
        coverage = table["coverage"][table["cells"] >= MIN_CELLS].dropna()
        if len(coverage):
            record[f"worst_{key}"] = str(coverage.idxmin())
            record[f"coverage_worst_{key}"] = float(coverage.min())
    return record


def run(network: str, method: str, options: argparse.Namespace) -> list[dict[str, Value]]:
    """Fit a method once, fill, and score it on both kinds of hidden cells; or why it refused."""
    truth = open_network(network)
    hidden = hide_cells(truth, options.seed)
    visible = truth.where(~(hidden["bursts"] | hidden["blocks"]))
    known: dict[str, Value] = {"network": network, "method": method, "seed": options.seed}
    start = time.perf_counter()
    try:
        result = (fill_pypots if method in SIZES else fill_ours)(method, visible, options)
    except cdsa.CdsaError as error:
        print(f"{network} {method}: refused: {error}", flush=True)
        return [known | {"refused": str(error)}]
    known |= {"cpu_seconds": result.cpu_seconds, "seconds": time.perf_counter() - start}
    records: list[dict[str, Value]] = []
    for cells, eval_mask in hidden.items():
        errors = measure(result.filled, truth, eval_mask, visible, result.intervals)
        unfilled = int((eval_mask & result.filled.isnull()).sum())
        figures = summarise(errors) | {"hidden": cells, "unfilled": unfilled}
        records.append(known | dict(result.figures) | figures)
    maes = ", ".join(f"{record['hidden']} {record['mae']:.4f}" for record in records)
    print(f"{network} {method}: {maes}; {result.cpu_seconds:.1f} s of CPU time", flush=True)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--methods", default=METHODS, help="of ours, BRITS and SAITS")
    parser.add_argument("--minutes", type=float, default=3.0, help="of training a network")
    parser.add_argument("--seed", type=int, default=0, help="of the hidden cells and of networks")
    parser.add_argument("--pypots", type=Path, help="Python of an environment with pypots")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    networks, methods = options.networks.split(","), options.methods.split(",")
    if "CDSA_DATA" not in os.environ:
        parser.error("CDSA_DATA must name the folder with the data sets")
    if options.pypots is None and set(methods) & set(SIZES):
        parser.error("BRITS and SAITS need --pypots")
    arguments = f"--methods {options.methods} --minutes {options.minutes:g} --seed {options.seed}"
    command = f"python benchmarks/peers.py --networks {options.networks} {arguments}"
    for method in methods:
        for network in networks:
            origin = provenance(command)
            records = run(network, method, options)
            if options.record:
                append_results(options.record, [record | origin for record in records])


if __name__ == "__main__":
    main()
