"""Tables: our records beside the paper's numbers, in blocks to be printed or made a page of."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from cdsa.experiments.paper import PaperTable, paper_tables
from cdsa.experiments.protocols import ALL, TEST_MONTHS
from cdsa.experiments.recipes import AS_PUBLISHED, HORIZONS, MEAN, Table
from cdsa.results import Record, Value

METRICS = {
    "mae": "MAE", "rmse": "RMSE", "mse": "MSE", "mre": "MRE", "mape": "MAPE",
    "operations": "operations (10^9)", "variables": "variables (10^5)",
}  # fmt: skip
SHARES = ("mre", "mape")
UNITS = {"operations": 1e9, "variables": 1e5}
WORDS = {
    "mean": "mean of the station",
    "linear": "straight line in time",
    "last": "last value repeated",
    "climatology": "usual value of hour and month",
    "ar": "auto regressive",
    "mf": "matrix factorisation",
}
"""Names of rows that a method's own does not tell."""


@dataclass(frozen=True)
class Column:
    """Which records stand in a column, and the paper's column beside it."""

    label: str
    match: Mapping[str, Value]
    paper: str


@dataclass(frozen=True)
class Block:
    """One metric of a table, on one kind of data."""

    title: str
    metric: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Figure:
    """One cell of a block: ours and the paper's, either may be absent."""

    ours: float | None
    paper: float | None
    spread: float | None = None
    """Standard deviation over trials."""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, as a share of the paper's."""
        if self.ours is None or not self.paper:
            return None
        return self.ours / self.paper - 1


@dataclass(frozen=True)
class Row:
    """A method in a block."""

    name: str
    figures: tuple[Figure, ...]
    seconds: tuple[float, ...]
    """What its cells took, training included, the shortest first."""

    quick: bool

    @property
    def measured(self) -> bool:
        """Whether there is anything of ours in it."""
        return any(figure.ours is not None for figure in self.figures)


def blocks_of(table: Table) -> Iterator[Block]:
    """The blocks of a table, in the order they are shown."""
    metrics = paper_tables()[table.name].metrics
    for metric in metrics:
        word = METRICS[metric]
        if table.rates != (None,):
            columns = tuple(
                Column(f"{rate:.0%}", {"rate": rate, "cells": ALL}, f"{rate:g}")
                for rate in table.rates
                if rate is not None
            )
            yield Block(f"{word} by missing rate", metric, columns)
        elif table.data == ("metr-la",):
            told = paper_tables()[table.name].columns
            for protocol in table.protocols:
                columns = tuple(
                    Column(
                        f"{horizon} min" if horizon != MEAN else "mean",
                        {"protocol": protocol, "horizon": horizon},
                        horizon,
                    )
                    for horizon in (*HORIZONS, MEAN)
                    if horizon in told
                )
                yield Block(f"{word}, {protocol}", metric, columns)
        elif table.name == "complexity":
            yield Block(word, metric, (Column("one window", {}, table.data[0]),))
        else:
            for data in table.data:
                columns = tuple(
                    Column(
                        f"{protocol} {cells.replace('-', ' ')}",
                        {"data": data, "protocol": protocol, "cells": cells},
                        data,
                    )
                    for protocol in table.protocols
                    for cells in (ALL, TEST_MONTHS)
                )
                yield Block(f"{word}, {data}", metric, columns)


def title_of(block: Block, records: Sequence[Record]) -> str:
    """The block's title, with a warning if it was not measured on the paper's own data."""
    own = [r for r in records if any(_fits(r, column) for column in block.columns)]
    strange = any(record["measured_on"] != AS_PUBLISHED for record in own)
    return block.title + (" (not the paper's own data)" if strange else "")


def rows_of(table: Table, block: Block, records: Sequence[Record]) -> list[Row]:
    """The rows of a block; of several budgets of training the longest counts, cell by cell."""
    paper = paper_tables()[table.name]
    by_name: dict[str, list[Record]] = {}
    for record in records:
        if any(_fits(record, column) for column in block.columns):
            by_name.setdefault(row_of(record), []).append(record)
    rows = []
    for name in _order(table, paper, by_name):
        figures, used = [], []
        for column in block.columns:
            own = _longest([r for r in by_name.get(name, []) if _fits(r, column)])
            figures.append(_figure(own, paper.figure(name, column.paper, block.metric), block))
            used += own
        rows.append(
            Row(
                name=name,
                figures=tuple(figures),
                seconds=tuple(sorted(float(record["seconds"] or 0) for record in used)),
                quick=any(bool(record["quick"]) for record in used),
            )
        )
    return rows


def row_of(record: Record) -> str:
    """The row that a record stands in."""
    return str(record["loss"] or record["method"])


def _fits(record: Record, column: Column) -> bool:
    return all(record.get(name) == value for name, value in column.match.items())


def _longest(records: Sequence[Record]) -> list[Record]:
    """Those of the longest budget, of the quick ones only if there are no others; of what was
    measured twice, the last."""
    if not records:
        return []

    def budget(record: Record) -> tuple[bool, float]:
        return not record["quick"], float(record["minutes"] or 0)

    most = max(budget(record) for record in records)
    latest = {
        tuple(
            record[name] for name in ("data", "protocol", "rate", "seed", "cells", "horizon")
        ): record
        for record in records
        if budget(record) == most
    }
    return list(latest.values())


def _figure(records: Iterable[Record], paper: float | None, block: Block) -> Figure:
    found = [record.get(block.metric) for record in records]
    values = [float(value) for value in found if value is not None]
    return Figure(
        ours=fmean(values) if values else None,
        paper=paper,
        spread=stdev(values) if len(values) > 1 else None,
    )


def _order(table: Table, paper: PaperTable, found: Iterable[str]) -> list[str]:
    """Simple methods that the paper has not, the paper's rows with presets behind their method,
    and whatever else was measured."""
    there = list(found)
    order = [name for name in table.methods if name in there and "@" not in name]
    order = [name for name in order if name not in paper.rows]
    for name in paper.rows:
        order += [name, *(other for other in there if other.startswith(f"{name}@"))]
    return order + [name for name in there if name not in order]


def figure_text(value: float | None, metric: str) -> str:
    """A figure as the paper writes it."""
    if value is None:
        return "-"
    if metric in SHARES:
        return f"{value:.2%}"
    if metric in UNITS:
        return f"{value / UNITS[metric]:.2f}"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


def difference_text(figure: Figure) -> str:
    """The difference from the paper's in percent of it."""
    if figure.difference is None:
        return ""
    return f"{figure.difference:+.0%}".replace("+0%", "0%").replace("-0%", "0%")


def time_text(row: Row) -> str:
    """What the cells of a row took, from the shortest to the longest."""
    if not row.seconds:
        return "-"
    first, last = (_duration(row.seconds[end]) for end in (0, -1))
    return first if first == last else f"{first} to {last}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "< 1 s"
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def best_of(rows: Sequence[Row]) -> list[float | None]:
    """The least error of ours in each column."""
    columns = zip(*(row.figures for row in rows), strict=True)
    return [
        min((figure.ours for figure in column if figure.ours is not None), default=None)
        for column in columns
    ]


def row_text(row: Row) -> str:
    """The name of a row, in words where its method's own does not tell."""
    return WORDS.get(row.name, row.name) + (" (quick)" if row.quick else "")
