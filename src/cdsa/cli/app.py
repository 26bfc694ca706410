"""All commands, in the order a newcomer meets them."""

from typing import Any

import typer
from typer.core import TyperGroup

from cdsa.cli.data import data
from cdsa.cli.explain import explain
from cdsa.cli.fill import fill, forecast
from cdsa.cli.info import info, methods
from cdsa.cli.paper import paper
from cdsa.cli.plot import plot
from cdsa.cli.score import demo, score
from cdsa.cli.serve import serve
from cdsa.cli.train import train


class Group(TyperGroup):
    """Commands whose help shows flags without a type: `--json`, not `--json <bool>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _simplify_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _simplify_flags(command.get_params(ctx))
        return command


def _simplify_flags(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
            # typer loads pydantic to convert the None of an absent --help
            parameter.default = parameter.default or False
    return parameters


app = typer.Typer(
    cls=Group,
    help="Fill the gaps of a sensor network's table, or forecast it, with error estimates.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, info, fill, forecast, score, train, explain, plot, serve, methods):
    app.command()(command)
app.add_typer(paper, name="paper", cls=Group)
app.add_typer(data, name="data", cls=Group)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"cdsa {version('cdsa')}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass
