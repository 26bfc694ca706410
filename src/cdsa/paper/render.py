"""Pages of results: every measured table as Markdown and HTML."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdsa.core.atomic import write_texts
from cdsa.core.records import Record, read_results
from cdsa.errors import ConfigError
from cdsa.paper.compare import (
    SCALES,
    Block,
    Figure,
    Row,
    best_per_column,
    block_title,
    build_blocks,
    build_rows,
    footnotes,
    format_difference,
    format_figure,
    format_ours,
    format_parameters,
    format_row_name,
    format_time,
)
from cdsa.paper.published import paper_tables
from cdsa.paper.tables import TABLES, Table

TITLE = "The paper's tables, measured"
INTRODUCTION = (
    "Every figure was measured by `cdsa paper run TABLE` and is recorded in `{results}` with its "
    "command, commit, seed, settings and machine. Each cell shows our result, and below it the "
    "paper's number and the relative difference. Our best result is bold, a star marks a quick "
    "run, and a dash means not measured. Errors of several trials are averaged, ± their standard "
    "deviation. `parameters` is the number of trained parameters of a network, `time` the duration "
    "of the longest experiment of a row. Where the data are not the paper's own, the numbers can "
    "be compared with each other but not with the paper's; the notes under each table name the "
    "data."
)
REQUIRED = (
    "table", "method", "data", "protocol", "rate", "seed", "cells", "horizon", "loss", "minutes",
    "quick", "settings", "measured_on", "commit", "machine",
)  # fmt: skip
"""Keys that a record must have to appear on a page."""

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


@dataclass(frozen=True)
class Section:
    """A table of the paper of which something was measured."""

    name: str
    caption: str
    label: str
    legend: str
    blocks: list[tuple[str, Block, list[Row]]]
    """Title, columns and rows of each block."""

    notes: list[str]


def write_pages(results: Path, output: Path, *, overwrite: bool = False) -> list[Path]:
    """Write all tables as Markdown and HTML, either both pages or none."""
    if not results.exists():
        raise ConfigError(
            f"{results} does not exist. Measure a table first: cdsa paper run kdd2015"
        )
    records = read_results(results)
    if not any(_sections(records)):
        raise ConfigError(f"{results} has no record of any of the paper's tables")
    stem = output.with_suffix("") if output.suffix in (".md", ".html") else output
    if not stem.name:
        raise ConfigError(f"the pages need a name, as in -o cdsa-tables, but found '{output}'")
    name = results.name if results.is_absolute() else results.as_posix()
    pages = {
        stem.with_name(f"{stem.name}.md"): render_markdown(records, name),
        stem.with_name(f"{stem.name}.html"): render_html(records, name),
    }
    write_texts(pages, overwrite=overwrite or all(_replaceable(path) for path in pages))
    return list(pages)


def _replaceable(path: Path) -> bool:
    """Whether a path is free or holds a page that we wrote."""
    if not path.is_file():
        return not path.exists()
    return TITLE in path.read_bytes()[:2000].decode(errors="replace")


def _sections(records: Sequence[Record]) -> Iterator[Section]:
    complete = [record for record in records if set(REQUIRED) <= set(record)]
    for table in TABLES.values():
        in_table = [record for record in complete if _belongs(record, table)]
        if not in_table:
            continue
        paper = paper_tables()[table.name]
        blocks = [
            (block_title(block, in_table), block, build_rows(table, block, in_table))
            for block in build_blocks(table, in_table)
        ]
        blocks = [block for block in blocks if any(row.measured for row in block[2])]
        legend = f"{table.legend[0].upper()}{table.legend[1:]}." if table.legend else ""
        notes = footnotes([row for _, _, rows in blocks for row in rows])
        yield Section(table.name, paper.caption, paper.label, legend, blocks, notes)


def _belongs(record: Record, table: Table) -> bool:
    """Whether a record is of an experiment of this table, for whichever table it was run."""
    if record["table"] == table.name:
        return True
    return (
        record["data"] in table.data
        and record["protocol"] in table.protocols
        and record["method"] in table.methods
        and (record["loss"] in table.losses or record["minutes"] is None)
    )


def render_markdown(records: Sequence[Record], results: str) -> str:
    """All tables as Markdown."""
    sections = list(_sections(records))
    contents = " · ".join(f"[{section.name}](#{section.name})" for section in sections)
    lines = [f"# {TITLE}", "", INTRODUCTION.format(results=results), "", contents, ""]
    for section in sections:
        text = f"{section.caption} (`{section.label}`). {section.legend}".rstrip()
        lines += [f"## {section.name}", "", text, ""]
        for title, block, rows in section.blocks:
            lines += [f"**{title}**", "", *_markdown_table(block, rows), ""]
        lines += [*(f"- {_escape_markdown(note)}" for note in section.notes), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_table(block: Block, rows: Sequence[Row]) -> Iterator[str]:
    head, best = _head(block), best_per_column(rows)
    table = [head, ["---", *["---:"] * (len(head) - 1)]]
    for row in rows:
        figures = zip(row.figures, best, strict=True)
        cells = [_markdown_cell(figure, block, lowest) for figure, lowest in figures]
        extra = [write(row) for write in _extra_columns(block).values()]
        table.append([_escape_markdown(format_row_name(row)), *cells, *extra])
    return (f"| {' | '.join(line)} |" for line in table)


def _extra_columns(block: Block) -> dict[str, Callable[[Row], str]]:
    """The columns after the errors; a table of costs has parameters of its own."""
    parameters = {} if block.metric in SCALES else {"parameters": format_parameters}
    return {**parameters, "time": format_time}


def _head(block: Block) -> list[str]:
    return ["method", *(column.label for column in block.columns), *_extra_columns(block)]


def _escape_markdown(text: str) -> str:
    return re.sub(r"([|<>*])", r"\\\1", " ".join(text.split()))


def _markdown_cell(figure: Figure, block: Block, lowest: float | None) -> str:
    ours, *below = _cell_lines(figure, block)
    return "<br>".join([f"**{ours}**" if _is_best(figure, lowest) else ours, *below])


def _is_best(figure: Figure, lowest: float | None) -> bool:
    return figure.ours is not None and figure.ours == lowest and not figure.quick


def _cell_lines(figure: Figure, block: Block) -> list[str]:
    """Our figure, its spread over trials, and the paper's with the difference."""
    lines = [format_ours(figure, block)]
    if figure.spread is not None:
        lines.append(f"± {format_figure(figure.spread, block)}, n = {figure.trials}")
    if figure.paper is not None:
        published = [format_figure(figure.paper, block), format_difference(figure)]
        lines.append(f"({' '.join(filter(None, published))})")
    return lines


def render_html(records: Sequence[Record], results: str) -> str:
    """All tables as one self-contained HTML page."""
    escaped = html.escape(INTRODUCTION.format(results=results))
    introduction = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    sections = list(_sections(records))
    contents = " · ".join(f'<a href="#{section.name}">{section.name}</a>' for section in sections)
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{TITLE}</title><style>{STYLE}</style></head><body>",
        f"<h1>{TITLE}</h1><p>{introduction}</p><p>{contents}</p>",
    ]
    for section in sections:
        lines.append(
            f'<h2 id="{section.name}">{section.name}</h2>'
            f"<p>{html.escape(section.caption)} (<code>{html.escape(section.label)}</code>). "
            f"{html.escape(section.legend)}</p>"
        )
        for title, block, rows in section.blocks:
            best = best_per_column(rows)
            head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in _head(block))
            body = "\n".join(_html_row(row, block, best) for row in rows)
            lines.append(
                f'<div class="wide"><table><caption>{html.escape(title)}</caption>'
                f"<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
            )
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in section.notes)
        lines.append(f"<ul>{notes}</ul>")
    return "\n".join([*lines, "</body></html>"]) + "\n"


def _html_row(row: Row, block: Block, best: Sequence[float | None]) -> str:
    cells = ""
    for figure, lowest in zip(row.figures, best, strict=True):
        ours, *below = (html.escape(line) for line in _cell_lines(figure, block))
        ours = f"<b>{ours}</b>" if _is_best(figure, lowest) else ours
        cells += f"<td>{ours}{''.join(f'<small>{line}</small>' for line in below)}</td>"
    cells += "".join(
        f"<td>{html.escape(write(row))}</td>" for write in _extra_columns(block).values()
    )
    style = "" if row.measured else ' class="theirs"'
    return f'<tr{style}><th scope="row">{html.escape(format_row_name(row))}</th>{cells}</tr>'
