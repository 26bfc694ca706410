"""What the terminal shows of data sets and of the paper's tables."""

from collections.abc import Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from cdsa.cli.show import out, several, share
from cdsa.datasets import Opened
from cdsa.datasets.kinds import DataSet
from cdsa.experiments.recipes import table_of
from cdsa.experiments.tables import (
    Block,
    Figure,
    blocks_of,
    difference_text,
    figure_text,
    ours_text,
    row_text,
    rows_of,
    time_text,
    title_of,
)
from cdsa.results import Value


def print_datasets(records: Sequence[Mapping[str, Value]]) -> None:
    """The data sets, two lines each."""
    for record in records:
        there = f"there ({record['form']})" if record["form"] else "not there"
        sizes = " x ".join(f"{record[name]:,}" for name in ("steps", "stations", "measurements"))
        out.print(f"[bold]{record['name']}[/]  {sizes}  {there}")
        out.print(f"  {escape(str(record['title']))}")
        if record["differs"]:
            out.print(f"  [yellow]look:[/] {escape(str(record['differs']))}")


def print_dataset(data: DataSet, record: Mapping[str, Value]) -> None:
    """All that is known of a data set."""
    facts = data.facts
    sizes = (
        f"{facts.steps:,} steps x {several(facts.stations, 'station')} x "
        f"{several(facts.measurements, 'measurement')}, {share(facts.missing)} missing"
    )
    out.print(f"[bold]{data.name}[/]  {escape(data.title)}")
    told = Table.grid(padding=(0, 2, 0, 0))
    for word, text in (
        ("from", data.origin),
        ("licence", data.licence),
        ("must be", sizes),
        ("missing is", data.missing_codes),
        ("by hand", data.by_hand),
        ("download", "cdsa data get " + data.name if data.addresses else "no public address"),
        *(("form " + form.name, ", ".join(form.files) or "ships with cdsa") for form in data.forms),
        ("there", str(record["form"] or "nothing of it")),
    ):
        told.add_row(word, escape(text))
    out.print(told)


def print_opened(opened: Opened) -> None:
    """What was read, and how it differs from what it should be."""
    names = ", ".join(path.name for path in opened.files) or "the package"
    out.print(f"read from {escape(names)}, form '{opened.form.name}'")
    for remark in opened.remarks:
        out.print(f"[yellow]look:[/] {escape(remark)}")
    for name, beside in opened.beside.items():
        count = int((beside != 0).sum())
        out.print(f"with {escape(name.replace('_', ' '))}: {count:,} cells")


def print_table(name: str, records: Sequence[Mapping[str, Value]]) -> None:
    """A table of the paper as far as it was measured: ours, and the paper's below it."""
    table = table_of(name)
    for block in blocks_of(table, records):
        rows = [row for row in rows_of(table, block, records) if row.measured]
        used = [
            number
            for number, _ in enumerate(block.columns)
            if any(row.figures[number].ours is not None for row in rows)
        ]
        if not used:
            continue
        out.print(f"\n[bold]{escape(title_of(block, records))}[/]")
        shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        shown.add_column("method", no_wrap=True)
        for number in used:
            shown.add_column(block.columns[number].label.replace(" ", "\n", 1), justify="right")
        shown.add_column("time", justify="right")
        for row in rows:
            figures = [row.figures[number] for number in used]
            cells = [ours_text(figure, block) for figure in figures]
            shown.add_row(row_text(row), *cells, time_text(row))
            if any(figure.paper is not None for figure in figures):
                told = [_theirs(figure, block) for figure in figures]
                shown.add_row("[dim]  the paper[/]", *(f"[dim]{text}[/]" for text in told), "")
        out.print(shown)
    for text in sorted({f"{r['data']}: {r['measured_on']}" for r in records}):
        out.print(f"[yellow]measured on[/] {escape(text)}")


def _theirs(figure: Figure, block: Block) -> str:
    return f"{figure_text(figure.paper, block)}\n{difference_text(figure)}".rstrip()
