"""What fills a table, with what is seen of it on the way; its report."""

from pathlib import Path

import xarray as xr

from cdsa.cli import show
from cdsa.cli.progress import training
from cdsa.cli.training import Training, make_trained
from cdsa.cli.work import command_line
from cdsa.errors import ConfigError, MissingExtraError
from cdsa.io.source import Source
from cdsa.methods.registry import info_of
from cdsa.workflows.select import Chosen, carry_out, plan


def chosen(
    name: str, learnt_from: xr.DataArray, cube: xr.DataArray, options: Training, *, check: bool
) -> Chosen:
    """What the method of this name has learnt, and the error to expect."""
    made_plan = plan(name, learnt_from, cube, check=check, tell=show.note)
    network = info_of(made_plan.method).trains
    with training(options, active=network) as run:
        made = make_trained(made_plan.method, options if network else {}, run=run)
        with show.busy(f"filling with {made_plan.method}", quiet=network):
            return carry_out(made_plan, made)


def report_of(source: Source, result: xr.Dataset, choice: Chosen) -> str:
    """The report of a fill, as one page."""
    from cdsa.report.content import story_of
    from cdsa.report.page import render

    name = Path(source.name).name
    return render(story_of(source, result, choice, name=name, command=command_line()))


def refuse_report(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a report that could not be written, before any work is done for it."""
    from importlib.util import find_spec

    from cdsa.core.atomic import check_file

    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"a report is a page: --report report.html, but found '{path}'")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a report with pictures", "matplotlib", "plot")
    check_file(path, overwrite=overwrite)
