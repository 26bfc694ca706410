"""What commands do besides parsing and printing: choose methods, show progress, make records."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from cdsa import defaults
from cdsa.cli import show
from cdsa.cli.progress import Bar, logged, say_training, training
from cdsa.cli.training import Training, make_trained
from cdsa.cube import bounds_of, has_places
from cdsa.distances import great_circle
from cdsa.errors import ConfigError, unknown
from cdsa.filling import count_sources
from cdsa.method import GRAPH, PLACES, Filler, Method, info_of, make_method
from cdsa.method import methods as all_methods
from cdsa.method.parted import ByMeasurement, ByPlace
from cdsa.metrics import KEYS
from cdsa.results import Value, plain
from cdsa.scoring import (
    Choice,
    Score,
    candidates,
    choose,
    compare,
    hidden_cells,
    in_words,
    score,
)
from cdsa.sources.files import Source
from cdsa.train.run import Run

if TYPE_CHECKING:
    from cdsa.method.neural import NeuralFiller


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["cdsa", *sys.argv[1:]])


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


def note_far_places(cube: xr.DataArray, added: xr.DataArray) -> None:
    """Say so if a place that was added is further from all stations than they are from each
    other."""
    there = cube.sizes["location"]
    lat, lon = added["lat"].to_numpy(), added["lon"].to_numpy()
    apart = great_circle(lat, lon)
    widest = float(apart[:there, :there].max())
    for number in range(there, len(lat)):
        nearest = float(apart[number, :there].min())
        if nearest > max(widest, 1.0):
            show.note(
                f"{added['location'].to_numpy()[number]} is {nearest:,.0f} km from the nearest "
                "station, further than any two stations are from each other. Are lat and lon right?"
            )


def note_known(past: xr.DataArray, future: xr.DataArray, known: Sequence[str], steps: int) -> None:
    """Say so if what is said to be known in advance is not all there, or is there unsaid."""
    names = [str(name) for name in past["measurement"].to_numpy()]
    if known:
        ahead = future.isel(time=slice(0, steps)).sel(measurement=list(known))
        there, wanted = int(ahead.notnull().sum()), steps * past.sizes["location"] * len(known)
        if there < wanted:
            show.note(f"of {', '.join(known)}, {there:,} of {wanted:,} values ahead are known")
        return
    last = [
        int(np.flatnonzero(past[:, :, m].notnull().any("location"))[-1])
        for m in range(len(names))
        if past[:, :, m].notnull().any()
    ]
    if last and min(last) < max(last):
        late = [name for name, end in zip(names, last, strict=False) if end == max(last)]
        if len(last) == len(names):
            show.note(
                f"in the last {show.several(max(last) - min(last), 'step')} only "
                f"{', '.join(late)} has values; if they are known in advance, say --known "
                f"{','.join(late)}"
            )


def refuse_other_known(filler: "NeuralFiller", known: Sequence[str], folder: Path) -> None:
    """Refuse a network that was trained with other measurements known in advance."""
    if set(filler.method.known) != set(known):
        then = ", ".join(filler.method.known) or "nothing"
        raise ConfigError(
            f"the network in {folder} was trained with {then} known in advance. Say so alike with "
            "--known, or train one with cdsa train --forecast N --known ..."
        )


def note_short_windows(filler: object) -> None:
    """Say so if there were fewer steps than a window was to have."""
    method, network = getattr(filler, "method", None), getattr(filler, "network", None)
    if method is None:
        return
    if network is None:
        show.note("there is too little to learn from; gaps get means")
    elif network.past + network.ahead < method.steps + method.horizon:
        show.note(
            f"windows of {method.steps + method.horizon} steps were shortened to the "
            f"{network.past + network.ahead} that the table allows"
        )


def forecast_errors(
    filler: Filler, method: Method, cube: xr.DataArray, steps: int
) -> list[dict[str, Value]]:
    """The errors to expect of a forecast: those a network was examined on, else of foreseeing the
    last steps there are."""
    if hasattr(filler, "errors"):
        return list(filler.errors)
    try:
        scored = score(method, cube, f"last:{steps}")
    except ConfigError as reason:
        show.note(f"no error could be measured: {reason}")
        return []
    return [record for record in scored.records() if not record["overall"]]


def forecast_records(
    result: xr.Dataset, method: str, steps: int, errors: Sequence[dict[str, Value]]
) -> list[dict[str, Value]]:
    """Flat records of a forecast, one per measurement."""
    known = {str(error["measurement"]): error for error in errors}
    source = result["source"].to_numpy()
    return [
        {
            "measurement": str(name),
            "method": method,
            "steps": steps,
            "forecast": int((source[:, :, number] == "forecast").sum()),
            "unfillable": int((source[:, :, number] == "unfillable").sum()),
            **{f"expected_{f}": known.get(str(name), {}).get(f) for f in ("mae", "rmse")},
        }
        for number, name in enumerate(result["measurement"].to_numpy())
    ]


def training_records(filler: "NeuralFiller") -> list[dict[str, Value]]:
    """Flat records of a training, one per measurement."""
    network = filler.network
    if network is None:
        return []
    place = network.place
    common: dict[str, Value] = {
        "method": filler.method.label,
        "variables": sum(part.numel() for part in network.model.parameters()),
        "steps": place.step,
        "best_step": place.best_step,
        "seconds": round(place.seconds, 1),
        "validation": plain(place.best) if place.best is not None else None,
    }
    nothing: list[dict[str, Value]] = [{"measurement": None, "cells": 0, "mae": None}]
    return [error | common for error in filler.errors or nothing]


def main_part(filler: Filler) -> Filler:
    """The filler of most of a cube."""
    return filler.own if isinstance(filler, ByPlace | ByMeasurement) else filler


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


def note_below_zero(cube: xr.DataArray, result: xr.Dataset) -> None:
    """Say so if a measurement that was never negative has guesses or lower ends below zero."""
    low = bounds_of(cube)[0]
    told = result["lower"] if "lower" in result else result["value"]
    for m, name in enumerate(cube["measurement"].to_numpy()):
        least = float(cube[:, :, m].min())
        if not np.isfinite(low[m]) and least >= 0 and float(told[:, :, m].min()) < 0:
            show.note(
                f"{name} was never below zero, but guesses or lower ends are. If it cannot be: "
                f"--bounds {name}=0:"
            )


def usable_methods(cube: xr.DataArray) -> list[str]:
    """The default network and all methods that are quick, as far as their extras are installed and
    the cube has what they need; those left out are named."""
    missing = [info for info in all_methods() if not info.installed]
    if missing:
        absent = ", ".join(f"{info.name} (extra '{info.extra}')" for info in missing)
        show.note(f"left out, because not installed: {absent}")
    names = [
        info.name
        for info in all_methods()
        if info.installed and (not info.trains or info.name == defaults.NETWORK)
    ]
    nowhere = [name for name in names if info_of(name).needs == PLACES and not has_places(cube)]
    if nowhere:
        show.note(f"left out, because there are no coordinates: {', '.join(nowhere)}")
    few = [name for name in names if info_of(name).stations > cube.sizes["location"]]
    if few:
        show.note(f"left out, because there are too few stations: {', '.join(few)}")
    return [name for name in names if name not in (*nowhere, *few)]


def score_with_progress(
    names: Sequence[str],
    cube: xr.DataArray,
    hide: str,
    repeats: int,
    seed: int,
    test: float | None = None,
    training: Training | None = None,
) -> list[Score]:
    """Score the methods under a progress bar."""
    options = dict(training or {})
    if options and not any(info_of(name.strip()).trains for name in names):
        raise ConfigError(
            f"--{next(iter(options))} is for methods that train a network, and none is scored here"
        )
    if "graph" in options and not any(info_of(name.strip()).needs == GRAPH for name in names):
        raise ConfigError("--graph is for networks on a graph, and none is scored here")
    with Bar() as bar:
        bar.start("scoring", len(names) * repeats)
        with logged(options) as log:
            run = Run(watch=log(bar.watch), start=say_training)
            methods = [_for_score(name.strip(), options, run, hide, seed) for name in names]
            scores = []
            for scored in compare(
                methods, cube, hide, repeats=repeats, seed=seed, test=test, progress=bar.name
            ):
                scores.append(scored)
                bar.advance()
    return scores


def choose_with_progress(
    names: Sequence[str], cube: xr.DataArray, hide: str, training: Training
) -> Choice:
    """Try the methods on the same hidden cells under a progress bar, and keep the best."""
    with Bar() as bar:
        bar.start("scoring", len(names))
        run = Run(watch=bar.watch, start=say_training)
        methods = [_for_score(name, training, run, hide, 0) for name in names]

        def progress(name: str) -> None:
            if bar.named:
                bar.advance()
            bar.name(name)

        choice = choose(methods, cube, hide, progress=progress)
    return choice


def _for_score(name: str, training: Training, run: Run, hide: str, seed: int) -> Method:
    """A method to be scored: a network's own options, what it is asked for, and its seed."""
    info = info_of(name)
    kind, _, count = hide.partition(":")
    ahead = int(count) if kind == "last" and count.isdecimal() else 0
    if not info.trains:
        return make_method(name)[1]
    foresees = ahead if "forecast" in info.task else 0
    own = {key: value for key, value in training.items() if key != "graph" or info.needs == GRAPH}
    return make_trained(name, {**own, "seed": seed}, ahead=foresees, run=run)


def read_by(by: str) -> str:
    """The way of breaking errors down that the user asked for."""
    by = "location" if by == "station" else by
    if by not in KEYS:
        raise ConfigError(unknown("breakdown", by, KEYS))
    return by
