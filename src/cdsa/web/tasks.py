"""What a job does: fill, forecast or compare methods, as the command line does, and save files."""

import logging
import pickle
import shlex
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import xarray as xr

from cdsa.core import defaults
from cdsa.core.atomic import write_texts
from cdsa.core.config import override
from cdsa.core.cube import SOURCES
from cdsa.core.masks import parse_hide
from cdsa.core.records import Value
from cdsa.core.times import Clock
from cdsa.errors import ConfigError
from cdsa.io.sidecars import Sites
from cdsa.io.source import Source, save_all
from cdsa.methods.base import Filler, Method
from cdsa.methods.compose import explaining
from cdsa.methods.registry import info_of, make_method
from cdsa.training.callbacks import Progress, RunContext
from cdsa.web.limits import Limits
from cdsa.web.store import suffix_of
from cdsa.workflows import advice
from cdsa.workflows.fill import check_share, fill_records, fill_with
from cdsa.workflows.forecast import forecast_records, forecast_with, split_known
from cdsa.workflows.score import compare
from cdsa.workflows.select import Chosen, carry_out, forecast_errors, main_part, plan

ARRAYS = ("value", "lower", "upper")

DEFAULT_MINUTES = 5.0
"""Training time of networks that do not choose it from the table."""

logger = logging.getLogger("cdsa")


@dataclass(frozen=True, kw_only=True)
class Fill:
    """Fill the gaps of a table."""

    method: str = defaults.METHOD
    minutes: float | None = None
    seed: int = 0
    interval: float = defaults.INTERVAL
    check: bool = True
    """Hide a tenth of the measured cells first, to estimate the error."""

    at: Sites | None = None
    """Unmonitored sites to fill as well."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Forecast a table."""

    horizon: int
    method: str = defaults.FORECAST
    minutes: float | None = None
    seed: int = 0
    interval: float = defaults.INTERVAL
    known_covariates: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare methods on hidden cells."""

    methods: tuple[str, ...]
    hide: str = defaults.HIDE
    repeats: int = 1
    minutes: float | None = None
    seed: int = 0


Request = Fill | Forecast | Compare


class Reporter(Protocol):
    """Receives the progress of a job."""

    def progress(self, status: str, fraction: float | None = None) -> None:
        """What the job is doing, and the completed fraction if it is known."""

    def message(self, text: str) -> None:
        """Something the user should know."""


class Explainer(NamedTuple):
    """What explains the values that a job has filled."""

    filler: Filler
    cube: xr.DataArray
    clock: Clock


@dataclass(frozen=True, eq=False)
class Outcome:
    """The results of a job."""

    records: list[dict[str, Value]]
    files: dict[str, Path] = field(default_factory=dict)


def check(request: Request, limits: Limits) -> None:
    """Refuse a request that cannot succeed, before it waits in the queue."""
    minutes = request.minutes
    if minutes is not None and not (0 < minutes <= limits.training_minutes):
        raise ConfigError(
            f"minutes must be greater than 0 and at most {limits.training_minutes:g} here, but "
            f"found {minutes:g}"
        )
    if isinstance(request, Compare):
        parse_hide(request.hide)
        networks = sum(info_of(name).trains for name in request.methods)
        total = networks * request.repeats * (DEFAULT_MINUTES if minutes is None else minutes)
        if total > limits.training_minutes:
            raise ConfigError(
                f"a job may train for {limits.training_minutes:g} minutes here, but {networks} "
                f"networks x {request.repeats} repeats would take {total:g}. Compare fewer "
                "methods, or reduce minutes"
            )
        return
    check_share(request.interval)
    name = defaults.NETWORK if request.method == defaults.AUTO else request.method
    if isinstance(request, Forecast) and request.method == defaults.AUTO:
        raise ConfigError("'auto' only fills. Choose a method that forecasts, such as cdsa")
    task = "forecast" if isinstance(request, Forecast) else "fill"
    if task not in info_of(name).task:
        raise ConfigError(
            f"'{request.method}' does not {task}. GET /api/methods lists the methods that do"
        )
    if isinstance(request, Fill) and request.at is not None:
        n_sites = len(request.at.names)
        if n_sites > limits.sites:
            raise ConfigError(
                f"a job may fill {limits.sites:,} sites here, but found {n_sites:,}. Send fewer, "
                "or use the command line"
            )
    _requested_method(request, name)


def run(
    request: Request, source: Source, folder: Path, limits: Limits, reporter: Reporter
) -> Outcome:
    """Run a job on a parsed table; its files are saved in `folder`."""
    match request:
        case Fill():
            return _fill(request, source, folder, limits, reporter)
        case Forecast():
            return _forecast(request, source, folder, limits, reporter)
        case Compare():
            return _compare(request, source, limits, reporter)


def _refuse_more_cells(
    cube: xr.DataArray, limits: Limits, *, horizon: int = 0, n_sites: int = 0
) -> None:
    """Refuse forecast steps or sites that make the cube too large."""
    n_steps, n_stations, n_measurements = cube.shape
    n_cells = (n_steps + horizon) * (n_stations + n_sites) * n_measurements
    if n_cells > limits.cells:
        raise ConfigError(
            f"a table may have {limits.cells:,} cells here, but this one would have {n_cells:,}. "
            "Request fewer steps or sites, or use the command line"
        )


def _fill(
    request: Fill, stations: Source, folder: Path, limits: Limits, reporter: Reporter
) -> Outcome:
    """Train on the stations; fill them and the requested sites."""
    source = stations
    if request.at is not None:
        _refuse_more_cells(stations.cube, limits, n_sites=len(request.at.names))
        source = stations.with_sites(request.at)
        advice.tell_far_places(stations.cube, source.cube, reporter.message)
    steps = plan(
        request.method, stations.cube, source.cube, check=request.check, tell=reporter.message
    )
    if not info_of(steps.method).trains:
        request = replace(request, minutes=None)
    method = _bounded_method(request, steps.method, stations.cube, limits, reporter)
    if steps.hidden is None:
        reporter.progress(f"fitting {steps.method}")
    choice = carry_out(steps, method, progress=lambda name: reporter.progress(f"trying {name}"))
    advice.tell_short_windows(main_part(choice.filler), reporter.message)
    for line in choice.told:
        reporter.message(line)
    reporter.progress(f"filling with {choice.label}")
    result = fill_with(choice.filler, source.cube, interval=request.interval)
    advice.tell_below_zero(source.cube, result, reporter.message)
    reporter.progress("writing files")
    files = _save(source, result, folder)
    files |= _save_explainer(choice.filler, source, folder)
    files |= _save_report(request, source, result, choice, folder, reporter)
    return Outcome(fill_records(result, choice), files)


def _forecast(
    request: Forecast, source: Source, folder: Path, limits: Limits, reporter: Reporter
) -> Outcome:
    horizon, known = request.horizon, request.known_covariates
    past, future = split_known(source.cube, known)
    _refuse_more_cells(past, limits, horizon=max(horizon, future.sizes["time"]))
    extended = source.with_horizon(horizon, future.sizes["time"])
    advice.tell_known(past, future, known, horizon, reporter.message)
    method = _bounded_method(request, request.method, past, limits, reporter)
    reporter.progress(f"fitting {request.method}")
    filler = method.fit(past)
    reporter.progress("estimating the error")
    errors = forecast_errors(filler, method, past, horizon, reporter.message)
    advice.tell_short_windows(filler, reporter.message)
    if not errors:
        reporter.message(advice.NO_EXAM)
    reporter.progress(f"forecasting with {request.method}")
    result = forecast_with(filler, past, horizon, future=future, interval=request.interval)
    reporter.progress("writing files")
    label = str(getattr(method, "label", request.method))
    files = _save(extended, result, folder)
    return Outcome(forecast_records(result, label, horizon, errors), files)


def _compare(request: Compare, source: Source, limits: Limits, reporter: Reporter) -> Outcome:
    methods = [
        _bounded_method(
            request if info_of(name).trains else replace(request, minutes=None),
            *(name, source.cube, limits, reporter),
        )
        for name in request.methods
    ]
    scores = compare(
        methods, source.cube, request.hide, repeats=request.repeats, seed=request.seed,
        progress=lambda name: reporter.progress(f"scoring {name}"),
    )  # fmt: skip
    return Outcome([record for score in scores for record in score.records()])


def _requested_method(request: Request, name: str) -> Method:
    """The method of this name with the settings of the request."""
    method = make_method(name)[1]
    if not info_of(name).trains:
        if request.minutes is not None:
            raise ConfigError(f"minutes are for methods that train a network; '{name}' does not")
        return method
    network: Any = override(method, [f"seed={request.seed}"])
    if request.minutes is not None:
        network = override(network, ["train.epochs=none", f"train.minutes={request.minutes}"])
    if isinstance(request, Forecast):
        network = network.foreseeing(request.horizon)
        if request.known_covariates:
            network = network.knowing(request.known_covariates)
    return network  # type: ignore[no-any-return]


def _bounded_method(
    request: Request, name: str, cube: xr.DataArray, limits: Limits, reporter: Reporter
) -> Method:
    """The requested method with its training time within the limits; it reports its progress."""
    method: Any = _requested_method(request, name)
    if not info_of(name).trains:
        return method  # type: ignore[no-any-return]
    adapts, minutes = info_of(name).name == defaults.NETWORK, request.minutes
    if minutes is None:  # the default network chooses from the cube; others would never stop
        chosen = method.settled(cube).train.minutes if adapts else DEFAULT_MINUTES
        minutes = None if chosen is None else min(chosen, limits.training_minutes)
        if not adapts or minutes != chosen:
            method = override(method, [f"train.minutes={minutes}"])
    duration = "" if minutes is None else f" for {minutes:g} min"

    def watch(report: Progress) -> None:
        reporter.progress(f"training {name}{duration}, step {report.step:,}", report.fraction)

    return replace(method, run=RunContext(on_progress=watch))  # type: ignore[no-any-return]


def _save(source: Source, result: xr.Dataset, folder: Path) -> dict[str, Path]:
    """Save the files to download, and the arrays that the page's requests are answered from."""
    folder.mkdir()
    filled, detail = folder / f"filled{suffix_of(source.name)}", folder / "detail.csv"
    save_all(source, result, filled, detail=detail)
    for name in ARRAYS:
        if name in result:
            np.save(folder / f"{name}.npy", result[name].transpose(*source.cube.dims).to_numpy())
    labels = result["source"].transpose(*source.cube.dims).to_numpy()
    codes = np.zeros(labels.shape, dtype=np.uint8)
    for label in np.unique(labels):
        codes[labels == label] = SOURCES.index(label)
    np.save(folder / "source.npy", codes)
    np.save(folder / "time.npy", result["time"].to_numpy())
    return {"filled": filled, "detail": detail, "arrays": folder}


def _save_explainer(filler: Filler, source: Source, folder: Path) -> dict[str, Path]:
    """Save what explains the filled values, if anything can."""
    explainable = explaining(filler)
    if explainable is None:
        return {}
    path = folder / "explainer.pickle"
    with path.open("wb") as file:
        pickle.dump(Explainer(explainable, source.cube, source.content.clock), file)
    return {"explainer": path}


def _command(request: Fill, name: str) -> str:
    """The command that does the same, except for read options."""
    words = ["cdsa", "fill", name, "--method", request.method, "--seed", str(request.seed)]
    words += ["--interval", f"{request.interval:g}"]
    words += [] if request.minutes is None else ["--minutes", f"{request.minutes:g}"]
    words += [] if request.at is None else ["--at", "places.csv"]
    return shlex.join([*words, *([] if request.check else ["--no-check"])])


def _save_report(
    request: Fill,
    source: Source,
    result: xr.Dataset,
    choice: Chosen,
    folder: Path,
    reporter: Reporter,
) -> dict[str, Path]:
    """Save the report of a fill; if it cannot be drawn, the fill is still valid."""
    if find_spec("matplotlib") is None:
        return {}
    from cdsa.report.content import collect
    from cdsa.report.page import render

    command = _command(request, source.name)
    story = collect(source, result, choice, name=source.name, command=command)
    path = folder / "report.html"
    try:
        write_texts({path: render(story)}, overwrite=True)
    except Exception:
        logger.exception("a report could not be drawn")
        reporter.message("the report could not be drawn, but the table was filled")
        return {}
    return {"report": path}
