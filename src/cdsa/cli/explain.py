"""cdsa explain."""

from pathlib import Path
from typing import Annotated

from cdsa.cli.options import MODEL, File, Json, choose_label, option
from cdsa.cli.read_options import ReadArguments, with_read_options_for_cell


@with_read_options_for_cell
def explain(
    file: File,
    *,
    read_options: ReadArguments,
    model: Annotated[Path, MODEL],
    cell_time: Annotated[str, option("--time", "TIME", "Time of the cell: 2024-03-01T12:00.")],
    cell_location: Annotated[str, option("--location", "NAME", "Its station.")],
    cell_measurement: Annotated[
        str | None, option("--measurement", "NAME", "Its measurement, if there are several.")
    ] = None,
    top: Annotated[int, option("--top", "N", "Cells to list.", min=1)] = 10,
    json: Json = False,
) -> None:
    """Show which measured cells a filled value comes from, and the share of each."""
    from cdsa.cli import console, console_results
    from cdsa.core.cube import units_of
    from cdsa.methods.engine.persistence import load_filler
    from cdsa.workflows.pipeline import run_explain

    source = console.read_file(file, read_options, json=json)
    clock = source.content.clock
    time = clock.parse(cell_time)
    measurement = choose_label(source.cube, "measurement", cell_measurement)
    with console.busy(f"loading {model}"):
        filler = load_filler(model)
    explanation = run_explain(filler, source.cube, time, cell_location, measurement)
    if json:
        console.print_json(console_results.explanation_records(explanation, top, clock))
    else:
        unit = units_of(source.cube)[measurement]
        console_results.print_explanation(explanation, top, unit, clock)
