"""Records of results/, for the tables and figures of docs/."""

from pathlib import Path

import pandas as pd

from cdsa.core.records import read_results

ROOT = Path(__file__).parents[1]


class NotMeasuredError(Exception):
    """There is no such record."""


def load(name: str) -> pd.DataFrame:
    """All records of a results file."""
    path = ROOT / "results" / f"{name}.jsonl"
    if not path.exists():
        raise NotMeasuredError(name)
    return pd.DataFrame(read_results(path))


def load_latest(name: str, what: str | None = None) -> pd.DataFrame:
    """The records of the last run in a results file, of this kind if it has several."""
    records = load(name)
    if what is not None:
        records = records[records["what"] == what]
    if not len(records):
        raise NotMeasuredError(name)
    return records[records["when"] == records["when"].max()]


def load_paper(data: str, *, by: tuple[str, ...] = (), **values: object) -> pd.DataFrame:
    """Records of the paper's tables on a data set with these values, without quick runs; the last
    of duplicates, which agree in their settings and in `by`."""
    records = load("paper")
    chosen = (records["data"] == data) & ~records["quick"].astype(bool)
    for name, value in values.items():
        chosen &= records[name] == value
    keys = ["method", "protocol", "rate", "seed", "minutes", "settings", "cells", "horizon"]
    return records[chosen].drop_duplicates([*keys, "loss", *by], keep="last")


def format_mean(records: pd.DataFrame, name: str, digits: str = ".3f") -> str:
    """The mean of a figure over seeds, with the standard deviation if there are several."""
    values = records[name].dropna().astype(float)
    if not len(values):
        return "-"
    spread = f" ± {values.std():{digits}}" if len(values) > 1 else ""
    return f"{values.mean():{digits}}{spread}"


def to_markdown(rows: list[list[str]], records: pd.DataFrame, command: str | None = None) -> str:
    """Rows as a table, the first as its head, with the origin of the records below.

    The records are of one run, or of several that `command` repeats.
    """
    if not len(records):
        raise NotMeasuredError(command)
    head, *body = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    last = records.iloc[-1]
    commits, machines = (sorted(set(records[name])) for name in ("commit", "machine"))
    origin = f"commit {', '.join(commits)}, {'; '.join(machines)}"
    if command is None:
        return f"{table}\n\n`{last['command']}`, {origin}\n"
    return f"{table}\n\n{origin}; to measure again: `{command}`\n"
