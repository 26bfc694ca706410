"""What a job does: fill or forecast a table, and leave files behind that can be fetched.

The same functions as on the command line, in the same order.
"""

import logging
import shlex
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xarray as xr

from cdsa.core import defaults
from cdsa.core.atomic import write_texts
from cdsa.core.config import override
from cdsa.core.cube import SOURCES
from cdsa.core.masks import parse_hide
from cdsa.core.records import Value
from cdsa.errors import ConfigError
from cdsa.io.options import ReadOptions
from cdsa.io.sidecars import SITES_TABLE, Sites, parse_sites
from cdsa.io.source import Source, save_all
from cdsa.methods.base import Filler, Method
from cdsa.methods.compose import explaining
from cdsa.methods.registry import info_of, make_method
from cdsa.training.callbacks import Report, Run
from cdsa.web.jobs import Job
from cdsa.web.limits import Limits
from cdsa.web.store import Held, Shelf, open_here, table_in
from cdsa.workflows import advice
from cdsa.workflows.fill import check_share, fill_records, fill_with
from cdsa.workflows.forecast import forecast_records, forecast_with, split_known
from cdsa.workflows.score import compare
from cdsa.workflows.select import Chosen, carry_out, forecast_errors, main_part, plan

ARRAYS = ("value", "lower", "upper")


OTHERWISE_MINUTES = 5.0
"""That a network trains for which does not choose by itself."""


logger = logging.getLogger("cdsa")


@dataclass(frozen=True, kw_only=True)
class Fill:
    """How a table is to be filled."""

    method: str = defaults.METHOD
    minutes: float | None = None
    seed: int = 0
    interval: float = defaults.INTERVAL
    check: bool = True
    """First hide a tenth of what is there, to know the error to expect."""

    at: Sites | None = None
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
        parse_hide(ask.hide)
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
    _method_as_asked(ask, name)


def places_in(text: str) -> Sites:
    """The places of a small table that was sent as text."""
    return parse_sites(table_in(text, SITES_TABLE), ReadOptions(), SITES_TABLE)


def places_of(job: Job) -> Sites | None:
    """Places without a sensor that a job fills too, if there are any."""
    return job.ask.at if isinstance(job.ask, Fill) else None


def source_of(job: Job, shelf: Shelf) -> Source:
    """The table of a job, with the places it fills too."""
    source, places = shelf.source(job.held, job.reading), places_of(job)
    return source if places is None else source.with_sites(places)


class Teller(Protocol):
    """Who is told how far a job is."""

    def at(self, words: str, share: float | None = None) -> None:
        """What is going on, and how much of it is done."""

    def tell(self, line: str) -> None:
        """What a visitor should know."""


@dataclass(frozen=True)
class Task:
    """A job as it is handed to another process."""

    held: Held
    ask: Ask
    folder: Path
    """Where what comes out is left."""

    limits: Limits


@dataclass(frozen=True, eq=False)
class Outcome:
    """What comes back."""

    records: list[dict[str, Value]]
    files: dict[str, Path] = field(default_factory=dict)
    filler: Filler | None = None
    """What explains values, if something can."""


def task_of(job: Job, limits: Limits) -> Task:
    """The job, with its table as it was read when it was asked for."""
    assert isinstance(job.ask, Ask)
    return Task(replace(job.held, reading=job.reading), job.ask, job.folder, limits)


def do(task: Task, teller: Teller) -> Outcome:
    """Work off a job."""
    teller.at("reading the table")
    source = open_here(task.held, task.held.reading, task.limits)
    match task.ask:
        case Fill():
            return _fill(task, task.ask, source, teller)
        case Forecast():
            return _forecast(task, task.ask, source, teller)
        case Compare():
            return _compare(task, task.ask, source, teller)


def _refuse_more_cells(
    cube: xr.DataArray, limits: Limits, *, steps: int = 0, places: int = 0
) -> None:
    """Refuse what would make a table larger than one may be."""
    there, stations, measurements = cube.shape
    cells = (there + steps) * (stations + places) * measurements
    if cells > limits.cells:
        raise ConfigError(
            f"a table may have {limits.cells:,} cells here, but this one would have {cells:,}. Ask "
            "for less, or use the command line"
        )


def _fill(task: Task, ask: Fill, known: Source, teller: Teller) -> Outcome:
    """Learn from what is known, and fill that and the places that were asked for."""
    source = known
    if ask.at is not None:
        _refuse_more_cells(known.cube, task.limits, places=len(ask.at.names))
        source = known.with_sites(ask.at)
        advice.tell_far_places(known.cube, source.cube, teller.tell)
    to_do = plan(ask.method, known.cube, source.cube, check=ask.check, tell=teller.tell)
    ask = ask if info_of(to_do.method).trains else replace(ask, minutes=None)
    made = _method_for(ask, to_do.method, known.cube, task.limits, teller)
    if to_do.hidden is None:
        teller.at(f"learning: {to_do.method}")
    choice = carry_out(to_do, made, progress=lambda name: teller.at(f"trying {name}"))
    advice.tell_short_windows(main_part(choice.filler), teller.tell)
    for line in choice.told:
        teller.tell(line)
    teller.at(f"filling with {choice.label}")
    result = fill_with(choice.filler, source.cube, interval=ask.interval)
    advice.tell_below_zero(source.cube, result, teller.tell)
    teller.at("writing")
    files = _left(task, source, result)
    files |= _report(task, source, result, choice, teller)
    return Outcome(fill_records(result, choice), files, explaining(choice.filler))


def _forecast(task: Task, ask: Forecast, source: Source, teller: Teller) -> Outcome:
    past, future = split_known(source.cube, ask.known)
    _refuse_more_cells(past, task.limits, steps=max(ask.steps, future.sizes["time"]))
    longer = source.with_horizon(ask.steps, future.sizes["time"])
    advice.tell_known(past, future, ask.known, ask.steps, teller.tell)
    made = _method_for(ask, ask.method, past, task.limits, teller)
    teller.at(f"learning: {ask.method}")
    filler = made.fit(past)
    teller.at("measuring the error")
    errors = forecast_errors(filler, made, past, ask.steps, teller.tell)
    advice.tell_short_windows(filler, teller.tell)
    if not errors:
        teller.tell(advice.NO_EXAM)
    teller.at(f"foreseeing with {ask.method}")
    result = forecast_with(filler, past, ask.steps, future=future, interval=ask.interval)
    teller.at("writing")
    label = str(getattr(made, "label", ask.method))
    files = _left(task, longer, result)
    return Outcome(forecast_records(result, label, ask.steps, errors), files)


def _compare(task: Task, ask: Compare, source: Source, teller: Teller) -> Outcome:
    made = [
        _method_for(
            ask if info_of(name).trains else replace(ask, minutes=None),
            *(name, source.cube, task.limits, teller),
        )
        for name in ask.methods
    ]
    scores = compare(
        made, source.cube, ask.hide, repeats=ask.repeats, seed=ask.seed,
        progress=lambda name: teller.at(f"scoring {name}"),
    )  # fmt: skip
    return Outcome([record for scored in scores for record in scored.records()])


def _method_as_asked(ask: Ask, name: str) -> Method:
    """The method of this name, as it was asked for; or why it cannot be had so."""
    made = make_method(name)[1]
    if not info_of(name).trains:
        if ask.minutes is not None:
            raise ConfigError(f"minutes are for methods that train a network; '{name}' does not")
        return made
    network: Any = override(made, [f"seed={ask.seed}"])
    if ask.minutes is not None:
        network = override(network, ["train.epochs=none", f"train.minutes={ask.minutes}"])
    if isinstance(ask, Forecast):
        network = network.foreseeing(ask.steps)
        network = network.knowing(ask.known) if ask.known else network
    done: Method = network
    return done


def _method_for(ask: Ask, name: str, cube: xr.DataArray, limits: Limits, teller: Teller) -> Method:
    """The same for this cube: it trains for no longer than it may, and tells how far it is."""
    made: Any = _method_as_asked(ask, name)
    if not info_of(name).trains:
        return made  # type: ignore[no-any-return]
    own, minutes = info_of(name).name == defaults.NETWORK, ask.minutes
    if minutes is None:  # the default network chooses by the cube; others know no end by themselves
        chosen = made.settled(cube).train.minutes if own else OTHERWISE_MINUTES
        minutes = None if chosen is None else min(chosen, limits.training_minutes)
        if not own or minutes != chosen:
            made = override(made, [f"train.minutes={minutes}"])
    long = "" if minutes is None else f" for {minutes:g} min"

    def watch(report: Report) -> None:
        teller.at(f"training {name}{long}, step {report.step:,}", report.done)

    done: Method = replace(made, run=Run(watch=watch))
    return done


def _left(task: Task, source: Source, result: xr.Dataset) -> dict[str, Path]:
    """Files for the visitor, and arrays to answer questions from."""
    own, end = task.folder, task.held.path.name.removeprefix("table")
    own.mkdir()
    filled, detail = own / f"filled{end}", own / "detail.csv"
    save_all(source, result, filled, detail=detail)
    for name in ARRAYS:
        if name in result:
            np.save(own / f"{name}.npy", result[name].transpose(*source.cube.dims).to_numpy())
    words = result["source"].transpose(*source.cube.dims).to_numpy()
    coded = np.zeros(words.shape, dtype=np.uint8)
    for word in np.unique(words):
        coded[words == word] = SOURCES.index(word)
    np.save(own / "source.npy", coded)
    np.save(own / "time.npy", result["time"].to_numpy())
    return {"filled": filled, "detail": detail, "arrays": own}


def _command(task: Task) -> str:
    """What on the command line would have done the same, but for how the table is read."""
    ask, words = task.ask, ["cdsa", "fill", task.held.name]
    assert isinstance(ask, Fill)
    words += ["--method", ask.method, "--seed", str(ask.seed), "--interval", f"{ask.interval:g}"]
    words += [] if ask.minutes is None else ["--minutes", f"{ask.minutes:g}"]
    words += [] if ask.at is None else ["--at", "places.csv"]
    return shlex.join([*words, *([] if ask.check else ["--no-check"])])


def _report(
    task: Task, source: Source, result: xr.Dataset, choice: Chosen, teller: Teller
) -> dict[str, Path]:
    """The report of a fill, if it can be drawn; a fill is as good without."""
    if find_spec("matplotlib") is None:
        return {}
    from cdsa.report.content import collect
    from cdsa.report.page import render

    story = collect(source, result, choice, name=task.held.name, command=_command(task))
    path = task.folder / "report.html"
    try:
        write_texts({path: render(story)}, overwrite=True)
    except Exception:
        logger.exception("a report could not be drawn")
        teller.tell("the report could not be drawn; the table is filled all the same")
        return {}
    return {"report": path}
