"""The default network where no table of the paper looks: beside simple methods on the same cells.

    python benchmarks/accuracy.py stations   whole stations hidden: beside idw and kriging
    python benchmarks/accuracy.py weather    temperature and humidity, bursts and single cells
    python benchmarks/accuracy.py expected   the error that is told before a fill, and the real one

Needs data sets in the folder CDSA_DATA. With --record FILE the records are added to a results file.
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

from cdsa import open_dataset
from cdsa.core import defaults
from cdsa.core.geo import great_circle, median_distance
from cdsa.core.masks import Bursts
from cdsa.core.metrics import measure
from cdsa.core.records import Value, append_results, provenance
from cdsa.core.splits import segments
from cdsa.datasets.kdd2015 import REMOVED
from cdsa.methods.baselines.idw import Idw
from cdsa.methods.neural.cdsa import Cdsa, training
from cdsa.methods.registry import make_method
from cdsa.nn.context import Surroundings
from cdsa.nn.interpolation import easy_answer
from cdsa.nn.kriging_layer import Kriging
from cdsa.paper.protocols import ALL, kdd2015_pm25, kdd2015_weather, nyc_traffic
from cdsa.workflows.score import score

EXPECTED_RATES = (0.2, 0.5, 0.8, 0.9)
Records = list[dict[str, Value]]
SLOPES, NOISES, OWNS = (
    (0.02, 0.05, 0.1, 0.2, 0.4, 0.8),
    (0.001, 0.01, 0.03, 0.1, 0.3),
    (0.001, 0.05),
)
"""Of kriging that is told what is best."""


def ours(minutes: float, seed: int) -> Cdsa:
    """The default network with this budget and seed."""
    return Cdsa(seed=seed, train=replace(training(), minutes=minutes))


def kriged(train: xr.DataArray, test: xr.DataArray, late: xr.DataArray) -> xr.DataArray:
    """Kriging of the months that are asked for, one by one."""
    filler = make_method("kriging")[1].fit(train)
    months = [filler.fill(test.isel(time=part)) for part in segments(late.to_numpy())]
    return xr.concat(months, "time").reindex_like(test)


@torch.no_grad()
def kriged_at_best(test: xr.DataArray, truth: xr.DataArray, asked: xr.DataArray) -> xr.DataArray:
    """Kriging with the slope, the noise and the share of each station's own that are best on the
    very cells that are asked for, which no method can know: as far as kriging of one moment's
    values could come."""
    late = asked.any(("location", "measurement")).to_numpy()
    values = torch.as_tensor(test.to_numpy()[late], dtype=torch.float64).unsqueeze(0)
    observed = values.isfinite()
    values, easy = values.nan_to_num(), easy_answer(values.nan_to_num(), observed)
    apart = great_circle(test["lat"].to_numpy(), test["lon"].to_numpy())
    around = Surroundings(
        clock=values.new_zeros(1, values.shape[1], 0),
        usual=values,
        distance=torch.as_tensor(apart / median_distance(apart)),
        likeness=values.new_zeros(len(apart), len(apart)),
        roughness=values.new_zeros(1),
        kinds=torch.arange(1),
    )
    model, found = Kriging(1, alike=False).double(), []
    for slope, noise, own in product(SLOPES, NOISES, OWNS):
        model.slope.fill_(float(np.log(np.expm1(slope))))
        model.nugget.fill_(float(np.log(noise)))
        model.own.fill_(float(np.log(own / (1 - own))))
        told = test.isel(time=late).copy(data=model(values, observed, easy, around)[0].numpy())
        error = np.abs(told - truth).where(asked).mean().item()
        found.append((error, len(found), told))
    return min(found)[2].reindex_like(test)


def stations(given: argparse.Namespace) -> Records:
    """Six of 36 stations hidden from training and filling, asked for in the test months."""
    opened = open_dataset("kdd2015-pm25")
    trial = kdd2015_pm25(opened.cube, opened.extras[REMOVED], "out-of-sample")
    late = trial.asked["test-months"].time.dt.month.isin([3, 6, 9, 12])
    found: Records = []
    for draw in given.seeds:
        rng = np.random.default_rng([draw, 6])
        gone = rng.choice(trial.test["location"].to_numpy(), 6, replace=False)
        hidden = trial.test["location"].isin(gone)
        test = trial.test.where(~hidden).transpose(*trial.test.dims)
        truth = trial.test
        asked = (truth.notnull() & hidden & late).transpose(*test.dims)
        train = trial.train.isel(location=~hidden.to_numpy())
        ways: dict[str, Callable[[], xr.DataArray]] = {
            "idw": lambda: make_method("idw")[1].fit(train).fill(test),  # noqa: B023
            "idw, power 1": lambda: Idw(power=1.0).fit(train).fill(test),  # noqa: B023
            "kriging": lambda: kriged(train, test, late),  # noqa: B023
            "kriging at its best": lambda: kriged_at_best(test, truth, asked),  # noqa: B023
            "cdsa": lambda: ours(given.minutes, draw).fit(train).fill(test),  # noqa: B023
        }
        for name, way in ways.items():
            start = time.perf_counter()
            filled = way()
            figures = measure(filled, truth, asked, test).overall()
            one: dict[str, Value] = {
                "method": name,
                "draw": draw,
                "hidden": " ".join(sorted(gone)),
                "mae": float(figures["mae"]),
                "rmse": float(figures["rmse"]),
                "cells": int(figures["cells"]),
                "minutes": given.minutes if name == "cdsa" else None,
                "threads": torch.get_num_threads(),
                "seconds": time.perf_counter() - start,
            }
            print(f"draw {draw} {name}: MAE {one['mae']:.2f}", flush=True)
            found.append(one)
    return found


def weather(given: argparse.Namespace) -> Records:
    """A fifth of the cells hidden at random after bursts up to the paper's missing rate; both are
    asked for, with the time around them learnt from."""
    found: Records = []
    for name in ("kdd2015-temp", "kdd2015-hum"):
        opened = open_dataset(name)
        missing = opened.spec.expected.missing
        for seed in given.seeds:
            trial = kdd2015_weather(opened.cube, "in-sample", seed, missing=missing)
            bursts = Bursts(rate=missing)(opened.cube, np.random.default_rng(1))
            truth = opened.cube
            single = trial.truth.notnull() & trial.test.isnull()
            for method in ("linear", "cdsa"):
                trained = ours(given.minutes, seed) if method == "cdsa" else make_method(method)[1]
                filled = trained.fit(trial.train).fill(trial.test)
                for cells, asked in (("bursts", bursts), ("single", single)):
                    figures = measure(filled, truth, asked, trial.test).overall()
                    one: dict[str, Value] = {
                        "method": method,
                        "data": name,
                        "cells": cells,
                        "seed": seed,
                        "mae": float(figures["mae"]),
                        "count": int(figures["cells"]),
                        "minutes": given.minutes if method == "cdsa" else None,
                        "threads": torch.get_num_threads(),
                    }
                    print(f"{name} {cells} {method}: {one['mae']:.3f}", flush=True)
                    found.append(one)
    return found


def expected(given: argparse.Namespace) -> Records:
    """The error told from a table alone, and the real one on what had been taken out of it."""
    week, air = open_dataset("nyc-traffic").cube, open_dataset("kdd2015-pm25")
    trials = [
        (rate, seed, nyc_traffic(week, rate, seed))
        for rate, seed in product(EXPECTED_RATES, given.seeds)
    ]
    removed = kdd2015_pm25(air.cube, air.extras[REMOVED], "in-sample")
    trials += [(None, seed, removed) for seed in given.seeds]
    found: Records = []
    for (rate, seed, trial), method in product(trials, ("linear", "idw", "climatology")):
        told = score(method, trial.train, defaults.HIDE, seed=seed).errors.overall()
        filled = make_method(method)[1].fit(trial.train).fill(trial.test)
        real = measure(filled, trial.truth, trial.asked[ALL], trial.test).overall()
        one: dict[str, Value] = {
            "data": "METR-LA's week" if rate else "PM2.5",
            "method": method,
            "rate": rate,
            "seed": seed,
            "told": float(told["mae"]),
            "real": float(real["mae"]),
            "cells": int(told["cells"]),
        }
        name = f"{one['data']} {rate or ''} {method}"
        print(f"{name}: told {one['told']:.3f}, real {one['real']:.3f}", flush=True)
        found.append(one)
    return found


WHAT = {"stations": stations, "weather": weather, "expected": expected}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--minutes", type=float, default=3.0, help="of training, each time")
    parser.add_argument("--seeds", type=lambda text: [int(n) for n in text.split(",")], default=[0])
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    if "CDSA_DATA" not in os.environ:
        parser.error("CDSA_DATA must name the folder with the data sets")
    told = f"--minutes {given.minutes:g} --seeds {','.join(map(str, given.seeds))}"
    origin = provenance(f"python benchmarks/accuracy.py {given.what} {told}")
    records = WHAT[given.what](given)
    if given.record:
        append_results(given.record, [one | {"what": given.what} | origin for one in records])


if __name__ == "__main__":
    main()
