"""Which method fills a cube: candidates are tried on the same hidden cells, the best is kept."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd
import xarray as xr

from cdsa.core import defaults
from cdsa.core.cube import has_coordinates
from cdsa.core.metrics import LEVELS, Errors
from cdsa.core.prepare import Cube, PreparedCube, prepare
from cdsa.core.records import Value
from cdsa.core.text import format_count, format_number
from cdsa.errors import ConfigError
from cdsa.methods.base import COORDINATES, Filler, Method
from cdsa.methods.calibration import ConformalFiller, cross_fitted_bounds
from cdsa.methods.compose import CombinedFiller
from cdsa.methods.registry import build_method, info_of, name_of
from cdsa.training.callbacks import RunContext
from cdsa.workflows.score import (
    Hide,
    Score,
    Trial,
    best_method,
    describe_hide,
    hidden_cells,
    is_like_data,
    measure_errors,
    try_method,
)

CLEARLY_BETTER, MIN_HIDDEN = 0.9, 200
"""Another method is chosen for a measurement if its error there is below this share of the error
of the best method over all, on at least so many hidden cells."""

logger = logging.getLogger("cdsa")
Message = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Selection:
    """The filler that was chosen, and why."""

    filler: Filler
    best: str
    """The method of most measurements."""

    expected: Score | None = None
    """Its score on cells hidden at stations."""

    reasons: tuple[str, ...] = ()
    """Why it was chosen, in sentences."""

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
        """The errors of a network's own validation."""
        return self.filler.primary.validation_errors


@dataclass(frozen=True, eq=False)
class SelectionPlan:
    """Which methods are to be tried on which cells."""

    method: str | Method
    auto: bool
    """Whether simpler methods are tried beside it."""

    train: PreparedCube
    sites: bool
    """Whether sites without a sensor are to be filled too."""

    hidden: xr.DataArray | None
    """The cells that the error is measured on, if it is."""

    message: Message


def make_plan(
    method: str | Method,
    train: Cube,
    cube: xr.DataArray | None = None,
    *,
    check: bool = True,
    message: Message = logger.warning,
) -> SelectionPlan:
    """How a method is fitted and validated; 'auto' is the default network beside simpler methods.

    With nothing to fill, or too little data to try methods on, 'auto' is the simplest method.
    `cube` is what will be filled, if that has more locations than `train`.
    """
    data = prepare(train)
    train = data.cube
    cube = train if cube is None else cube
    auto, sites = method == defaults.AUTO, cube.sizes["location"] > train.sizes["location"]
    few = int(cube.notnull().sum()) < defaults.MIN_CELLS
    if not auto and isinstance(method, str):
        needed, n_stations = info_of(method).min_stations, train.sizes["location"]
        if needed > n_stations:
            message(
                f"{method} needs {needed} stations, but there are {n_stations}: where too few "
                "report, gaps are interpolated in time instead"
            )
    hidden = cells_to_validate_on(train, message, stations=sites) if check else None
    if auto and (few or not cube.isnull().any() or (check and hidden is None)):
        method, auto = defaults.BASELINES[0], False
        if few and cube.isnull().any():
            message(
                f"fewer than {defaults.MIN_CELLS} measured cells are too few for a network: "
                f"filling with {method}"
            )
    chosen = defaults.NETWORK if auto else method
    return SelectionPlan(chosen, auto, data, sites, hidden, message)


def run_plan(
    plan: SelectionPlan,
    method: Method,
    *,
    run: RunContext | None = None,
    progress: Message = lambda name: None,
) -> Selection:
    """Fit the plan's method, as it was built, and the other candidates; `progress` gets the name
    of each method before it is fitted."""
    train, label = plan.train, method.label
    if plan.sites and not method.inductive:
        raise ConfigError(
            f"'{label}' only knows the stations it was trained on, not sites without a sensor "
            "(--at). Use cdsa, dcrnn, kriging or idw"
        )
    if plan.hidden is None:
        return Selection(method.fit(train, run), label)
    tried: list[str | Method] = [method]
    if plan.auto:
        tried = [method, defaults.SITE_BASELINE] if plan.sites else candidates(train.cube, method)
    selection = choose(
        tried,
        train,
        plan.hidden,
        per_variable=plan.auto and not plan.sites,
        match_missingness=not plan.sites,  # to the cube's own gaps; new sites have none
        run=run,
        progress=progress,
    )
    by_name = {score.method: score for score in selection.scores}
    reasons = tuple(_reasons(by_name, selection, at_sites=plan.sites))
    if not plan.sites:
        return replace(selection, reasons=reasons)
    names = [str(name) for name in train.cube["location"].to_numpy()]
    filler, best, at_sites = selection.filler, selection.best, by_name[selection.best]
    if plan.auto and best != label:  # the mean of neighbours is no way to fill a short gap
        network = selection.networks[label]
        filler = CombinedFiller("location", dict.fromkeys(names, network), filler)
        best = f"{label}, {best} at sites"
    if not method.trains:  # intervals at a new site do not hold in a gap; refitting is quick
        gaps = cells_to_validate_on(train.cube, plan.message)
        if gaps is not None:
            at_stations = choose([method], train, gaps, match_missingness=True)
            return Selection(
                CombinedFiller("location", dict.fromkeys(names, at_stations.filler), filler),
                best,
                at_stations.scores[0],
                reasons,
                at_sites,
                at_stations.scores,
            )
    return Selection(filler, best, None, reasons, at_sites)


def candidates(cube: xr.DataArray, network: str | Method = defaults.NETWORK) -> list[str | Method]:
    """The network, and the simpler methods that it has to beat on this cube."""
    n_series = cube.sizes["location"] * cube.sizes["measurement"]
    usable = [
        name
        for name in defaults.BASELINES
        if info_of(name).installed
        and (has_coordinates(cube) or info_of(name).needs != COORDINATES)
        and n_series <= defaults.MAX_SERIES.get(name, n_series)
    ]
    return [network, *usable]


def choose(
    methods: Sequence[str | Method],
    cube: PreparedCube,
    hide: Hide = defaults.HIDE,
    *,
    seed: int = 0,
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
    hidden = hidden_cells(cube.cube, hide, seed=seed)
    match_missingness = match_missingness or is_like_data(hide)

    def attempt(method: Method) -> Trial:
        return try_method(
            method, cube, hidden, seed=seed, match_missingness=match_missingness, run=run
        )

    built = {name_of(method): build_method(method) for method in methods}
    scores: dict[str, Score] = {}
    networks: dict[str, Filler] = {}
    best, best_trial = "", None
    for name, method in built.items():
        progress(name)
        trial = attempt(method)
        scores[name] = replace(trial.score, method=name, hide=describe_hide(hide))
        if best_method(list(scores.values())) == name:  # other fillers and cubes are let go
            best, best_trial = name, trial
        if trial.filler.trained:
            networks[name] = trial.filler
    others = better_for(list(scores.values()), best) if per_variable else {}
    fillers: dict[str, Filler] = {}
    for name in dict.fromkeys([best, *others.values()]):
        if name in networks:
            fillers[name] = networks[name]
            continue
        progress(name)
        trial = best_trial if name == best and best_trial else attempt(built[name])
        fillers[name], errors = _refit(built[name], trial, cube, run)
        scores[name] = replace(scores[name], errors=errors)
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


def _refit(
    method: Method, trial: Trial, cube: PreparedCube, run: RunContext | None
) -> tuple[Filler, Errors]:
    """The method fitted on all cells, with intervals; and its errors in the trial, with such
    intervals scored too."""
    filler = method.fit(cube, run)
    if filler.gives_intervals:
        return filler, trial.score.errors
    args = trial.filled, cube.cube, trial.visible
    eval_mask = cube.cube.notnull() & trial.visible.isnull()
    intervals = cross_fitted_bounds(*args, LEVELS)
    errors = measure_errors(
        trial.filled,
        cube.cube,
        eval_mask,
        trial.visible,
        intervals,
        match_missingness=trial.match_missingness,
    )
    return ConformalFiller.fit(filler, *args), errors


def better_for(scores: Sequence[Score], best: str) -> dict[str, str]:
    """Measurements with enough hidden cells for which another method than the best one over all
    is clearly better, and its name."""
    tables = {score.method: score.table("measurement") for score in scores}
    others: dict[str, str] = {}
    for variable, row in tables[best].iterrows():
        errors = {
            name: float(table.loc[variable, "mae"])
            for name, table in tables.items()
            if variable in table.index
        }
        name = min(errors, key=errors.__getitem__)
        if row["cells"] >= MIN_HIDDEN and errors[name] < CLEARLY_BETTER * row["mae"]:
            others[str(variable)] = name
    return others


def _combine(scores: Mapping[str, Score], best: str, others: Mapping[str, str]) -> Score:
    """The score of the best method, with the errors of others for their measurements."""
    rows = []
    for name in (best, *dict.fromkeys(others.values())):
        sums = scores[name].errors.sums
        variables = sums.index.get_level_values("measurement")
        if name == best:
            rows.append(sums[~variables.isin(list(others))])
        else:
            rows.append(sums[variables.isin([v for v, other in others.items() if other == name])])
    return replace(scores[best], errors=Errors(pd.concat(rows)))


def _reasons(scores: Mapping[str, Score], selection: Selection, *, at_sites: bool) -> Iterator[str]:
    """Why a method was chosen, if there was a choice."""
    if len(scores) < 2:
        return
    errors = {name: score.errors.overall()["mae"] for name, score in scores.items()}
    best = scores[selection.best]
    others = ", ".join(
        f"{name} {format_number(error)}" for name, error in errors.items() if name != selection.best
    )
    where = " for sites without a sensor" if at_sites else ""
    unit = best.unit and f" {best.unit}"
    yield (
        f"chose {selection.best}{where}: error {format_number(errors[selection.best])}{unit} on "
        f"{format_count(best.hidden, 'cell')} hidden for the choice ({others})"
    )
    for variable, name in selection.per_variable.items():
        error, error_of_best = (
            scores[n].table("measurement").loc[variable, "mae"] for n in (name, selection.best)
        )
        unit = best.units[variable] and f" {best.units[variable]}"
        yield (
            f"{name} for {variable}: error {format_number(error)}{unit}, {selection.best} "
            f"{format_number(error_of_best)}"
        )
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
