"""Training and filling speed of the default network.

    python benchmarks/default.py step       a training step as a share of the machine's matmul peak
    python benchmarks/default.py compiled   the same step by torch.compile
    python benchmarks/default.py parallel   the same step on one core, with torch's own threads, and
                                            data parallel; with threads that spin, and that sleep
    python benchmarks/default.py fill       filling a year of hourly data at 36 stations
    python benchmarks/default.py memory     filling a cube that gets ten times longer

With --record FILE the records are appended to a results file.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch.utils.flop_counter import FlopCounterMode

from cdsa.core.cube import make_cube
from cdsa.core.records import Value, append_results, provenance
from cdsa.methods.neural.cdsa import Cdsa
from cdsa.methods.neural.cdsa_network import CdsaNetworkConfig
from cdsa.nn.context import WindowContext
from cdsa.nn.types import Sizes
from cdsa.training.loss import masked_loss
from cdsa.training.parallel import data_parallel
from cdsa.workflows.fill import fill_with

Records = list[dict[str, Value]]
WINDOWS = {"36x36x1": (Sizes(36, 36, 1), 8), "48x11x11": (Sizes(48, 11, 11), 2)}
"""With the batch sizes that the method chooses."""
ROUNDS = 7


def measure_peak() -> float:
    """Operations per second of a large matrix product."""
    a = torch.randn(1536, 1536)
    a @ a
    start = time.perf_counter()
    for _ in range(5):
        a @ a
    return 5 * 2 * 1536**3 / (time.perf_counter() - start)


def build_step(
    sizes: Sizes, batch_size: int, *, parallel: bool = True, compiled: bool = False
) -> Callable[[], None]:
    """One training step: forward, backward and the optimiser, data parallel over the cores or
    not."""
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    model = CdsaNetworkConfig().build(sizes, 0, 4)
    values = torch.randn(batch_size, *sizes)
    observed = torch.rand(values.shape) < 0.7
    coordinates = torch.rand(sizes.locations, 2)
    around = WindowContext(
        calendar=torch.randn(batch_size, sizes.steps, 4),
        climatology=torch.randn(batch_size, *sizes),
        distance=torch.cdist(coordinates, coordinates),
        station_similarity=torch.eye(sizes.locations),
        step_variance=torch.full((sizes.measurements,), 0.1),
        variable_ids=torch.arange(sizes.measurements),
    )
    optimiser = torch.optim.Adam(model.parameters(), foreach=True)
    forward = torch.compile(model) if compiled else model
    if parallel and not compiled:
        forward = partial(data_parallel, model)

    def step() -> None:
        prediction = forward(values, observed, around)
        optimiser.zero_grad()
        masked_loss("mae", prediction, values, ~observed).backward()
        optimiser.step()

    return step


def time_step(step: Callable[[], None], times: int = 3) -> float:
    """Mean seconds of a step."""
    start = time.perf_counter()
    for _ in range(times):
        step()
    return (time.perf_counter() - start) / times


def step(options: argparse.Namespace) -> Records:
    """A training step, in turns with the large product."""
    records: Records = []
    for threads in (1, torch.get_num_threads()):
        for name, (sizes, batch_size) in WINDOWS.items():
            torch.set_num_threads(1)  # the counter sees only its own thread
            train = build_step(sizes, batch_size)
            with FlopCounterMode(display=False) as counter:
                train()
            torch.set_num_threads(threads)
            ratios, seconds = [], []
            for _ in range(ROUNDS):
                peak = measure_peak()
                seconds.append(time_step(train))
                ratios.append(counter.get_total_flops() / seconds[-1] / peak)
            record: dict[str, Value] = {
                "window": name,
                "batch_size": batch_size,
                "threads": threads,
                "gflop": counter.get_total_flops() / 1e9,
                "seconds": statistics.median(seconds),
                "share_of_peak": statistics.median(ratios),
            }
            figures = f"{record['seconds']:.3f} s, {record['share_of_peak']:.1%} of the peak"
            print(f"{name} {threads} threads: {figures}")
            records.append(record)
    return records


def compiled(options: argparse.Namespace) -> Records:
    """The same step with and without torch.compile, in turns."""
    records: Records = []
    for name, (sizes, batch_size) in WINDOWS.items():
        plain = build_step(sizes, batch_size)
        fast = build_step(sizes, batch_size, compiled=True)
        start = time.perf_counter()
        fast()
        first = time.perf_counter() - start
        plain()
        ratios = [time_step(plain) / time_step(fast) for _ in range(ROUNDS)]
        record: dict[str, Value] = {
            "window": name,
            "batch_size": batch_size,
            "threads": torch.get_num_threads(),
            "compile_seconds": first,
            "times_faster": statistics.median(ratios),
        }
        print(f"{name}: {record['times_faster']:.2f} x as fast after {first:.0f} s of compiling")
        records.append(record)
    return records


def measure_parallel(rounds: int) -> Records:
    """The same step on one core, with torch's own threads and data parallel, in turns."""
    records: Records = []
    threads = torch.get_num_threads()
    for name, (sizes, batch_size) in WINDOWS.items():
        steps = {
            "one core": (1, build_step(sizes, batch_size)),
            "torch's threads": (threads, build_step(sizes, batch_size, parallel=False)),
            "data parallel": (threads, build_step(sizes, batch_size)),
        }
        seconds: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(rounds):
            for execution, (n_threads, train) in steps.items():
                torch.set_num_threads(n_threads)
                seconds[execution].append(time_step(train))
        median = {execution: statistics.median(each) for execution, each in seconds.items()}
        records += [
            {
                "window": name,
                "batch_size": batch_size,
                "execution": execution,
                "threads": n_threads,
                "seconds": median[execution],
                "times_faster": median["one core"] / median[execution],
            }
            for execution, (n_threads, _) in steps.items()
        ]
    return records


def parallel(options: argparse.Namespace) -> Records:
    """With waiting threads that sleep, as the commands set them, and that spin, which is torch's
    default; each in its own process."""
    records: Records = []
    others = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for wait, more in (("sleep", {"OMP_WAIT_POLICY": "PASSIVE"}), ("spin", {})):
        command = [sys.executable, __file__, "parallel", "--child", str(ROUNDS)]
        env = others | more
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
        for record in json.loads(process.stdout):
            label = f"{record['window']} {wait} {record['execution']}"
            print(f"{label}: {record['seconds']:.3f} s, {record['times_faster']:.2f} x as fast")
            records.append(record | {"wait": wait})
    return records


def synthetic_cube(steps: int, stations: int = 36) -> xr.DataArray:
    """Hourly data with a tenth missing; the time to fill does not depend on the values."""
    rng = np.random.default_rng(0)
    t, shift = np.arange(steps)[:, None], rng.random(stations) * 9
    values = np.sin((t + shift) / 4) + 0.1 * rng.normal(size=(steps, stations))
    values[rng.random(values.shape) < 0.13] = np.nan
    times = np.datetime64("2020-01-01") + np.arange(steps).astype("timedelta64[h]")
    return make_cube(
        values[..., None],
        times,
        [f"S{n:02}" for n in range(stations)],
        ["x"],
        lat=40 + rng.random(stations),
        lon=116 + rng.random(stations),
    )


def fit_briefly(cube: xr.DataArray, epochs: int = 1):
    """The default network of its default size, hardly trained."""
    start = cube.isel(time=slice(0, 200))
    method = Cdsa(model=CdsaNetworkConfig(), auto_size=False)
    return replace(method, train=replace(method.train, epochs=epochs), stride=48).fit(start)


def fill(options: argparse.Namespace) -> Records:
    """A year of hours at 36 stations."""
    cube = synthetic_cube(8759)
    filler = fit_briefly(cube)
    records: Records = []
    for output, work in (
        ("values", lambda: filler.fill(cube)),
        ("values and intervals", lambda: fill_with(filler, cube)),
    ):
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        records.append({"filled": output, "seconds": seconds, "threads": torch.get_num_threads()})
        print(f"{output}: {seconds:.1f} s")
    return records


def measure_memory(steps: int) -> dict[str, Value]:
    """Peak memory of filling, memory before it, and size of the result, in MiB."""
    cube = synthetic_cube(steps)
    filler = fit_briefly(cube)
    filler.fill(cube.isel(time=slice(0, 500)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    filled = filler.fill(cube)
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"steps": steps, "mib": mib, "before_mib": before, "out_mib": filled.nbytes / 2**20}


def memory(options: argparse.Namespace) -> Records:
    """One year and ten, each in its own process."""
    records: Records = []
    for steps in (8_760, 87_600):
        command = [sys.executable, __file__, "memory", "--child", str(steps)]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
        record = json.loads(process.stdout)
        print(f"{steps:,} steps: {record['mib']:.0f} MiB peak, {record['out_mib']:.0f} MiB filled")
        records.append(record)
    return records


WHAT = {
    "step": step,
    "compiled": compiled,
    "parallel": parallel,
    "fill": fill,
    "memory": memory,
}
CHILDREN = {"memory": measure_memory, "parallel": measure_parallel}
"""Functions of a number that run in their own process."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--record", type=Path)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(CHILDREN[options.what](options.child)))
        return
    origin = provenance(f"python benchmarks/default.py {options.what}")
    records = WHAT[options.what](options)
    if options.record:
        append_results(
            options.record, [record | {"what": options.what} | origin for record in records]
        )


if __name__ == "__main__":
    main()
