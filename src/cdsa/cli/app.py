"""All commands, in the order a newcomer meets them."""

import typer

from cdsa.cli.commands import demo, fill, info, methods, score

app = typer.Typer(
    help="Fill the holes of a sensor network's table, with honest error figures.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, info, fill, score, methods):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cdsa {version('cdsa')}")
        raise typer.Exit


@app.callback()
def _root(
    show: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass
