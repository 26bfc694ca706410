"""cdsa info and cdsa methods. Heavy imports are inside the commands, to show help at once."""

from cdsa.cli.options import File, Json
from cdsa.cli.read_options import ReadArguments, with_read_options


@with_read_options
def info(file: File, *, read_options: ReadArguments, json: Json = False) -> None:
    """Show what a file contains: stations, measurements, gaps, and when values are missing."""
    from cdsa.cli import console
    from cdsa.core.summary import summarise_cube
    from cdsa.io.source import open_source

    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
        summary = summarise_cube(source.cube)
    if json:
        console.print_notes(source, console.err)
        console.print_json(
            [record | {"layout": source.layout.split(":")[0]} for record in summary.records()]
        )
    else:
        console.print_summary(source, summary)


def methods(*, json: Json = False) -> None:
    """List the methods and what they need."""
    from cdsa.cli import console
    from cdsa.methods.registry import list_methods

    if json:
        console.print_json(
            [
                {name: getattr(m, name) for name in ("name", "task", "needs", "extra", "paper")}
                | {"summary": m.summary, "installed": m.installed, "trains": m.trains}
                for m in list_methods()
            ]
        )
    else:
        console.print_methods(list_methods())
