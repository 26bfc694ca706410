"""Time and memory of the commands on a million cells: 10,000 steps x 20 stations x 5 measurements.

    python benchmarks/spine.py [--record results/spine.jsonl]

Each command runs three times in its own process; the median time and the highest memory are
reported. The ratio to `pandas.read_csv` on the same file in the same run does not depend on how
busy the machine is.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from cdsa.core.records import append_results, provenance

STEPS, STATIONS, MEASUREMENTS = 10_000, 20, 5
LIMITS = {"info": (3.0, 1024), "fill": (10.0, 1024)}
RUNS = 3


def make_table(path: Path, layout: str) -> None:
    """A million cells with a tenth missing, as text."""
    rng = np.random.default_rng(0)
    time_axis = pd.date_range("2020-01-01", periods=STEPS, freq="h")
    values = np.cumsum(rng.normal(size=(STEPS, STATIONS, MEASUREMENTS)), axis=0).round(3)
    values[rng.random(values.shape) < 0.1] = np.nan
    index = pd.MultiIndex.from_product(
        [time_axis, [f"S{n:02}" for n in range(STATIONS)], [f"m{n}" for n in range(MEASUREMENTS)]],
        names=["time", "station", "measurement"],
    )
    series = pd.Series(values.ravel(), index=index, name="value")
    table = (
        series.reset_index() if layout == "long" else series.unstack("measurement").reset_index()
    )
    table.to_csv(path, index=False)


def measure(command: list[str]) -> tuple[float, float]:
    """Seconds and MiB of a command, start-up included."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")
    return seconds, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path)
    record = parser.parse_args().record
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for layout in ("panel", "long"):
            table, out = Path(folder) / f"{layout}.csv", Path(folder) / "out.csv"
            make_table(table, layout)
            cdsa = [sys.executable, "-m", "cdsa"]
            read = f"import pandas; pandas.read_csv({str(table)!r})"
            commands = {
                "read_csv": [sys.executable, "-c", read],
                "info": [*cdsa, "info", str(table)],
                "fill": [
                    *(*cdsa, "fill", str(table), "-o", str(out)),
                    *("--method", "linear", "--overwrite"),
                ],
            }
            runs_by_name = {
                name: [measure(command) for _ in range(RUNS)] for name, command in commands.items()
            }
            base = statistics.median(seconds for seconds, _ in runs_by_name["read_csv"])
            for name, runs in runs_by_name.items():
                seconds = statistics.median(seconds for seconds, _ in runs)
                memory = max(memory for _, memory in runs)
                limit = LIMITS.get(name)
                within = None if limit is None else seconds < limit[0] and memory < limit[1]
                row = {"benchmark": "a million cells", "layout": layout, "what": name}
                row |= {"within_limits": within, "seconds": round(seconds, 2), "mib": round(memory)}
                rows.append(row | {"ratio": round(seconds / base, 2)})
                verdict = {None: "", True: "within limits", False: "LIMIT EXCEEDED"}[within]
                print(
                    f"{layout:6} {name:9} {seconds:6.2f} s  {memory:6.0f} MiB  "
                    f"{seconds / base:5.2f} x read_csv  {verdict}"
                )
    if record is not None:
        origin = provenance("python benchmarks/spine.py") | {"seed": 0}
        append_results(record, [row | origin for row in rows])


if __name__ == "__main__":
    main()
