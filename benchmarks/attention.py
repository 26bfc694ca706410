"""Time and memory of the four manners.

    python benchmarks/attention.py complexity  operations and variables beside the paper's
    python benchmarks/attention.py wall        one window of 432 x 186 x 1: joint and decomposed
    python benchmarks/attention.py growth      what happens when T, L or M doubles
    python benchmarks/attention.py throughput  training windows a second, and share of the peak

With --record FILE the records are added to a results file. Every measurement runs in a process of
its own; memory is the peak of the whole process, torch included. The machine's peak is that of a
large matrix product, measured in the same run.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch

from cdsa.core.records import Value, append_results, provenance
from cdsa.methods.neural.cdsa_paper import GENERAL, CdsaConfig, Imputer
from cdsa.nn.types import MANNERS, Sizes
from cdsa.paper.complexity import WIDTHS, costs, count

AUTHORS = CdsaConfig()
CONFIGS = {"authors": AUTHORS, "table": WIDTHS}
WALL = Sizes(432, 186, 1)
BASE = Sizes(24, 16, 4)
WINDOWS = {"36x36x1": Sizes(36, 36, 1), "48x11x11": Sizes(48, 11, 11), "24x3x9": Sizes(24, 3, 9)}
LIMITS_MIB = {"joint": 8 * 1024, "decomposed": 1024}


def measured(spec: dict[str, Value]) -> dict[str, Value]:
    """Seconds of a training step (forward and backward), and the process's peak memory in MiB."""
    sizes = Sizes(*map(int, str(spec["sizes"]).split("x")))
    if spec["config"] == "general":
        config = GENERAL[spec["manner"]]
    else:
        config = replace(CONFIGS[str(spec["config"])], manner=spec["manner"])
    if spec.get("layers"):
        config = replace(config, layers=int(spec["layers"]), bare_last=False)
    torch.manual_seed(0)
    model = Imputer(config, sizes)
    values = torch.randn(int(spec["batch"]), *sizes)
    observed = torch.rand(values.shape) < 0.8
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    forward, whole = [], []
    for _ in range(int(spec["repeats"])):
        start = time.perf_counter()
        guess = model(values, observed)
        forward.append(time.perf_counter() - start)
        guess.square().mean().backward()
        whole.append(time.perf_counter() - start)
    return {
        "seconds": statistics.median(whole),
        "forward_seconds": statistics.median(forward),
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "mib_before": before,
    }


def in_a_process(**spec: Value) -> dict[str, Value]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--child", json.dumps(spec)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return spec | json.loads(done.stdout)


def peak() -> float:
    """Operations a second of a large matrix product, the best of several."""
    a = torch.randn(2048, 2048)
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * 2048**3 / best


def complexity() -> list[dict[str, Value]]:
    """Operations and variables of the four manners, as `cdsa complexity --json` tells them."""
    return [asdict(cost) for cost in costs()]


def wall() -> list[dict[str, Value]]:
    """The window that the paper's joint manner could not be run on."""
    found = []
    for manner, layers in (("joint", 1), ("decomposed", 8)):
        sizes = "x".join(map(str, WALL))
        one = in_a_process(
            sizes=sizes, config="authors", manner=manner, layers=layers, batch=1, repeats=1
        )
        one["limit_mib"] = LIMITS_MIB[manner]
        one["eight_layers_seconds"] = float(one["seconds"] or 0) * 8 / layers
        print(f"{manner:12} {layers} layers {one['seconds']:8.1f} s {one['mib']:8.0f} MiB")
        found.append(one)
    return found


def growth() -> list[dict[str, Value]]:
    """Each axis doubled, one after the other."""
    doubled = {
        "": BASE,
        "time": BASE._replace(steps=2 * BASE.steps),
        "location": BASE._replace(locations=2 * BASE.locations),
        "measurement": BASE._replace(measurements=2 * BASE.measurements),
    }
    found = []
    for manner in MANNERS:
        for axis, sizes in doubled.items():
            text = "x".join(map(str, sizes))
            repeats = 1 if manner == "joint" else 5
            one = in_a_process(sizes=text, config="table", manner=manner, batch=8, repeats=repeats)
            flops, variables = count(replace(WIDTHS, manner=manner), sizes)
            one |= {"doubled": axis, "flops": flops, "variables": variables}
            found.append(one)
            print(f"{manner:12} {text:10} {flops / 1e9:8.2f} GFLOP {one['seconds']:8.3f} s")
    return found


def throughput() -> list[dict[str, Value]]:
    """Training steps of the network users get, as windows a second and share of the peak."""
    found = []
    for name, sizes in WINDOWS.items():
        for manner in MANNERS:
            top = peak()
            one = in_a_process(sizes=name, config="general", manner=manner, batch=8, repeats=5)
            flops, variables = count(GENERAL[manner], sizes)
            rate = int(one["batch"] or 0) / float(one["seconds"] or 1)
            one |= {
                "windows_per_second": rate,
                "flops": flops,
                "variables": variables,
                "peak_gflops": top / 1e9,
                # the backward pass has two products for each of the forward pass
                "share_of_peak": 3 * flops * rate / top,
            }
            found.append(one)
            print(f"{manner:12} {name:10} {rate:8.1f} windows/s {one['share_of_peak']:.1%}")
    return found


WHAT = {"complexity": complexity, "wall": wall, "growth": growth, "throughput": throughput}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=list(WHAT))
    parser.add_argument("--record", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measured(json.loads(given.child))))
        return
    if given.what is None:
        parser.error("say what to measure")
    origin = provenance(f"python benchmarks/attention.py {given.what}")
    records = WHAT[given.what]()
    if given.record:
        append_results(given.record, [one | {"what": given.what} | origin for one in records])


if __name__ == "__main__":
    main()
