"""cdsa explain."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import File, Json
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
    model: Annotated[
        Path, typer.Option("--model", help="A folder that 'cdsa train' made.", metavar="DIR")
    ],
    when: Annotated[str, typer.Option("--time", help="When, as 2024-03-01T12:00.", metavar="TIME")],
    station: Annotated[str, typer.Option("--location", help="Which station.", metavar="NAME")],
    measured: Annotated[
        str | None,
        typer.Option(
            "--measurement", help="Which measurement; not needed if there is one.", metavar="NAME"
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", help="How many cells to name.", min=1)] = 10,
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
    explanation = run_explain(filler, source.cube, clock.parse(when), station, measured)
    if json:
        console.print_json(_records(explanation, top, clock))
        return
    _print(explanation, top, units_of(source.cube)[explanation.cell.measurement], clock)


def _records(explanation: "Explanation", top: int, clock: "Clock") -> "list[dict[str, Value]]":
    cell = explanation.cell
    explained: dict[str, Value] = {
        "of_time": _stamp(cell, clock),
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
            "time": _stamp(contribution.cell, clock),
            "location": contribution.cell.location,
            "measurement": contribution.cell.measurement,
            "value": contribution.value,
            "share": contribution.share,
            **explained,
        }
        for contribution in explanation.top(top)
    ]


def _stamp(cell: "Cell", clock: "Clock") -> str:
    """The time of a cell, as the table writes it."""
    import numpy as np

    return clock.format(np.array([cell.time]))[0]


def _print(explanation: "Explanation", top: int, unit: str, clock: "Clock") -> None:
    """The value, how much of it comes from where, and its largest contributions."""
    from rich.markup import escape
    from rich.table import Table

    from cdsa.cli import console

    cell, contributions = explanation.cell, explanation.top(top)
    console.out.print(
        f"[bold]{escape(cell.measurement)}[/] at [bold]{escape(cell.location)}[/], "
        f"{escape(_stamp(cell, clock))}: filled with "
        f"[bold]{format_number(explanation.value, 4)}[/] {escape(unit)}"
    )
    if not contributions:
        console.say("nothing was measured nearby: this is the climatology")
        return
    groups = ", ".join(f"{name} {share:.0%}" for name, share in explanation.by_group().items())
    console.say(f"comes from: {groups}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("share", "time", "station", "measurement", "value"):
        table.add_column(name, justify="right" if name in ("share", "value") else "left")
    for contribution in contributions:
        table.add_row(
            f"{contribution.share:.1%}",
            escape(_stamp(contribution.cell, clock)),
            escape(contribution.cell.location),
            escape(contribution.cell.measurement),
            format_number(contribution.value, 4),
        )
    console.out.print(table)
    rest = 1 - sum(contribution.share for contribution in contributions)
    if rest > 0.005:
        console.say(f"the rest, {rest:.1%}, comes from other cells (--top for more)")
