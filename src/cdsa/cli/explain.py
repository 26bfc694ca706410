"""cdsa explain."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import MODEL, File, Json
from cdsa.cli.read_options import ReadArguments, with_read_options_for_cell
from cdsa.core.text import format_number

if TYPE_CHECKING:
    from cdsa.core.records import Value
    from cdsa.core.times import Clock
    from cdsa.methods.explanation import Cell, Explanation


@with_read_options_for_cell
def explain(
    file: File,
    *,
    read_options: ReadArguments,
    model: Annotated[Path, MODEL],
    cell_time: Annotated[
        str, typer.Option("--time", help="Time of the cell: 2024-03-01T12:00.", metavar="TIME")
    ],
    cell_location: Annotated[str, typer.Option("--location", help="Its station.", metavar="NAME")],
    cell_measurement: Annotated[
        str | None,
        typer.Option(
            "--measurement", help="Its measurement, if there are several.", metavar="NAME"
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", help="How many cells to list.", min=1)] = 10,
    json: Json = False,
) -> None:
    """Show which measured cells a filled value comes from, and the share of each."""
    from cdsa.cli import console
    from cdsa.core.cube import units_of
    from cdsa.io.source import open_source
    from cdsa.methods.engine.persistence import load_filler
    from cdsa.workflows.pipeline import run_explain

    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
    console.print_notes(source, console.err if json else console.out)
    with console.busy(f"loading {model}"):
        filler = load_filler(model)
    clock = source.content.clock
    time = clock.parse(cell_time)
    explanation = run_explain(filler, source.cube, time, cell_location, cell_measurement)
    if json:
        console.print_json(_records(explanation, top, clock))
        return
    _print(explanation, top, units_of(source.cube)[explanation.cell.measurement], clock)


def _records(explanation: "Explanation", top: int, clock: "Clock") -> "list[dict[str, Value]]":
    cell = explanation.cell
    explained: dict[str, Value] = {
        "of_time": _timestamp(cell, clock),
        "of_location": cell.location,
        "of_measurement": cell.measurement,
        "of_value": explanation.value,
        **{
            f"from_{group.replace(',', '').replace(' ', '_')}": share
            for group, share in explanation.by_group().items()
        },
    }
    return [
        {
            "time": _timestamp(contribution.cell, clock),
            "location": contribution.cell.location,
            "measurement": contribution.cell.measurement,
            "value": contribution.value,
            "share": contribution.share,
            **explained,
        }
        for contribution in explanation.top(top)
    ]


def _timestamp(cell: "Cell", clock: "Clock") -> str:
    """The time of a cell, in the format of the table."""
    import numpy as np

    return clock.format(np.array([cell.time]))[0]


def _print(explanation: "Explanation", top: int, unit: str, clock: "Clock") -> None:
    """The value, the shares of the groups, and the largest contributions."""
    from rich.markup import escape

    from cdsa.cli import console

    cell, contributions = explanation.cell, explanation.top(top)
    console.out.print(
        f"[bold]{escape(cell.measurement)}[/] at [bold]{escape(cell.location)}[/], "
        f"{escape(_timestamp(cell, clock))}: filled with "
        f"[bold]{format_number(explanation.value, 4)}[/] {escape(unit)}"
    )
    if not contributions:
        console.say("nothing was measured nearby: this is the climatology")
        return
    groups = ", ".join(f"{name} {share:.0%}" for name, share in explanation.by_group().items())
    console.say(f"comes from: {groups}")
    table = console.new_table(["share", "time", "station", "measurement"], ["value"])
    table.columns[0].justify = "right"
    for contribution in contributions:
        table.add_row(
            f"{contribution.share:.1%}",
            escape(_timestamp(contribution.cell, clock)),
            escape(contribution.cell.location),
            escape(contribution.cell.measurement),
            format_number(contribution.value, 4),
        )
    console.out.print(table)
    rest = 1 - sum(contribution.share for contribution in contributions)
    if rest > 0.005:
        console.say(f"other cells contribute the remaining {rest:.1%} (--top for more)")
