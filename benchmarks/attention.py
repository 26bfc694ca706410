"""Time and memory of the four manners.

    python benchmarks/attention.py complexity  operations and parameters, and the paper's
    python benchmarks/attention.py wall        one window of 432 x 186 x 1: joint and decomposed
    python benchmarks/attention.py growth      what happens when T, L or M doubles
    python benchmarks/attention.py throughput  training windows per second, and share of the peak

With --record FILE the records are appended to a results file. Every measurement runs in its own
process; memory is the peak of the whole process, including torch. The machine's peak is that of a
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
from cdsa.methods.neural.cdsa_paper import GENERAL_CONFIGS, PaperConfig, PaperImputer
from cdsa.nn.types import MANNERS, Sizes
from cdsa.paper.complexity import WIDTHS, compare_costs, count_operations

AUTHORS = PaperConfig()
CONFIGS = {"authors": AUTHORS, "table": WIDTHS}
WALL = Sizes(432, 186, 1)
BASE = Sizes(24, 16, 4)
WINDOWS = {"36x36x1": Sizes(36, 36, 1), "48x11x11": Sizes(48, 11, 11), "24x3x9": Sizes(24, 3, 9)}
LIMITS_MIB = {"joint": 8 * 1024, "decomposed": 1024}


def measure_step(spec: dict[str, Value]) -> dict[str, Value]:
    """Seconds of a training step (forward and backward), and the process's peak memory in MiB."""
    sizes = Sizes(*map(int, str(spec["sizes"]).split("x")))
    if spec["config"] == "general":
        config = GENERAL_CONFIGS[spec["manner"]]
    else:
        config = replace(CONFIGS[str(spec["config"])], manner=spec["manner"])
    if spec.get("n_layers"):
        config = replace(config, n_layers=int(spec["n_layers"]), last_layer_bare=False)
    torch.manual_seed(0)
    model = PaperImputer(config, sizes)
    values = torch.randn(int(spec["batch_size"]), *sizes)
    observed = torch.rand(values.shape) < 0.8
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    forward, total = [], []
    for _ in range(int(spec["repeats"])):
        start = time.perf_counter()
        prediction = model(values, observed)
        forward.append(time.perf_counter() - start)
        prediction.square().mean().backward()
        total.append(time.perf_counter() - start)
    return {
        "seconds": statistics.median(total),
        "forward_seconds": statistics.median(forward),
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "mib_before": before,
    }


def run_in_process(**spec: Value) -> dict[str, Value]:
    """`measure_step` in its own process."""
    command = [sys.executable, __file__, "--child", json.dumps(spec)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return spec | json.loads(process.stdout)


def measure_peak() -> float:
    """Operations per second of a large matrix product, the best of several runs."""
    a = torch.randn(2048, 2048)
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * 2048**3 / best


def complexity() -> list[dict[str, Value]]:
    """Operations and parameters of the four manners, as `cdsa paper complexity --json` has them."""
    return [asdict(cost) for cost in compare_costs()]


def wall() -> list[dict[str, Value]]:
    """The window that was too large for the paper's joint manner."""
    records = []
    for manner, n_layers in (("joint", 1), ("decomposed", 8)):
        sizes = "x".join(map(str, WALL))
        record = run_in_process(
            sizes=sizes, config="authors", manner=manner, n_layers=n_layers, batch_size=1, repeats=1
        )
        record["limit_mib"] = LIMITS_MIB[manner]
        record["eight_layers_seconds"] = float(record["seconds"] or 0) * 8 / n_layers
        print(f"{manner:12} {n_layers} layers {record['seconds']:8.1f} s {record['mib']:8.0f} MiB")
        records.append(record)
    return records


def growth() -> list[dict[str, Value]]:
    """Each axis doubled, one after the other."""
    doubled = {
        "": BASE,
        "time": BASE._replace(steps=2 * BASE.steps),
        "location": BASE._replace(locations=2 * BASE.locations),
        "measurement": BASE._replace(measurements=2 * BASE.measurements),
    }
    records = []
    for manner in MANNERS:
        for axis, sizes in doubled.items():
            text = "x".join(map(str, sizes))
            repeats = 1 if manner == "joint" else 5
            record = run_in_process(
                sizes=text, config="table", manner=manner, batch_size=8, repeats=repeats
            )
            flops, parameters = count_operations(replace(WIDTHS, manner=manner), sizes)
            record |= {"doubled": axis, "flops": flops, "parameters": parameters}
            records.append(record)
            print(f"{manner:12} {text:10} {flops / 1e9:8.2f} GFLOP {record['seconds']:8.3f} s")
    return records


def throughput() -> list[dict[str, Value]]:
    """Training steps of the default `cdsa-paper`: windows per second, and share of the peak."""
    records = []
    for name, sizes in WINDOWS.items():
        for manner in MANNERS:
            peak = measure_peak()
            record = run_in_process(
                sizes=name, config="general", manner=manner, batch_size=8, repeats=5
            )
            flops, parameters = count_operations(GENERAL_CONFIGS[manner], sizes)
            rate = int(record["batch_size"] or 0) / float(record["seconds"] or 1)
            record |= {
                "windows_per_second": rate,
                "flops": flops,
                "parameters": parameters,
                "peak_gflops": peak / 1e9,
                # the backward pass has two products for each of the forward pass
                "share_of_peak": 3 * flops * rate / peak,
            }
            records.append(record)
            print(f"{manner:12} {name:10} {rate:8.1f} windows/s {record['share_of_peak']:.1%}")
    return records


WHAT = {"complexity": complexity, "wall": wall, "growth": growth, "throughput": throughput}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=list(WHAT))
    parser.add_argument("--record", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure_step(json.loads(options.child))))
        return
    if options.what is None:
        parser.error("name what to measure")
    origin = provenance(f"python benchmarks/attention.py {options.what}")
    records = WHAT[options.what]()
    if options.record:
        append_results(
            options.record, [record | {"what": options.what} | origin for record in records]
        )


if __name__ == "__main__":
    main()
