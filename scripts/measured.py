"""Records of results/, as tables of docs/ need them."""

from pathlib import Path

import pandas as pd

from cdsa.core.records import read_results

ROOT = Path(__file__).parents[1]


class NotMeasuredError(Exception):
    """There is no record of it."""


def latest(name: str, what: str | None = None) -> pd.DataFrame:
    """The records of the last run in a results file; of several kinds, of this one."""
    path = ROOT / "results" / f"{name}.jsonl"
    records = pd.DataFrame(read_results(path) if path.exists() else [])
    if what is not None and len(records):
        records = records[records["what"] == what]
    if not len(records):
        raise NotMeasuredError(name)
    return records[records["when"] == records["when"].max()]


def every(name: str, keys: list[str]) -> pd.DataFrame:
    """The last record of each kind in a results file that is added to piece by piece."""
    path = ROOT / "results" / f"{name}.jsonl"
    if not path.exists():
        raise NotMeasuredError(name)
    return pd.DataFrame(read_results(path)).drop_duplicates(keys, keep="last")


def measured(data: str, **wanted: object) -> pd.DataFrame:
    """Records of the paper's tables on a data set, the last of each; no quick ones."""
    records = pd.DataFrame(read_results(ROOT / "results" / "paper.jsonl"))
    chosen = (records["data"] == data) & ~records["quick"].astype(bool)
    for name, value in wanted.items():
        chosen &= records[name] == value
    keys = ["method", "protocol", "rate", "seed", "minutes", "settings", "cells", "horizon"]
    return records[chosen].drop_duplicates([*keys, "loss"], keep="last")


def origin_of(records: pd.DataFrame, command: str) -> pd.DataFrame:
    """Where several records come from."""
    if not len(records):
        raise NotMeasuredError(command)
    commits = ", ".join(sorted(set(records["commit"])))
    return records.tail(1).assign(command=command, commit=commits)


def figure(records: pd.DataFrame, name: str, digits: str = ".3f") -> str:
    """The mean over seeds of a figure, and how many there are if several."""
    values = records[name].dropna().astype(float)
    if not len(values):
        return "-"
    spread = f" ± {values.std():{digits}}" if len(values) > 1 else ""
    return f"{values.mean():{digits}}{spread}"


def markdown(rows: list[list[str]], origin: pd.DataFrame) -> str:
    """Rows as a table, the first one its head, with where it comes from below."""
    head, *body = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    first = origin.iloc[0]
    return f"{table}\n\n`{first['command']}`, commit {first['commit']}, {first['machine']}\n"
