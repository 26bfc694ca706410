"""What fills a table, with what is seen of it on the way; its report."""

from pathlib import Path

import xarray as xr

from cdsa.choosing import Chosen, carry_out, main_part, plan
from cdsa.cli import show
from cdsa.cli.progress import training
from cdsa.cli.training import Training, make_trained
from cdsa.cli.work import command_line
from cdsa.errors import ConfigError
from cdsa.method import info_of
from cdsa.sources.files import Source


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
    from cdsa.config import to_plain
    from cdsa.reporting import Story, render

    made = getattr(main_part(choice.filler), "method", None)
    story = Story(
        name=Path(source.name).name,
        cube=source.cube,
        result=result,
        clock=source.content.clock,
        method=choice.best,
        parts=choice.parts,
        expected=choice.expected,
        scores=choice.scores,
        errors=choice.errors,
        told=choice.told,
        settings={} if made is None else to_plain(made),
        command=command_line(),
    )
    return render(story)


def refuse_report(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a report that could not be written, before any work is done for it."""
    from importlib.util import find_spec

    from cdsa.sources.write import check_file

    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"a report is a page: --report report.html, but found '{path}'")
    if find_spec("matplotlib") is None:
        raise ConfigError("a report has pictures, which need matplotlib: pip install 'cdsa[plot]'")
    check_file(path, overwrite=overwrite)
