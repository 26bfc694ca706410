"""The default network: how fast it learns and fills.

    python benchmarks/default.py step       a training step as a share of the machine's matmul peak
    python benchmarks/default.py compiled   the same step by torch.compile
    python benchmarks/default.py parts      the same step on one core, with torch's own threads, and
                                            in parts; with threads that spin, and that sleep
    python benchmarks/default.py fill       filling a year of hourly data at 36 stations
    python benchmarks/default.py memory     filling a cube that gets ten times longer
    python benchmarks/default.py race       CPU time to reach an error, beside pypots  (*)

With --record FILE the records are added to a results file. (*) needs data sets in the folder
CDSA_DATA and an environment of its own with pypots (--python).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch.utils.flop_counter import FlopCounterMode

from cdsa import open_dataset
from cdsa.core.cube import make_cube
from cdsa.core.metrics import measure
from cdsa.core.records import Value, append_results, provenance
from cdsa.datasets.kdd2015 import REMOVED
from cdsa.methods.neural.cdsa import Cdsa, GeographicConfig, training
from cdsa.nn.context import Surroundings
from cdsa.nn.types import Sizes
from cdsa.paper.protocols import kdd2015_pm25
from cdsa.training.loss import loss_of
from cdsa.training.parallel import in_parts
from cdsa.workflows.fill import fill_with

Records = list[dict[str, Value]]
WINDOWS = {"36x36x1": (Sizes(36, 36, 1), 8), "48x11x11": (Sizes(48, 11, 11), 2)}
"""With the batches that the method itself chooses."""
ROUNDS = 7


def peak() -> float:
    """Operations a second of a large matrix product, now."""
    a = torch.randn(1536, 1536)
    a @ a
    start = time.perf_counter()
    for _ in range(5):
        a @ a
    return 5 * 2 * 1536**3 / (time.perf_counter() - start)


def learner(
    sizes: Sizes, batch: int, *, whole: bool = False, compiled: bool = False
) -> Callable[[], None]:
    """One step of training: forward, backward and the optimiser; the batch in parts, one for each
    core, or as a whole."""
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    model = GeographicConfig().build(sizes, 0, 4)
    values = torch.randn(batch, *sizes)
    observed = torch.rand(values.shape) < 0.7
    spots = torch.rand(sizes.locations, 2)
    around = Surroundings(
        clock=torch.randn(batch, sizes.steps, 4),
        usual=torch.randn(batch, *sizes),
        distance=torch.cdist(spots, spots),
        likeness=torch.eye(sizes.locations),
        roughness=torch.full((sizes.measurements,), 0.1),
        kinds=torch.arange(sizes.measurements),
    )
    optimiser = torch.optim.Adam(model.parameters(), foreach=True)
    answer = torch.compile(model) if compiled else model
    if not (whole or compiled):
        answer = partial(in_parts, model)

    def learn() -> None:
        told = answer(values, observed, around)
        optimiser.zero_grad()
        loss_of("mae", told, values, ~observed).backward()
        optimiser.step()

    return learn


def seconds_of(work: Callable[[], None], times: int = 3) -> float:
    """How long it takes, each time."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def step(given: argparse.Namespace) -> Records:
    """A step of training, in turns with the large product."""
    found: Records = []
    for threads in (1, torch.get_num_threads()):
        for name, (sizes, batch) in WINDOWS.items():
            torch.set_num_threads(1)  # a counter sees its own thread only
            learn = learner(sizes, batch)
            with FlopCounterMode(display=False) as counter:
                learn()
            torch.set_num_threads(threads)
            ratios, seconds = [], []
            for _ in range(ROUNDS):
                top = peak()
                seconds.append(seconds_of(learn))
                ratios.append(counter.get_total_flops() / seconds[-1] / top)
            one: dict[str, Value] = {
                "window": name,
                "batch": batch,
                "threads": threads,
                "gflop": counter.get_total_flops() / 1e9,
                "seconds": statistics.median(seconds),
                "share_of_peak": statistics.median(ratios),
            }
            print(f"{name} {threads} threads: {one['seconds']:.3f} s, {one['share_of_peak']:.1%}")
            found.append(one)
    return found


def compiled(given: argparse.Namespace) -> Records:
    """The same step by torch.compile and without, in turns: does it pay?"""
    found: Records = []
    for name, (sizes, batch) in WINDOWS.items():
        plain, fast = learner(sizes, batch), learner(sizes, batch, compiled=True)
        start = time.perf_counter()
        fast()
        first = time.perf_counter() - start
        plain()
        ratios = [seconds_of(plain) / seconds_of(fast) for _ in range(ROUNDS)]
        one: dict[str, Value] = {
            "window": name,
            "batch": batch,
            "threads": torch.get_num_threads(),
            "compile_seconds": first,
            "times_faster": statistics.median(ratios),
        }
        print(f"{name}: {one['times_faster']:.2f} times as fast after {first:.0f} s of compiling")
        found.append(one)
    return found


def parts_of(rounds: int) -> Records:
    """The same step in parts, in turns with torch's own threads and with one core."""
    found: Records = []
    threads = torch.get_num_threads()
    for name, (sizes, batch) in WINDOWS.items():
        works = {
            "one core": (1, learner(sizes, batch)),
            "torch's threads": (threads, learner(sizes, batch, whole=True)),
            "parts": (threads, learner(sizes, batch)),
        }
        seconds: dict[str, list[float]] = {way: [] for way in works}
        for _ in range(rounds):
            for way, (number, work) in works.items():
                torch.set_num_threads(number)
                seconds[way].append(seconds_of(work))
        middle = {way: statistics.median(each) for way, each in seconds.items()}
        found += [
            {
                "window": name,
                "batch": batch,
                "way": way,
                "threads": number,
                "seconds": middle[way],
                "times_faster": middle["one core"] / middle[way],
            }
            for way, (number, _) in works.items()
        ]
    return found


def parts(given: argparse.Namespace) -> Records:
    """With threads that sleep while they wait, as the commands set them, and as they come, which is
    spinning for a while first; each in its own process."""
    found: Records = []
    others = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for wait, more in (("sleep", {"OMP_WAIT_POLICY": "PASSIVE"}), ("spin", {})):
        command = [sys.executable, __file__, "parts", "--child", str(ROUNDS)]
        env = others | more
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
        for one in json.loads(done.stdout):
            words = f"{one['window']} {wait} {one['way']}"
            print(f"{words}: {one['seconds']:.3f} s, {one['times_faster']:.2f} times as fast")
            found.append(one | {"wait": wait})
    return found


def waves(steps: int, stations: int = 36) -> xr.DataArray:
    """Hourly data with a tenth missing; how long filling takes does not depend on values."""
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


def learnt_a_moment(cube: xr.DataArray, epochs: int = 1):
    """The default network, of its usual size, hardly trained."""
    few = cube.isel(time=slice(0, 200))
    method = Cdsa(model=GeographicConfig(), fitted=False)
    return replace(method, train=replace(method.train, epochs=epochs), stride=48).fit(few)


def fill(given: argparse.Namespace) -> Records:
    """A year of hours at 36 stations."""
    cube = waves(8759)
    filler = learnt_a_moment(cube)
    found: Records = []
    for what, work in (
        ("values", lambda: filler.fill(cube)),
        ("values and intervals", lambda: fill_with(filler, cube)),
    ):
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        found.append({"filled": what, "seconds": seconds, "threads": torch.get_num_threads()})
        print(f"{what}: {seconds:.1f} s")
    return found


def memory_of(steps: int) -> dict[str, Value]:
    """Peak memory that filling takes beside what goes in and what comes out, in MiB."""
    cube = waves(steps)
    filler = learnt_a_moment(cube)
    filler.fill(cube.isel(time=slice(0, 500)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    filled = filler.fill(cube)
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"steps": steps, "mib": mib, "before_mib": before, "out_mib": filled.nbytes / 2**20}


def memory(given: argparse.Namespace) -> Records:
    """One year and ten, each in a process of its own."""
    found: Records = []
    for steps in (8_760, 87_600):
        command = [sys.executable, __file__, "memory", "--child", str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        one = json.loads(done.stdout)
        print(f"{steps:,} steps: {one['mib']:.0f} MiB in all, {one['out_mib']:.0f} MiB filled")
        found.append(one)
    return found


def race(given: argparse.Namespace) -> Records:
    """CPU time until the error on KDD-2015's test months is below 12: windows of 36 steps."""
    opened = open_dataset("kdd2015-pm25")
    trial = kdd2015_pm25(opened.cube, opened.extras[REMOVED], "out-of-sample")
    asked = trial.asked["test-months"]
    found: Records = []
    for minutes in (0.25, 0.5, 1.0, 2.0, 3.0):
        start = time.process_time()
        filler = replace(Cdsa(steps=36), train=replace(training(), minutes=minutes)).fit(
            trial.train
        )
        cpu = time.process_time() - start
        figures = measure(filler.fill(trial.test), trial.truth, asked, trial.test).overall()
        found.append({"method": "cdsa", "cpu_seconds": cpu, "mae": float(figures["mae"])})
        print(f"cdsa: MAE {figures['mae']:.2f} after {cpu:.0f} s of CPU time", flush=True)
        if figures["mae"] < 12:
            break
    if given.python is None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "windows.npz"
        np.savez(path, **windows_for_rivals(trial, asked))
        script = Path(__file__).with_name("race_pypots.py")
        for rival in ("SAITS", "BRITS"):
            command = [str(given.python), str(script), str(path), rival, str(given.minutes)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found += [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
            print(f"{rival}: {found[-1]}", flush=True)
    return found


def windows_for_rivals(trial, asked: xr.DataArray) -> dict[str, np.ndarray]:
    """Scaled windows of 36 steps x 36 stations: to train on every 9 steps, to test one by one."""
    train, test = trial.train.to_numpy()[:, :, 0], trial.test.to_numpy()[:, :, 0]
    mean, spread = np.nanmean(train), np.nanstd(train)
    starts = np.arange(0, len(train) - 36, 9)
    learnt = np.stack([train[s : s + 36] for s in starts])
    learnt = learnt[np.isfinite(learnt).any((1, 2))]
    number = np.arange(len(test) // 36 * 36).reshape(-1, 36)
    return {
        "train": (learnt - mean) / spread,
        "test": (test[number] - mean) / spread,
        "truth": trial.truth.to_numpy()[:, :, 0][number],
        "asked": asked.to_numpy()[:, :, 0][number],
        "mean": mean,
        "spread": spread,
    }


WHAT = {
    "step": step,
    "compiled": compiled,
    "parts": parts,
    "fill": fill,
    "memory": memory,
    "race": race,
}
CHILDREN = {"memory": memory_of, "parts": parts_of}
"""What runs in a process of its own, with a number."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--minutes", type=float, default=5.0, help="of each of pypots' networks")
    parser.add_argument("--python", type=Path, help="of an environment with pypots")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(CHILDREN[given.what](given.child)))
        return
    if given.what == "race" and "CDSA_DATA" not in os.environ:
        parser.error("CDSA_DATA must name the folder with the data sets")
    origin = provenance(f"python benchmarks/default.py {given.what}")
    records = WHAT[given.what](given)
    if given.record:
        append_results(given.record, [one | {"what": given.what} | origin for one in records])


if __name__ == "__main__":
    main()
