"""What the terminal shows of data sets and of the paper's tables."""

from collections.abc import Mapping, Sequence

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cdsa.cli.console import out
from cdsa.core.records import Value
from cdsa.core.text import format_count, format_share
from cdsa.datasets import OpenedDataset
from cdsa.datasets.spec import DatasetSpec, FileSet
from cdsa.paper.compare import (
    Block,
    Figure,
    Row,
    blocks_of,
    difference_text,
    figure_text,
    notes_of,
    ours_text,
    row_text,
    rows_of,
    time_text,
    title_of,
)
from cdsa.paper.tables import table_of


def print_datasets(records: Sequence[Mapping[str, Value]]) -> None:
    """The data sets, a few lines each."""
    for record in records:
        there = f"there, form '{record['form']}'" if record["form"] else "not there"
        out.print(f"[bold]{record['name']}[/]  {there}")
        print_indented(str(record["title"]))
        if record["differs"]:
            print_indented(f"[yellow]but:[/] {escape(str(record['differs']))}", markup=True)


def print_indented(text: str, *, markup: bool = False) -> None:
    """Text two columns to the right, on as many lines as it takes."""
    out.print(Padding(text if markup else escape(text), (0, 0, 0, 2)))


def print_dataset(data: DatasetSpec, there: Sequence[str]) -> None:
    """All that is known of a data set; `there` has its forms that can be read."""
    facts = data.expected
    sizes = (
        f"{facts.steps:,} steps x {format_count(facts.stations, 'station')} x "
        f"{format_count(facts.measurements, 'measurement')}, {format_share(facts.missing)} missing"
    )
    out.print(f"[bold]{data.name}[/]  {escape(data.title)}")
    told = Table.grid(padding=(0, 2, 0, 0))
    for word, text in (
        ("from", data.origin),
        ("licence", data.licence),
        ("must be", sizes),
        ("missing is", data.missing_codes),
        ("by hand", data.manual_steps),
        *(("address", address.url) for address in data.downloads),
        *((f"form {form.name}", _form(form, there)) for form in data.file_sets),
    ):
        told.add_row(word, escape(text))
    out.print(told)


def _form(form: FileSet, there: Sequence[str]) -> str:
    files = ", ".join(form.files) or "ships with cdsa"
    if form.name not in there:
        return f"{files} (not there)"
    return f"{files} ({'there, is read' if form.name == there[0] else 'there'})"


def print_opened(opened: OpenedDataset) -> None:
    """What was read, and how it differs from what it should be."""
    names = ", ".join(path.name for path in opened.files) or "the package"
    out.print(f"read from {escape(names)}, form '{opened.file_set.name}'")
    for remark in opened.remarks:
        out.print(f"[yellow]but:[/] {escape(remark)}")
    for name, beside in opened.extras.items():
        words = opened.spec.extras.get(name, "")
        out.print(f"beside it: {escape(name)}, {int((beside != 0).sum()):,} {escape(words)}")


def print_table(name: str, records: Sequence[Mapping[str, Value]]) -> None:
    """A table of the paper as far as it was measured: ours, and the paper's below it."""
    table, shown = table_of(name), list[Row]()
    for block in blocks_of(table, records):
        rows = [row for row in rows_of(table, block, records) if row.measured]
        if rows:
            shown += rows
            out.print(f"\n[bold]{escape(title_of(block, records))}[/]")
            out.print(_as_table(block, rows))
    out.print()
    if table.legend:
        out.print(f"[dim]{escape(table.legend)}[/]")
    if any(figure.quick for row in shown for figure in row.figures):
        out.print("* of a quick run")
    for line in notes_of(shown):
        out.print(escape(line))


def _as_table(block: Block, rows: Sequence[Row]) -> Table:
    """The columns of a block that something was measured for."""
    used = [
        number
        for number, _ in enumerate(block.columns)
        if any(row.figures[number].ours is not None for row in rows)
    ]
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("method", no_wrap=True)
    for number in used:
        shown.add_column(block.columns[number].label.replace(" ", "\n", 1), justify="right")
    shown.add_column("time", justify="right")
    for row in rows:
        figures = [row.figures[number] for number in used]
        shown.add_row(row_text(row), *(ours_text(f, block) for f in figures), time_text(row))
        if any(figure.paper is not None for figure in figures):
            told = [_theirs(figure, block) for figure in figures]
            shown.add_row("[dim]  the paper[/]", *(f"[dim]{text}[/]" for text in told), "")
    return shown


def _theirs(figure: Figure, block: Block) -> str:
    return f"{figure_text(figure.paper, block)}\n{difference_text(figure)}".rstrip()
