"""Pages of results: every table that something was measured of, as Markdown and as HTML."""

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cdsa.errors import ConfigError
from cdsa.experiments.paper import PaperTable, paper_tables
from cdsa.experiments.recipes import TABLES, Table
from cdsa.experiments.tables import (
    Block,
    Figure,
    Row,
    blocks_of,
    difference_text,
    duration,
    figure_text,
    row_of,
    row_text,
    rows_of,
    title_of,
)
from cdsa.results import Record, Value, read_results
from cdsa.sources.write import staged_text

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
            parts += [f"**{title_of(block, own)}**", ""]
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
            trained.setdefault(row_of(record), set()).add(told)
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
            title = title_of(block, own)
            rows = "\n".join(_html_row(row, block) for row in rows_of(table, block, own))
            parts.append(
                f'<div class="wide"><table><caption>{html.escape(title)}</caption>'
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
