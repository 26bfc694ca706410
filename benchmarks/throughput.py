"""Training windows per CPU second of the default network, or CPU seconds of `kalman`, compared with
an earlier commit.

    python benchmarks/throughput.py --against b49459b
    python benchmarks/throughput.py --against e2eb3d5 --method kalman

`kalman` is fitted and fills in both versions in turn; the fastest of three rounds counts. The
network:

Both versions train on the same three data sets, one after the other, on one thread: first the
earlier one for some minutes, then this one until it has seen about as many windows. Both fill the
same hidden cells, so errors can be compared too. A window has the same steps in both versions; in
this one it may have a part of the series.

Needs data sets in the folder CDSA_DATA. With --record FILE the records are appended to a results
file.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
from peers import open_network

from cdsa import open_dataset
from cdsa.core.masks import Bursts
from cdsa.core.records import Value, append_results, provenance

ROOT = Path(__file__).parent.parent
HIDDEN_SHARE = 0.1
WINDOWS = {"36x36x1": 36, "48x207x1": 48, "48x12x10": 48}
"""Steps of a window of each data set."""

OPEN = """
import json, sys, time
from dataclasses import replace
import numpy as np, torch, xarray as xr
torch.set_num_threads(1)
folder, window, minutes = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
arrays = np.load(f"{folder}/cube.npz")
names = [f"S{n:03}" for n in range(arrays["X"].shape[1])]
kinds = [f"m{n:02}" for n in range(arrays["X"].shape[2])]
axes = {"time": arrays["time"], "location": names, "measurement": kinds}
cube = xr.DataArray(arrays["X"], dims=tuple(axes), coords=axes)
cube = cube.assign_coords(units=("measurement", [""] * len(kinds)))
if "lat" in arrays:
    cube = cube.assign_coords({c: ("location", arrays[c]) for c in ("lat", "lon")})
"""
"""What both drivers begin with."""

DRIVER = """
try:
    from cdsa.methods.registry import build_method
    method = replace(build_method("cdsa"), window=window)
except ImportError:
    from cdsa.method import make_method
    method = replace(make_method("cdsa")[1], steps=window)
method = replace(method, train=replace(method.train, minutes=minutes))
started, moments, sizes = time.process_time(), [], []

def note_batch(module, args):
    if len(sizes) == len(moments) and args and getattr(args[0], "ndim", 0) == 4:
        sizes.append(len(args[0]))

def note_step(optimiser, args, kwargs):
    moments.append(time.process_time() - started)

from torch.optim.optimizer import register_optimizer_step_post_hook
register_optimizer_step_post_hook(note_step)
hook = torch.nn.modules.module.register_module_forward_pre_hook(note_batch)
filler = method.fit(cube)
hook.remove()
filled = filler.fill(cube)
np.save(f"{folder}/filled.npy", filled.transpose(*axes).to_numpy())
spent = moments[-1] - moments[0]
print(json.dumps({
    "steps": len(moments), "windows": sum(sizes[: len(moments)]), "cpu_seconds": moments[-1],
    "cpu_seconds_before": moments[0],
    "windows_per_cpu_second": sum(sizes[1 : len(moments)]) / spent,
}))
"""


KALMAN_DRIVER = """
from cdsa.methods.registry import build_method
started = time.process_time()
filler = build_method("kalman").fit(cube)
fitted = time.process_time()
filled = filler.fill(cube)
seconds = {"cpu_seconds_fit": fitted - started, "cpu_seconds_fill": time.process_time() - fitted}
np.save(f"{folder}/filled.npy", filled.transpose(*axes).to_numpy())
print(json.dumps(seconds))
"""

ROUNDS = 3

WHAT = {"cdsa": "throughput", "kalman": "kalman seconds"}
"""What records of each method are called."""

Versions = list[tuple[str, dict[str, Value]]]
"""Whether the code is the earlier one, and its figures."""


def open_cubes() -> dict[str, xr.DataArray]:
    """A data set for each size of windows."""
    beijing = open_network("beijing")
    return {
        "36x36x1": open_dataset("kdd2015-pm25").cube,
        "48x207x1": open_dataset("nyc-traffic").cube,
        "48x12x10": beijing.drop_sel(measurement="RAIN"),
    }


def run(
    source: Path, cube: xr.DataArray, window: int, minutes: float, driver: str = DRIVER
) -> dict[str, Value]:
    """Fit the version in a folder, fill, and measure, all in a process of its own."""
    hidden = Bursts(share=HIDDEN_SHARE)(cube, np.random.default_rng(0))
    visible = cube.where(~hidden).transpose("time", "location", "measurement")
    arrays = {"X": visible.to_numpy().astype(np.float64), "time": cube["time"].to_numpy()}
    if "lat" in cube.coords:
        arrays |= {name: cube[name].to_numpy() for name in ("lat", "lon")}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "cube.npz", **arrays)
        command = [sys.executable, "-c", OPEN + driver, folder, str(window), str(minutes)]
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment = os.environ | {"PYTHONPATH": str(source)} | threads
        output = subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout
        filled = np.load(Path(folder) / "filled.npy")
    cells = hidden.transpose(*visible.dims).to_numpy()
    scale = cube.std(("time", "location")).to_numpy()
    error = np.abs(filled - cube.transpose(*visible.dims).to_numpy()) / scale
    figures: dict[str, Value] = json.loads(output.splitlines()[-1])
    return figures | {"mae": float(error[cells].mean())}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", default="b49459b", help="a commit")
    parser.add_argument("--minutes", type=float, default=1.0, help="of the earlier version")
    parser.add_argument("--sizes", default=",".join(WINDOWS))
    parser.add_argument("--method", choices=list(WHAT), default="cdsa")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    if "CDSA_DATA" not in os.environ:
        parser.error("CDSA_DATA must name the folder with the data sets")
    arguments = f"--against {options.against} --minutes {options.minutes:g}"
    arguments += f" --sizes {options.sizes} --method {options.method}"
    origin = provenance(f"python benchmarks/throughput.py {arguments}")
    cubes = open_cubes()
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", options.against, "src"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        earlier, now = Path(folder) / "src", ROOT / "src"
        for size in options.sizes.split(","):
            compare = compare_kalman if options.method == "kalman" else compare_training
            versions = compare(earlier, now, cubes[size], WINDOWS[size], options.minutes)
            records = [
                {"what": WHAT[options.method], "size": size, "code": code} | figures
                for code, figures in versions
            ]
            for record in records:
                print(json.dumps(record), flush=True)
            if options.record:
                against: dict[str, Value] = {"against": options.against}
                append_results(options.record, [r | against | origin for r in records])


def compare_training(
    earlier: Path, now: Path, cube: xr.DataArray, window: int, minutes: float
) -> Versions:
    """The earlier version, this one after as many windows, and this one after as many minutes."""
    before, trial = (run(version, cube, window, minutes) for version in (earlier, now))
    rate = float(str(trial["windows_per_cpu_second"]))
    seconds = float(str(trial["cpu_seconds_before"])) + float(str(before["windows"])) / rate
    after = run(now, cube, window, seconds / 60)
    return [("earlier", before), ("now", after), ("now", trial)]


def compare_kalman(
    earlier: Path, now: Path, cube: xr.DataArray, window: int, minutes: float
) -> Versions:
    """The fastest round of each version."""
    rounds = [
        [run(version, cube, window, minutes, KALMAN_DRIVER) for version in (earlier, now)]
        for _ in range(ROUNDS)
    ]
    fastest = [min(runs, key=total_seconds) for runs in zip(*rounds, strict=True)]
    return list(zip(("earlier", "now"), fastest, strict=True))


def total_seconds(figures: dict[str, Value]) -> float:
    """Of the fit and the fill of `kalman`."""
    return float(str(figures["cpu_seconds_fit"])) + float(str(figures["cpu_seconds_fill"]))


if __name__ == "__main__":
    main()
