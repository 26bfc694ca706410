"""Which method fills a cube: methods tried on the same hidden cells, the best one kept."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd
import xarray as xr

from cdsa.core import defaults
from cdsa.core.cube import has_coordinates
from cdsa.core.masks import HideStrategy
from cdsa.core.metrics import (
    LEVELS,
    Errors,
)
from cdsa.core.records import Value
from cdsa.core.text import format_count, format_number
from cdsa.errors import ConfigError
from cdsa.methods.base import PLACES, Filler, IntervalFiller, Method
from cdsa.methods.calibration import ConformalFiller, cross_fitted_bounds
from cdsa.methods.compose import ByMeasurement, ByPlace
from cdsa.methods.registry import info_of, make_method
from cdsa.workflows.score import (
    Progress,
    Score,
    Trial,
    _errors,
    _name_of,
    _own,
    best_method,
    hidden_cells,
    score,
    try_method,
)

CLEARLY, FEW_HIDDEN = 0.9, 200
"""Another method is taken for a measurement if its error there is at most this share of that of the
best one over all, on at least so many hidden cells."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Methods tried on the same hidden cells, and what the best of them has learnt."""

    scores: tuple[Score, ...]
    """In the order they were tried."""

    best: str
    filler: Filler
    networks: Mapping[str, Filler]
    """What networks learnt that were tried, by name."""

    expected: Score
    """How what was chosen did."""

    parts: Mapping[str, str]
    """Measurements that another method is better for, and its name."""


def in_words(best: str, parts: Mapping[str, str]) -> str:
    """A method, and those that some measurements have of their own: 'cdsa; mice for temp, dewp'."""
    kinds = {name: [k for k, other in parts.items() if other == name] for name in parts.values()}
    return "; ".join([best, *(f"{name} for {', '.join(own)}" for name, own in kinds.items())])


def candidates(cube: xr.DataArray, network: str | Method = defaults.NETWORK) -> list[str | Method]:
    """The network, and the simpler methods that it has to be better than on this cube."""
    series = cube.sizes["location"] * cube.sizes["measurement"]
    fitting = [
        name
        for name in defaults.BASELINES
        if info_of(name).installed
        and (has_coordinates(cube) or info_of(name).needs != PLACES)
        and series <= defaults.MAX_SERIES.get(name, series)
    ]
    return [network, *fitting]


def choose(
    methods: Sequence[str | Method],
    cube: xr.DataArray,
    hide: str | HideStrategy | xr.DataArray = defaults.HIDE,
    *,
    seed: int = 0,
    parted: bool = False,
    alike: bool = False,
    progress: Progress = lambda what: None,
) -> Choice:
    """Try methods on the same hidden cells and keep the best; if it may be `parted`, another one
    for measurements at which that is clearly better. For `alike` see `try_method`.

    A network that was trained for the trial fills too: it never saw what was hidden, and training
    it again takes minutes. A simpler method learns again from all there is, and gets intervals from
    the trial.
    """
    hidden = hidden_cells(cube, hide, seed=seed)
    alike = alike or _own(hide)
    named = dict(make_method(method) for method in methods)
    scores: list[Score] = []
    networks: dict[str, Filler] = {}
    for name, method in named.items():
        progress(name)
        trial = try_method(method, cube, hidden, seed=seed, alike=alike)
        scores.append(replace(trial.score, method=name, hide=_name_of(hide)))
        if best_method(scores) == name:  # of the others, neither fillers nor cubes are kept
            best, kept = name, trial
        if hasattr(trial.filler, "network"):
            networks[name] = trial.filler
    parts = better_for(scores, best) if parted else {}
    fillers: dict[str, Filler] = {}
    for name in dict.fromkeys([best, *parts.values()]):
        if name in networks and getattr(networks[name], "network", None) is not None:
            fillers[name] = networks[name]
            continue
        progress(name)
        if name == best:
            trial = kept
        else:
            trial = try_method(named[name], cube, hidden, seed=seed, alike=alike)
        fillers[name], errors = _again(named[name], trial, cube)
        place = next(n for n, scored in enumerate(scores) if scored.method == name)
        scores[place] = replace(scores[place], errors=errors)
    filler = fillers[best]
    if parts:
        filler = ByMeasurement(filler, {kind: fillers[name] for kind, name in parts.items()})
    return Choice(tuple(scores), best, filler, networks, _joined(scores, best, parts), parts)


def _again(method: Method, trial: Trial, cube: xr.DataArray) -> tuple[Filler, Errors]:
    """What was tried, learnt again from all there is, with intervals; and its errors in the trial,
    where intervals like these are scored too."""
    again = method.fit(cube)
    if isinstance(again, IntervalFiller):
        return again, trial.score.errors
    seen = trial.filled, cube, trial.visible
    asked = cube.notnull() & trial.visible.isnull()
    ends = cross_fitted_bounds(*seen, LEVELS)
    errors = _errors(trial.filled, cube, asked, trial.visible, ends, alike=trial.alike)
    return ConformalFiller.fit(again, *seen), errors


def better_for(scores: Sequence[Score], best: str) -> dict[str, str]:
    """Measurements with enough hidden cells for which another method than the best one over all is
    clearly better, and its name."""
    tables = {scored.method: scored.table("measurement") for scored in scores}
    found: dict[str, str] = {}
    for kind, row in tables[best].iterrows():
        errors = {n: float(t.loc[kind, "mae"]) for n, t in tables.items() if kind in t.index}
        name = min(errors, key=lambda one: errors[one])
        if row["cells"] >= FEW_HIDDEN and errors[name] < CLEARLY * row["mae"]:
            found[str(kind)] = name
    return found


def _joined(scores: Sequence[Score], best: str, parts: Mapping[str, str]) -> Score:
    """The score of the best method, with the errors of others where they are taken instead."""
    by = {scored.method: scored for scored in scores}
    rows = []
    for name in (best, *dict.fromkeys(parts.values())):
        sums = by[name].errors.sums
        kinds = sums.index.get_level_values("measurement")
        own = [kind for kind, other in parts.items() if other == name]
        rows.append(sums[~kinds.isin(list(parts))] if name == best else sums[kinds.isin(own)])
    return replace(by[best], errors=Errors(pd.concat(rows)))


logger = logging.getLogger("cdsa")


Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be tried on a table."""

    method: str
    """The name of the method that is to learn."""

    auto: bool
    """Whether simpler methods are tried beside it."""

    learnt_from: xr.DataArray
    places: bool
    """Whether places without a sensor are to be filled too."""

    hidden: xr.DataArray | None
    """The cells that tell the error, if it is to be known."""

    tell: Tell


def plan(
    name: str,
    learnt_from: xr.DataArray,
    cube: xr.DataArray | None = None,
    *,
    check: bool = True,
    tell: Tell = logger.warning,
) -> Plan:
    """How the method of this name is to learn, and to be checked on hidden cells; 'auto' is the
    default network beside simpler methods. With nothing to fill, or too little to try methods on,
    it is the simplest. `cube` is what will be filled, if that has more places."""
    cube = learnt_from if cube is None else cube
    auto, more = name == defaults.AUTO, cube.sizes["location"] > learnt_from.sizes["location"]
    few = int(cube.notnull().sum()) < defaults.MIN_CELLS
    if not auto and (needed := info_of(name).stations) > learnt_from.sizes["location"]:
        tell(
            f"{name} needs {needed} stations, but there are {learnt_from.sizes['location']}: where "
            "too few report, straight lines are drawn instead"
        )
    hidden = cells_to_check_on(learnt_from, tell, stations=more) if check else None
    if auto and (few or not cube.isnull().any() or (check and hidden is None)):
        name, auto = defaults.BASELINES[0], False
        if few and cube.isnull().any():
            tell(
                f"fewer than {defaults.MIN_CELLS} measured cells are too few for a network: "
                f"filling with {name}"
            )
    return Plan(defaults.NETWORK if auto else name, auto, learnt_from, more, hidden, tell)


@dataclass(frozen=True, eq=False)
class Chosen:
    """What 'auto' came to."""

    filler: Filler
    best: str
    expected: Score | None
    """How it did on cells hidden at stations."""

    told: tuple[str, ...] = ()
    """Why."""

    elsewhere: Score | None = None
    """How it did where whole stations were hidden, if there are places without a sensor."""

    scores: tuple[Score, ...] = ()
    """Of all methods that were tried on cells hidden at stations."""

    parts: Mapping[str, str] = field(default_factory=dict)
    """Measurements that have a method of their own."""

    @property
    def label(self) -> str:
        """The method, and those of some measurements."""
        return in_words(self.best, self.parts)

    @property
    def errors(self) -> list[dict[str, Value]]:
        """The errors of a network's own exam, if there are any."""
        return list(getattr(main_part(self.filler), "errors", ()))


def carry_out(plan: Plan, made: Method, *, progress: Tell = lambda name: None) -> Chosen:
    """Let the plan's method, as it was made, learn; others too if they are to be tried. `progress`
    is told the name of each method before it learns."""
    known, label = plan.learnt_from, str(getattr(made, "label", plan.method))
    tied = not getattr(getattr(made, "model", None), "inductive", True)
    if plan.places and tied:
        raise ConfigError(
            f"'{label}' knows the stations it is trained on, and nothing of places without a "
            "sensor (--at). Use cdsa, dcrnn, kriging or idw"
        )
    if plan.hidden is None:
        return Chosen(made.fit(known), label, None)
    rivals: list[str | Method] = candidates(known, made)
    rivals = [made, defaults.SITE_BASELINE] if plan.places else rivals
    parted = plan.auto and not plan.places
    tried = rivals if plan.auto else [made]
    alike = not plan.places  # to the table's own gaps; places without a sensor have none
    choice = choose(tried, known, plan.hidden, parted=parted, alike=alike, progress=progress)
    scores = {scored.method: scored for scored in choice.scores}
    filler, best, score_of_best = choice.filler, choice.best, scores[choice.best]
    told = tuple(_reasons(scores, choice, at_places=plan.places))
    if not plan.places:
        return Chosen(filler, best, choice.expected, told, scores=choice.scores, parts=choice.parts)
    names = tuple(str(name) for name in known["location"].to_numpy())
    if plan.auto and best != label:  # a neighbour's mean is no way to fill a short gap
        filler = ByPlace(choice.networks[label], filler, names)  # type: ignore[arg-type]
        best = f"{label}, {best} at places"
    if not hasattr(made, "train"):  # what holds for a place does not for a gap, and it is quick
        gaps = cells_to_check_on(known, plan.tell)
        if gaps is not None:
            at_stations = choose([made], known, gaps, alike=True)
            filler = ByPlace(at_stations.filler, filler, names)  # type: ignore[arg-type]
            scores_there = at_stations.scores
            return Chosen(filler, best, scores_there[0], told, score_of_best, scores_there)
    return Chosen(filler, best, None, told, score_of_best)


def _reasons(scores: Mapping[str, Score], choice: Choice, *, at_places: bool) -> Iterator[str]:
    """Why a method was chosen, if there was a choice."""
    if len(scores) < 2:
        return
    errors = {name: scored.errors.overall()["mae"] for name, scored in scores.items()}
    others = ", ".join(
        f"{name} {format_number(error)}" for name, error in errors.items() if name != choice.best
    )
    best = scores[choice.best]
    where = " for places without a sensor" if at_places else ""
    yield (
        f"chose {choice.best}{where}: error {format_number(errors[choice.best])}"
        f"{best.unit and ' ' + best.unit} on {format_count(best.hidden, 'cell')} hidden for the "
        f"choice ({others})"
    )
    for kind, name in choice.parts.items():
        ours, theirs = (
            scores[n].table("measurement").loc[kind, "mae"] for n in (name, choice.best)
        )
        unit = best.units[kind] and f" {best.units[kind]}"
        off = f"error {format_number(ours)}{unit}, {choice.best} {format_number(theirs)}"
        yield f"{name} for {kind}: {off}"
    if choice.best != defaults.NETWORK:
        yield f"{defaults.NETWORK} may do better with more time: --minutes N"


def cells_to_check_on(
    cube: xr.DataArray, tell: Tell, *, stations: bool = False
) -> xr.DataArray | None:
    """A tenth of what is there in gaps like its own or, to know of places without a sensor, a fifth
    of the stations; None, with a word, if that cannot be had."""
    if not cube.isnull().any() and not stations:
        return None
    fifth = max(1, round(cube.sizes["location"] / 5))
    try:
        return hidden_cells(cube, f"stations:{fifth}" if stations else defaults.HIDE, seed=0)
    except ConfigError as reason:
        tell(f"no error could be measured: {reason}")
        return None


def main_part(filler: Filler) -> Filler:
    """The filler of most of a cube."""
    return filler.own if isinstance(filler, ByPlace | ByMeasurement) else filler


def forecast_errors(
    filler: Filler, method: Method, cube: xr.DataArray, steps: int, tell: Tell = logger.warning
) -> list[dict[str, Value]]:
    """The errors to expect of a forecast: those a network was examined on, else of foreseeing the
    last steps there are."""
    if hasattr(filler, "errors"):
        return list(filler.errors)
    try:
        scored = score(method, cube, f"last:{steps}")
    except ConfigError as reason:
        tell(f"no error could be measured: {reason}")
        return []
    return [record for record in scored.records() if not record["overall"]]
