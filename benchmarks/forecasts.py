"""Forecasts of 24 hours on two open networks of sensors, by our methods.

    python benchmarks/forecasts.py --networks beijing,auckland --methods last,kalman,cdsa

A method is fitted to the first four fifths of a year. It then forecasts from 60 origins in the last
fifth, each time from the two weeks before. The error is in standard deviations of each measurement.

Needs the folder `open` in the folder CDSA_DATA. With --record FILE the records are appended to a
results file.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
from peers import open_network

import cdsa
from cdsa.core.prepare import prepare
from cdsa.core.records import Value, append_results, provenance
from cdsa.methods.engine.estimator import NeuralFiller
from cdsa.methods.registry import MethodOptions, build_method, info_of

METHODS = "last,seasonal-naive,climatology,ar,kalman,fc-lstm,cdsa"
HORIZON, N_ORIGINS, HISTORY = 24, 60, 14 * 24
"""Steps ahead, forecasts, and the steps before an origin that a forecast may use."""

TRAINED_SHARE = 0.8
HOURS = (1, 3, 6, 12, 24)
"""Hours ahead that are printed by themselves."""


def run(network: str, name: str, options: argparse.Namespace) -> dict[str, Value]:
    """Fit a method, forecast from all origins, and measure each hour ahead."""
    cube = open_network(network)
    n_train = round(TRAINED_SHARE * len(cube))
    origins = np.linspace(n_train, len(cube) - HORIZON, N_ORIGINS).round().astype(np.int64)
    minutes = options.minutes if info_of(name).trains else None
    settings = MethodOptions(minutes=minutes, seed=options.seed)
    method = build_method(name, settings, horizon=HORIZON)
    start = time.process_time()
    filler = method.fit(prepare(cube[:n_train]))
    context = HISTORY if filler.context_length is None else filler.context_length
    forecasts = filler.forecast_from(cube, origins, context=context, horizon=HORIZON)
    record: dict[str, Value] = {
        "network": network,
        "method": name,
        "seed": options.seed,
        "minutes": minutes,
        "threads": torch.get_num_threads(),
        "cpu_seconds": time.process_time() - start,
        "origins": len(origins),
    }
    if isinstance(filler, NeuralFiller) and filler.network is not None:
        record["steps"] = filler.network.train_state.step
    scale = cube[:n_train].std(("time", "location"))
    by_hour = []
    for step, forecast in enumerate(forecasts):
        error = np.abs(forecast - cube.isel(time=origins + step)) / scale
        by_hour.append(float(error.mean()))
    record["mae"] = float(np.mean(by_hour))
    record |= {f"mae_{hour}h": error for hour, error in enumerate(by_hour, start=1)}
    ahead = ", ".join(f"{hour} h {by_hour[hour - 1]:.3f}" for hour in HOURS)
    seconds = f"{record['cpu_seconds']:.0f} s of CPU time"
    print(f"{network} {name}: mean {record['mae']:.4f}; {ahead}; {seconds}", flush=True)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", default="beijing,auckland")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--minutes", type=float, default=3.0, help="of training a network")
    parser.add_argument("--seed", type=int, default=0, help="of networks")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    if "CDSA_DATA" not in os.environ:
        parser.error("CDSA_DATA must name the folder with the data sets")
    arguments = f"--methods {options.methods} --minutes {options.minutes:g} --seed {options.seed}"
    command = f"python benchmarks/forecasts.py --networks {options.networks} {arguments}"
    for method in options.methods.split(","):
        for network in options.networks.split(","):
            origin = provenance(command)
            try:
                record = run(network, method, options)
            except cdsa.CdsaError as error:
                print(f"{network} {method}: refused: {error}", flush=True)
                continue
            if options.record:
                append_results(options.record, [record | origin])


if __name__ == "__main__":
    main()
