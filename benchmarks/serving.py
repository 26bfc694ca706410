"""The web server under load: whether uploads are lost or mixed up, and how much memory it needs.

    python benchmarks/serving.py [--record results/serving.jsonl]

Starts `cdsa serve` and uploads small tables, many at once, then large ones. A series is requested
from each, which must be its own. The memory is that of the server's own process (Linux only).
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
"""Name, number of tables, number of concurrent uploads, rows per station."""
STATIONS = 4


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """The address and the process id of a server."""
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


def mib(pid: int, name: str) -> float:
    """Memory of a process: VmRSS is the current value, VmHWM the peak since it was last reset."""
    value = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert value
    return int(value[1]) / 1024


def make_table(number: int, rows: int) -> bytes:
    """A table whose first value is its number."""
    lines = ["time,station,v"]
    for row in range(rows):
        stamp = time.strftime(
            "%Y-%m-%dT%H:%M", time.gmtime(1_600_000_000 // 3600 * 3600 + 60 * row)
        )
        lines += [f"{stamp},S{n},{number if not row else row % 97 + n}" for n in range(STATIONS)]
    return "\n".join(lines).encode()


def upload_all(address: str, count: int, at_once: int, rows: int) -> tuple[int, int, float]:
    """The number of lost and of mixed up tables, and the seconds for all of them."""

    def upload(number: int) -> str:
        with httpx.Client(base_url=address, timeout=300, verify=False) as client:
            response = client.post(
                "/api/tables", params={"name": "a.csv"}, content=contents[number]
            )
            if response.status_code != 201:
                return "lost"
            path = f"/api/tables/{response.json()['id']}"
            query = {"location": "S0", "measurement": "v"}
            series = client.get(f"{path}/series", params=query)
            if client.delete(path).status_code != 204 or series.status_code != 200:
                return "lost"
            return "correct" if series.json()["values"][0] == number else "mixed up"

    contents = [make_table(number, rows) for number in range(count)]
    start = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        outcomes = list(pool.map(upload, range(count)))
    return outcomes.count("lost"), outcomes.count("mixed up"), time.perf_counter() - start


def measure(report: Callable[[str], None]) -> list[dict[str, Value]]:
    """Records of all loads, one after the other, on one server."""
    records: list[dict[str, Value]] = []
    with server() as (address, pid):
        upload_all(address, 1, 1, 30)  # the first table loads the libraries
        for what, count, at_once, rows in LOADS:
            before = mib(pid, "VmRSS")
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets the peak
            lost, mixed, seconds = upload_all(address, count, at_once, rows)
            record: dict[str, Value] = {
                "what": what,
                "tables": count,
                "at_once": at_once,
                "megabytes": len(make_table(0, rows)) / 1e6,
                "lost": lost,
                "mixed_up": mixed,
                "seconds": seconds,
                "before_mib": before,
                "peak_mib": mib(pid, "VmHWM"),
                "after_mib": mib(pid, "VmRSS"),
            }
            report(
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
    arguments = parser.parse_args()
    origin = provenance("python benchmarks/serving.py")
    records = measure(print)
    if arguments.record:
        append_results(arguments.record, [record | origin for record in records])


if __name__ == "__main__":
    main()
