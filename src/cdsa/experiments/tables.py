"""Tables: our records beside the paper's numbers, in blocks to be printed or made a page of."""

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev

from cdsa.errors import ConfigError
from cdsa.experiments.paper import PaperTable, paper_tables
from cdsa.experiments.protocols import ALL, TEST_MONTHS
from cdsa.experiments.recipes import HORIZONS, MEAN, TABLES, Table
from cdsa.results import Record, Value, read_results
from cdsa.sources.write import staged_text

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
    trials: int = 0
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
    seconds: float | None
    """What one cell of it took, the middle one of all."""

    trained: float | None
    """Seconds of training in that."""

    quick: bool


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


def rows_of(table: Table, block: Block, records: Sequence[Record]) -> list[Row]:
    """The rows of a block; of several budgets of training the longest counts."""
    paper = paper_tables()[table.name]
    by_name: dict[str, list[Record]] = {}
    for record in records:
        if any(_fits(record, column) for column in block.columns):
            by_name.setdefault(_row_of(record), []).append(record)
    rows = []
    for name in _order(table, paper, by_name):
        own = _longest(by_name.get(name, []))
        figures = tuple(_figure(name, block, column, own, paper) for column in block.columns)
        times = [float(seconds) for r in own if (seconds := r["seconds"]) is not None]
        trained = [float(told) for r in own if (told := r.get("trained_seconds")) is not None]
        rows.append(
            Row(
                name=name,
                figures=figures,
                seconds=median(times) if times else None,
                trained=median(trained) if trained else None,
                quick=any(bool(record["quick"]) for record in own),
            )
        )
    return rows


def _row_of(record: Record) -> str:
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


def _figure(
    name: str, block: Block, column: Column, records: Iterable[Record], paper: PaperTable
) -> Figure:
    values = [
        float(value)
        for record in records
        if _fits(record, column) and (value := record.get(block.metric)) is not None
    ]
    return Figure(
        ours=fmean(values) if values else None,
        paper=paper.figure(name, column.paper, block.metric),
        trials=len(values),
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


def duration(seconds: float | None) -> str:
    """A time that people can read."""
    if seconds is None:
        return "-"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def row_text(row: Row) -> str:
    """The name of a row, in words where its method's own does not tell."""
    return WORDS.get(row.name, row.name) + (" (quick)" if row.quick else "")


# --------------------------------------------------------------------------------- pages

INTRODUCTION = (
    "Every figure was measured by `cdsa reproduce TABLE` and stands in `{results}` with its "
    "command, commit, seed, settings and machine. In a cell: ours; below it the paper's number and "
    "by how much ours differs. A dash is something that was not measured, or that the paper does "
    "not have. Errors of several trials are averaged. `time` is what one cell took, training "
    "included. Where the data are not the paper's own, the numbers can be compared with each other "
    "but not with the paper's; what was measured on is said under each table."
)


def write_pages(results: Path, output: Path, *, overwrite: bool = False) -> list[Path]:
    """Write all tables as Markdown and HTML, both whole or neither."""
    if not results.exists():
        raise ConfigError(
            f"{results} does not exist. Measure something first: cdsa reproduce kdd2015"
        )
    records = read_results(results)
    name = results.name if results.is_absolute() else results.as_posix()
    pages = {
        output.with_name(f"{output.name}.md"): markdown_page(records, name),
        output.with_name(f"{output.name}.html"): html_page(records, name),
    }
    staged_text(pages, overwrite=overwrite)
    return list(pages)


def _measured(records: Sequence[Record]) -> Iterator[tuple[Table, PaperTable, list[Record]]]:
    """The tables that something was measured of, each with all records of its cells."""
    for table in TABLES.values():
        own = [record for record in records if _belongs(record, table)]
        if own:
            yield table, paper_tables()[table.name], own


def _belongs(record: Record, table: Table) -> bool:
    """Whether a record is of a cell of this table, whichever table it was measured for."""
    if record.get("table") == table.name:
        return True
    return (
        record.get("data") in table.data
        and record.get("protocol") in table.protocols
        and record.get("method") in table.methods
        and (record.get("loss") is None) == (table.losses == (None,))
    )


def markdown_page(records: Sequence[Record], results: str) -> str:
    """All tables as Markdown."""
    parts = ["# The paper's tables, measured", "", INTRODUCTION.format(results=results), ""]
    for table, paper, own in _measured(records):
        parts += [f"## {table.name}", "", f"{paper.caption} (`{paper.label}`).", ""]
        for block in blocks_of(table):
            head = ["method", *(column.label for column in block.columns), "time"]
            lines = [head, ["---", *["---:"] * (len(head) - 1)]]
            for row in rows_of(table, block, own):
                cells = [_markdown_cell(figure, block.metric) for figure in row.figures]
                lines.append([row_text(row), *cells, duration(row.seconds)])
            parts += [f"**{block.title}**", ""]
            parts += [f"| {' | '.join(line)} |" for line in lines]
            parts.append("")
        parts += [f"- {line}" for line in _notes(own)]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _markdown_cell(figure: Figure, metric: str) -> str:
    return "<br>".join(filter(None, _cell_lines(figure, metric)))


def _cell_lines(figure: Figure, metric: str) -> tuple[str, str]:
    """Ours, and below it the paper's with the difference."""
    ours = figure_text(figure.ours, metric)
    if figure.spread is not None:
        ours += f" ± {figure_text(figure.spread, metric)}"
    if figure.paper is None:
        return ours, ""
    theirs = " ".join(filter(None, [figure_text(figure.paper, metric), difference_text(figure)]))
    return ours, f"({theirs})"


def _notes(records: Sequence[Record]) -> list[str]:
    """What was measured on, how networks were trained, by which commits and on which machines."""
    data: dict[tuple[Value, Value], None] = {}
    trained: dict[str, set[str]] = {}
    for record in records:
        data[record["data"], record["measured_on"]] = None
        if record.get("minutes") is not None and not record["quick"]:
            told = f"{record['minutes']:g} min" + (
                f" ({record['settings']})" if record["settings"] else ""
            )
            trained.setdefault(_row_of(record), set()).add(told)
    lines = [f"measured on {name}: {told}" for name, told in data]
    lines += [
        f"{name} trained for at most {' or '.join(sorted(told))}" for name, told in trained.items()
    ]
    commits = sorted({str(record["commit"]) for record in records})
    machines = sorted({str(record["machine"]) for record in records})
    seeds = sorted({int(record["seed"] or 0) for record in records})
    lines.append(
        f"commit {', '.join(commits)}; seeds {', '.join(map(str, seeds))}; {', '.join(machines)}"
    )
    return lines


STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; vertical-align: top; white-space: nowrap;
  border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
th:first-child, td:first-child { text-align: left; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
small { opacity: .7; display: block; }
ul { opacity: .85; font-size: 90%; }
"""


def html_page(records: Sequence[Record], results: str) -> str:
    """All tables as one page of HTML that needs nothing else."""
    told = re.sub(
        r"`([^`]+)`", r"<code>\1</code>", html.escape(INTRODUCTION.format(results=results))
    )
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>The paper's tables, measured</title><style>{STYLE}</style></head><body>",
        f"<h1>The paper's tables, measured</h1><p>{told}</p>",
    ]
    for table, paper, own in _measured(records):
        parts.append(
            f'<h2 id="{table.name}">{table.name}</h2>'
            f"<p>{html.escape(paper.caption)} (<code>{html.escape(paper.label)}</code>).</p>"
        )
        for block in blocks_of(table):
            head = "".join(
                f'<th scope="col">{html.escape(name)}</th>'
                for name in ("method", *(column.label for column in block.columns), "time")
            )
            rows = "\n".join(_html_row(row, block) for row in rows_of(table, block, own))
            parts.append(
                f'<div class="wide"><table><caption>{html.escape(block.title)}</caption>'
                f"<thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>"
            )
        notes = "".join(f"<li>{html.escape(line)}</li>" for line in _notes(own))
        parts.append(f"<ul>{notes}</ul>")
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _html_row(row: Row, block: Block) -> str:
    cells = ""
    for figure in row.figures:
        ours, theirs = (html.escape(line) for line in _cell_lines(figure, block.metric))
        cells += f"<td>{ours}<small>{theirs}</small></td>"
    return (
        f'<tr><th scope="row">{html.escape(row_text(row))}</th>{cells}'
        f"<td>{duration(row.seconds)}</td></tr>"
    )
