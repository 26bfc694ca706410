"""Fill, forecast, compare, train and explain: each is written once, here.

Python, the command line and the page open a table, build a request, and call one of the `run_*`
functions with a `Reporter` for progress and messages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd
import xarray as xr

from cdsa.core import defaults
from cdsa.core.masks import HideStrategy, parse_hide
from cdsa.core.prepare import PreparedCube, prepare
from cdsa.core.records import Value
from cdsa.errors import ConfigError
from cdsa.io.sidecars import Sites
from cdsa.io.source import Source
from cdsa.methods.base import GRAPH, Filler, Method
from cdsa.methods.explanation import Explanation
from cdsa.methods.registry import (
    NO_OPTIONS,
    MethodOptions,
    build_method,
    info_of,
    name_of,
)
from cdsa.training.callbacks import Progress, RunContext
from cdsa.workflows import advice
from cdsa.workflows.fill import check_interval, fill_records, fill_with
from cdsa.workflows.forecast import (
    check_horizon,
    forecast_errors,
    forecast_records,
    forecast_with,
    split_known,
)
from cdsa.workflows.score import Score, score_method
from cdsa.workflows.select import Selection, make_plan, run_plan


class Reporter:
    """Receives progress and messages of a workflow; this one ignores them."""

    def progress(self, status: str, fraction: float | None = None) -> None:
        """What is going on, and the completed fraction if it is known."""

    def message(self, text: str) -> None:
        """Something the user should know."""

    def reason(self, text: str) -> None:
        """Why a method was chosen, or what error to expect of it; a message unless overridden."""
        self.message(text)

    def training_starts(self, method: Method) -> None:
        """A network with these settings is about to be trained."""

    def training(self, progress: Progress) -> None:
        """How far the training is."""

    def should_stop(self) -> bool:
        """Whether a training should stop and keep the best weights so far."""
        return False

    def run_context(self, device: str = "auto", folder: Path | None = None) -> RunContext:
        """The context of a training that reports here."""
        return RunContext(
            device=device,
            folder=folder,
            on_progress=self.training,
            should_stop=self.should_stop,
            on_start=self.training_starts,
        )


SILENT = Reporter()


@dataclass(frozen=True, kw_only=True)
class FillRequest:
    """Fill the gaps of a table."""

    method: str | Method | Filler = defaults.METHOD
    """A name, a method, or a filler that is fitted already."""

    options: MethodOptions = NO_OPTIONS
    interval: float = defaults.INTERVAL
    check: bool = True
    """Hide a tenth of the measured cells first, to estimate the error."""

    at: Sites | None = None
    """Sites without a sensor, to fill as well."""

    device: str = "auto"
    max_minutes: float | None = None
    """Longest training time of a network, for a server."""

    def validate(self) -> None:
        """Refuse what cannot succeed, before any work is done."""
        check_interval(self.interval)
        if isinstance(self.method, Filler):
            return
        auto = self.method == defaults.AUTO
        if auto and self.options == NO_OPTIONS:
            return  # nothing that could be wrong, and torch is loaded only when it is needed
        if isinstance(self.method, str) and not auto and not info_of(self.method).fills:
            raise ConfigError(
                f"'{self.method}' forecasts and does not fill. Use it with cdsa forecast"
            )
        _ = self.built

    @cached_property
    def built(self) -> Method:
        """The method to fit; of 'auto', the network."""
        assert not isinstance(self.method, Filler)
        name = defaults.NETWORK if self.method == defaults.AUTO else self.method
        return build_method(name, self.options)


@dataclass(frozen=True, kw_only=True)
class ForecastRequest:
    """Forecast a table."""

    horizon: int
    method: str | Method | Filler = defaults.FORECAST
    options: MethodOptions = NO_OPTIONS
    interval: float = defaults.INTERVAL
    known_covariates: tuple[str, ...] = ()
    """Measurements whose future values are in the table already."""

    device: str = "auto"
    max_minutes: float | None = None
    """Longest training time of a network, for a server."""

    def validate(self) -> None:
        """Refuse what cannot succeed, before any work is done."""
        check_horizon(self.horizon)
        check_interval(self.interval)
        if self.method == defaults.AUTO:
            raise ConfigError(
                "'auto' only fills. To find the best method for a forecast: cdsa score --hide "
                f"last:{self.horizon} --methods {defaults.FORECAST},last,climatology,ar"
            )
        if not isinstance(self.method, Filler):
            _ = self.built

    @cached_property
    def built(self) -> Method:
        """The method that makes the forecast."""
        assert not isinstance(self.method, Filler)
        return build_method(
            self.method,
            self.options,
            horizon=self.horizon,
            known_covariates=self.known_covariates,
        )


@dataclass(frozen=True, kw_only=True)
class CompareRequest:
    """Compare methods on the same hidden cells."""

    methods: tuple[str | Method, ...]
    hide: str | HideStrategy | xr.DataArray = defaults.HIDE
    repeats: int = 1
    seed: int = 0
    """Chooses the hidden cells, and the first weights of networks."""

    test: float | None = None
    """Fit on the first part of the time only and score on the last part, of this share."""

    options: MethodOptions = NO_OPTIONS
    """For the methods that train."""

    device: str = "auto"
    max_minutes: float | None = None
    """Longest training time of a network, for a server."""

    def validate(self) -> None:
        """Refuse what cannot succeed, before any work is done."""
        if self.repeats < 1:
            raise ConfigError(f"methods are scored at least once, but repeats={self.repeats}")
        if isinstance(self.hide, str):
            parse_hide(self.hide)
        methods, given = self.built, self.options.given()
        if given and not any(method.trains for method in methods):
            raise ConfigError(
                f"--{given[0]} is for methods that train a network, and none is scored here"
            )
        if self.options.graph and not any(_uses_graph(method) for method in self.methods):
            raise ConfigError("--graph is for networks on a graph, and none is scored here")

    @cached_property
    def built(self) -> list[Method]:
        """The methods, as they are scored."""
        return [self.build(method) for method in self.methods]

    def build(self, method: str | Method) -> Method:
        """A method as it is scored: a network gets the options, and the horizon of `last:N`."""
        if not (info_of(method) if isinstance(method, str) else build_method(method)).trains:
            return build_method(method)
        options = replace(self.options, seed=self.seed)
        if not _uses_graph(method):
            options = replace(options, graph=())
        kind, _, steps = self.hide.partition(":") if isinstance(self.hide, str) else ("", "", "")
        forecasts = not isinstance(method, str) or info_of(method).forecasts
        horizon = int(steps) if kind == "last" and steps.isdecimal() and forecasts else 0
        return build_method(method, options, horizon=horizon)


def _uses_graph(method: str | Method) -> bool:
    name = name_of(method).partition(":")[0].partition("@")[0]
    return info_of(name).needs == GRAPH if not isinstance(method, Method) or method.name else False


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """Train a network to be kept."""

    method: str | Method = defaults.TRAIN
    options: MethodOptions = NO_OPTIONS
    horizon: int = 0
    """Steps to forecast; 0 for a network that fills."""

    known_covariates: tuple[str, ...] = ()
    device: str = "auto"
    folder: Path | None = None
    """Where the training is saved now and then, so that it can be resumed."""

    def validate(self) -> None:
        """Refuse what cannot succeed, before any work is done."""
        if self.known_covariates and not self.horizon:
            raise ConfigError("--known is for forecasters. Set their horizon with --forecast")
        if not self.built.trains:
            name = self.built.label
            raise ConfigError(f"'{name}' is not trained; use it with cdsa fill --method {name}")

    @cached_property
    def built(self) -> Method:
        """The method to train."""
        return build_method(
            self.method,
            self.options,
            horizon=self.horizon,
            known_covariates=self.known_covariates,
        )


@dataclass(frozen=True, eq=False)
class FilledCube:
    """A filled cube."""

    dataset: xr.Dataset
    """`value`, `source`, `lower` and `upper` of every cell."""

    selection: Selection

    @property
    def records(self) -> list[dict[str, Value]]:
        """One record per measurement: counts of cells, method, expected errors."""
        return fill_records(self.dataset, self.selection)

    @property
    def expected_error(self) -> pd.DataFrame:
        """The errors to expect, by measurement."""
        return _error_table(self.records)


@dataclass(frozen=True, eq=False)
class FillResult(FilledCube):
    """A filled table."""

    source: Source
    """The table, with the sites that were filled as well."""

    @property
    def data(self) -> pd.DataFrame | xr.Dataset:
        """The filled table in its own layout."""
        return self.source.filled(self.dataset)

    @property
    def cells(self) -> pd.DataFrame:
        """One row per filled cell: value, source and bounds."""
        return self.source.detail(self.dataset)


@dataclass(frozen=True, eq=False)
class ForecastCube:
    """A cube with its forecast."""

    dataset: xr.Dataset
    """`value`, `source`, `lower` and `upper` of every cell."""

    method: str
    horizon: int
    steps: slice
    """The steps that were forecast."""

    errors: Sequence[dict[str, Value]]
    network: bool
    """Whether the errors are those of a network's validation."""

    @property
    def records(self) -> list[dict[str, Value]]:
        """One record per measurement: counts of cells, expected errors."""
        return forecast_records(self.dataset, self.method, self.horizon, self.errors)

    @property
    def expected_error(self) -> pd.DataFrame:
        """The errors to expect, by measurement."""
        return _error_table(self.records)


@dataclass(frozen=True, eq=False)
class ForecastResult(ForecastCube):
    """A table with its forecast."""

    source: Source
    """The table with the steps of the forecast."""

    @property
    def data(self) -> pd.DataFrame | xr.Dataset:
        """The table with its forecast, in its own layout."""
        return self.source.filled(self.dataset)

    @property
    def cells(self) -> pd.DataFrame:
        """One row per forecast cell: value, source and bounds."""
        return self.source.detail(self.dataset)


def _error_table(records: Sequence[dict[str, Value]]) -> pd.DataFrame:
    columns = ["measurement", "method", "expected_mae", "expected_rmse", "expected_mae_at_sites"]
    table = pd.DataFrame(records).set_index("measurement")
    table = table[[column for column in columns if column in table.columns]]
    return table.rename(columns=lambda name: name.removeprefix("expected_"))


def run_fill(request: FillRequest, source: Source, reporter: Reporter = SILENT) -> FillResult:
    """Fill a table."""
    stations = source.cube
    source = source if request.at is None else source.with_sites(request.at)
    filled = fill_cube(request, stations, source.cube, reporter)
    return FillResult(filled.dataset, filled.selection, source)


def fill_cube(
    request: FillRequest,
    stations: xr.DataArray,
    cube: xr.DataArray,
    reporter: Reporter = SILENT,
) -> FilledCube:
    """Choose and fit a method on the stations, and fill a valid cube that may have more sites."""
    if request.at is not None:
        advice.report_far_sites(stations, cube, reporter.message)
    data = prepare(cube, checked=True)
    is_station = cube["location"].isin(stations["location"]).to_numpy()
    train = data if is_station.all() else data.isel(location=is_station)
    selection = _select(request, train, data, reporter)
    for text in selection.filler.primary.warnings:
        reporter.message(text)
    for text in selection.reasons:
        reporter.reason(text)
    reporter.progress(f"filling with {selection.label}")
    dataset = fill_with(selection.filler, data, interval=request.interval)
    advice.report_below_zero(cube, dataset, reporter.message)
    return FilledCube(dataset.assign_attrs(method=selection.label), selection)


def _select(
    request: FillRequest, train: PreparedCube, data: PreparedCube, reporter: Reporter
) -> Selection:
    """The filler for a request, and the error to expect."""
    method, cube = request.method, data.cube
    if isinstance(method, Filler):
        method.check(cube)
        if method.horizon:
            raise ConfigError("this network was trained to forecast. Use it with cdsa forecast")
        reasons = advice.errors_at_new_stations(method, cube) if request.check else []
        label = method.settings.label if method.settings else "model"
        return Selection(method, label, reasons=tuple(reasons))
    plan = make_plan(method, train, cube, check=request.check, message=reporter.message)
    simplest = method == defaults.AUTO and not plan.auto
    built = build_method(plan.method) if simplest else request.built
    if plan.hidden is None:
        reporter.progress(f"fitting {built.label}")
    return run_plan(
        plan,
        built.with_time_limit(request.max_minutes, train),
        run=reporter.run_context(request.device),
        progress=lambda name: reporter.progress(f"trying {name}"),
    )


def run_forecast(
    request: ForecastRequest, source: Source, reporter: Reporter = SILENT
) -> ForecastResult:
    """Forecast a table."""
    forecast = forecast_cube(request, source.cube, reporter)
    n_known = source.cube.sizes["time"] - forecast.steps.start
    extended = source.with_horizon(request.horizon, n_known)
    return ForecastResult(**vars(forecast), source=extended)


def forecast_cube(
    request: ForecastRequest, cube: xr.DataArray, reporter: Reporter = SILENT
) -> ForecastCube:
    """Fit a method on the past and forecast."""
    horizon, known = request.horizon, request.known_covariates
    past, future = split_known(cube, known)
    advice.report_known(past, future, known, horizon, reporter.message)
    errors: Sequence[dict[str, Value]]
    if isinstance(request.method, Filler):
        filler = request.method
        filler.check(cube)
        if set(filler.known_covariates) != set(known):
            trained = ", ".join(filler.known_covariates) or "nothing"
            raise ConfigError(
                f"this network was trained with {trained} known in advance. Give the same with "
                "--known, or train one with cdsa train --forecast N --known ..."
            )
        label, errors = name_of(filler.settings or "model"), filler.validation_errors
    else:
        data = prepare(past, checked=True)
        method = request.built.with_time_limit(request.max_minutes, data)
        label = method.label
        reporter.progress(f"fitting {label}")
        filler = method.fit(data, reporter.run_context(request.device))
        reporter.progress("estimating the error")
        errors = forecast_errors(filler, method, data, horizon, reporter.message)
        for text in filler.warnings:
            reporter.message(text)
    if not errors:
        reporter.message(advice.NO_VALIDATION)
    reporter.progress(f"forecasting with {label}")
    dataset = forecast_with(filler, past, horizon, future=future, interval=request.interval)
    end = past.sizes["time"]
    return ForecastCube(
        dataset=dataset.assign_attrs(method=label),
        method=label,
        horizon=horizon,
        steps=slice(end, end + horizon),
        errors=errors,
        network=filler.horizon is not None,
    )


def run_compare(
    request: CompareRequest,
    cube: xr.DataArray,
    reporter: Reporter = SILENT,
    *,
    scored: Callable[[Score], None] = lambda score: None,
) -> list[Score]:
    """Score several methods on the same hidden cells of a valid cube, `repeats` times with other
    cells hidden; `scored` is called with each score."""
    data = prepare(cube, checked=True)
    run = reporter.run_context(request.device)
    names = [name_of(method) for method in request.methods]
    methods = [method.with_time_limit(request.max_minutes, data) for method in request.built]
    scores = []
    for repeat in range(request.repeats):
        for name, method in zip(names, methods, strict=True):
            reporter.progress(f"scoring {name}")
            score = score_method(
                method, data, request.hide, seed=request.seed + repeat, test=request.test, run=run
            )
            scores.append(replace(score, method=name, repeat=repeat))
            scored(scores[-1])
    return scores


def run_train(request: TrainRequest, cube: xr.DataArray, reporter: Reporter = SILENT) -> Filler:
    """Train a network on a valid cube."""
    run = reporter.run_context(request.device, request.folder)
    filler = request.built.fit(prepare(cube, checked=True), run)
    for text in filler.warnings:
        reporter.message(text)
    return filler


def run_explain(
    filler: Filler, cube: xr.DataArray, time: object, location: str, measurement: str | None = None
) -> Explanation:
    """Explain a filled value; the measurement may be left out if there is only one."""
    names = [str(name) for name in cube["measurement"].to_numpy()]
    if measurement is None and len(names) > 1:
        raise ConfigError(f"choose one measurement: {', '.join(names)}")
    measurement = measurement or names[0]
    return filler.filler_of(location, measurement).explain(cube, time, location, measurement)
