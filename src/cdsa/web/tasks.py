"""What a job does: run a workflow on a parsed table and save the files to download."""

import logging
import pickle
import shlex
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import xarray as xr

from cdsa.core.atomic import write_texts
from cdsa.core.cube import DIMS, SOURCES
from cdsa.core.records import Value
from cdsa.errors import ConfigError
from cdsa.io.source import Source, save_all
from cdsa.web.jobs import Request
from cdsa.web.limits import Limits
from cdsa.web.parsing import suffix_of
from cdsa.workflows import pipeline
from cdsa.workflows.forecast import split_known

Outcome = tuple[list[dict[str, Value]], dict[str, Path]]
"""The records of a job, and its files by their names in the API."""

logger = logging.getLogger("cdsa")


def run(
    request: Request, source: Source, folder: Path, limits: Limits, reporter: pipeline.Reporter
) -> Outcome:
    """Run a job on a parsed table; its files are saved in `folder`."""
    n_steps, n_stations, _ = source.cube.shape
    match request:
        case pipeline.FillRequest():
            n_sites = 0 if request.at is None else len(request.at.names)
            _check_cells(source.cube, n_steps, n_stations + n_sites, limits)
            filled = pipeline.run_fill(request, source, reporter)
            reporter.progress("writing files")
            files = _save(filled.source, filled.dataset, folder)
            files |= _save_explainer(filled, folder)
            files |= _save_report(filled, _command(request, source.name), folder, reporter)
            return filled.records, files
        case pipeline.ForecastRequest():
            past, future = split_known(source.cube, request.known_covariates)
            n_steps = past.sizes["time"] + max(request.horizon, future.sizes["time"])
            _check_cells(source.cube, n_steps, n_stations, limits)
            forecast = pipeline.run_forecast(request, source, reporter)
            reporter.progress("writing files")
            return forecast.records, _save(forecast.source, forecast.dataset, folder)
        case pipeline.CompareRequest():
            scores = pipeline.run_compare(request, source.cube, reporter)
            return [record for score in scores for record in score.records()], {}
    raise TypeError(f"a job needs a case here, but {type(request).__name__} has none")


def _check_cells(cube: xr.DataArray, n_steps: int, n_stations: int, limits: Limits) -> None:
    """Refuse forecast steps or sites that make the cube too large."""
    n_cells = n_steps * n_stations * cube.sizes["measurement"]
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
    _save_arrays(result, folder)
    return {"filled": filled, "detail": detail, "arrays": folder}


def _save_arrays(result: xr.Dataset, folder: Path) -> None:
    """Save the arrays of a result that series and cells are read from; `source` as codes."""
    labels = result["source"].transpose(*DIMS).to_numpy()
    codes = np.zeros(labels.shape, dtype=np.uint8)
    for label in np.unique(labels):
        codes[labels == label] = SOURCES.index(label)
    np.save(folder / "source.npy", codes)
    np.save(folder / "time.npy", result["time"].to_numpy())
    for name in ("value", "lower", "upper"):
        if name in result:
            np.save(folder / f"{name}.npy", result[name].transpose(*DIMS).to_numpy())


def _save_explainer(filled: pipeline.FillResult, folder: Path) -> dict[str, Path]:
    """Save what explains the filled values, if anything can."""
    filler, source = filled.selection.filler.only_explainable(), filled.source
    if filler is None:
        return {}
    path = folder / "explainer.pickle"
    with path.open("wb") as file:
        pickle.dump((filler, source.cube, source.content.clock), file)
    return {"explainer": path}


def _command(request: pipeline.FillRequest, name: str) -> str:
    """The command that does the same, except for read options."""
    options = request.options
    words = ["cdsa", "fill", name, "--method", str(request.method), "--seed", str(options.seed)]
    words += ["--interval", f"{request.interval:g}"]
    words += [] if options.minutes is None else ["--minutes", f"{options.minutes:g}"]
    words += [] if request.at is None else ["--at", "sites.csv"]
    words += [] if request.max_gap is None else ["--max-gap", request.max_gap]
    words += ["--extend"] if request.extend else []
    return shlex.join([*words, *([] if request.check else ["--no-check"])])


def _save_report(
    filled: pipeline.FillResult, command: str, folder: Path, reporter: pipeline.Reporter
) -> dict[str, Path]:
    """Save the report of a fill; if it cannot be drawn, the fill is still valid."""
    if find_spec("matplotlib") is None:
        return {}
    from cdsa.report.page import render_report

    path = folder / "report.html"
    try:
        page = render_report(filled, filled.source.name, command)
        write_texts({path: page}, overwrite=True)
    except Exception:
        logger.exception("a report could not be drawn")
        reporter.message("the report could not be drawn, but the table was filled")
        return {}
    return {"report": path}
