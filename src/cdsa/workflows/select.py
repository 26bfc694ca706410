"""Which method fills a cube: candidates are tried on the same hidden cells, the best is kept."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd
import xarray as xr

from cdsa.core import defaults
from cdsa.core.cube import has_coordinates
from cdsa.core.metrics import LEVELS, Errors, Intervals, measure
from cdsa.core.prepare import PreparedCube
from cdsa.core.records import Value
from cdsa.core.text import format_count, format_number
from cdsa.errors import ConfigError
from cdsa.methods.base import COORDINATES, Filler, Method
from cdsa.methods.calibration import ConformalFiller, cross_fitted_bounds
from cdsa.methods.compose import CombinedFiller
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

CLEARLY_BETTER, MIN_HIDDEN = 0.9, 200
"""Another method is chosen for a measurement if its error there is below this share of the error
of the best method over all, on at least so many hidden cells."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The filler that was chosen, and why."""

    filler: Filler
    best: str
    """The method of most measurements."""

    expected: Score | None = None
    """Its score on cells hidden at stations."""

    reasons: tuple[str, ...] = ()
    expected_at_sites: Score | None = None
    """Its score where whole stations were hidden, if there are sites without a sensor."""

    scores: tuple[Score, ...] = ()
    """Of all methods that were tried on cells hidden at stations."""

    per_variable: Mapping[str, str] = field(default_factory=dict)
    """Measurements that another method fills, and its name."""

    networks: Mapping[str, Filler] = field(default_factory=dict)
    """The networks that were trained for the choice, by name."""

    @property
    def label(self) -> str:
        """The method, and those of some measurements: 'cdsa; mice for temp, dewp'."""
        groups: dict[str, list[str]] = {}
        for variable, method in self.per_variable.items():
            groups.setdefault(method, []).append(variable)
        others = (f"{method} for {', '.join(names)}" for method, names in groups.items())
        return "; ".join([self.best, *others])

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

    'auto' is the network or a simpler method, whichever is better; with nothing to fill, or too
    little data to try methods on, it is the simplest one.
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
            "sensor (--at). Use cdsa, dcrnn, kriging or idw"
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
        per_variable=auto and not sites,
        match_missingness=not sites,  # to the cube's own gaps; new sites have none
        run=run,
        progress=lambda name: progress(f"trying {name}"),
    )
    selection = replace(selection, reasons=tuple(_reasons(selection, at_sites=sites)))
    return _split_sites(selection, built, train, message) if sites else selection


def _split_sites(
    selection: Selection, method: Method, train: PreparedCube, message: Message
) -> Selection:
    """The selection made at hidden stations, with another filler for the stations themselves if
    that at sites does not suit short gaps or has no intervals for them."""
    names = [str(name) for name in train.cube["location"].to_numpy()]
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
        filler = CombinedFiller("location", dict.fromkeys(names, at_stations.filler), filler)
    return replace(
        at_stations, filler=filler, reasons=selection.reasons, expected_at_sites=at_sites
    )


def _usable_baselines(cube: xr.DataArray) -> list[str]:
    """The simpler methods that the network has to beat on this cube."""
    n_series = cube.sizes["location"] * cube.sizes["measurement"]
    return [
        name
        for name in defaults.BASELINES
        if info_of(name).installed
        and (has_coordinates(cube) or info_of(name).needs != COORDINATES)
        and n_series <= defaults.MAX_SERIES.get(name, n_series)
    ]


def choose(
    methods: Sequence[str | Method],
    cube: PreparedCube,
    hide: Hide = defaults.HIDE,
    *,
    per_variable: bool = False,
    match_missingness: bool = False,
    run: RunContext | None = None,
    progress: Message = lambda name: None,
) -> Selection:
    """Try methods on the same hidden cells and keep the best; with `per_variable`, another one for
    measurements at which that is clearly better. For `match_missingness` see `try_method`.

    A network that was trained for the trial also fills: it never saw the hidden cells, and
    training it again would take minutes. A simpler method is fitted again on all cells and gets
    its intervals from the trial.
    """
    hidden = hidden_cells(cube.cube, hide, seed=0)
    match_missingness = match_missingness or is_like_data(hide)
    built = {name_of(method): build_method(method) for method in methods}
    scores: dict[str, Score] = {}
    networks: dict[str, Filler] = {}
    filled_by: dict[str, tuple[xr.DataArray, Intervals | None]] = {}
    for name, method in built.items():
        progress(name)
        trial = try_method(method, cube, hidden, match_missingness=match_missingness, run=run)
        scores[name] = replace(trial.score, method=name, hide=describe_hide(hide))
        if trial.filler.trained:
            networks[name] = trial.filler
        else:  # its filler is not kept
            filled_by[name] = trial.filled, trial.intervals or None
    visible, weights = trial.visible, trial.weights  # the same in every trial
    best = best_method(list(scores.values()))
    others = better_for(list(scores.values()), best) if per_variable else {}
    fillers: dict[str, Filler] = {}
    for name in dict.fromkeys([best, *others.values()]):
        if name in networks:
            fillers[name] = networks[name]
            continue
        progress(name)
        # its intervals are calibrated on the trial, and are scored too
        filled, own = filled_by[name]
        intervals = cross_fitted_bounds(filled, cube.cube, visible, LEVELS, own)
        errors = measure(filled, cube.cube, hidden, visible, intervals, weights)
        scores[name] = replace(scores[name], errors=errors)
        filler = built[name].fit(cube, run)
        fillers[name] = ConformalFiller.fit(filler, filled, cube.cube, visible, own)
    filler = fillers[best]
    if others:
        by_variable = {variable: fillers[name] for variable, name in others.items()}
        filler = CombinedFiller("measurement", by_variable, filler)
    return Selection(
        filler,
        best,
        _combine(scores, best, others),
        scores=tuple(scores.values()),
        per_variable=others,
        networks=networks,
    )


def better_for(scores: Sequence[Score], best: str) -> dict[str, str]:
    """Measurements with enough hidden cells for which another method than the best one over all
    is clearly better, and its name."""
    tables = {score.method: score.table("measurement") for score in scores}
    of_best = tables[best]
    mae = pd.DataFrame({name: table["mae"] for name, table in tables.items()})
    mae = mae.reindex(of_best.index)
    better = mae.min(axis=1) < CLEARLY_BETTER * of_best["mae"]
    better &= of_best["cells"] >= MIN_HIDDEN
    return {str(variable): str(name) for variable, name in mae[better].idxmin(axis=1).items()}


def _combine(scores: Mapping[str, Score], best: str, others: Mapping[str, str]) -> Score:
    """The score of the best method, with the errors of others for their measurements."""
    rows = []
    for name in dict.fromkeys([best, *others.values()]):
        sums = scores[name].errors.sums
        variables = sums.index.get_level_values("measurement")
        rows.append(sums[variables.map(lambda variable: others.get(variable, best)) == name])
    return replace(scores[best], errors=Errors(pd.concat(rows)))


def _reasons(selection: Selection, *, at_sites: bool) -> Iterator[str]:
    scores = {score.method: score for score in selection.scores}
    if len(scores) < 2:
        return
    best = scores[selection.best]
    errors = {name: format_number(score.errors.overall()["mae"]) for name, score in scores.items()}
    error = errors.pop(selection.best)
    others = ", ".join(f"{name} {error}" for name, error in errors.items())
    where = " for sites without a sensor" if at_sites else ""
    unit = best.unit and f" {best.unit}"
    yield (
        f"chose {selection.best}{where}: error {error}{unit} on "
        f"{format_count(best.hidden, 'cell')} hidden for the choice ({others})"
    )
    for variable, name in selection.per_variable.items():
        error, error_of_best = (
            format_number(scores[n].table("measurement").loc[variable, "mae"])
            for n in (name, selection.best)
        )
        unit = best.units[variable] and f" {best.units[variable]}"
        yield f"{name} for {variable}: error {error}{unit}, {selection.best} {error_of_best}"
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
