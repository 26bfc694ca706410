"""All commands, in the order a newcomer meets them."""

import typer

from cdsa.cli.data import data
from cdsa.cli.explain import explain
from cdsa.cli.fill import fill, forecast
from cdsa.cli.info import info, methods
from cdsa.cli.paper import paper
from cdsa.cli.plot import plot
from cdsa.cli.score import demo, score
from cdsa.cli.serve import serve
from cdsa.cli.train import train

app = typer.Typer(
    help="Fill the gaps of a sensor network's table, or forecast it, with honest errors.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, info, fill, forecast, score, train, explain, plot, serve, methods):
    app.command()(command)
app.add_typer(paper, name="paper")
app.add_typer(data, name="data")


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"cdsa {version('cdsa')}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Show the version.",
        metavar="",
    ),
) -> None:
    pass
