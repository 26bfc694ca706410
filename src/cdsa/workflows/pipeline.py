"""Fill, forecast, compare, train and explain: each is written once, here.

Python, the command line and the page open a table, build a request, and call one of the `run_*`
functions with a `Reporter` for progress and messages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core import defaults
from cdsa.core.config import override
from cdsa.core.masks import parse_hide
from cdsa.core.prepare import PreparedCube, prepare
from cdsa.core.records import Value, to_json_value
from cdsa.core.scope import left_open, steps_in
from cdsa.core.text import format_count
from cdsa.errors import ConfigError
from cdsa.io.sidecars import Sites
from cdsa.io.source import Source
from cdsa.methods.base import GRAPH, Filler, Method
from cdsa.methods.explanation import Explanation
from cdsa.methods.registry import (
    NO_OPTIONS,
    REGISTRY,
    MethodOptions,
    build_method,
    info_of,
    name_of,
)
from cdsa.training.callbacks import Progress, RunContext
from cdsa.workflows import advice
from cdsa.workflows.fill import FILL_SOURCES, check_interval, fill_with
from cdsa.workflows.forecast import check_horizon, forecast_errors, forecast_with, split_known
from cdsa.workflows.score import Hide, Score, try_method
from cdsa.workflows.select import Selection, select_method

ProgressCallback = Callable[[str, float | None], None]
"""Called with a status and the completed fraction, None if unknown."""


class Reporter:
    """Receives progress and messages of a workflow. This one passes progress on to a function, if
    there is one, and ignores messages."""

    def __init__(self, callback: ProgressCallback | None = None) -> None:
        self.callback, self.label = callback, ""

    def progress(self, status: str, fraction: float | None = None) -> None:
        """What is going on, and the completed fraction if it is known."""
        if self.callback:
            self.callback(status, fraction)

    def message(self, text: str) -> None:
        """Something the user should know."""

    def warn(self, text: str) -> None:
        """What may be wrong with a result; a message unless overridden."""
        self.message(text)

    def reason(self, text: str) -> None:
        """Why a method was chosen, or what error to expect of it; a message unless overridden."""
        self.message(text)

    def training_starts(self, method: Method) -> None:
        self.label = method.label

    def training(self, progress: Progress) -> None:
        self.progress(f"training {self.label}", progress.fraction)

    def should_stop(self) -> bool:
        """Whether a training should stop and keep the best weights so far."""
        return False

    def run_context(self, device: str = "auto", folder: Path | None = None) -> RunContext:
        return RunContext(
            device=device,
            folder=folder,
            on_progress=self.training,
            should_stop=self.should_stop,
            on_start=self.training_starts,
        )


@dataclass(frozen=True, kw_only=True)
class MethodRequest:
    """What to do with one method."""

    method: str | Method | Filler = defaults.NETWORK
    """A name, a method, or a filler that is fitted already."""

    options: MethodOptions = NO_OPTIONS
    horizon: int = 0
    """Steps to forecast; 0 to fill."""

    known_covariates: tuple[str, ...] = ()
    """Measurements whose future values are known when a forecast is made."""

    device: str = "auto"
    max_minutes: float | None = None
    """Longest training time of a network, for a server."""

    def validate(self) -> None:
        """Refuse what cannot succeed, before any work is done."""
        if not isinstance(self.method, Filler):
            _ = self.built
        elif given := [*self.options.given(), *(["set"] if self.options.set else [])]:
            raise ConfigError(f"{given[0]} is for training, but this model is trained already")

    @cached_property
    def built(self) -> Method:
        """The method to fit; of 'auto', the network."""
        if isinstance(self.method, Filler):
            raise ConfigError("a method such as 'cdsa' is trained, but found a trained model")
        name = defaults.NETWORK if self.method == defaults.AUTO else self.method
        return build_method(
            name, self.options, horizon=self.horizon, known_covariates=self.known_covariates
        )


@dataclass(frozen=True, kw_only=True)
class FillRequest(MethodRequest):
    method: str | Method | Filler = defaults.METHOD
    interval: float = defaults.INTERVAL
    check: bool = True
    """Hide a tenth of the measured cells first, to estimate the error."""

    at: Sites | None = None
    """Sites without a sensor, to fill as well."""

    max_gap: str | None = None
    """Longest gap that is filled, such as '6h'; longer ones are left open."""

    extend: bool = False
    """Fill before the first and after the last value of a station too, and measurements that it
    never had."""

    def validate(self) -> None:
        check_interval(self.interval)
        auto = self.method == defaults.AUTO
        if auto and self.options == NO_OPTIONS:
            return  # nothing that could be wrong, and torch is loaded only when it is needed
        if isinstance(self.method, str) and not auto and not info_of(self.method).fills:
            raise ConfigError(
                f"'{self.method}' forecasts and does not fill. Use it with cdsa forecast"
            )
        super().validate()


@dataclass(frozen=True, kw_only=True)
class ForecastRequest(MethodRequest):
    interval: float = defaults.INTERVAL

    def validate(self) -> None:
        check_horizon(self.horizon)
        check_interval(self.interval)
        if self.method == defaults.AUTO:
            raise ConfigError(
                "'auto' only fills. To find the best method for a forecast: cdsa score --hide "
                f"last:{self.horizon} --methods {','.join(defaults.FORECASTERS)}"
            )
        super().validate()


@dataclass(frozen=True, kw_only=True)
class TrainRequest(MethodRequest):
    """Train a network to be kept."""

    folder: Path | None = None
    """Where the training is saved now and then, so that it can be resumed."""

    def validate(self) -> None:
        if self.known_covariates and not self.horizon:
            raise ConfigError("--known is for forecasters. Set their horizon with --forecast")
        if not self.built.trains:
            name = self.built.label
            raise ConfigError(f"'{name}' is not trained; use it with cdsa fill --method {name}")


@dataclass(frozen=True, kw_only=True)
class CompareRequest:
    methods: tuple[str | Method, ...]
    hide: Hide = defaults.HIDE
    repeats: int = 1
    seed: int = 0
    """Chooses the hidden cells, and the first weights of networks."""

    test: float | None = None
    """Fit on the first part of the record only and score on the last part, of this share."""

    options: MethodOptions = NO_OPTIONS
    """For the methods that train."""

    device: str = "auto"
    max_minutes: float | None = None
    """Longest training time of a network, for a server."""

    def validate(self) -> None:
        if self.repeats < 1:
            raise ConfigError(f"methods are scored at least once, but repeats={self.repeats}")
        if isinstance(self.hide, str):
            parse_hide(self.hide)
        methods, given = self.built, self.options.given()
        if given and not any(method.trains for method in methods):
            raise ConfigError(
                f"--{given[0]} is for methods that train a network, and none is scored here"
            )
        if self.options.graph and not any(_uses_graph(method) for method in methods):
            raise ConfigError("--graph is for networks on a graph, and none is scored here")

    @cached_property
    def built(self) -> list[Method]:
        """The methods, as they are scored; single settings are for those that train, if any do."""
        plain = [build_method(method) for method in self.methods]
        if not any(method.trains for method in plain):
            return [override(method, self.options.set) for method in plain]
        return [self.build(method) for method in self.methods]

    def build(self, method: str | Method) -> Method:
        """A method as it is scored: a network gets the options, and the horizon of `last:N`."""
        plain = build_method(method)
        if not plain.trains:
            return plain
        graph = self.options.graph if _uses_graph(plain) else ()
        options = replace(self.options, seed=self.seed, graph=graph)
        kind, _, steps = self.hide.partition(":") if isinstance(self.hide, str) else ("", "", "")
        forecasts = not isinstance(method, str) or info_of(method).forecasts
        horizon = int(steps) if kind == "last" and steps.isdecimal() and forecasts else 0
        return build_method(method, options, horizon=horizon)


def _uses_graph(method: Method) -> bool:
    return method.name in REGISTRY and REGISTRY[method.name].needs == GRAPH


@dataclass(frozen=True, eq=False, kw_only=True)
class WorkflowResult:
    """A filled or forecast table or cube."""

    dataset: xr.Dataset
    """`value`, `source`, `lower` and `upper` of every cell."""

    source: Source
    """The table, with the sites or steps that were added."""

    def __repr__(self) -> str:
        label = "forecast" if isinstance(self, ForecastResult) else "filled"
        measurements = format_count(self.dataset.sizes["measurement"], "measurement")
        cells = format_count(int((self.dataset["source"] == label).sum()), "cell")
        return f"<{type(self).__name__}: {measurements}, {cells} {label} by {self.method}>"

    @property
    def data(self) -> Any:
        """The result as the kind of data that was given."""
        is_file = self.source.style is not None or self.source.schema is not None
        filled = self.source.filled(self.dataset, typed=is_file)  # numbers, not their text
        if isinstance(filled, pd.DataFrame):
            filled.attrs |= {"method": self.method, "expected_error": self.records}
        return filled

    @property
    def cells(self) -> pd.DataFrame:
        """One row per filled or forecast cell: value, source and bounds."""
        return self.source.detail(self.dataset)

    @property
    def method(self) -> str:
        """The method that was used, and those of some measurements."""
        return str(self.dataset.attrs["method"])

    @property
    def records(self) -> list[dict[str, Value]]:
        """One record per measurement: method, counts of cells, expected errors."""
        raise NotImplementedError

    def _records(
        self, sources: Sequence[str], errors: Sequence[dict[str, Value]], **columns: Value
    ) -> list[dict[str, Value]]:
        """These columns, the number of cells of each source, and the errors."""
        by_name = {error["measurement"]: error for error in errors}
        records: list[dict[str, Value]] = []
        for name in map(str, self.dataset["measurement"].to_numpy()):
            source = self.dataset["source"].sel(measurement=name).to_numpy()
            counts = {label: int((source == label).sum()) for label in sources}
            error = by_name.get(name, {})
            expected = {f"expected_{metric}": error.get(metric) for metric in ("mae", "rmse")}
            records.append({"measurement": name, **columns, **counts, **expected})
        return records

    @property
    def expected_error(self) -> pd.DataFrame:
        """The errors to expect, by measurement."""
        table = pd.DataFrame(self.records).set_index("measurement")
        names = ["method", "expected_mae", "expected_rmse", "expected_mae_at_sites"]
        return table.filter(names).rename(columns=lambda name: name.removeprefix("expected_"))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FillResult(WorkflowResult):
    """A filled table or cube."""

    selection: Selection
    """The method, why it was chosen, and the scores of the candidates."""

    n_sites: int = 0
    """Sites without a sensor that were added, the last locations."""

    messages: tuple[str, ...] = ()
    """What the user was told about the data and the result."""

    @property
    def records(self) -> list[dict[str, Value]]:
        # errors on cells hidden for the choice, else those of a network's validation
        selection, at_sites = self.selection, self.selection.expected_at_sites
        expected = selection.expected
        errors = expected.by_measurement() if expected else selection.validation_errors
        site_errors = at_sites.table("measurement")["mae"] if at_sites else {}
        records = self._records(FILL_SOURCES, errors, method=selection.best)
        for record in records:
            name = str(record["measurement"])
            record["method"] = selection.method_of(name)
            if selection.blend:
                record["weights"] = selection.blend.describe(name)
            if at_sites:
                record["expected_mae_at_sites"] = to_json_value(site_errors.get(name, np.nan))
        return records


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ForecastResult(WorkflowResult):
    """A table or cube with its forecast."""

    horizon: int
    steps: slice
    """The steps that were forecast."""

    errors: Sequence[dict[str, Value]]
    network: bool
    """Whether the errors are those of a network's validation."""

    @property
    def records(self) -> list[dict[str, Value]]:
        sources = "forecast", "unfillable"
        return self._records(sources, self.errors, method=self.method, horizon=self.horizon)


def run_fill(
    request: FillRequest,
    source: Source,
    reporter: Reporter,
    *,
    stations: xr.DataArray | None = None,
) -> FillResult:
    """Choose and fit a method on the stations, by default all, and fill the table and new sites."""
    stations, n_before = source.cube if stations is None else stations, source.cube.shape[1]
    messages: list[str] = []

    def message(text: str) -> None:
        messages.append(text)
        reporter.message(text)

    def warn(text: str) -> None:
        messages.append(text)
        reporter.warn(text)

    if request.at is not None:
        source = source.with_sites(request.at)
        advice.report_far_sites(stations, source.cube, message)
    data = prepare(source.cube, checked=True)
    max_steps = None if request.max_gap is None else steps_in(request.max_gap, source.cube)
    open_cells = left_open(source.cube, extend=request.extend, max_steps=max_steps)
    is_station = source.cube["location"].isin(stations["location"]).to_numpy()
    train = data if is_station.all() else data.isel(location=is_station)
    selection = _select(request, train, source.cube, reporter, message)
    for text in selection.filler.primary.warnings:
        message(text)
    if selection.hidden is not None:
        to_fill = source.cube.isnull().to_numpy() & (open_cells == 0)
        advice.report_unlike_gaps(source.cube, to_fill, selection.hidden, warn)
    if selection.expected is not None:
        advice.report_narrow_intervals(selection.expected, warn)
    for text in selection.reasons:
        reporter.reason(text)
    reporter.progress(f"filling with {selection.label}")
    dataset = fill_with(selection.filler, data, interval=request.interval, open_cells=open_cells)
    dataset.attrs["method"] = selection.label
    return FillResult(
        dataset=dataset,
        source=source,
        selection=selection,
        n_sites=source.cube.shape[1] - n_before,
        messages=tuple(messages),
    )


def _select(
    request: FillRequest,
    train: PreparedCube,
    cube: xr.DataArray,
    reporter: Reporter,
    message: advice.Message,
) -> Selection:
    method = request.method
    if isinstance(method, Filler):
        method.check(cube)
        if method.horizon:
            raise ConfigError("this network was trained to forecast. Use it with cdsa forecast")
        reasons = advice.errors_at_new_stations(method, cube) if request.check else []
        return Selection(method, name_of(method.settings or "model"), reasons=tuple(reasons))
    return select_method(
        method,
        lambda: request.built.with_time_limit(request.max_minutes, train),
        train,
        cube,
        check=request.check,
        run=reporter.run_context(request.device),
        message=message,
        progress=reporter.progress,
    )


def run_forecast(request: ForecastRequest, source: Source, reporter: Reporter) -> ForecastResult:
    cube, horizon, known = source.cube, request.horizon, request.known_covariates
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
        reporter.message("the table is too short to hide a part of it, so the error is unknown")
    reporter.progress(f"forecasting with {label}")
    dataset = forecast_with(filler, past, horizon, future=future, interval=request.interval)
    end = past.sizes["time"]
    return ForecastResult(
        dataset=dataset.assign_attrs(method=label),
        source=source.with_horizon(horizon, cube.sizes["time"] - end),
        horizon=horizon,
        steps=slice(end, end + horizon),
        errors=errors,
        network=filler.horizon is not None,
    )


def run_compare(
    request: CompareRequest,
    cube: xr.DataArray,
    reporter: Reporter,
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
            seed = request.seed + repeat
            trial = try_method(method, data, request.hide, seed=seed, test=request.test, run=run)
            scores.append(replace(trial.score, method=name, repeat=repeat))
            scored(scores[-1])
    return scores


def run_train(request: TrainRequest, cube: xr.DataArray, reporter: Reporter) -> Filler:
    data = prepare(cube, checked=True)
    method = request.built.with_time_limit(request.max_minutes, data)
    filler = method.fit(data, reporter.run_context(request.device, request.folder))
    for text in filler.warnings:
        reporter.message(text)
    return filler


def run_explain(
    filler: Filler, cube: xr.DataArray, time: object, location: str, measurement: str | None = None
) -> Explanation:
    """Explain a filled value; the measurement may be left out if there is only one."""
    names = [str(name) for name in cube["measurement"].to_numpy()]
    if measurement is None and len(names) > 1:
        raise ConfigError(
            "a value belongs to one measurement, but there are several. Give measurement (in a "
            f"command, --measurement) as one of: {', '.join(names)}"
        )
    measurement = measurement or names[0]
    return filler.filler_of(location, measurement).explain(cube, time, location, measurement)
