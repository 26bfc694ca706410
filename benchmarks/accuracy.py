"""The default network and simple methods on tasks that are in no table of the paper.

    python benchmarks/accuracy.py stations   whole stations hidden: compared with idw and kriging
    python benchmarks/accuracy.py weather    temperature and humidity, bursts and single cells
    python benchmarks/accuracy.py expected   the error expected before a fill, and the actual one

Needs data sets in the folder CDSA_DATA. With --record FILE the records are appended to a results
file.
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
import xarray as xr

from cdsa import open_dataset, score
from cdsa.core import defaults
from cdsa.core.masks import Bursts
from cdsa.core.metrics import measure
from cdsa.core.records import Value, append_results, provenance
from cdsa.core.splits import segments
from cdsa.datasets.kdd2015 import REMOVED
from cdsa.methods.baselines.idw import Idw
from cdsa.methods.neural.cdsa import DEFAULT_TRAINING, Cdsa
from cdsa.methods.registry import build_method
from cdsa.paper.protocols import ALL, kdd2015_pm25, kdd2015_weather, nyc_traffic

EXPECTED_RATES = (0.2, 0.5, 0.8, 0.9)
Records = list[dict[str, Value]]


def build_cdsa(minutes: float, seed: int) -> Cdsa:
    """The default network with this budget and seed."""
    return Cdsa(seed=seed, train=replace(DEFAULT_TRAINING, minutes=minutes))


def krige(train: xr.DataArray, test: xr.DataArray, in_test: xr.DataArray) -> xr.DataArray:
    """Kriging of each test month."""
    filler = build_method("kriging").fit(train)
    months = [filler.fill(test.isel(time=month)) for month in segments(in_test.to_numpy())]
    return xr.concat(months, "time").reindex_like(test)


def stations(options: argparse.Namespace) -> Records:
    """Six of 36 stations hidden from training and filling, scored in the test months."""
    opened = open_dataset("kdd2015-pm25")
    trial = kdd2015_pm25(opened.cube, opened.extras[REMOVED], "out-of-sample")
    in_test = trial.eval_masks["test-months"].time.dt.month.isin([3, 6, 9, 12])
    records: Records = []
    for draw in options.seeds:
        rng = np.random.default_rng([draw, 6])
        names = rng.choice(trial.test["location"].to_numpy(), 6, replace=False)
        hidden = trial.test["location"].isin(names)
        test = trial.test.where(~hidden).transpose(*trial.test.dims)
        truth = trial.test
        eval_mask = (truth.notnull() & hidden & in_test).transpose(*test.dims)
        train = trial.train.isel(location=~hidden.to_numpy())
        fills: dict[str, Callable[[], xr.DataArray]] = {
            "idw": lambda: build_method("idw").fit(train).fill(test),  # noqa: B023
            "idw, power 1": lambda: Idw(power=1.0).fit(train).fill(test),  # noqa: B023
            "kriging": lambda: krige(train, test, in_test),  # noqa: B023
            "cdsa": lambda: build_cdsa(options.minutes, draw).fit(train).fill(test),  # noqa: B023
        }
        for name, fill in fills.items():
            start = time.perf_counter()
            filled = fill()
            figures = measure(filled, truth, eval_mask, test).overall()
            record: dict[str, Value] = {
                "method": name,
                "draw": draw,
                "hidden": " ".join(sorted(names)),
                "mae": float(figures["mae"]),
                "rmse": float(figures["rmse"]),
                "cells": int(figures["cells"]),
                "minutes": options.minutes if name == "cdsa" else None,
                "threads": torch.get_num_threads(),
                "seconds": time.perf_counter() - start,
            }
            print(f"draw {draw} {name}: MAE {record['mae']:.2f}", flush=True)
            records.append(record)
    return records


def weather(options: argparse.Namespace) -> Records:
    """A fifth of the cells hidden at random, after bursts up to the paper's missing rate; both are
    scored, and the methods are trained on the rest of the same time."""
    records: Records = []
    for name in ("kdd2015-temp", "kdd2015-hum"):
        opened = open_dataset(name)
        missing = opened.spec.expected.missing
        for seed in options.seeds:
            trial = kdd2015_weather(opened.cube, "in-sample", seed, missing=missing)
            bursts = Bursts(rate=missing)(opened.cube, np.random.default_rng(1))
            truth = opened.cube
            single = trial.truth.notnull() & trial.test.isnull()
            for method in ("linear", "cdsa"):
                trained = (
                    build_cdsa(options.minutes, seed) if method == "cdsa" else build_method(method)
                )
                filled = trained.fit(trial.train).fill(trial.test)
                for cells, eval_mask in (("bursts", bursts), ("single", single)):
                    figures = measure(filled, truth, eval_mask, trial.test).overall()
                    record: dict[str, Value] = {
                        "method": method,
                        "data": name,
                        "cells": cells,
                        "seed": seed,
                        "mae": float(figures["mae"]),
                        "count": int(figures["cells"]),
                        "minutes": options.minutes if method == "cdsa" else None,
                        "threads": torch.get_num_threads(),
                    }
                    print(f"{name} {cells} {method}: {record['mae']:.3f}", flush=True)
                    records.append(record)
    return records


def expected(options: argparse.Namespace) -> Records:
    """The error expected from a table alone, and the actual one on cells removed from it."""
    week, air = open_dataset("nyc-traffic").cube, open_dataset("kdd2015-pm25")
    trials = [
        (rate, seed, nyc_traffic(week, rate, seed))
        for rate, seed in product(EXPECTED_RATES, options.seeds)
    ]
    removed = kdd2015_pm25(air.cube, air.extras[REMOVED], "in-sample")
    trials += [(None, seed, removed) for seed in options.seeds]
    records: Records = []
    for (rate, seed, trial), method in product(trials, ("linear", "idw", "climatology")):
        expectation = score(trial.train, method, defaults.HIDE, seed=seed).errors.overall()
        filled = build_method(method).fit(trial.train).fill(trial.test)
        actual = measure(filled, trial.truth, trial.eval_masks[ALL], trial.test).overall()
        record: dict[str, Value] = {
            "data": "METR-LA's week" if rate else "PM2.5",
            "method": method,
            "rate": rate,
            "seed": seed,
            "expected": float(expectation["mae"]),
            "actual": float(actual["mae"]),
            "cells": int(expectation["cells"]),
        }
        name = f"{record['data']} {rate or ''} {method}"
        figures = f"expected {record['expected']:.3f}, actual {record['actual']:.3f}"
        print(f"{name}: {figures}", flush=True)
        records.append(record)
    return records


WHAT = {"stations": stations, "weather": weather, "expected": expected}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--minutes", type=float, default=3.0, help="of training, each time")
    parser.add_argument("--seeds", type=lambda text: [int(n) for n in text.split(",")], default=[0])
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    if "CDSA_DATA" not in os.environ:
        parser.error("CDSA_DATA must name the folder with the data sets")
    arguments = f"--minutes {options.minutes:g} --seeds {','.join(map(str, options.seeds))}"
    origin = provenance(f"python benchmarks/accuracy.py {options.what} {arguments}")
    records = WHAT[options.what](options)
    if options.record:
        append_results(
            options.record, [record | {"what": options.what} | origin for record in records]
        )


if __name__ == "__main__":
    main()
