"""Pages of results: every table that something was measured of, as Markdown and as HTML."""

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cdsa.errors import ConfigError
from cdsa.experiments.paper import PaperTable, paper_tables
from cdsa.experiments.recipes import TABLES, Table
from cdsa.experiments.tables import (
    Figure,
    Row,
    best_of,
    blocks_of,
    difference_text,
    figure_text,
    row_of,
    row_text,
    rows_of,
    time_text,
    title_of,
)
from cdsa.results import Record, Value, read_results
from cdsa.sources.write import staged_text

INTRODUCTION = (
    "Every figure was measured by `cdsa reproduce TABLE` and stands in `{results}` with its "
    "command, commit, seed, settings and machine. In a cell: ours; below it the paper's number and "
    "by how much ours differs; the best of ours is bold. A dash is something that was not "
    "measured. Errors of several trials are averaged, ± their standard deviation. `time` is what "
    "one cell took, training included. Where the data are not the paper's own, the numbers can be "
    "compared with each other but not with the paper's; what was measured on is said under each "
    "table."
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
            rows = rows_of(table, block, own)
            best = best_of(rows)
            for row in rows:
                cells = [
                    _markdown_cell(figure, block.metric, least)
                    for figure, least in zip(row.figures, best, strict=True)
                ]
                lines.append([row_text(row), *cells, time_text(row)])
            parts += [f"**{title_of(block, own)}**", ""]
            parts += [f"| {' | '.join(line)} |" for line in lines]
            parts.append("")
        parts += [f"- {line}" for line in _notes(own)]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _markdown_cell(figure: Figure, metric: str, least: float | None) -> str:
    ours, *below = _cell_lines(figure, metric)
    return "<br>".join([f"**{ours}**" if _is_best(figure, least) else ours, *below])


def _is_best(figure: Figure, least: float | None) -> bool:
    return figure.ours is not None and figure.ours == least


def _cell_lines(figure: Figure, metric: str) -> list[str]:
    """Ours; below it the spread over trials, and the paper's with the difference."""
    lines = [figure_text(figure.ours, metric)]
    if figure.spread is not None:
        lines.append(f"± {figure_text(figure.spread, metric)}")
    if figure.paper is not None:
        theirs = [figure_text(figure.paper, metric), difference_text(figure)]
        lines.append(f"({' '.join(filter(None, theirs))})")
    return lines


def _notes(records: Sequence[Record]) -> list[str]:
    """What was measured on, how networks were trained, by which commits and on which machines."""
    data: dict[tuple[Value, Value], None] = {}
    trained: dict[tuple[str, str], set[str]] = {}
    for record in records:
        data[record["data"], record["measured_on"]] = None
        if record.get("minutes") is not None and not record["quick"]:
            settings = f" ({record['settings']})" if record["settings"] else ""
            where = trained.setdefault(
                (row_of(record), f"{record['minutes']:g} min{settings}"), set()
            )
            rate = record["rate"]
            where.add(str(record["data"]) if rate is None else f"{float(rate):.0%}")
    lines = [f"measured on {name}: {told}" for name, told in data]
    lines += [
        f"{name} trained for {budget} at most: {', '.join(sorted(where))}"
        for (name, budget), where in trained.items()
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
.theirs { opacity: .6; }
th[scope=row] { font-weight: normal; }
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
            title = title_of(block, own)
            rows = rows_of(table, block, own)
            best = best_of(rows)
            body = "\n".join(_html_row(row, block.metric, best) for row in rows)
            parts.append(
                f'<div class="wide"><table><caption>{html.escape(title)}</caption>'
                f"<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
            )
        notes = "".join(f"<li>{html.escape(line)}</li>" for line in _notes(own))
        parts.append(f"<ul>{notes}</ul>")
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _html_row(row: Row, metric: str, best: Sequence[float | None]) -> str:
    cells = ""
    for figure, least in zip(row.figures, best, strict=True):
        ours, *below = (html.escape(line) for line in _cell_lines(figure, metric))
        ours = f"<b>{ours}</b>" if _is_best(figure, least) else ours
        cells += f"<td>{ours}{''.join(f'<small>{line}</small>' for line in below)}</td>"
    kind = "" if row.measured else ' class="theirs"'
    return (
        f'<tr{kind}><th scope="row">{html.escape(row_text(row))}</th>{cells}'
        f"<td>{html.escape(time_text(row))}</td></tr>"
    )
