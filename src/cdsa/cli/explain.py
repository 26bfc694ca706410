"""The command that says where a value comes from: explain."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import File, Json
from cdsa.cli.read_options import ReadArguments, with_read_options_for_cell
from cdsa.core.text import format_number

if TYPE_CHECKING:
    from cdsa.core.records import Value
    from cdsa.core.times import Clock
    from cdsa.methods.engine.explain import Cell, Explanation


@with_read_options_for_cell
def explain(
    file: File,
    *,
    read_options: ReadArguments,
    model: Annotated[
        Path, typer.Option("--model", help="A folder that 'cdsa train' made.", metavar="DIR")
    ],
    moment: Annotated[
        str, typer.Option("--time", help="When, as 2024-03-01T12:00.", metavar="TIME")
    ],
    place: Annotated[str, typer.Option("--location", help="Which station.", metavar="NAME")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--measurement", help="Which measurement; not needed if there is one.", metavar="NAME"
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", help="How many cells to name.", min=1)] = 10,
    json: Json = False,
) -> None:
    """Say which measured cells a filled value comes from, and how much from each."""
    from cdsa.cli import console
    from cdsa.core.cube import units_of
    from cdsa.errors import ConfigError
    from cdsa.io.source import open_source
    from cdsa.methods.engine.persistence import load_filler

    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
    console.print_notes(source, console.err if json else console.out)
    names = [str(name) for name in source.cube["measurement"].to_numpy()]
    if kind is None and len(names) > 1:
        raise ConfigError(f"name one of the measurements with --measurement: {', '.join(names)}")
    with console.busy(f"loading {model}"):
        filler = load_filler(model)
    clock = source.content.clock
    reasons = filler.explain(source.cube, clock.parse(moment), place, kind or names[0])
    if json:
        console.print_json(_records(reasons, top, clock))
        return
    _print(reasons, top, units_of(source.cube)[reasons.cell.measurement], clock)


def _records(reasons: "Explanation", top: int, clock: "Clock") -> "list[dict[str, Value]]":
    about: dict[str, Value] = {
        "of_time": _stamp(reasons.cell, clock),
        "of_location": reasons.cell.location,
        "of_measurement": reasons.cell.measurement,
        "of_value": reasons.value,
        **{f"from_{name.replace(' ', '_')}": part for name, part in reasons.by_axis().items()},
    }
    return [
        {
            "time": _stamp(reason.cell, clock),
            "location": reason.cell.location,
            "measurement": reason.cell.measurement,
            "value": reason.value,
            "share": reason.share,
            **about,
        }
        for reason in reasons.top(top)
    ]


def _stamp(cell: "Cell", clock: "Clock") -> str:
    """The time of a cell, as the table writes it."""
    import numpy as np

    return clock.format(np.array([cell.time]))[0]


def _print(reasons: "Explanation", top: int, unit: str, clock: "Clock") -> None:
    """The value, how much of it comes from where, and its foremost cells."""
    from rich.markup import escape
    from rich.table import Table

    from cdsa.cli import console

    cell, told = reasons.cell, reasons.top(top)
    when = escape(_stamp(cell, clock))
    console.out.print(
        f"[bold]{escape(cell.measurement)}[/] at [bold]{escape(cell.location)}[/], {when}: "
        f"filled with [bold]{format_number(reasons.value, 4)}[/] {escape(unit)}"
    )
    if not told:
        console.say("nothing was measured around it: this is what is usual")
        return
    split = ", ".join(f"{name} {share:.0%}" for name, share in reasons.by_axis().items())
    console.say(f"comes from: {split}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("share", "time", "station", "measurement", "value"):
        table.add_column(name, justify="right" if name in ("share", "value") else "left")
    for reason in told:
        table.add_row(
            f"{reason.share:.1%}",
            escape(_stamp(reason.cell, clock)),
            escape(reason.cell.location),
            escape(reason.cell.measurement),
            format_number(reason.value, 4),
        )
    console.out.print(table)
    rest = 1 - sum(reason.share for reason in told)
    if rest > 0.005:
        console.say(f"the rest, {rest:.1%}, comes from other cells (--top for more)")
