"""Tables: our records beside the paper's numbers, in blocks to be printed or made a page of."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, stdev

from cdsa.core.records import Record, Value
from cdsa.paper.protocols import ALL, TEST_MONTHS
from cdsa.paper.published import PaperTable, paper_tables
from cdsa.paper.tables import (
    AS_PUBLISHED,
    FORECASTER,
    HORIZONS,
    MEAN,
    PROFILE,
    Table,
)

METRICS = {
    "mae": "MAE", "rmse": "RMSE", "mse": "MSE", "mre": "MRE", "mape": "MAPE",
    "operations": "operations (10^9)", "variables": "variables (10^5)",
}  # fmt: skip


SHARES = ("mre", "mape")


UNITS = {"operations": 1e9, "variables": 1e5}


WORDS = {
    "mean": "of the station",
    "linear": "straight line",
    "last": "value repeated",
    "climatology": "usual value",
    "ar": "auto regressive",
    "mf": "matrix factors",
}
"""What to say of rows whose method's name does not tell."""


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
    digits: int
    """Decimals to show, as many as the paper's."""


@dataclass(frozen=True)
class Figure:
    """One cell of a block: ours and the paper's, either may be absent."""

    ours: float | None
    paper: float | None
    trials: int = 0
    spread: float | None = None
    """Standard deviation over trials."""

    quick: bool = False
    comparable: bool = True
    """Whether ours and the paper's have one unit."""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, as a share of the paper's."""
        if self.ours is None or not self.paper or not self.comparable:
            return None
        return self.ours / self.paper - 1


@dataclass(frozen=True)
class Row:
    """A method in a block."""

    name: str
    figures: tuple[Figure, ...]
    records: tuple[Record, ...]
    """What its figures come from."""

    @property
    def measured(self) -> bool:
        """Whether there is anything of ours in it."""
        return any(figure.ours is not None for figure in self.figures)


def blocks_of(table: Table, records: Sequence[Record] = ()) -> Iterator[Block]:
    """The blocks of a table, in the order they are shown; missing rates that the paper has not get
    columns if something was measured at them."""
    paper = paper_tables()[table.name]
    for metric in paper.metrics:
        for title, columns in _columns(table, paper, records):
            words = ", ".join(filter(None, [METRICS[metric], title]))
            yield Block(words, metric, tuple(columns), paper.digits[metric])


def _columns(
    table: Table, paper: PaperTable, records: Sequence[Record]
) -> Iterator[tuple[str, list[Column]]]:
    """Titles and columns of a table's blocks."""
    if table.name == "complexity":
        yield "", [Column("one window", {}, table.data[0])]
    elif table.rates != (None,):
        rates = {float(rate) for r in records if (rate := r.get("rate")) is not None}
        rates |= {rate for rate in table.rates if rate is not None}
        yield (
            "by missing rate",
            [
                Column(f"{rate:.0%}", {"rate": rate, "cells": ALL}, f"{rate:g}")
                for rate in sorted(rates)
            ],
        )
    elif table.data == ("metr-la",):
        told = [horizon for horizon in (*HORIZONS, MEAN) if horizon in paper.columns]
        for protocol in table.protocols:
            yield protocol, [_ahead(protocol, horizon) for horizon in told]
    else:
        for data in table.data:
            kinds = product(table.protocols, (ALL, TEST_MONTHS))
            yield data, [_of_cells(data, protocol, cells) for protocol, cells in kinds]


def _ahead(protocol: str, horizon: str) -> Column:
    label = horizon if horizon == MEAN else f"{horizon} min"
    return Column(label, {"protocol": protocol, "horizon": horizon}, horizon)


def _of_cells(data: str, protocol: str, cells: str) -> Column:
    label = f"{protocol} {cells.replace('-', ' ')}"
    return Column(label, {"data": data, "protocol": protocol, "cells": cells}, data)


def title_of(block: Block, records: Sequence[Record]) -> str:
    """The block's title, with a warning if it was not measured on the paper's own data."""
    own = [r for r in records if any(_fits(r, column) for column in block.columns)]
    strange = any(r["measured_on"] != AS_PUBLISHED for r in own if r["protocol"] != PROFILE)
    return block.title + (" (not the paper's own data)" if strange else "")


def rows_of(table: Table, block: Block, records: Sequence[Record]) -> list[Row]:
    """The rows of a block; of what was measured in several ways, what counts, cell by cell."""
    paper = paper_tables()[table.name]
    by_name: dict[str, list[Record]] = {}
    for record in records:
        if any(_fits(record, column) for column in block.columns):
            by_name.setdefault(row_of(record), []).append(record)
    rows = []
    for name in _order(table, paper, by_name):
        figures, used = [], []
        for column in block.columns:
            own = _counting([r for r in by_name.get(name, []) if _fits(r, column)])
            plain = name.partition("@")[0]  # a preset is the same method of the paper
            theirs = paper.figure(plain, column.paper, block.metric)
            figures.append(_figure(own, theirs, block.metric, paper.unit))
            used += own
        rows.append(Row(name, tuple(figures), tuple(used)))
    return rows


def row_of(record: Record) -> str:
    """The row that a record stands in: its method, or the loss it was trained with."""
    method, loss = str(record["method"]), record["loss"]
    if loss is None:
        return method
    return str(loss) if method == FORECASTER else f"{method}, {loss}"


def _fits(record: Record, column: Column) -> bool:
    return all(record.get(name) == value for name, value in column.match.items())


def _counting(records: Sequence[Record]) -> list[Record]:
    """Those that count: not of quick runs if there are others, on the paper's own data if there are
    such, of the longest budget; of data or seeds that were measured twice, the last."""
    if not records:
        return []

    def worth(record: Record) -> tuple[bool, bool, float]:
        own = record["measured_on"] == AS_PUBLISHED
        return not record["quick"], own, float(record["minutes"] or 0)

    most = max(worth(record) for record in records)
    best = [record for record in records if worth(record) == most]
    same = [record for record in best if record["measured_on"] == best[-1]["measured_on"]]
    names = ("data", "protocol", "rate", "seed", "cells", "horizon")
    return list({tuple(record[name] for name in names): record for record in same}.values())


def _figure(
    records: Sequence[Record], paper: float | None, metric: str, unit: str | None
) -> Figure:
    found = [record.get(metric) for record in records]
    values = [float(value) for value in found if value is not None]
    return Figure(
        ours=fmean(values) if values else None,
        paper=paper,
        trials=len(values),
        spread=stdev(values) if len(values) > 1 else None,
        quick=any(bool(record["quick"]) for record in records),
        comparable=unit is None or all(r.get("unit") in (None, unit) for r in records),
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


def figure_text(value: float | None, block: Block) -> str:
    """A figure with the paper's decimals."""
    if value is None:
        return "-"
    if block.metric in SHARES:
        return f"{value:.{block.digits}%}"
    return f"{value / UNITS.get(block.metric, 1):.{block.digits}f}"


def ours_text(figure: Figure, block: Block) -> str:
    """Ours, with a star if it is of a quick run."""
    return figure_text(figure.ours, block) + ("*" if figure.quick else "")


def difference_text(figure: Figure) -> str:
    """The difference from the paper's in percent of it."""
    if figure.difference is None:
        return ""
    return f"{figure.difference:+.0%}".replace("+0%", "0%").replace("-0%", "0%")


def time_text(row: Row) -> str:
    """What the longest cell of a row took, training included."""
    times = [float(seconds) for r in row.records if (seconds := r.get("seconds")) is not None]
    return duration(max(times)) if times else "-"


def variables_text(row: Row) -> str:
    """How many numbers a network learns, where it is largest; '-' of what is none."""
    counts = [int(number) for r in row.records if (number := r.get("variables")) is not None]
    return f"{max(counts):,}" if counts else "-"


def duration(seconds: float) -> str:
    """A time that people can read."""
    if seconds < 1:
        return "< 1 s"
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def best_of(rows: Sequence[Row]) -> list[float | None]:
    """The least error of ours in each column; quick runs do not count."""
    columns = zip(*(row.figures for row in rows), strict=True)
    return [
        min((f.ours for f in column if f.ours is not None and not f.quick), default=None)
        for column in columns
    ]


def row_text(row: Row) -> str:
    """The name of a row, with a word where it does not tell."""
    return f"{row.name} ({WORDS[row.name]})" if row.name in WORDS else row.name


def notes_of(rows: Sequence[Row]) -> list[str]:
    """What was measured on, how long networks trained, by which commits and on which machines."""
    records = [record for row in rows for record in row.records]
    data = {(r["data"], r["measured_on"], r.get("prepared")): None for r in records}
    lines = [
        f"measured on {name}: {told}{f'; {prepared}' if prepared else ''}"
        for name, told, prepared in data
    ]
    trained: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.get("trained_seconds") is not None:
            trained.setdefault((row_of(record), str(record["settings"])), []).append(record)
    lines += [_training(name, settings, own) for (name, settings), own in trained.items()]
    seeds = sorted({int(record["seed"] or 0) for record in records})
    commits, machines = (sorted({str(r[name]) for r in records}) for name in ("commit", "machine"))
    if records:
        lines.append(f"commit {', '.join(commits)}; {', '.join(machines)}")
    if len(seeds) > 1:
        lines.append(f"means over seeds {seeds[0]} to {seeds[-1]}, where there are several")
    return lines


def _training(name: str, settings: str, records: Sequence[Record]) -> str:
    """How long a network trained, from the shortest cell to the longest."""
    spans = []
    for word, write in (("trained_seconds", duration), ("trained_steps", "{:,.0f} steps".format)):
        told = sorted({float(r[word] or 0) for r in records})
        first, last = write(told[0]), write(told[-1])
        spans.append(first if first == last else f"{first} to {last}")
    largest = max((int(r.get("variables") or 0) for r in records), default=0)
    if largest:
        spans.append(f"{largest:,} variables")
    along = ", along roads" if any(r.get("graph") == "roads" for r in records) else ""
    changed = f", with {settings}" if settings else ""
    return f"{name} trained for {', '.join(spans)}{changed}{along}"
