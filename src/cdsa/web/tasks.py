"""What a job does: run a workflow on a parsed table and save the files to download."""

import logging
import shlex
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import xarray as xr

from cdsa.core import defaults
from cdsa.core.atomic import write_texts
from cdsa.core.records import Value
from cdsa.errors import ConfigError
from cdsa.io.source import Source, save_all
from cdsa.methods.registry import info_of
from cdsa.web import views
from cdsa.web.jobs import Request
from cdsa.web.limits import Limits
from cdsa.web.store import suffix_of
from cdsa.workflows import pipeline
from cdsa.workflows.forecast import split_known

Outcome = tuple[list[dict[str, Value]], dict[str, Path]]
"""The records of a job, and its files by their names in the API."""

logger = logging.getLogger("cdsa")


def check(request: Request, limits: Limits) -> None:
    """Refuse a request that cannot succeed or exceeds the limits, before it waits in the queue."""
    minutes, limit = request.options.minutes, limits.training_minutes
    if minutes is not None and not 0 < minutes <= limit:
        raise ConfigError(
            f"minutes must be greater than 0 and at most {limit:g} here, but found {minutes:g}"
        )
    request.validate()
    if isinstance(request, pipeline.CompareRequest):
        networks = sum(info_of(str(name)).trains for name in request.methods)
        total = networks * request.repeats * (defaults.MINUTES if minutes is None else minutes)
        if total > limit:
            raise ConfigError(
                f"a job may train for {limit:g} minutes here, but {networks} networks x "
                f"{request.repeats} repeats would take {total:g}. Compare fewer methods, or "
                "reduce minutes"
            )
    elif isinstance(request, pipeline.FillRequest) and request.at is not None:
        n_sites = len(request.at.names)
        if n_sites > limits.sites:
            raise ConfigError(
                f"a job may fill {limits.sites:,} sites here, but found {n_sites:,}. Send fewer, "
                "or use the command line"
            )


def run(
    request: Request, source: Source, folder: Path, limits: Limits, reporter: pipeline.Reporter
) -> Outcome:
    """Run a job on a parsed table; its files are saved in `folder`."""
    _refuse_more_cells(request, source.cube, limits)
    request = replace(request, max_minutes=limits.training_minutes)
    match request:
        case pipeline.FillRequest():
            filled = pipeline.run_fill(request, source, reporter)
            reporter.progress("writing files")
            files = _save(filled.source, filled.dataset, folder)
            files |= views.save_explainer(filled, folder)
            files |= _save_report(request, filled, folder, reporter)
            return filled.records, files
        case pipeline.ForecastRequest():
            forecast = pipeline.run_forecast(request, source, reporter)
            reporter.progress("writing files")
            return forecast.records, _save(forecast.source, forecast.dataset, folder)
        case pipeline.CompareRequest():
            scores = pipeline.run_compare(request, source.cube, reporter)
            return [record for score in scores for record in score.records()], {}


def _refuse_more_cells(request: Request, cube: xr.DataArray, limits: Limits) -> None:
    """Refuse forecast steps or sites that make the cube too large."""
    n_steps, n_stations, n_measurements = cube.shape
    if isinstance(request, pipeline.ForecastRequest):
        past, future = split_known(cube, request.known_covariates)
        n_steps = past.sizes["time"] + max(request.horizon, future.sizes["time"])
    elif isinstance(request, pipeline.FillRequest) and request.at is not None:
        n_stations += len(request.at.names)
    n_cells = n_steps * n_stations * n_measurements
    if n_cells > limits.cells:
        raise ConfigError(
            f"a table may have {limits.cells:,} cells here, but this one would have {n_cells:,}. "
            "Request fewer steps or sites, or use the command line"
        )


def _save(source: Source, result: xr.Dataset, folder: Path) -> dict[str, Path]:
    """Save the files to download, and the arrays that the page's requests are answered from."""
    folder.mkdir()
    filled, detail = folder / f"filled{suffix_of(source.name)}", folder / "detail.csv"
    save_all(source, result, filled, detail=detail)
    views.save_arrays(result, folder)
    return {"filled": filled, "detail": detail, "arrays": folder}


def _command(request: pipeline.FillRequest, name: str) -> str:
    """The command that does the same, except for read options."""
    options = request.options
    words = ["cdsa", "fill", name, "--method", str(request.method), "--seed", str(options.seed)]
    words += ["--interval", f"{request.interval:g}"]
    words += [] if options.minutes is None else ["--minutes", f"{options.minutes:g}"]
    words += [] if request.at is None else ["--at", "sites.csv"]
    return shlex.join([*words, *([] if request.check else ["--no-check"])])


def _save_report(
    request: pipeline.FillRequest,
    filled: pipeline.FillResult,
    folder: Path,
    reporter: pipeline.Reporter,
) -> dict[str, Path]:
    """Save the report of a fill; if it cannot be drawn, the fill is still valid."""
    if find_spec("matplotlib") is None:
        return {}
    from cdsa.report.page import render_report

    name, path = filled.source.name, folder / "report.html"
    try:
        page = render_report(filled, name, _command(request, name))
        write_texts({path: page}, overwrite=True)
    except Exception:
        logger.exception("a report could not be drawn")
        reporter.message("the report could not be drawn, but the table was filled")
        return {}
    return {"report": path}
