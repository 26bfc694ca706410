"""Data sets and the paper's tables in the terminal."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cdsa.cli.console import new_table, out
from cdsa.core.records import Value
from cdsa.core.text import format_count, format_share
from cdsa.datasets.registry import OpenedDataset
from cdsa.datasets.spec import DatasetSpec, FileSet
from cdsa.paper.compare import Block, Row, build_blocks, footnotes
from cdsa.paper.tables import get_table

if TYPE_CHECKING:
    from cdsa.paper.complexity import Cost


def print_datasets(records: Sequence[Mapping[str, Value]]) -> None:
    """The data sets, a few lines each."""
    for record in records:
        status = (
            f"available, file set '{record['file_set']}'" if record["file_set"] else "not available"
        )
        out.print(f"[bold]{record['name']}[/]  {status}")
        print_indented(str(record["title"]))
        if record["differs"]:
            print_indented(f"[yellow]but:[/] {escape(str(record['differs']))}", markup=True)


def print_indented(text: str, *, markup: bool = False) -> None:
    """Text two columns to the right, wrapped."""
    out.print(Padding(text if markup else escape(text), (0, 0, 0, 2)))


def print_dataset(data: DatasetSpec, available: Sequence[str]) -> None:
    """Everything known about a data set; `available` lists its complete file sets."""
    shape = data.expected
    sizes = (
        f"{shape.steps:,} steps x {format_count(shape.stations, 'station')} x "
        f"{format_count(shape.measurements, 'measurement')}, {format_share(shape.missing)} missing"
    )
    out.print(f"[bold]{data.name}[/]  {escape(data.title)}")
    grid = Table.grid(padding=(0, 2, 0, 0))
    for heading, text in (
        ("origin", data.origin),
        ("licence", data.licence),
        ("expected", sizes),
        ("missing is", data.missing_codes),
        ("by hand", data.manual_steps),
        *(("address", address.url) for address in data.downloads),
        *(
            (f"file set {files.name}", _file_set_status(files, available))
            for files in data.file_sets
        ),
    ):
        grid.add_row(heading, escape(text))
    out.print(grid)


def _file_set_status(file_set: FileSet, available: Sequence[str]) -> str:
    files = ", ".join(file_set.files) or "ships with cdsa"
    if file_set.name not in available:
        return f"{files} (not available)"
    return f"{files} ({'available, is read' if file_set.name == available[0] else 'available'})"


def print_opened(opened: OpenedDataset) -> None:
    """The files that were read, and how the data differ from the expected."""
    names = ", ".join(path.name for path in opened.files) or "the package"
    out.print(f"read from {escape(names)}, file set '{opened.file_set.name}'")
    for remark in opened.remarks:
        out.print(f"[yellow]but:[/] {escape(remark)}")
    for name, values in opened.extras.items():
        meaning = opened.spec.extras.get(name, "")
        out.print(f"comes with {escape(name)}: {int((values != 0).sum()):,} {escape(meaning)}")


def print_table(name: str, records: Sequence[Mapping[str, Value]]) -> None:
    """The measured part of a table of the paper: our results, and the paper's below."""
    table, measured = get_table(name), list[Row]()
    for block in build_blocks(table, records):
        rows = [row for row in block.rows if row.measured]
        if rows:
            measured += rows
            out.print(f"\n[bold]{escape(block.title)}[/]")
            out.print(_block_table(block, rows))
    out.print()
    if table.legend:
        out.print(f"[dim]{escape(table.legend)}[/]")
    if any(figure.quick for row in measured for figure in row.figures):
        out.print("* from a quick run")
    for line in footnotes(measured):
        out.print(escape(line))


def _block_table(block: Block, rows: Sequence[Row]) -> Table:
    """A block without the columns that have no measurement."""
    used = [
        number
        for number, _ in enumerate(block.columns)
        if any(row.figures[number].ours is not None for row in rows)
    ]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("method", no_wrap=True)
    for number in used:
        table.add_column(block.columns[number].label.replace(" ", "\n", 1), justify="right")
    table.add_column("time", justify="right")
    for row in rows:
        figures = [row.figures[number] for number in used]
        table.add_row(row.label, *(block.format_ours(figure) for figure in figures), row.time)
        if any(figure.paper is not None for figure in figures):
            published = [
                f"{block.format(figure.paper)}\n{figure.difference}".rstrip() for figure in figures
            ]
            table.add_row("[dim]  the paper[/]", *(f"[dim]{text}[/]" for text in published), "")
    return table


def print_costs(costs: "Sequence[Cost]", sizes: tuple[int, int, int]) -> None:
    """The cost of the four manners, with the paper's figures where there are any."""
    out.print(f"one window of {' x '.join(map(str, sizes))} cells (time x location x measurement)")
    has_paper = costs[0].paper_flops is not None
    paper = ["the paper"] if has_paper else []
    table = new_table(["manner"], ["10^9 operations", *paper, "10^5 parameters", *paper])
    for cost in costs:
        row: list[str] = [cost.manner]
        for ours, theirs, scale in (
            (cost.flops, cost.paper_flops, 1e9),
            (cost.parameters, cost.paper_parameters, 1e5),
        ):
            row.append(f"{ours / scale:,.2f}")
            row += [f"{theirs / scale:.2f}"] if theirs is not None else []
        table.add_row(*row)
    out.print(table)
    _, joint, decomposed, shared = costs
    for name, key, cost, other in (
        ("operations", "flops", joint, decomposed),
        ("parameters", "parameters", decomposed, shared),
    ):
        line = f"{cost.manner} / {other.manner} in {name}: "
        line += f"{getattr(cost, key) / getattr(other, key):.1f}"
        if has_paper:
            ratio = getattr(cost, f"paper_{key}") / getattr(other, f"paper_{key}")
            line += f" (the paper: {ratio:.1f})"
        out.print(line)
