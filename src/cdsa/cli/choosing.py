"""What fills a table: the method that was named, or what 'auto' comes to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from cdsa import defaults
from cdsa.cli import show
from cdsa.cli.progress import training
from cdsa.cli.training import Training, make_trained
from cdsa.cli.work import command_line
from cdsa.errors import ConfigError
from cdsa.filling import count_sources
from cdsa.method import Filler, Method, info_of
from cdsa.method.parted import ByMeasurement, ByPlace
from cdsa.results import Value, plain
from cdsa.scoring import (
    Choice,
    Score,
    candidates,
    choose,
    hidden_cells,
    in_words,
)
from cdsa.sources.files import Source

if TYPE_CHECKING:
    pass


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


def chosen(
    name: str,
    learnt_from: xr.DataArray,
    cube: xr.DataArray,
    options: Training,
    *,
    check: bool,
) -> Chosen:
    """What the method of this name has learnt, and the error to expect; 'auto' tries the default
    network and simpler methods on the same hidden cells, takes the best and says why. With nothing
    to fill, or too little to try methods on, it takes the simplest."""
    auto, more = name == defaults.AUTO, cube.sizes["location"] > learnt_from.sizes["location"]
    few = int(cube.notnull().sum()) < defaults.LEAST_CELLS
    hidden = cells_to_check_on(learnt_from, stations=more) if check else None
    if auto and (few or not cube.isnull().any() or (check and hidden is None)):
        name, auto = defaults.SIMPLER[0], False
        if few and cube.isnull().any():
            show.note(
                f"fewer than {defaults.LEAST_CELLS} measured cells are too few for a network: "
                f"filling with {name}"
            )
    wanted = defaults.NETWORK if auto else name
    network, at_stations = info_of(wanted).trains, None
    with training(options, active=network) as run:
        made = make_trained(wanted, options if network else {}, run=run)
        label = str(getattr(made, "label", wanted))
        quiet = "" if network else f"filling with {label}"
        with show.busy(quiet, quiet=network):
            if hidden is None:
                return Chosen(made.fit(learnt_from), label, None)
            rivals: list[str | Method] = candidates(learnt_from, made)
            rivals = [made, defaults.NEARBY] if more else rivals
            tried = rivals if auto else [made]
            choice = choose(tried, learnt_from, hidden, parted=auto and not more)
            if more and not network:  # what holds for a place does not for a gap, and it is quick
                gaps = cells_to_check_on(learnt_from)
                at_stations = None if gaps is None else choose([made], learnt_from, gaps)
    scores = {scored.method: scored for scored in choice.scores}
    filler, best, score_of_best = choice.filler, choice.best, scores[choice.best]
    told = tuple(_reasons(scores, choice, at_places=more))
    if not more:
        return Chosen(filler, best, choice.expected, told, scores=choice.scores, parts=choice.parts)
    if auto and best != label:  # a neighbour's mean is no way to fill a short gap
        names = tuple(str(name) for name in learnt_from["location"].to_numpy())
        own = choice.networks[label]
        filler = ByPlace(own, filler, names)  # type: ignore[arg-type]
        best = f"{label}, {best} at places"
    if at_stations is not None:
        names = tuple(str(name) for name in learnt_from["location"].to_numpy())
        filler = ByPlace(at_stations.filler, filler, names)  # type: ignore[arg-type]
        return Chosen(filler, best, at_stations.scores[0], told, score_of_best, at_stations.scores)
    return Chosen(filler, best, None, told, score_of_best)


def _reasons(scores: Mapping[str, Score], choice: Choice, *, at_places: bool) -> Iterator[str]:
    """Why a method was chosen, if there was a choice."""
    if len(scores) < 2:
        return
    errors = {name: scored.errors.overall()["mae"] for name, scored in scores.items()}
    others = ", ".join(
        f"{name} {show.number(error)}" for name, error in errors.items() if name != choice.best
    )
    best = scores[choice.best]
    where = " for places without a sensor" if at_places else ""
    yield (
        f"chose {choice.best}{where}: error {show.number(errors[choice.best])}"
        f"{best.unit and ' ' + best.unit} on {show.several(best.hidden, 'cell')} hidden for the "
        f"choice ({others})"
    )
    for kind, name in choice.parts.items():
        ours, theirs = (
            scores[n].table("measurement").loc[kind, "mae"] for n in (name, choice.best)
        )
        unit = best.units[kind] and f" {best.units[kind]}"
        off = f"error {show.number(ours)}{unit}, {choice.best} {show.number(theirs)}"
        yield f"{name} for {kind}: {off}"
    if choice.best != defaults.NETWORK:
        yield f"{defaults.NETWORK} may do better with more time: --minutes N"


def cells_to_check_on(cube: xr.DataArray, *, stations: bool = False) -> xr.DataArray | None:
    """A tenth of what is there in bursts or, to know of places without a sensor, a fifth of the
    stations; None, with a word, if that cannot be had."""
    if not cube.isnull().any() and not stations:
        return None
    fifth = max(1, round(cube.sizes["location"] / 5))
    try:
        return hidden_cells(cube, f"stations:{fifth}" if stations else defaults.HIDE, seed=0)
    except ConfigError as reason:
        show.note(f"no error could be measured: {reason}")
        return None


def main_part(filler: Filler) -> Filler:
    """The filler of most of a cube."""
    return filler.own if isinstance(filler, ByPlace | ByMeasurement) else filler


def fill_records(result: xr.Dataset, choice: Chosen) -> list[dict[str, Value]]:
    """Flat records of a fill, one per measurement; errors from the check, or from a network. Those
    at places without a sensor are told apart."""
    elsewhere, expected = choice.elsewhere, choice.expected
    at_places = elsewhere.table("measurement")["mae"] if elsewhere else pd.Series(dtype=float)
    figures = pd.DataFrame(choice.errors, columns=["measurement", "mae", "rmse"])
    figures = expected.table("measurement") if expected else figures.set_index("measurement")
    records: list[dict[str, Value]] = []
    for name, counts in count_sources(result).items():
        method = choice.parts.get(name, choice.best)
        record: dict[str, Value] = {"measurement": name, "method": method, **counts}
        for figure in ("mae", "rmse"):
            known = name in figures.index
            record[f"expected_{figure}"] = plain(figures.loc[name, figure]) if known else None
        if elsewhere:
            record["expected_mae_at_places"] = plain(at_places.get(name, np.nan))
        records.append(record)
    return records


def report_of(source: Source, result: xr.Dataset, choice: Chosen) -> str:
    """The report of a fill, as one page."""
    from cdsa.config import to_plain
    from cdsa.reporting import Story, render

    made = getattr(main_part(choice.filler), "method", None)
    story = Story(
        name=Path(source.name).name,
        cube=source.cube,
        result=result,
        clock=source.content.clock,
        method=choice.best,
        parts=choice.parts,
        expected=choice.expected,
        scores=choice.scores,
        errors=choice.errors,
        told=choice.told,
        settings={} if made is None else to_plain(made),
        command=command_line(),
    )
    return render(story)


def refuse_report(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a report that could not be written, before any work is done for it."""
    from importlib.util import find_spec

    from cdsa.sources.write import check_file

    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"a report is a page: --report report.html, but found '{path}'")
    if find_spec("matplotlib") is None:
        raise ConfigError("a report has pictures, which need matplotlib: pip install 'cdsa[plot]'")
    check_file(path, overwrite=overwrite)
