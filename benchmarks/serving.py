"""The page's server under load: whether anything is lost or mixed up, and what memory it takes.

    python benchmarks/serving.py [--record results/serving.jsonl]

Starts `cdsa serve`, sends it small tables, many at once, then large ones, and asks each for a
series, which must be its own. Memory is that of the server's process (Linux only).
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
"""What, how many, how many at once, and rows of each station."""
STATIONS = 4


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """The address of a server and the number of its process."""
    command = [sys.executable, "-m", "cdsa", "serve", "--port", "0"]
    held = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert held.stdout is not None
    try:
        found = re.search(r"http://\S+/", held.stdout.readline())
        assert found, "the server did not say where it is"
        yield found[0], held.pid
    finally:
        held.terminate()
        held.wait(30)


def mib(process: int, what: str) -> float:
    """Memory of a process: VmRSS now, or VmHWM at its highest since it was last asked to forget."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found
    return int(found[1]) / 1024


def table(number: int, rows: int) -> bytes:
    """A table whose first value is its number."""
    lines = ["time,station,v"]
    for row in range(rows):
        moment = time.strftime(
            "%Y-%m-%dT%H:%M", time.gmtime(1_600_000_000 // 3600 * 3600 + 60 * row)
        )
        lines += [f"{moment},S{n},{number if not row else row % 97 + n}" for n in range(STATIONS)]
    return "\n".join(lines).encode()


def loaded(address: str, count: int, at_once: int, rows: int) -> tuple[int, int, float]:
    """How many tables were lost and how many mixed up, and the seconds that all of them took."""

    def one(number: int) -> str:
        with httpx.Client(base_url=address, timeout=300, verify=False) as client:
            sent = client.post("/api/tables", params={"name": "a.csv"}, content=contents[number])
            if sent.status_code != 201:
                return "lost"
            where = f"/api/tables/{sent.json()['id']}"
            asked = {"location": "S0", "measurement": "v"}
            series = client.get(f"{where}/series", params=asked)
            if client.delete(where).status_code != 204 or series.status_code != 200:
                return "lost"
            return "kept" if series.json()["values"][0] == number else "mixed up"

    contents = [table(number, rows) for number in range(count)]
    start = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        found = list(pool.map(one, range(count)))
    return found.count("lost"), found.count("mixed up"), time.perf_counter() - start


def measured(say: Callable[[str], None]) -> list[dict[str, Value]]:
    """All loads, one after the other, on one server."""
    found: list[dict[str, Value]] = []
    with server() as (address, process):
        loaded(address, 1, 1, 30)  # what is needed is loaded with the first table
        for what, count, at_once, rows in LOADS:
            before = mib(process, "VmRSS")
            Path(f"/proc/{process}/clear_refs").write_text("5")  # the highest is forgotten
            lost, mixed, seconds = loaded(address, count, at_once, rows)
            one: dict[str, Value] = {
                "what": what,
                "tables": count,
                "at_once": at_once,
                "megabytes": len(table(0, rows)) / 1e6,
                "lost": lost,
                "mixed_up": mixed,
                "seconds": seconds,
                "before_mib": before,
                "peak_mib": mib(process, "VmHWM"),
                "after_mib": mib(process, "VmRSS"),
            }
            say(
                f"{count} {what}, {at_once} at once: {lost} lost, {mixed} mixed up, "
                f"{before:.0f} MiB before, {one['peak_mib']:.0f} at the peak"
            )
            found.append(one)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    origin = provenance("python benchmarks/serving.py")
    records = measured(print)
    if given.record:
        append_results(given.record, [one | origin for one in records])


if __name__ == "__main__":
    main()
