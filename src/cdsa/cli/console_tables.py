"""Data sets and the paper's tables in the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cdsa.cli.console import out, print_heading, print_table
from cdsa.core.records import Record
from cdsa.core.text import format_count, format_share
from cdsa.datasets.registry import OpenedDataset
from cdsa.datasets.spec import DatasetSpec, FileSet
from cdsa.paper.compare import Block, Row, build_blocks, footnotes
from cdsa.paper.tables import get_table

if TYPE_CHECKING:
    from cdsa.paper.complexity import Cost


def print_datasets(records: Sequence[Record]) -> None:
    for record in records:
        file_set = record["file_set"]
        status = f"available, file set '{file_set}'" if file_set else "not available"
        out.print(Text.assemble((str(record["name"]), "bold"), f"  {status}"))
        out.print(Padding(str(record["title"]), (0, 0, 0, 2)))
        if record["differs"]:
            out.print(Padding(_but(str(record["differs"])), (0, 0, 0, 2)))


def _but(text: str) -> Text:
    return Text.assemble(("but:", "yellow"), f" {text}")


def print_dataset(data: DatasetSpec, available: Sequence[str]) -> None:
    """Everything known about a data set; `available` lists its complete file sets."""
    shape = data.expected
    sizes = (
        f"{shape.steps:,} steps x {format_count(shape.stations, 'station')} x "
        f"{format_count(shape.measurements, 'measurement')}, {format_share(shape.missing)} missing"
    )
    out.print(Text.assemble((data.name, "bold"), f"  {data.title}"))
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column(overflow="fold")
    grid.add_row("origin", data.origin)
    grid.add_row("licence", data.licence)
    grid.add_row("expected", sizes)
    grid.add_row("missing is", data.missing_codes)
    grid.add_row("by hand", data.manual_steps)
    for address in data.downloads:
        grid.add_row("address", address.url)
    for files in data.file_sets:
        grid.add_row(f"file set {files.name}", _file_set_status(files, available))
    out.print(grid)


def _file_set_status(file_set: FileSet, available: Sequence[str]) -> str:
    files = ", ".join(file_set.files) or "ships with cdsa"
    if file_set.name not in available:
        return f"{files} (not available)"
    return f"{files} ({'available, is read' if file_set.name == available[0] else 'available'})"


def print_opened(opened: OpenedDataset) -> None:
    names = ", ".join(path.name for path in opened.files) or "the package"
    out.print(f"read from {names}, file set '{opened.file_set.name}'")
    for remark in opened.remarks:
        out.print(_but(remark))
    for name, values in opened.extras.items():
        meaning = opened.spec.extras.get(name, "")
        out.print(f"comes with {name}: {int((values != 0).sum()):,} {meaning}")


def print_measured(name: str, records: Sequence[Record]) -> None:
    """The measured part of a table of the paper: our results, and the paper's below."""
    table, measured = get_table(name), list[Row]()
    for block in build_blocks(table, records):
        rows = [row for row in block.rows if row.measured]
        if rows:
            measured += rows
            print_heading(block.title)
            out.print(_block_table(block, rows))
    out.print()
    if table.legend:
        out.print(table.legend, style="dim")
    if any(figure.quick for row in measured for figure in row.figures):
        out.print("* from a quick run")
    for line in footnotes(measured):
        out.print(line)


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
            table.add_row("  the paper", *published, style="dim")
    return table


def print_costs(costs: "Sequence[Cost]", sizes: tuple[int, int, int]) -> None:
    out.print(f"one window of {' x '.join(map(str, sizes))} cells (time x location x measurement)")
    rows = [
        [
            cost.manner,
            *_format_costs(cost.flops, cost.paper_flops, 1e9),
            *_format_costs(cost.parameters, cost.paper_parameters, 1e5),
        ]
        for cost in costs
    ]
    columns = ["10^9 operations", "the paper", "10^5 parameters", "the paper"]
    print_table(["manner"], columns, rows)
    _, joint, decomposed, shared = costs
    for name, key, cost, other in (
        ("operations", "flops", joint, decomposed),
        ("parameters", "parameters", decomposed, shared),
    ):
        line = f"{cost.manner} / {other.manner} in {name}: "
        line += f"{getattr(cost, key) / getattr(other, key):.1f}"
        if cost.paper_flops is not None:
            ratio = getattr(cost, f"paper_{key}") / getattr(other, f"paper_{key}")
            line += f" (the paper: {ratio:.1f})"
        out.print(line)


def _format_costs(ours: float, paper: float | None, scale: float) -> tuple[str, str]:
    return f"{ours / scale:,.2f}", "" if paper is None else f"{paper / scale:.2f}"
