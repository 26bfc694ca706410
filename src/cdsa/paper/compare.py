"""Our records compared with the paper's numbers, in blocks for the terminal and for pages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, stdev

from cdsa.core.records import Record, Value
from cdsa.paper.protocols import ALL, TEST_MONTHS
from cdsa.paper.tables import AS_PUBLISHED, HORIZONS, MEAN_HORIZON, PAPER_FORECASTER, PROFILE, Table

METRICS = {
    "mae": "MAE", "rmse": "RMSE", "mse": "MSE", "mre": "MRE", "mape": "MAPE",
    "operations": "operations (10^9)", "parameters": "parameters (10^5)",
}  # fmt: skip
PERCENTAGES = ("mre", "mape")
SCALES = {"operations": 1e9, "parameters": 1e5}

ROW_NOTES = {
    "mean": "of the station",
    "linear": "interpolation",
    "last": "value repeated",
    "climatology": "seasonal mean",
    "ar": "autoregressive",
    "mf": "matrix factorisation",
}
"""Explanations of terse method names."""


@dataclass(frozen=True)
class Column:
    """The records of a column, and the paper's column to compare with."""

    label: str
    match: Mapping[str, Value]
    paper: str

    def matches(self, record: Record) -> bool:
        return all(record.get(name) == value for name, value in self.match.items())


@dataclass(frozen=True)
class Figure:
    """One cell of a block: our result and the paper's; either may be absent."""

    ours: float | None
    paper: float | None
    trials: int = 0
    spread: float | None = None
    """Standard deviation over trials."""

    quick: bool = False
    comparable: bool = True
    """Whether both have the same unit."""

    @property
    def difference(self) -> str:
        """Relative difference between our result and the paper's in percent, if there are both."""
        if self.ours is None or not self.paper or not self.comparable:
            return ""
        return f"{self.ours / self.paper - 1:+.0%}".replace("+0%", "0%").replace("-0%", "0%")


@dataclass(frozen=True)
class Row:
    name: str
    figures: tuple[Figure, ...]
    records: tuple[Record, ...]

    @property
    def measured(self) -> bool:
        return any(figure.ours is not None for figure in self.figures)

    @property
    def label(self) -> str:
        """Its name, with an explanation if it is terse."""
        return f"{self.name} ({ROW_NOTES[self.name]})" if self.name in ROW_NOTES else self.name

    @property
    def time(self) -> str:
        times = [float(seconds) for r in self.records if (seconds := r.get("seconds")) is not None]
        return format_duration(max(times)) if times else "-"

    @property
    def parameters(self) -> str:
        """The number of parameters of its largest network; '-' for other methods."""
        counts = [int(number) for r in self.records if (number := r.get("parameters")) is not None]
        return f"{max(counts):,}" if counts else "-"


@dataclass(frozen=True)
class Block:
    """One metric of a table, on one data set or protocol."""

    title: str
    metric: str
    digits: int
    """Decimals, as many as in the paper."""

    columns: Sequence[Column]
    rows: Sequence[Row]

    def format(self, value: float | None) -> str:
        if value is None:
            return "-"
        if self.metric in PERCENTAGES:
            return f"{value:.{self.digits}%}"
        return f"{value / SCALES.get(self.metric, 1):.{self.digits}f}"

    def format_ours(self, figure: Figure) -> str:
        """Our figure, with a star if it is from a quick run."""
        return self.format(figure.ours) + ("*" if figure.quick else "")

    def best_per_column(self) -> list[float | None]:
        columns = zip(*(row.figures for row in self.rows), strict=True)
        return [
            min((f.ours for f in column if f.ours is not None and not f.quick), default=None)
            for column in columns
        ]


def build_blocks(table: Table, records: Sequence[Record] = ()) -> Iterator[Block]:
    """The blocks of a table in order, with a column for each measured rate, even if the paper has
    none. A title says if the data are not the paper's own."""
    for metric in table.paper.metrics:
        for subtitle, columns in _columns(table, records):
            matching = [r for r in records if any(column.matches(r) for column in columns)]
            title = ", ".join(filter(None, [METRICS[metric], subtitle]))
            if any(r["measured_on"] != AS_PUBLISHED for r in matching if r["protocol"] != PROFILE):
                title += " (not the paper's own data)"
            rows = _rows(table, metric, columns, matching)
            yield Block(title, metric, table.paper.digits[metric], columns, rows)


def _columns(table: Table, records: Sequence[Record]) -> Iterator[tuple[str, list[Column]]]:
    if table.task == "profile":
        yield "", [Column("one window", {}, table.data[0])]
    elif table.rates != (None,):
        rates = {float(rate) for r in records if (rate := r.get("rate")) is not None}
        rates |= {rate for rate in table.rates if rate is not None}
        columns = [
            Column(f"{rate:.0%}", {"rate": rate, "cells": ALL}, f"{rate:g}")
            for rate in sorted(rates)
        ]
        yield "by missing rate", columns
    elif table.task == "forecast":
        labels = {horizon: f"{horizon} min" for horizon in HORIZONS} | {MEAN_HORIZON: MEAN_HORIZON}
        for protocol in table.protocols:
            columns = [
                Column(label, {"protocol": protocol, "horizon": horizon}, horizon)
                for horizon, label in labels.items()
                if horizon in table.paper.columns
            ]
            yield protocol, columns
    else:
        for data in table.data:
            columns = [
                Column(
                    f"{protocol} {cells.replace('-', ' ')}",
                    {"data": data, "protocol": protocol, "cells": cells},
                    data,
                )
                for protocol, cells in product(table.protocols, (ALL, TEST_MONTHS))
            ]
            yield data, columns


def _rows(
    table: Table, metric: str, columns: Sequence[Column], records: Sequence[Record]
) -> list[Row]:
    """The rows of a block; each cell shows the records that `_select_records` prefers."""
    by_name: dict[str, list[Record]] = {}
    for record in records:
        by_name.setdefault(_row_name(record), []).append(record)
    rows = []
    for name in _row_order(table, by_name):
        method = name.partition("@")[0]  # a preset is compared with its method in the paper
        figures, used = [], []
        for column in columns:
            chosen = _select_records([r for r in by_name.get(name, []) if column.matches(r)])
            published = table.paper.figure(method, column.paper, metric)
            figures.append(_summarise(chosen, published, metric, table.paper.unit))
            used += chosen
        rows.append(Row(name, tuple(figures), tuple(used)))
    return rows


def _row_name(record: Record) -> str:
    """The row of a record: its method, or its training loss."""
    method, loss = str(record["method"]), record["loss"]
    if loss is None:
        return method
    return str(loss) if method == PAPER_FORECASTER else f"{method}, {loss}"


def _row_order(table: Table, measured: Iterable[str]) -> list[str]:
    """Simple methods that the paper lacks, the paper's rows with presets after their method, then
    all other measured methods."""
    names, published = list(measured), table.paper.rows
    order = [name for name in table.methods if name in names and "@" not in name]
    order = [name for name in order if name not in published]
    for name in published:
        order += [name, *(other for other in names if other.startswith(f"{name}@"))]
    return order + [name for name in names if name not in order]


def _select_records(records: Sequence[Record]) -> list[Record]:
    """The records to report: quick runs only if there are no others, then the paper's own data over
    substitutes, then the longest budget; the last of duplicates."""
    if not records:
        return []

    def rank(record: Record) -> tuple[bool, bool, float]:
        published = record["measured_on"] == AS_PUBLISHED
        return not record["quick"], published, float(record["minutes"] or 0)

    highest = max(rank(record) for record in records)
    best = [record for record in records if rank(record) == highest]
    same = [record for record in best if record["measured_on"] == best[-1]["measured_on"]]
    names = ("data", "protocol", "rate", "seed", "cells", "horizon")
    return list({tuple(record[name] for name in names): record for record in same}.values())


def _summarise(
    records: Sequence[Record], paper: float | None, metric: str, unit: str | None
) -> Figure:
    values = [float(value) for r in records if (value := r.get(metric)) is not None]
    return Figure(
        ours=fmean(values) if values else None,
        paper=paper,
        trials=len(values),
        spread=stdev(values) if len(values) > 1 else None,
        quick=any(bool(record["quick"]) for record in records),
        comparable=unit is None or all(r.get("unit") in (None, unit) for r in records),
    )


def format_duration(seconds: float) -> str:
    if seconds < 1:
        return "< 1 s"
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def footnotes(rows: Iterable[Row]) -> list[str]:
    """The data, training times, commits and machines behind the rows."""
    records = [record for row in rows for record in row.records]
    data = {(r["data"], r["measured_on"], r.get("prepared")): None for r in records}
    lines = [
        f"measured on {name}: {measured_on}{f'; {prepared}' if prepared else ''}"
        for name, measured_on, prepared in data
    ]
    trained: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.get("trained_seconds") is not None:
            trained.setdefault((_row_name(record), str(record["settings"])), []).append(record)
    lines += [_training_note(*key, group) for key, group in trained.items()]
    seeds = sorted({int(record["seed"] or 0) for record in records})
    commits, machines = (sorted({str(r[name]) for r in records}) for name in ("commit", "machine"))
    if records:
        lines.append(f"commit {', '.join(commits)}; {', '.join(machines)}")
    if len(seeds) > 1:
        lines.append(f"means over seeds {seeds[0]} to {seeds[-1]}, where there are several")
    return lines


def _training_note(name: str, settings: str, records: Sequence[Record]) -> str:
    """How long a network trained, from the shortest to the longest experiment."""
    spans = []
    formats = {"trained_seconds": format_duration, "trained_steps": "{:,.0f} steps".format}
    for key, write in formats.items():
        values = [float(r[key] or 0) for r in records]
        first, last = write(min(values)), write(max(values))
        spans.append(first if first == last else f"{first} to {last}")
    largest = max(int(r.get("parameters") or 0) for r in records)
    spans += [f"{largest:,} parameters"] if largest else []
    roads = ", on the road graph" if any(r.get("graph") == "roads" for r in records) else ""
    changes = f", with {settings}" if settings else ""
    return f"{name} trained for {', '.join(spans)}{changes}{roads}"
