"""Pages of results: every table that something was measured of, as Markdown and as HTML."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cdsa.core.atomic import write_texts
from cdsa.core.records import Record, read_results
from cdsa.errors import ConfigError
from cdsa.paper.compare import (
    UNITS,
    Block,
    Figure,
    Row,
    best_of,
    blocks_of,
    difference_text,
    figure_text,
    notes_of,
    ours_text,
    row_text,
    rows_of,
    time_text,
    title_of,
    variables_text,
)
from cdsa.paper.published import PaperTable, paper_tables
from cdsa.paper.tables import TABLES, Table

TITLE = "The paper's tables, measured"


INTRODUCTION = (
    "Every figure was measured by `cdsa reproduce TABLE` and stands in `{results}` with its "
    "command, commit, seed, settings and machine. In a cell: ours; below it the paper's number and "
    "by how much ours differs; the best of ours is bold, a star is a quick run, a dash was not "
    "measured. Errors of several trials are averaged, ± their standard deviation. `variables` are "
    "the numbers that a network learns, `time` is what the longest cell of a row took. Where the "
    "data are not the paper's own, the numbers can be compared with each other but not with the "
    "paper's; what was measured on is said under each table."
)


NEEDED = (
    "table", "method", "data", "protocol", "rate", "seed", "cells", "horizon", "loss", "minutes",
    "quick", "settings", "measured_on", "commit", "machine",
)  # fmt: skip
"""What a record must have to stand on a page."""


def write_pages(results: Path, output: Path, *, overwrite: bool = False) -> list[Path]:
    """Write all tables as Markdown and HTML, both whole or neither."""
    if not results.exists():
        raise ConfigError(
            f"{results} does not exist. Measure something first: cdsa reproduce kdd2015"
        )
    records = read_results(results)
    if not any(True for _ in _measured(records)):
        raise ConfigError(f"{results} has no record of any of the paper's tables")
    plain = output.with_suffix("") if output.suffix in (".md", ".html") else output
    if not plain.name:
        raise ConfigError(f"the pages need a name, as in -o cdsa-tables, but found '{output}'")
    name = results.name if results.is_absolute() else results.as_posix()
    pages = {
        plain.with_name(f"{plain.name}.md"): markdown_page(records, name),
        plain.with_name(f"{plain.name}.html"): html_page(records, name),
    }
    write_texts(pages, overwrite=overwrite or all(_is_ours(path) for path in pages))
    return list(pages)


def _is_ours(path: Path) -> bool:
    """Whether a page is one of these, which may be made anew, or none."""
    if not path.is_file():
        return not path.exists()
    return TITLE in path.read_bytes()[:2000].decode(errors="replace")


def _measured(records: Sequence[Record]) -> Iterator[tuple[Table, PaperTable, list[Record]]]:
    """The tables that something was measured of, each with all records of its cells."""
    whole = [record for record in records if set(NEEDED) <= set(record)]
    for table in TABLES.values():
        own = [record for record in whole if _belongs(record, table)]
        if own:
            yield table, paper_tables()[table.name], own


def _belongs(record: Record, table: Table) -> bool:
    """Whether a record is of a cell of this table, whichever table it was measured for."""
    if record["table"] == table.name:
        return True
    return (
        record["data"] in table.data
        and record["protocol"] in table.protocols
        and record["method"] in table.methods
        and (record["loss"] in table.losses or record["minutes"] is None)
    )


def _blocks(table: Table, own: Sequence[Record]) -> Iterator[tuple[Block, list[Row]]]:
    """The blocks that something was measured of."""
    for block in blocks_of(table, own):
        rows = rows_of(table, block, own)
        if any(row.measured for row in rows):
            yield block, rows


def markdown_page(records: Sequence[Record], results: str) -> str:
    """All tables as Markdown."""
    names = [table.name for table, _, _ in _measured(records)]
    contents = " · ".join(f"[{name}](#{name})" for name in names)
    parts = [f"# {TITLE}", "", INTRODUCTION.format(results=results), "", contents, ""]
    for table, paper, own in _measured(records):
        told = f"{paper.caption} (`{paper.label}`). {_legend(table)}".rstrip()
        parts += [f"## {table.name}", "", told, ""]
        shown: list[Row] = []
        for block, rows in _blocks(table, own):
            shown += rows
            best = best_of(rows)
            head = _head(block)
            lines = [head, ["---", *["---:"] * (len(head) - 1)]]
            for row in rows:
                pairs = zip(row.figures, best, strict=True)
                cells = [_markdown_cell(figure, block, least) for figure, least in pairs]
                beside = [text(row) for text in _beside(block).values()]
                lines.append([_plain(row_text(row)), *cells, *beside])
            parts += [f"**{title_of(block, own)}**", ""]
            parts += [f"| {' | '.join(line)} |" for line in lines]
            parts.append("")
        parts += [f"- {_plain(line)}" for line in notes_of(shown)]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _beside(block: Block) -> dict[str, Callable[[Row], str]]:
    """The columns behind those of the errors; variables are told once."""
    variables = {} if block.metric in UNITS else {"variables": variables_text}
    return {**variables, "time": time_text}


def _head(block: Block) -> list[str]:
    return ["method", *(column.label for column in block.columns), *_beside(block)]


def _legend(table: Table) -> str:
    """What the columns mean, as a sentence."""
    return f"{table.legend[0].upper()}{table.legend[1:]}." if table.legend else ""


def _plain(text: str) -> str:
    """Text that breaks no table and is no markup."""
    return re.sub(r"([|<>*])", r"\\\1", " ".join(text.split()))


def _markdown_cell(figure: Figure, block: Block, least: float | None) -> str:
    ours, *below = _cell_lines(figure, block)
    return "<br>".join([f"**{ours}**" if _is_best(figure, least) else ours, *below])


def _is_best(figure: Figure, least: float | None) -> bool:
    return figure.ours is not None and figure.ours == least and not figure.quick


def _cell_lines(figure: Figure, block: Block) -> list[str]:
    """Ours; below it the spread over trials, and the paper's with the difference."""
    lines = [ours_text(figure, block)]
    if figure.spread is not None:
        lines.append(f"± {figure_text(figure.spread, block)}, n = {figure.trials}")
    if figure.paper is not None:
        theirs = [figure_text(figure.paper, block), difference_text(figure)]
        lines.append(f"({' '.join(filter(None, theirs))})")
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
    names = [table.name for table, _, _ in _measured(records)]
    contents = " · ".join(f'<a href="#{name}">{name}</a>' for name in names)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{TITLE}</title><style>{STYLE}</style></head><body>",
        f"<h1>{TITLE}</h1><p>{told}</p><p>{contents}</p>",
    ]
    for table, paper, own in _measured(records):
        parts.append(
            f'<h2 id="{table.name}">{table.name}</h2>'
            f"<p>{html.escape(paper.caption)} (<code>{html.escape(paper.label)}</code>). "
            f"{html.escape(_legend(table))}</p>"
        )
        shown: list[Row] = []
        for block, rows in _blocks(table, own):
            shown += rows
            best = best_of(rows)
            head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in _head(block))
            body = "\n".join(_html_row(row, block, best) for row in rows)
            parts.append(
                f'<div class="wide"><table><caption>{html.escape(title_of(block, own))}</caption>'
                f"<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
            )
        notes = "".join(f"<li>{html.escape(line)}</li>" for line in notes_of(shown))
        parts.append(f"<ul>{notes}</ul>")
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _html_row(row: Row, block: Block, best: Sequence[float | None]) -> str:
    cells = ""
    for figure, least in zip(row.figures, best, strict=True):
        ours, *below = (html.escape(line) for line in _cell_lines(figure, block))
        ours = f"<b>{ours}</b>" if _is_best(figure, least) else ours
        cells += f"<td>{ours}{''.join(f'<small>{line}</small>' for line in below)}</td>"
    kind = "" if row.measured else ' class="theirs"'
    beside = "".join(f"<td>{html.escape(text(row))}</td>" for text in _beside(block).values())
    return f'<tr{kind}><th scope="row">{html.escape(row_text(row))}</th>{cells}{beside}</tr>'
