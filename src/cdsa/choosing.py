"""What fills a table: the method that was named, or what 'auto' comes to.

First a plan is made, which says what method is to learn and which cells are hidden to know its
error; whoever asked makes that method as he likes, and the plan is carried out with it.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import xarray as xr

from cdsa.core import defaults
from cdsa.core.records import Value
from cdsa.core.text import number, several
from cdsa.errors import ConfigError
from cdsa.methods.base import Filler, Method
from cdsa.methods.compose import ByMeasurement, ByPlace
from cdsa.methods.registry import info_of
from cdsa.scoring import Choice, Score, candidates, choose, hidden_cells, in_words, score

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
    few = int(cube.notnull().sum()) < defaults.LEAST_CELLS
    if not auto and (needed := info_of(name).stations) > learnt_from.sizes["location"]:
        tell(
            f"{name} needs {needed} stations, but there are {learnt_from.sizes['location']}: where "
            "too few report, straight lines are drawn instead"
        )
    hidden = cells_to_check_on(learnt_from, tell, stations=more) if check else None
    if auto and (few or not cube.isnull().any() or (check and hidden is None)):
        name, auto = defaults.SIMPLER[0], False
        if few and cube.isnull().any():
            tell(
                f"fewer than {defaults.LEAST_CELLS} measured cells are too few for a network: "
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
    tied = not getattr(getattr(made, "model", None), "fits_any", True)
    if plan.places and tied:
        raise ConfigError(
            f"'{label}' knows the stations it is trained on, and nothing of places without a "
            "sensor (--at). Use cdsa, dcrnn, kriging or idw"
        )
    if plan.hidden is None:
        return Chosen(made.fit(known), label, None)
    rivals: list[str | Method] = candidates(known, made)
    rivals = [made, defaults.NEARBY] if plan.places else rivals
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
        f"{name} {number(error)}" for name, error in errors.items() if name != choice.best
    )
    best = scores[choice.best]
    where = " for places without a sensor" if at_places else ""
    yield (
        f"chose {choice.best}{where}: error {number(errors[choice.best])}"
        f"{best.unit and ' ' + best.unit} on {several(best.hidden, 'cell')} hidden for the "
        f"choice ({others})"
    )
    for kind, name in choice.parts.items():
        ours, theirs = (
            scores[n].table("measurement").loc[kind, "mae"] for n in (name, choice.best)
        )
        unit = best.units[kind] and f" {best.units[kind]}"
        off = f"error {number(ours)}{unit}, {choice.best} {number(theirs)}"
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
