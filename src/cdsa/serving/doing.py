"""What a job does: fill or forecast a table, and leave files behind that can be fetched.

The same functions as on the command line, in the same order.
"""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from cdsa import defaults, notes
from cdsa.choosing import Chosen, carry_out, forecast_errors, main_part, plan
from cdsa.config import override
from cdsa.cube import SOURCES
from cdsa.errors import ConfigError, TableError
from cdsa.filling import (
    check_share,
    fill_records,
    fill_with,
    forecast_records,
    forecast_with,
    split_known,
)
from cdsa.masks import read_hide
from cdsa.method import Method, info_of, make_method
from cdsa.scoring import compare
from cdsa.serving.jobs import Job
from cdsa.serving.limits import Limits
from cdsa.serving.shelf import Shelf, table_in
from cdsa.sources.files import Source, save_all
from cdsa.sources.options import ReadOptions
from cdsa.sources.places import PLACES, Places, read_places
from cdsa.sources.write import staged_text
from cdsa.train.run import Report, Run

ARRAYS = ("value", "lower", "upper")
OTHERWISE_MINUTES = 5.0
"""That a network trains for which does not choose by itself."""


@dataclass(frozen=True, kw_only=True)
class Fill:
    """How a table is to be filled."""

    method: str = defaults.METHOD
    minutes: float | None = None
    seed: int = 0
    interval: float = defaults.INTERVAL
    check: bool = True
    """First hide a tenth of what is there, to know the error to expect."""

    at: Places | None = None
    """Places without a sensor, to be filled too."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """How a table is to be carried forward."""

    steps: int
    method: str = defaults.FORECAST
    minutes: float | None = None
    seed: int = 0
    interval: float = defaults.INTERVAL
    known: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Which methods are to be compared, and on what."""

    methods: tuple[str, ...]
    hide: str = defaults.HIDE
    repeats: int = 1
    minutes: float | None = None
    seed: int = 0


Ask = Fill | Forecast | Compare


def refuse(ask: Ask, limits: Limits) -> None:
    """Refuse what cannot be done, before it waits in a queue."""
    minutes = ask.minutes
    if minutes is not None and not (0 < minutes <= limits.training_minutes):
        raise ConfigError(
            f"training takes more than 0 and at most {limits.training_minutes:g} minutes here, but "
            f"found {minutes:g}"
        )
    if isinstance(ask, Compare):
        read_hide(ask.hide)
        networks = sum(info_of(name).trains for name in ask.methods)
        wanted = networks * ask.repeats * (OTHERWISE_MINUTES if minutes is None else minutes)
        if wanted > limits.training_minutes:
            raise ConfigError(
                f"training takes at most {limits.training_minutes:g} minutes here, but {networks} "
                f"networks, {ask.repeats} times, would take {wanted:g}. Ask for fewer, or for "
                "fewer minutes"
            )
        return
    check_share(ask.interval)
    name = defaults.NETWORK if ask.method == defaults.AUTO else ask.method
    if isinstance(ask, Forecast) and ask.method == defaults.AUTO:
        raise ConfigError("'auto' is for filling. Name a method that forecasts, such as cdsa")
    info = info_of(name)
    task = "forecast" if isinstance(ask, Forecast) else "fill"
    if task not in info.task:
        raise ConfigError(f"'{ask.method}' does not {task}. What does: GET /api/methods")
    if isinstance(ask, Fill) and ask.at is not None and len(ask.at.names) > limits.places:
        raise ConfigError(
            f"{limits.places:,} places may be filled at a time here, but found "
            f"{len(ask.at.names):,}. Ask for some of them, or use the command line"
        )
    _made(ask, name, Run())


def places_in(text: str) -> Places:
    """The places of a small table that was sent as text."""
    return read_places(table_in(text, PLACES), ReadOptions(), PLACES)


def places_of(job: Job) -> Places | None:
    """Places without a sensor that a job fills too, if there are any."""
    return job.ask.at if isinstance(job.ask, Fill) else None


def source_of(job: Job, shelf: Shelf) -> Source:
    """The table of a job, with the places it fills too."""
    source, places = shelf.source(job.held), places_of(job)
    if places is None:
        return source
    steps, stations, measurements = source.cube.shape
    cells = steps * (stations + len(places.names)) * measurements
    if cells > shelf.limits.cells:
        raise TableError(
            f"a table may have {shelf.limits.cells:,} cells here, but with these places it has "
            f"{cells:,}. Ask for fewer places"
        )
    return source.at(places)


def do(job: Job, shelf: Shelf, limits: Limits) -> None:
    """Work off a job."""
    job.at("reading the table")
    source = shelf.source(job.held)
    if isinstance(job.ask, Fill):
        _fill(job, job.ask, source, source_of(job, shelf), limits)
    elif isinstance(job.ask, Forecast):
        _forecast(job, job.ask, source, limits)
    elif isinstance(job.ask, Compare):
        _compare(job, job.ask, source, limits)


def _fill(job: Job, ask: Fill, known: Source, source: Source, limits: Limits) -> None:
    """Learn from what is known, and fill the source, which may have more places."""
    if source is not known:
        notes.tell_far_places(known.cube, source.cube, job.told.append)
    to_do = plan(ask.method, known.cube, source.cube, check=ask.check, tell=job.told.append)
    ask = ask if info_of(to_do.method).trains else replace(ask, minutes=None)
    made = _made(ask, to_do.method, _run(job), limits, known.cube)
    if to_do.hidden is None:
        job.at(f"learning: {to_do.method}")
    choice = carry_out(to_do, made, progress=lambda name: job.at(f"trying {name}"))
    notes.tell_short_windows(main_part(choice.filler), job.told.append)
    job.told += choice.told
    job.at(f"filling with {choice.label}")
    result = fill_with(choice.filler, source.cube, interval=ask.interval)
    notes.tell_below_zero(source.cube, result, job.told.append)
    job.at("writing")
    folder = job.held.path.parent
    end = job.held.path.name.removeprefix("table")
    _leave(job, folder, source, result, end)
    _report(job, folder, source, result, choice)
    job.records = fill_records(result, choice)
    job.filler = choice.filler if hasattr(main_part(choice.filler), "explain") else None


def _forecast(job: Job, ask: Forecast, source: Source, limits: Limits) -> None:
    past, future = split_known(source.cube, ask.known)
    longer = source.ahead(ask.steps, future.sizes["time"])
    notes.tell_known(past, future, ask.known, ask.steps, job.told.append)
    made = _made(ask, ask.method, _run(job), limits, past)
    job.at(f"learning: {ask.method}")
    filler = made.fit(past)
    job.at("measuring the error")
    errors = forecast_errors(filler, made, past, ask.steps, job.told.append)
    notes.tell_short_windows(filler, job.told.append)
    if not errors:
        job.told.append(notes.NO_EXAM)
    job.at(f"foreseeing with {ask.method}")
    result = forecast_with(filler, past, ask.steps, future=future, interval=ask.interval)
    job.at("writing")
    end = job.held.path.name.removeprefix("table")
    _leave(job, job.held.path.parent, longer, result, end)
    label = str(getattr(made, "label", ask.method))
    job.records = forecast_records(result, label, ask.steps, errors)


def _compare(job: Job, ask: Compare, source: Source, limits: Limits) -> None:
    ways = [(name, info_of(name).trains) for name in ask.methods]
    made = [
        _made(ask if trains else replace(ask, minutes=None), name, _run(job), limits, source.cube)
        for name, trains in ways
    ]
    scores = compare(
        made, source.cube, ask.hide, repeats=ask.repeats, seed=ask.seed,
        progress=lambda name: job.at(f"scoring {name}"),
    )  # fmt: skip
    job.records = [record for scored in scores for record in scored.records()]


def _run(job: Job) -> Run:
    """Progress of a training, which ends if nobody wants it any more."""

    def watch(report: Report) -> None:
        job.at(f"training, step {report.step:,}", report.done)

    return Run(watch=watch)


def _made(
    ask: Ask,
    name: str,
    run: Run,
    limits: Limits | None = None,
    cube: xr.DataArray | None = None,
) -> Method:
    """The method that was asked for, as it was asked for; on this cube it trains for no longer than
    it may."""
    info, made = info_of(name), make_method(name)[1]
    if not info.trains:
        if ask.minutes is not None:
            raise ConfigError(f"minutes are for methods that train a network; '{name}' does not")
        return made
    network: Any = override(made, [f"seed={ask.seed}"])
    if ask.minutes is not None:
        network = override(network, ["train.epochs=none", f"train.minutes={ask.minutes}"])
    elif limits is not None and info.name != defaults.NETWORK:  # others know no end by themselves
        most = min(OTHERWISE_MINUTES, limits.training_minutes)
        network = override(network, [f"train.minutes={most}"])
    if isinstance(ask, Forecast):
        network = network.foreseeing(ask.steps)
        network = network.knowing(ask.known) if ask.known else network
    if limits is not None and cube is not None and info.name == defaults.NETWORK:
        chosen = network.settled(cube).train.minutes
        if chosen is not None and chosen > limits.training_minutes:
            network = override(network, [f"train.minutes={limits.training_minutes}"])
    done: Method = replace(network, run=run)
    return done


def _leave(job: Job, folder: Path, source: Source, result: xr.Dataset, end: str) -> None:
    """Files for the visitor, and arrays to answer questions from."""
    own = folder / job.id
    own.mkdir()
    filled, detail = own / f"filled{end}", own / "detail.csv"
    save_all(source, result, filled, detail=detail)
    job.files |= {"filled": filled, "detail": detail}
    for name in ARRAYS:
        if name in result:
            np.save(own / f"{name}.npy", result[name].transpose(*source.cube.dims).to_numpy())
    words = result["source"].transpose(*source.cube.dims).to_numpy()
    coded = np.zeros(words.shape, dtype=np.uint8)
    for number, word in enumerate(SOURCES):
        coded[words == word] = number
    np.save(own / "source.npy", coded)
    np.save(own / "time.npy", result["time"].to_numpy())
    job.files["arrays"] = own


def _report(job: Job, folder: Path, source: Source, result: xr.Dataset, choice: Chosen) -> None:
    """The report of a fill, if there is something to draw it with."""
    if find_spec("matplotlib") is None:
        return
    from cdsa.reporting import render, story_of

    story = story_of(source, result, choice, name=job.held.name, command="cdsa serve")
    path = folder / job.id / "report.html"
    staged_text({path: render(story)}, overwrite=True)
    job.files["report"] = path
