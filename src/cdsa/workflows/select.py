"""Which methods fill a cube: candidates are tried on the same hidden cells, and the best is kept or
several are combined."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core import defaults
from cdsa.core.cube import has_coordinates
from cdsa.core.domain import Domain
from cdsa.core.metrics import LEVELS, measure
from cdsa.core.prepare import PreparedCube
from cdsa.core.records import Value
from cdsa.core.text import format_count, format_number
from cdsa.errors import CdsaError, ConfigError
from cdsa.methods.base import COORDINATES, Filler, Method
from cdsa.methods.blend import Blend, Fill, blend_fills, fit_blend
from cdsa.methods.calibration import ConformalFiller, cross_fitted_bounds
from cdsa.methods.compose import BlendedFiller, CombinedFiller
from cdsa.methods.registry import build_method, info_of, name_of
from cdsa.training.callbacks import RunContext
from cdsa.workflows.advice import Message
from cdsa.workflows.score import (
    Hide,
    Score,
    best_method,
    describe_hide,
    hidden_cells,
    is_like_data,
    try_method,
)

COMBINED = "combined"
"""The name of several methods in tables and plots of scores."""

MAX_NAMES = 3
"""Methods that a label names."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The filler that was chosen, and why."""

    filler: Filler
    best: str
    """The method or, of several that are combined, that with the largest weight."""

    expected: Score | None = None
    """Its score on cells hidden at stations."""

    reasons: tuple[str, ...] = ()
    expected_at_sites: Score | None = None
    """Its score where whole stations were hidden, if there are sites without a sensor."""

    scores: tuple[Score, ...] = ()
    """Of all methods that were tried on cells hidden at stations."""

    blend: Blend | None = None
    """The weights of the methods, if several are combined."""

    hidden: xr.DataArray | None = None
    """Cells that were hidden in the gaps of stations to measure the error."""

    networks: Mapping[str, Filler] = field(default_factory=dict)
    """The networks that were trained for the choice, by name."""

    @property
    def label(self) -> str:
        """The method, or those that are combined: 'cdsa + kalman', 'cdsa + kalman + 2 others'."""
        names = self.blend.used if self.blend else (self.best,)
        if len(names) > MAX_NAMES:
            names = *names[: MAX_NAMES - 1], f"{len(names) - MAX_NAMES + 1} others"
        return " + ".join(names)

    def describe(self, measurement: str) -> str:
        """The methods that fill a measurement, in words."""
        return self.blend.describe(measurement) if self.blend else self.best

    def method_of(self, measurement: str) -> str:
        """The method of a measurement, or that with the largest weight."""
        return self.blend.largest(measurement) if self.blend else self.best

    @property
    def validation_errors(self) -> tuple[dict[str, Value], ...]:
        return self.filler.primary.validation_errors


def select_method(
    method: str | Method,
    build: Callable[[], Method],
    train: PreparedCube,
    cube: xr.DataArray,
    *,
    check: bool,
    run: RunContext,
    message: Message,
    progress: Message,
) -> Selection:
    """Fit a method on `train`, to fill `cube`, which may have more locations; with `check`, also
    measure its error. `build` returns the method or, for 'auto', the default network.

    'auto' combines the network and simpler methods; with nothing to fill, or too little data to try
    methods on, it is the simplest one.
    """
    stations, auto = train.cube, method == defaults.AUTO
    sites = cube.sizes["location"] > stations.sizes["location"]
    if isinstance(method, str) and not auto:
        needed, n_stations = info_of(method).min_stations, stations.sizes["location"]
        if needed > n_stations:
            message(
                f"{method} needs {needed} stations, but there are {n_stations}: where too few "
                "report, gaps are interpolated in time instead"
            )
    hidden = cells_to_validate_on(stations, message, stations=sites) if check else None
    few, complete = int(cube.notnull().sum()) < defaults.MIN_CELLS, not cube.isnull().any()
    if auto and (few or complete or (check and hidden is None)):
        auto, built = False, build_method(defaults.BASELINES[0])
        if few and not complete:
            message(
                f"fewer than {defaults.MIN_CELLS} measured cells are too few for a network: "
                f"filling with {built.label}"
            )
    else:
        built = build()
    if sites and not built.inductive:
        raise ConfigError(
            f"'{built.label}' only knows the stations it was trained on, not sites without a "
            "sensor (--at). Use cdsa, kalman, kriging or idw"
        )
    if hidden is None:
        progress(f"fitting {built.label}")
        return Selection(built.fit(train, run), built.label)
    candidates: list[str | Method] = [built]
    if auto:
        candidates += [defaults.SITE_BASELINE] if sites else _usable_baselines(stations)
    selection = choose(
        candidates,
        train,
        hidden,
        combine=auto and not sites,
        match_missingness=not sites,  # to the cube's own gaps; new sites have none
        run=run,
        progress=lambda name: progress(f"trying {name}"),
        message=message,
    )
    selection = replace(
        selection,
        reasons=tuple(_reasons(selection, at_sites=sites)),
        hidden=None if sites else hidden,
    )
    return _split_sites(selection, built, train, message) if sites else selection


def _split_sites(
    selection: Selection, method: Method, train: PreparedCube, message: Message
) -> Selection:
    """The selection made at hidden stations, with another filler for the stations themselves if
    that at sites does not suit short gaps or has no intervals for them."""
    names = frozenset(str(name) for name in train.cube["location"].to_numpy())
    filler, best = selection.filler, selection.best
    at_sites = next(score for score in selection.scores if score.method == best)
    at_stations = Selection(filler, best)
    if best != method.label:  # the mean of neighbours is no way to fill a short gap
        at_stations = Selection(
            selection.networks[method.label], f"{method.label}, {best} at sites"
        )
    elif not method.trains:  # intervals at a new site do not hold in a gap; refitting is quick
        gaps = cells_to_validate_on(train.cube, message)
        if gaps is not None:
            at_stations = choose([method], train, gaps, match_missingness=True)
    if at_stations.filler is not filler:
        filler = CombinedFiller(names, at_stations.filler, filler)
    return replace(
        at_stations, filler=filler, reasons=selection.reasons, expected_at_sites=at_sites
    )


def _usable_baselines(cube: xr.DataArray) -> list[str]:
    """The simpler methods that are tried beside the network on this cube."""
    return [
        name
        for name in defaults.BASELINES
        if info_of(name).installed and (has_coordinates(cube) or info_of(name).needs != COORDINATES)
    ]


def choose(
    methods: Sequence[str | Method],
    cube: PreparedCube,
    hide: Hide = defaults.HIDE,
    *,
    combine: bool = False,
    match_missingness: bool = False,
    run: RunContext | None = None,
    progress: Message = lambda name: None,
    message: Message = lambda text: None,
) -> Selection:
    """Try methods on the same hidden cells and keep the best; with `combine`, the weighted mean of
    several where that is better, without methods that fail. For `match_missingness` see
    `try_method`.

    A network that was trained for the trial also fills: it never saw the hidden cells, and
    training it again would take minutes. A simpler method is fitted again on all cells and gets
    its intervals from the trial.
    """
    hidden = hidden_cells(cube.cube, hide, seed=0)
    match_missingness = match_missingness or is_like_data(hide)
    built = {name_of(method): build_method(method) for method in methods}
    scores: dict[str, Score] = {}
    networks: dict[str, Filler] = {}
    fills: dict[str, Fill] = {}
    for name, method in built.items():
        progress(name)
        try:
            trial = try_method(method, cube, hidden, match_missingness=match_missingness, run=run)
        except CdsaError as reason:
            if not combine or (not scores and name == list(built)[-1]):
                raise
            message(f"{name} is left out: {reason}")
            continue
        scores[name] = replace(trial.score, method=name, hide=describe_hide(hide))
        if trial.filler.trained:
            networks[name] = trial.filler
        if combine or not trial.filler.trained:
            fills[name] = trial.filled, trial.intervals
    trials = _Trials(cube.cube, hidden, trial.visible, trial.weights, scores, networks, fills)

    def fit(name: str) -> Filler:
        if name in networks:
            return networks[name]
        progress(name)
        return built[name].fit(cube, run)

    best = best_method(list(scores.values()))
    return _combine(trials, best, fit) if combine else _keep(trials, best, fit)


@dataclass(frozen=True, eq=False)
class _Trials:
    """Methods that were tried on the same hidden cells."""

    truth: xr.DataArray
    hidden: xr.DataArray
    visible: xr.DataArray
    weights: NDArray[np.float64] | None
    """Of hidden cells, as in `Trial`."""

    scores: Mapping[str, Score]
    networks: Mapping[str, Filler]
    fills: Mapping[str, Fill]
    """How each method filled; of networks only if methods are combined."""

    def calibrate(self, filler: Filler, fill: Fill, score: Score) -> tuple[Filler, Score]:
        """A filler with intervals from the trial, and its score with intervals that are calibrated
        on other folds of time than they are scored on."""
        filled, own = fill[0], fill[1] or None
        intervals = cross_fitted_bounds(filled, self.truth, self.visible, LEVELS, own)
        errors = measure(filled, self.truth, self.hidden, self.visible, intervals, self.weights)
        calibrated = ConformalFiller.fit(filler, filled, self.truth, self.visible, own)
        return calibrated, replace(score, errors=errors)


def _keep(trials: _Trials, best: str, fit: Callable[[str], Filler]) -> Selection:
    """One method for all cells."""
    filler, scores = fit(best), dict(trials.scores)
    if best not in trials.networks:
        filler, scores[best] = trials.calibrate(filler, trials.fills[best], scores[best])
    all_scores = tuple(scores.values())
    return Selection(filler, best, scores[best], scores=all_scores, networks=trials.networks)


def _combine(trials: _Trials, best: str, fit: Callable[[str], Filler]) -> Selection:
    """The weighted mean of methods, or one of them if no other gets any weight."""
    fills, scores = trials.fills, trials.scores
    filled = {name: fill[0] for name, fill in fills.items()}
    blend, cell_weights = fit_blend(filled, trials.truth, trials.visible, trials.weights, best)
    names = blend.used
    if len(names) == 1:
        return _keep(trials, names[0], fit)
    blend = blend.select(names)
    # bounds are those of the methods that fill
    tried = [(fill[0], fill[1] if name in names else {}) for name, fill in fills.items()]
    crossed = blend_fills(trials.visible, tried, cell_weights, Domain.of(trials.visible))
    seconds = sum(scores[name].seconds for name in names)
    filler, expected = trials.calibrate(
        BlendedFiller({name: fit(name) for name in names}, blend),
        crossed,
        replace(scores[names[0]], method=COMBINED, seconds=seconds),
    )
    return Selection(
        filler,
        names[0],
        expected,
        scores=tuple(scores.values()),
        blend=blend,
        networks=trials.networks,
    )


def _reasons(selection: Selection, *, at_sites: bool) -> Iterator[str]:
    expected, blend = selection.expected, selection.blend
    if expected is None or len(selection.scores) < 2:
        return
    errors = {score.method: score.errors.overall()["mae"] for score in selection.scores}
    if blend is None:
        del errors[selection.best]
    others = ", ".join(f"{name} {format_number(error)}" for name, error in errors.items())
    names = selection.best if blend is None else ", ".join(blend.used)
    where = " for sites without a sensor" if at_sites else ""
    error = format_number(expected.errors.overall()["mae"])
    unit = expected.unit and f" {expected.unit}"
    yield (
        f"{'chose' if blend is None else 'combined'} {names}{where}: error {error}{unit} on "
        f"{format_count(expected.hidden, 'cell')} hidden for the choice ({others})"
    )
    if blend is not None:
        measurements: dict[str, list[str]] = {}
        for name in blend.measurements:
            measurements.setdefault(blend.describe(name), []).append(name)
        for text, group in measurements.items():
            yield f"weights for {', '.join(group)}: {text}"
    if selection.best != defaults.NETWORK:
        yield f"{defaults.NETWORK} may do better with more time: --minutes N"


def cells_to_validate_on(
    cube: xr.DataArray, message: Message, *, stations: bool = False
) -> xr.DataArray | None:
    """A tenth of the measured cells in gaps like the data's own or, to know the error at new
    sites, a fifth of the stations; None, with a message, if that cannot be had."""
    if not cube.isnull().any() and not stations:
        return None
    fifth = max(1, round(cube.sizes["location"] / 5))
    try:
        return hidden_cells(cube, f"stations:{fifth}" if stations else defaults.HIDE, seed=0)
    except ConfigError as reason:
        message(f"no error could be measured: {reason}")
        return None
