"""The server under load: lost and mixed-up tables, and memory.

    python benchmarks/serving.py [--record results/serving.jsonl]

Starts `cdsa serve`, uploads many small tables at once, then large ones, and requests a series of
each, which must be its own. Memory is that of the server's process (Linux only).
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx

from cdsa.core.records import Value, append_results, provenance

LOADS = (
    ("small tables", 200, 40, 30),
    ("the same again", 200, 40, 30),
    ("large tables", 12, 4, 100_000),
)
"""Kind, number, concurrency, and rows per station."""
STATIONS = 4


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """A running server: its address and process id."""
    command = [sys.executable, "-m", "cdsa", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        address = re.search(r"http://\S+/", process.stdout.readline())
        assert address, "the server did not print its address"
        yield address[0], process.pid
    finally:
        process.terminate()
        process.wait(30)


def memory_mib(process: int, key: str) -> float:
    """Memory of a process: VmRSS is the current one, VmHWM the peak since the last reset."""
    match = re.search(rf"{key}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert match
    return int(match[1]) / 1024


def make_table(number: int, rows: int) -> bytes:
    """A table whose first value is its number."""
    lines = ["time,station,v"]
    for row in range(rows):
        moment = time.strftime(
            "%Y-%m-%dT%H:%M", time.gmtime(1_600_000_000 // 3600 * 3600 + 60 * row)
        )
        lines += [f"{moment},S{n},{number if not row else row % 97 + n}" for n in range(STATIONS)]
    return "\n".join(lines).encode()


def apply_load(address: str, count: int, at_once: int, rows: int) -> tuple[int, int, float]:
    """The numbers of lost and of mixed-up tables, and the total seconds."""

    def send(number: int) -> str:
        with httpx.Client(base_url=address, timeout=300, verify=False) as client:
            sent = client.post("/api/tables", params={"name": "a.csv"}, content=contents[number])
            if sent.status_code != 201:
                return "lost"
            path = f"/api/tables/{sent.json()['id']}"
            cell = {"location": "S0", "measurement": "v"}
            series = client.get(f"{path}/series", params=cell)
            if client.delete(path).status_code != 204 or series.status_code != 200:
                return "lost"
            return "ok" if series.json()["values"][0] == number else "mixed up"

    contents = [make_table(number, rows) for number in range(count)]
    start = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        outcomes = list(pool.map(send, range(count)))
    return outcomes.count("lost"), outcomes.count("mixed up"), time.perf_counter() - start


def measure_loads(say: Callable[[str], None]) -> list[dict[str, Value]]:
    """All loads in turn, on one server."""
    records: list[dict[str, Value]] = []
    with server() as (address, process):
        apply_load(address, 1, 1, 30)  # the first table loads the modules
        for what, count, at_once, rows in LOADS:
            before = memory_mib(process, "VmRSS")
            Path(f"/proc/{process}/clear_refs").write_text("5")  # resets the peak
            lost, mixed, seconds = apply_load(address, count, at_once, rows)
            record: dict[str, Value] = {
                "what": what,
                "tables": count,
                "at_once": at_once,
                "megabytes": len(make_table(0, rows)) / 1e6,
                "lost": lost,
                "mixed_up": mixed,
                "seconds": seconds,
                "before_mib": before,
                "peak_mib": memory_mib(process, "VmHWM"),
                "after_mib": memory_mib(process, "VmRSS"),
            }
            say(
                f"{count} {what}, {at_once} at once: {lost} lost, {mixed} mixed up, "
                f"{before:.0f} MiB before, {record['peak_mib']:.0f} at the peak"
            )
            records.append(record)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    origin = provenance("python benchmarks/serving.py")
    records = measure_loads(print)
    if options.record:
        append_results(options.record, [record | origin for record in records])


if __name__ == "__main__":
    main()
