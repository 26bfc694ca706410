"""What commands do besides parsing and printing: choose methods, show progress, make records."""

import shlex
import sys
from collections.abc import Sequence

import pandas as pd
import xarray as xr
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cdsa.cli import show
from cdsa.errors import ConfigError, unknown
from cdsa.filling import count_sources
from cdsa.method import methods as all_methods
from cdsa.metrics import KEYS
from cdsa.results import Value, plain
from cdsa.scoring import Score, compare


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["cdsa", *sys.argv[1:]])


def fill_records(result: xr.Dataset, method: str, expected: Score | None) -> list[dict[str, Value]]:
    """Flat records of a fill, one per measurement."""
    figures = expected.table("measurement") if expected else pd.DataFrame()
    records: list[dict[str, Value]] = []
    for name, counts in count_sources(result).items():
        record: dict[str, Value] = {"measurement": name, "method": method, **counts}
        for figure in ("mae", "rmse"):
            known = name in figures.index
            record[f"expected_{figure}"] = plain(figures.loc[name, figure]) if known else None
        records.append(record)
    return records


def usable_methods() -> list[str]:
    """All methods whose extras are installed; the others are named."""
    missing = [info for info in all_methods() if not info.installed]
    if missing:
        names = ", ".join(f"{info.name} (extra '{info.extra}')" for info in missing)
        show.note(f"left out, because not installed: {names}")
    return [info.name for info in all_methods() if info.installed]


def score_with_progress(
    names: Sequence[str], cube: xr.DataArray, hide: str, repeats: int, seed: int, test: float | None
) -> list[Score]:
    """Score the methods under a progress bar."""
    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    quiet = not show.err.is_terminal
    with Progress(*columns, console=show.err, transient=True, disable=quiet) as progress:
        task = progress.add_task("scoring", total=len(names) * repeats)
        scores = []
        for scored in compare(
            [name.strip() for name in names],
            cube,
            hide,
            repeats=repeats,
            seed=seed,
            test=test,
            progress=lambda name: progress.update(task, description=name),
        ):
            scores.append(scored)
            progress.advance(task)
    return scores


def read_by(by: str) -> str:
    """The way of breaking errors down that the user asked for."""
    by = "location" if by == "station" else by
    if by not in KEYS:
        raise ConfigError(unknown("breakdown", by, KEYS))
    return by
