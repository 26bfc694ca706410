"""Pages of results: every measured table as Markdown and HTML."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from cdsa.core.atomic import write_texts
from cdsa.core.records import Record, read_results
from cdsa.errors import ConfigError
from cdsa.paper.compare import SCALES, Block, Figure, Row, build_blocks, footnotes
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


def _sections(records: Sequence[Record]) -> Iterator[tuple[Table, list[Block], list[str]]]:
    """The tables of which something was measured, with their measured blocks and notes."""
    complete = [record for record in records if set(REQUIRED) <= set(record)]
    for table in TABLES.values():
        in_table = [record for record in complete if _belongs(record, table)]
        if in_table:
            blocks = list(build_blocks(table, in_table))
            blocks = [block for block in blocks if any(row.measured for row in block.rows)]
            yield table, blocks, footnotes(row for block in blocks for row in block.rows)


def _belongs(record: Record, table: Table) -> bool:
    """Whether a record is of an experiment of this table, for whichever table it was run."""
    return record["table"] == table.name or (
        record["data"] in table.data
        and record["protocol"] in table.protocols
        and record["method"] in table.methods
        and (record["loss"] in table.losses or record["minutes"] is None)
    )


def _head(block: Block) -> list[str]:
    return ["method", *(column.label for column in block.columns), *_extra_columns(block)]


def _extra_columns(block: Block) -> tuple[str, ...]:
    """The columns after the errors; a table of costs has parameters of its own."""
    return ("time",) if block.metric in SCALES else ("parameters", "time")


def _body(block: Block) -> Iterator[tuple[Row, list[tuple[list[str], bool]]]]:
    """Each row with its cells: their lines, and whether they are our best."""
    lowest_errors = block.best_per_column()
    for row in block.rows:
        cells = []
        for figure, lowest in zip(row.figures, lowest_errors, strict=True):
            best = figure.ours is not None and not figure.quick and figure.ours == lowest
            cells.append((_cell_lines(figure, block), best))
        yield row, cells + [([getattr(row, name)], False) for name in _extra_columns(block)]


def _cell_lines(figure: Figure, block: Block) -> list[str]:
    """Our figure, its spread over trials, and the paper's with the difference."""
    lines = [block.format_ours(figure)]
    if figure.spread is not None:
        lines.append(f"± {block.format(figure.spread)}, n = {figure.trials}")
    if figure.paper is not None:
        lines.append(f"({block.format(figure.paper)} {figure.difference}".rstrip() + ")")
    return lines


def render_markdown(records: Sequence[Record], results: str) -> str:
    sections = list(_sections(records))
    contents = " · ".join(f"[{table.name}](#{table.name})" for table, _, _ in sections)
    lines = [f"# {TITLE}", "", INTRODUCTION.format(results=results), "", contents, ""]
    for table, blocks, notes in sections:
        text = f"{table.paper.caption} (`{table.paper.label}`). {table.legend}".rstrip()
        lines += [f"## {table.name}", "", text, ""]
        for block in blocks:
            lines += [f"**{block.title}**", "", *_markdown_table(block), ""]
        lines += [*(f"- {_escape_markdown(note)}" for note in notes), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_table(block: Block) -> Iterator[str]:
    head = _head(block)
    table = [head, ["---", *["---:"] * (len(head) - 1)]]
    for row, cells in _body(block):
        texts = [
            "<br>".join([f"**{ours}**" if best else ours, *below]) for (ours, *below), best in cells
        ]
        table.append([_escape_markdown(row.label), *texts])
    return (f"| {' | '.join(line)} |" for line in table)


def _escape_markdown(text: str) -> str:
    return re.sub(r"([|<>*])", r"\\\1", " ".join(text.split()))


def render_html(records: Sequence[Record], results: str) -> str:
    introduction = re.sub(
        r"`([^`]+)`", r"<code>\1</code>", escape(INTRODUCTION.format(results=results))
    )
    sections = list(_sections(records))
    contents = " · ".join(f'<a href="#{table.name}">{table.name}</a>' for table, _, _ in sections)
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{TITLE}</title><style>{STYLE}</style></head><body>",
        f"<h1>{TITLE}</h1><p>{introduction}</p><p>{contents}</p>",
    ]
    for table, blocks, notes in sections:
        lines.append(
            f'<h2 id="{table.name}">{table.name}</h2>'
            f"<p>{escape(table.paper.caption)} (<code>{escape(table.paper.label)}</code>). "
            f"{escape(table.legend)}</p>"
        )
        for block in blocks:
            head = "".join(f'<th scope="col">{escape(name)}</th>' for name in _head(block))
            body = "\n".join(_html_row(row, cells) for row, cells in _body(block))
            lines.append(
                f'<div class="wide"><table><caption>{escape(block.title)}</caption>'
                f"<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
            )
        lines.append(f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>")
    return "\n".join([*lines, "</body></html>"]) + "\n"


def _html_row(row: Row, cells: Sequence[tuple[list[str], bool]]) -> str:
    text = ""
    for lines, best in cells:
        ours, *below = (escape(line) for line in lines)
        ours = f"<b>{ours}</b>" if best else ours
        text += f"<td>{ours}{''.join(f'<small>{line}</small>' for line in below)}</td>"
    style = "" if row.measured else ' class="theirs"'
    return f'<tr{style}><th scope="row">{escape(row.label)}</th>{text}</tr>'
