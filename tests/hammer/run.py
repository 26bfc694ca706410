"""Damage tables, kill fills and change models at random, as long as there is time: `make hammer`.

    PYTHONPATH=tests python -m hammer --minutes 15 --seed 0 --kinds tables,kills,models

Cases are numbered, and a number always gives the same case. What was done is kept in the folder
.hammer, so that a run with the same seed goes on where the last one ended. Failures are written
there; those of tables are shrunk.
"""

import argparse
import collections
import json
import logging
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

from cdsa.core.records import Value, append_results, provenance
from hammer import kills, models, tables

FOLDER = Path(".hammer")
PER_SEED = 1_000_000
LONGEST_BATCH = 1200
"""Seconds after which a batch is taken for hung."""

KINDS: dict[str, tuple[Callable[[int], str], int, float]] = {
    "tables": (lambda number: tables.check(tables.make_case(number)), 50, 0.7),
    "kills": (kills.check, 2, 0.25),
    "models": (models.check, 10, 0.05),
}
"""How a case is checked, the cases that a process takes at a time, and the share of the time."""

Result = tuple[dict[str, int], list[str], float, float]


def run_batch(kind: str, first: int) -> Result:
    """Outcomes, failures, the longest CPU time of a case, and the peak memory in MiB."""
    logging.disable(logging.CRITICAL)
    check, size, _ = KINDS[kind]
    outcomes: collections.Counter[str] = collections.Counter()
    failures, slowest = [], 0.0
    for number in range(first, first + size):
        start = time.process_time()
        try:
            with tables.limited():
                outcomes[check(number)] += 1
        except Exception as wrong:
            outcomes["failed"] += 1
            failures.append(_describe(kind, number, wrong))
        else:
            slowest = max(slowest, time.process_time() - start)
    return dict(outcomes), failures, slowest, tables.peak_mib()


def _describe(kind: str, number: int, wrong: Exception) -> str:
    if kind == "tables":
        smallest = tables.shrink(tables.make_case(number))
        return tables.report(smallest, tables.failure_of(smallest) or repr(wrong))
    return json.dumps({"kind": kind, "case": number, "failure": repr(wrong)[:2000]})


def run(kind: str, seed: int, minutes: float, processes: int) -> dict[str, Value]:
    """Run cases of a kind from where the last run ended; the figures of all so far."""
    size = KINDS[kind][1]
    state_file = FOLDER / f"{kind}-{seed}.json"
    state = json.loads(state_file.read_text()) if state_file.exists() else {}
    outcomes = collections.Counter(state.get("outcomes", {}))
    slowest, mib, done = (state.get(name, 0) for name in ("slowest", "mib", "done"))
    deadline, start = time.monotonic() + 60 * minutes, seed * PER_SEED
    batches = iter(range(start + done, start + PER_SEED, size))
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=20) as pool:
        pending = collections.deque(
            pool.apply_async(run_batch, (kind, next(batches))) for _ in range(2 * processes)
        )
        while time.monotonic() < deadline:
            counts, failures, seconds, memory = pending.popleft().get(timeout=LONGEST_BATCH)
            outcomes.update(counts)
            slowest, mib, done = max(slowest, seconds), max(mib, memory), done + size
            with (FOLDER / "failures.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(failure + "\n" for failure in failures)
            for failure in failures:
                print(failure[:2000], flush=True)
            state = {"done": done, "outcomes": outcomes, "slowest": slowest, "mib": mib}
            temporary = state_file.with_suffix(".part")
            temporary.write_text(json.dumps(state))
            temporary.replace(state_file)
            pending.append(pool.apply_async(run_batch, (kind, next(batches))))
        pool.terminate()
    figures = ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
    print(
        f"{kind}, seed {seed}: {done:,} cases: {figures}; slowest {slowest:.1f} s of CPU time, "
        f"peak memory {mib:.0f} MiB",
        flush=True,
    )
    return {
        "kind": kind,
        "seed": seed,
        "cases": done,
        "failed": outcomes.pop("failed", 0),
        "outcomes": ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items())),
        "slowest_cpu_seconds": slowest,
        "peak_mib": mib,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", type=Path, help="results file")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    kinds = options.kinds.split(",")
    total = sum(KINDS[kind][2] for kind in kinds)
    origin = provenance(f"make hammer SEED={options.seed}")
    failed = False
    for kind in kinds:
        minutes = options.minutes * KINDS[kind][2] / total
        record = run(kind, options.seed, minutes, options.processes)
        failed = failed or bool(record["failed"])
        if options.record:
            append_results(options.record, [record | origin])
    raise SystemExit(failed)
