"""Memory and time of every method, on cubes of the paper's sizes.

    python benchmarks/baselines.py [--record results/baselines.jsonl] [--methods a,b]

Each method runs in its own process; networks train for a few seconds, enough to see the cost of a
training step and of filling. Methods that forecast also forecast twelve steps. The exit code is 1
if a method fails or needs more than 3 GiB.
"""

import argparse
import json
import resource
import shlex
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import xarray as xr

from cdsa import forecast
from cdsa.core.cube import make_cube
from cdsa.core.records import Value, append_results, provenance
from cdsa.methods.registry import NO_OPTIONS, REGISTRY, MethodOptions, build_method, info_of

SHAPES = {
    "8759x36x1": (8_759, 36, 1),
    "9000x11x11": (9_000, 11, 11),
    "2016x207x1": (2_016, 207, 1),
}
"""The sizes of KDD-2015's PM2.5, of KDD-2018, and of a week of METR-LA."""
TASKS = ("fill", "forecast")
MAX_MIB = 3 * 1024
MINUTES, HORIZON = 0.1, 12


def synthetic_cube(steps: int, stations: int, measurements: int) -> xr.DataArray:
    """Correlated series with a fifth missing, in bursts and single cells."""
    rng = np.random.default_rng(0)
    common = np.cumsum(rng.normal(size=(steps, 1, 1)), axis=0) / 10
    values = common + rng.normal(size=(1, stations, measurements))
    values = values + 0.3 * rng.normal(size=(steps, stations, measurements))
    values[rng.random(values.shape) < 0.1] = np.nan
    for start in rng.integers(0, steps - 48, steps // 100):
        values[start : start + 48, rng.integers(stations)] = np.nan
    times = np.datetime64("2020-01-01") + np.arange(steps).astype("timedelta64[h]")
    return make_cube(
        values,
        times,
        [f"S{n:02}" for n in range(stations)],
        [f"m{n:02}" for n in range(measurements)],
        lat=40 + rng.random(stations),
        lon=116 + rng.random(stations),
    )


def measure_method(name: str, shape: str, task: str) -> dict[str, Value]:
    """Memory and time of one method, in this process."""
    cube = synthetic_cube(*SHAPES[shape])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    horizon = HORIZON if task == "forecast" else 0
    options = MethodOptions(minutes=MINUTES) if info_of(name).trains else NO_OPTIONS
    method = build_method(name, options, horizon=horizon)
    if horizon:
        forecast(cube, horizon, method)
    else:
        method.fit(cube).fill(cube)
    return {
        "method": name,
        "shape": shape,
        "task": task,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "before_mib": before,
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(REGISTRY))
    parser.add_argument("--record", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure_method(*options.child)))
        return
    failed = list[str]()
    for shape, name in product(SHAPES, options.methods):
        for task in TASKS:
            if task not in info_of(name).task:
                continue
            command = [sys.executable, __file__, "--child", name, shape, task]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            label = f"{shape}  {name:20} {task:8}"
            if process.returncode:
                print(f"{label} failed: {(process.stderr.strip() or 'killed').splitlines()[-1]}")
                failed.append(name)
                continue
            record = json.loads(process.stdout.splitlines()[-1])
            mark = "" if record["mib"] <= MAX_MIB else "  too much"
            failed += [name] if mark else []
            print(f"{label} {record['mib']:6.0f} MiB {record['seconds']:6.1f} s{mark}", flush=True)
            if options.record:  # one at a time, so that a later failure loses nothing
                origin = provenance(shlex.join(["python", *sys.argv]))
                append_results(options.record, [{"benchmark": "baselines", **record, **origin}])
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
