"""What golden tests pin: numbers of every method, of training and of intervals, and the surfaces.

All names of the project that golden tests need are taken here, so a renaming touches this file
only. `python tests/golden_cases.py --write` makes the golden files anew; `--only numbers`,
`--only weights` (the names of weights) or `--only surfaces` makes some of them, and `--only new`
adds the numbers of new methods and leaves all others as they are (`make golden`).
"""

import argparse
import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import threadpoolctl
import torch
import typer
import xarray as xr
from numpy.typing import NDArray
from typer import rich_utils
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.core.cube import assign_metadata, make_cube
from cdsa.core.domain import Domain
from cdsa.core.prepare import prepare
from cdsa.core.records import provenance
from cdsa.methods.base import Filler
from cdsa.methods.calibration import (
    BOUND_QUANTILES,
    UNOBSERVED,
    Calibration,
    CalibrationSet,
    ConformalFiller,
    cross_fitted_bounds,
)
from cdsa.methods.registry import REGISTRY, build_method
from cdsa.report.content import ReportContent
from cdsa.report.page import render
from cdsa.training.callbacks import RunContext
from cdsa.web.app import make_app
from cdsa.workflows.api import fill, score
from cdsa.workflows.fill import fill_levels
from cdsa.workflows.forecast import forecast_with
from cdsa.workflows.select import Selection

FOLDER = Path(__file__).parent / "golden"
COMMAND = "python tests/golden_cases.py --write"
LEVELS = (0.5, 0.9)
AHEAD = 3
SPARSE = 5
"""Of the cells with interval ends, each fifth is written down."""
NAMES = tuple(REGISTRY)
NETWORKS = tuple(name for name, info in REGISTRY.items() if info.trains)
MEASUREMENTS, ANGLES = ("pm25", "temp", "wind_dir"), (False, False, True)

Numbers = dict[str, Any]
"""Lists of numbers (null for NaN) and texts, by what they are."""


# --- the data ------------------------------------------------------------------------------------


def waves(steps: int, stations: int = 6, seed: int = 0) -> xr.DataArray:
    """Hours of a bounded and a plain measurement and a direction, a fifth missing in bursts."""
    rng = np.random.default_rng(seed)
    hour, number = np.arange(steps)[:, None], np.arange(stations)[None]
    wave, shape = np.sin((hour + number) * 2 * np.pi / 24), (steps, stations)
    values = np.stack(
        [
            np.maximum(0, 6 + 8 * wave + rng.gamma(1.0, 2.0, shape)),
            15 - 5 * wave + rng.normal(size=shape),
            (340 + 40 * wave + 15 * rng.normal(size=shape)) % 360,
        ],
        axis=-1,
    )
    while np.isnan(values).mean() < 0.2:
        first, length = rng.integers(steps), rng.integers(1, 9)
        values[first : first + length, rng.integers(stations), rng.integers(3)] = np.nan
    cube = make_cube(
        values,
        pd.date_range("2020-01-01", periods=steps, freq="h").to_numpy(),
        [f"S{n}" for n in range(stations)],
        MEASUREMENTS,
        lat=40 + np.arange(stations) / 10,
        lon=116 + np.arange(stations) * 7 % 5 / 10,
    )
    infinite = (-np.inf, np.inf)
    bounds = {"pm25": (0, np.inf), **dict.fromkeys(MEASUREMENTS[1:], infinite)}
    digits = dict.fromkeys(MEASUREMENTS, 10)  # so that no difference is rounded away
    return assign_metadata(cube, directions=["wind_dir"], bounds=bounds, digits=digits)


@cache
def short() -> xr.DataArray:
    return waves(60)


@cache
def long() -> xr.DataArray:
    return waves(104, seed=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums are added in one order, however many cores there are."""
    before = torch.get_num_threads()
    with threadpoolctl.threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def to_json_list(values: NDArray[np.float64]) -> list[float | None]:
    """Numbers as JSON holds them, to the last bit."""
    return [None if np.isnan(one) else float(one) for one in np.ravel(values)]


# --- methods -------------------------------------------------------------------------------------


def _fitted(name: str, ahead: int = 0) -> Filler:
    method = build_method(f"{name}@small" if name in NETWORKS else name, horizon=ahead)
    return method.fit(short(), RunContext(device="cpu"))


def can_forecast(name: str) -> bool:
    return REGISTRY[name].forecasts


@cache
def fillers(name: str) -> dict[str, Filler]:
    """What a method has learnt of the short cube, by task."""
    with one_thread():
        found = {"fill": _fitted(name)}
        if can_forecast(name):
            found["forecast"] = _fitted(name, AHEAD)
    return found


def weights(name: str) -> dict[str, dict[str, torch.Tensor]]:
    """The weights of a network, by task and name."""
    return {task: one.network.model.state_dict() for task, one in fillers(name).items()}


def weight_names(name: str) -> dict[str, list[str]]:
    return {task: list(parts) for task, parts in weights(name).items()}


@cache
def method_numbers(name: str) -> Numbers:
    """What a method makes of the short cube, and what its weights are without their names."""
    cube, learnt = short(), fillers(name)
    gaps, found = cube.isnull().to_numpy(), {}
    with one_thread():
        filled, ends = fill_levels(learnt["fill"], prepare(cube), LEVELS)
        found["filled"] = to_json_list(filled.to_numpy()[gaps])
        for level, (low, high) in ends.items():
            found[f"lower {level}"] = to_json_list(low.to_numpy()[gaps][::SPARSE])
            found[f"upper {level}"] = to_json_list(high.to_numpy()[gaps][::SPARSE])
        for level in LEVELS if "forecast" in learnt else ():
            ahead = forecast_with(learnt["forecast"], cube, AHEAD, interval=level)
            found["forecast"] = to_json_list(ahead["value"].to_numpy()[-AHEAD:])
            for end in {"lower", "upper"} & set(map(str, ahead)):
                found[f"forecast {end} {level}"] = to_json_list(ahead[end].to_numpy()[-AHEAD:])
    for task, parts in weights(name).items() if name in NETWORKS else ():
        found[f"weights {task} shapes"] = [list(part.shape) for part in parts.values()]
        digest = hashlib.sha256()
        for part in parts.values():
            digest.update(part.contiguous().numpy().tobytes())
        found[f"weights {task} sha256"] = digest.hexdigest()
    return dict(sorted(found.items()))


# --- training ------------------------------------------------------------------------------------


@cache
def training_numbers() -> Numbers:
    """Ten steps of the network with its default settings; epochs in the place of minutes, and a
    look after each step, so that a report tells the loss of that step alone."""
    cube, losses, errors = long(), [], []
    method: Any = build_method("cdsa")

    def watch(report: Any) -> None:
        losses.append(report.loss)
        errors.append(report.validation)

    train = replace(method.train, epochs=2, validate_every=1)
    run = RunContext(device="cpu", on_progress=watch)
    with one_thread():
        filler = replace(method, train=train).fit(cube, run)
        filled, ends = fill_levels(filler, prepare(cube), LEVELS)
    gaps = cube.isnull().to_numpy()
    found = {
        "losses": losses,
        "validation": errors,
        "filled": to_json_list(filled.to_numpy()[gaps]),
    }
    for level, (low, high) in ends.items():
        found[f"lower {level}"] = to_json_list(low.to_numpy()[gaps][::SPARSE])
        found[f"upper {level}"] = to_json_list(high.to_numpy()[gaps][::SPARSE])
    return found


# --- intervals -----------------------------------------------------------------------------------

ASKED = (0.05, 0.5, 0.83, 0.9, 0.97, 0.99)
"""Levels below, at, between and above those that are calibrated."""


@cache
def calibrated() -> Calibration:
    """Prefitted from errors that are larger in longer gaps, with few cells in some classes."""
    rng = np.random.default_rng(5)
    cells = 3000
    measurement = rng.choice(3, cells, p=[0.5, 0.3, 0.2])
    rare = UNOBSERVED - 2
    gap = rng.choice(UNOBSERVED + 1, cells, p=[0.5, 0.3, 0.1, *[0.1 / rare] * rare])
    point = rng.uniform(5, 350, cells)
    truth = point + rng.normal(size=cells) * (1 + gap) * (1 + measurement)
    wide = 2 * np.array(BOUND_QUANTILES) - 1
    direction = np.array(ANGLES)[measurement]
    answers = CalibrationSet(
        point=point,
        truth=np.where(direction, truth % 360, truth),
        bounds=point + 2 * wide[:, None] * np.ones(cells),
        location=np.arange(cells) % 4,
        measurement=measurement,
        gap_class=gap,
    )
    return Calibration.fit(answers, long(), Domain.of(long()), n_windows=7)


def _factors() -> Numbers:
    found = calibrated()
    asked = [found.level_out_of_sample(level) for level in ASKED]
    return {"factors": to_json_list(found.factors), "levels at new times": asked}


def _hidden() -> tuple[xr.DataArray, xr.DataArray]:
    """The long cube, and what is left of it when some cells are hidden."""
    cube = long()
    hidden = np.random.default_rng(6).random(cube.shape) < 0.35
    hidden |= np.roll(hidden, 1, axis=0)
    return cube, cube.where(~hidden)


def _ends_of_linear(others: bool) -> Numbers:
    """Intervals that a filler gets which has none, and those told from other times."""
    truth, visible = _hidden()
    filler = build_method("linear").fit(visible)
    filled = filler.fill(visible)
    if others:
        ends = cross_fitted_bounds(filled, truth, visible, ASKED)
    else:
        bounded = ConformalFiller.fit(filler, filled, truth, visible)
        ends = dict(zip(ASKED, bounded.fill_intervals(visible, ASKED)[1], strict=True))
    cells = (truth.notnull() & visible.isnull()).to_numpy()
    found: Numbers = {} if others else {"factors": to_json_list(bounded.calibration.factors)}
    for level, (low, high) in ends.items():
        found[f"lower {level}"] = to_json_list(low.to_numpy()[cells][::23])
        found[f"upper {level}"] = to_json_list(high.to_numpy()[cells][::23])
    return found


INTERVALS: dict[str, Callable[[], Numbers]] = {
    "calibration": _factors,
    "bounded filler": lambda: _ends_of_linear(others=False),
    "ends from others": lambda: _ends_of_linear(others=True),
}


def interval_numbers(case: str) -> Numbers:
    with one_thread():
        return INTERVALS[case]()


# --- surfaces ------------------------------------------------------------------------------------


def openapi() -> dict[str, Any]:
    """The schema of the web app; the version of the package has no part in it."""
    made = make_app()
    try:
        schema: dict[str, Any] = made.openapi()
    finally:
        made.state.services.close()
    return schema | {"info": schema["info"] | {"version": "-"}}


def helps() -> dict[str, str]:
    """The help of every command, by its words, 80 columns wide and without colours."""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*words, name))

    plain = {"MAX_WIDTH": 80, "FORCE_TERMINAL": None, "COLOR_SYSTEM": None}
    environment = {"COLUMNS": "80", "LINES": "50", "NO_COLOR": "1", "TERM": "dumb"}
    found = {}
    with mock.patch.multiple(rich_utils, **plain), mock.patch.dict(os.environ, environment):
        for forced in ("FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            os.environ.pop(forced, None)
        for words in walk(typer.main.get_command(app), ()):
            done = CliRunner().invoke(app, [*words, "--help"], prog_name="cdsa")
            assert done.exit_code == 0, done.output
            lines = (line.rstrip() for line in done.output.splitlines())
            found[" ".join(("cdsa", *words))] = "\n".join(lines).strip("\n") + "\n"
    return found


class _Headings(HTMLParser):
    """Headings, in order, and the ids of all elements."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.ids: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [f"{tag} {value}" for name, value in attrs if name == "id"]
        if tag in ("h1", "h2", "h3"):
            self.inside = tag
            self.headings.append(f"{tag} ")

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag == self.inside else self.inside

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.headings[-1] += data


def report() -> dict[str, list[str]]:
    """The headings and ids of the report of a fill with straight lines."""
    cube = short()
    with one_thread():
        own = score(cube, "linear", "bursts:0.3")
        filled = fill(cube, "linear")
        page = render(
            ReportContent(
                name="air.csv",
                cube=cube,
                result=filled,
                selection=Selection(build_method("linear").fit(cube), "linear", own),
                command="cdsa fill air.csv",
            )
        )
    parser = _Headings()
    parser.feed(page)
    return {"headings": parser.headings, "ids": parser.ids}


# --- golden files --------------------------------------------------------------------------------


def numerics() -> dict[str, str]:
    """What the last bits of a number depend on."""
    packages = ("torch", "numpy", "scipy", "scikit-learn", "statsmodels", "pykrige")
    blas = {one.get("architecture") for one in threadpoolctl.threadpool_info()} - {None}
    return {name: version(name) for name in packages} | {
        "cpu": processor(),
        "blas": ", ".join(sorted(map(str, blas))),
    }


def processor() -> str:
    """The first core and its instruction sets, by which libraries choose their routines."""
    try:
        core = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:  # not on Linux
        return platform.processor()
    varying = ("processor", "cpu MHz", "apicid", "initial apicid", "bogomips", "physical id")
    lines = [line for line in core.splitlines() if not line.startswith(varying)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
    return f"{torch.backends.cpu.get_cpu_capability()}, {digest}"


def renderers() -> dict[str, str]:
    """What the letters of a surface depend on beside our own."""
    return {name: version(name) for name in ("typer", "rich", "fastapi", "pydantic")}


def current_origin() -> dict[str, Any]:
    return provenance(COMMAND) | {"numerics": numerics(), "renderers": renderers()}


def golden(file: str) -> dict[str, Any]:
    """What is written down in a golden file."""
    found: dict[str, Any] = json.loads((FOLDER / file).read_text(encoding="utf-8"))
    return found


def golden_helps() -> dict[str, str]:
    """The help that is written down, by the words of the command."""
    parts = (FOLDER / "help.txt").read_text(encoding="utf-8").split("$ ")[1:]
    pairs = (part.partition(" --help\n") for part in parts)
    return {words: text.strip("\n") + "\n" for words, _, text in pairs}


def _line_by_line(cases: dict[str, Any], origin: dict[str, Any] | None = None) -> str:
    """JSON with a line for each entry of each case."""
    inner = {
        case: ",\n".join(f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items())
        for case, entries in cases.items()
    }
    body = ",\n".join(f"  {json.dumps(case)}: {{\n{text}\n  }}" for case, text in inner.items())
    head = json.dumps(origin or current_origin(), indent=2).replace("\n", "\n ")
    return f'{{\n "origin": {head},\n "cases": {{\n{body}\n }}\n}}\n'


def _keep(file: str, text: str) -> None:
    (FOLDER / file).write_text(text, encoding="utf-8")


def write_numbers() -> None:
    _keep("methods.json", _line_by_line({name: method_numbers(name) for name in NAMES}))
    _keep("training.json", _line_by_line({"cdsa": training_numbers()}))
    _keep("intervals.json", _line_by_line({case: interval_numbers(case) for case in INTERVALS}))


def write_new() -> None:
    known = golden("methods.json")
    cases = {name: known["cases"].get(name) or method_numbers(name) for name in NAMES}
    _keep("methods.json", _line_by_line(cases, known["origin"]))


def write_weights() -> None:
    _keep("weights.json", _line_by_line({name: weight_names(name) for name in NETWORKS}))


def write_surfaces() -> None:
    _keep("openapi.json", json.dumps(openapi(), indent=1, sort_keys=True) + "\n")
    _keep("help.txt", "\n".join(f"$ {words} --help\n{text}" for words, text in helps().items()))
    _keep("surfaces.json", _line_by_line({"report": report()}))


WRITERS = {
    "numbers": write_numbers,
    "new": write_new,
    "weights": write_weights,
    "surfaces": write_surfaces,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the golden files anew.")
    parser.add_argument("--write", action="store_true", required=True)
    parser.add_argument("--only", choices=WRITERS, action="append", help="these, not all")
    for chosen in parser.parse_args().only or WRITERS:
        WRITERS[chosen]()
