"""Error over CPU seconds: `kalman`, the default network, and BRITS and SAITS of PyPOTS.

    python benchmarks/race.py --methods kalman,cdsa --minutes 0.25,0.5,1,3,10
    python benchmarks/race.py --methods BRITS,SAITS --minutes 10 --pypots PYTHON

On two tables: the test months of KDD-2015 PM2.5, unseen in training (MAE in ug/m3), and bursts in a
year of Beijing's air and weather (MAE in standard deviations, as in peers.py). The default network
is trained anew for each number of minutes; PyPOTS' networks fill after every epoch.

Needs data sets in the folder CDSA_DATA, and for the networks of PyPOTS the Python of a separate
environment: pip install pypots. With --record FILE the records are appended to a results file.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import xarray as xr
from peers import hide_cells, open_network, summarise
from pypots_networks import SIZES, Settings, fill_series

from cdsa import open_dataset
from cdsa.core.metrics import measure
from cdsa.core.records import Value, append_results, provenance
from cdsa.datasets.kdd2015 import REMOVED
from cdsa.methods.engine.estimator import NeuralFiller
from cdsa.methods.registry import MethodOptions, build_method, info_of
from cdsa.paper.protocols import kdd2015_pm25

METHODS = "kalman,cdsa,BRITS,SAITS"


@dataclass(frozen=True, eq=False)
class Track:
    """A table to train on, one to fill, and the cells that are scored."""

    train: xr.DataArray
    test: xr.DataArray
    truth: xr.DataArray
    eval_mask: xr.DataArray
    scaled: bool
    """Whether the error is in standard deviations."""

    def error(self, filled: xr.DataArray) -> float:
        errors = measure(filled, self.truth, self.eval_mask, self.test)
        return float(summarise(errors)["mae"] if self.scaled else errors.overall()["mae"])


def open_pm25(seed: int) -> Track:
    opened = open_dataset("kdd2015-pm25")
    trial = kdd2015_pm25(opened.cube, opened.extras[REMOVED], "out-of-sample")
    months = trial.eval_masks["test-months"]
    return Track(trial.train, trial.test, trial.truth, months, scaled=False)


def open_beijing(seed: int) -> Track:
    truth = open_network("beijing")
    hidden = hide_cells(truth, seed)
    visible = truth.where(~(hidden["bursts"] | hidden["blocks"]))
    return Track(visible, visible, truth, hidden["bursts"], scaled=True)


TRACKS: dict[str, Callable[[int], Track]] = {"pm25": open_pm25, "beijing": open_beijing}


def run_ours(
    track: Track, name: str, minutes: float | None, seed: int
) -> Iterator[dict[str, Value]]:
    """A method fitted once."""
    start = time.process_time()
    filler = build_method(name, MethodOptions(minutes=minutes, seed=seed)).fit(track.train)
    fit_seconds = time.process_time() - start
    filled = filler.fill(track.test)
    record: dict[str, Value] = {
        "minutes": minutes,
        "cpu_seconds": fit_seconds,
        "fill_cpu_seconds": time.process_time() - start - fit_seconds,
        "threads": torch.get_num_threads(),
        "mae": track.error(filled),
    }
    if isinstance(filler, NeuralFiller) and filler.network is not None:
        record["steps"] = filler.network.train_state.step
    yield record


def run_pypots(track: Track, settings: Settings, python: Path) -> Iterator[dict[str, Value]]:
    """A network of PyPOTS, after every epoch."""
    mean, std = track.train.mean("time").fillna(0.0), track.train.std("time")
    std = std.where(std > 0, 1.0)  # also of a series without values
    scaled = ((part - mean) / std for part in (track.train, track.test))
    train, test = (part.to_numpy().reshape(len(part), -1) for part in scaled)
    for series, figures in fill_series(python, settings, train, test):
        filled = track.test.copy(data=series.reshape(track.test.shape)) * std + mean
        seconds = figures["train_cpu_seconds"]
        error = track.error(filled.transpose(*track.test.dims))
        yield {"minutes": settings.minutes, "cpu_seconds": seconds, "mae": error} | figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tracks", default=",".join(TRACKS))
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--minutes", default="0.25,0.5,1,3,10", help="PyPOTS: the last of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pypots", type=Path, help="Python of an environment with pypots")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    methods, minutes = options.methods.split(","), [float(x) for x in options.minutes.split(",")]
    if "CDSA_DATA" not in os.environ:
        parser.error("CDSA_DATA must name the folder with the data sets")
    if options.pypots is None and set(methods) & set(SIZES):
        parser.error("BRITS and SAITS need --pypots")
    command = f"python benchmarks/race.py --minutes {options.minutes} --seed {options.seed}"
    for name in options.tracks.split(","):
        track = TRACKS[name](options.seed)
        for method in methods:
            origin = provenance(f"{command} --tracks {name} --methods {method}")
            if method in SIZES:
                settings = Settings(
                    name=method, minutes=minutes[-1], seed=options.seed, every_epoch=True
                )
                runs = [run_pypots(track, settings, options.pypots)]
            else:
                budgets = minutes if info_of(method).trains else [None]
                runs = [run_ours(track, method, budget, options.seed) for budget in budgets]
            known: dict[str, Value] = {"track": name, "method": method, "seed": options.seed}
            for record in (record for records in runs for record in records):
                seconds, error = record["cpu_seconds"], record["mae"]
                print(f"{name} {method}: {error:.4f} after {seconds:.1f} s", flush=True)
                if options.record:
                    append_results(options.record, [known | record | origin])


if __name__ == "__main__":
    main()
