"""Scoring: hide, fit, fill, measure. A method never sees what it is asked for."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core import defaults
from cdsa.core.config import override
from cdsa.core.cube import check_cube, units_of
from cdsa.core.gaps import run_lengths
from cdsa.core.masks import GivenMask, HideStrategy, LikeData, natural_gap_mask, parse_hide
from cdsa.core.metrics import (
    LEVELS,
    METRICS,
    Errors,
    Intervals,
    importance_weights,
    measure,
)
from cdsa.core.records import Value, to_json_value
from cdsa.core.splits import keep_steps, split_chronologically
from cdsa.errors import ConfigError
from cdsa.methods.base import Filler, Method, fill_and_ends
from cdsa.methods.registry import make_method

ALL = "all"


MIXED = "standard deviations"
"""The unit of errors over several measurements: each one's own standard deviation."""


Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """How one method did on one set of hidden cells."""

    method: str
    hide: str
    repeat: int
    errors: Errors
    hidden: int
    """Cells that were hidden."""

    unanswered: int
    """Hidden cells that the method left open."""

    longest: int
    """Steps of the longest gap with a hidden cell in it."""

    units: dict[str, str]
    seconds: float

    def __repr__(self) -> str:
        mae = self.errors.overall()["mae"]
        return f"<Score {self.method}: MAE {mae:.3g} {self.unit} on {self.hidden} hidden cells>"

    @property
    def unit(self) -> str:
        """The unit of the error over everything."""
        scored = self.errors.sums.index.get_level_values("measurement").unique()
        return (
            MIXED if len(scored) > 1 else self.units.get(str(scored[0]), "") if len(scored) else ""
        )

    def table(self, by: str | None = None) -> pd.DataFrame:
        """Figures per 'measurement', 'location' or 'gap' (length); over everything without `by`."""
        return self.errors.overall().to_frame(ALL).T if by is None else self.errors.by(by)

    def records(self, by: str = "measurement") -> list[dict[str, Value]]:
        """Flat records, one per measurement and, with several, one more over all of them, called
        'all'. With `by` 'location' or 'gap', one per location or class of gap length instead."""
        rows = [(str(name), figures, False) for name, figures in self.errors.by(by).iterrows()]
        if len(rows) != 1:
            rows.append((ALL, self.errors.overall(), True))
        own = by == "measurement"
        return [
            {
                "method": self.method,
                by: name,
                "hide": self.hide,
                "repeat": self.repeat,
                **{figure: to_json_value(float(figures[figure])) for figure in METRICS},
                "unit": self.units.get(name, "") if own and not overall else self.unit,
                "cells": int(figures["cells"]),
                "overall": overall,
                "seconds": round(self.seconds, 3),
            }
            for name, figures, overall in rows
        ]


def score(
    method: str | Method,
    cube: xr.DataArray,
    hide: str | HideStrategy | xr.DataArray = defaults.HIDE,
    *,
    seed: int = 0,
    test: float | None = None,
    minutes: float | None = None,
) -> Score:
    """How well a method gives back measured cells that were hidden from it.

    The same `seed` hides the same cells from every method. With `test`, the method learns from the
    first part of the time only and is asked about the last part, of that share. `minutes` is the
    time a network may learn for.
    """
    name, made = make_method(method)
    trial = try_method(within(made, minutes), cube, hide, seed=seed, test=test)
    return replace(trial.score, method=name)


def within(method: Method, minutes: float | None) -> Method:
    """The same method with so many minutes to learn in."""
    if minutes is None:
        return method
    if not hasattr(method, "train"):
        raise ConfigError("minutes are for methods that train a network, and this one does not")
    return override(method, ["train.epochs=none", f"train.minutes={minutes}"])


@dataclass(frozen=True, eq=False)
class Trial:
    """A method tried on hidden cells: its score, what it learnt, what it saw and made of it."""

    score: Score
    filler: Filler
    visible: xr.DataArray
    filled: xr.DataArray
    alike: bool
    """Whether hidden cells count in proportion to what is missing."""


def try_method(
    method: str | Method,
    cube: xr.DataArray,
    hide: str | HideStrategy | xr.DataArray = defaults.HIDE,
    *,
    seed: int = 0,
    test: float | None = None,
    alike: bool = False,
) -> Trial:
    """Hide, let the method learn from the rest and fill it, and measure. If what is hidden is meant
    to be `alike` to what is missing, as the cube's own gaps are, it is counted in proportion."""
    check_cube(cube)
    if test is not None and not 0 < test < 1:
        raise ConfigError(f"the test share lies between 0 and 1, but found {test:g}")
    name, made = make_method(method)
    hidden = hidden_cells(cube, hide, seed=seed, test=test)
    visible = cube.where(~hidden)  # from here on the hidden values exist in `cube` alone
    learnt_from = visible
    if test is not None:
        part = split_chronologically(cube, test=test)
        learnt_from, visible = keep_steps(visible, part.train), visible.isel(time=part.test)
    start = time.perf_counter()
    filler = made.fit(learnt_from)
    filled, ends = fill_and_ends(filler, visible, LEVELS)
    seconds = time.perf_counter() - start
    truth, asked = cube.sel(time=visible["time"]), hidden.sel(time=visible["time"])
    alike = alike or _own(hide)
    errors = _errors(filled, truth, asked, visible, ends, alike=alike)
    scored = Score(
        method=name,
        hide=_name_of(hide),
        repeat=0,
        errors=errors,
        hidden=int(asked.sum()),
        unanswered=int((asked & filled.isnull()).sum()),
        longest=int(run_lengths(visible.isnull().to_numpy())[asked.to_numpy()].max(initial=0)),
        units=units_of(cube),
        seconds=seconds,
    )
    return Trial(scored, filler, visible, filled, alike)


def _errors(
    filled: xr.DataArray,
    truth: xr.DataArray,
    asked: xr.DataArray,
    visible: xr.DataArray,
    ends: Intervals,
    *,
    alike: bool,
) -> Errors:
    """Errors on hidden cells. Those that are to be alike to what is missing are counted so."""
    weight = importance_weights([(asked, visible)], natural_gap_mask(truth))[0] if alike else None
    return measure(filled, truth, asked, visible, ends, weight)


def hidden_cells(
    cube: xr.DataArray,
    hide: str | HideStrategy | xr.DataArray,
    *,
    seed: int,
    test: float | None = None,
) -> xr.DataArray:
    """The cells to hide, the same for every method; with `test` in the last part of time only."""
    rng = np.random.default_rng(seed)
    way: HideStrategy = GivenMask(hidden=hide) if isinstance(hide, xr.DataArray) else _way(hide)
    if test is None:
        hidden = way(cube, rng)
    else:
        late = split_chronologically(cube, test=test).test
        if late.sum() < 1:
            raise ConfigError(f"a test share of {test:g} leaves no time step to test on")
        hidden = way(cube.isel(time=late), rng).reindex_like(cube, fill_value=False).astype(bool)
    if not hidden.any():
        raise ConfigError("nothing could be hidden: there are too few measured cells to score on")
    return hidden


def _name_of(hide: str | HideStrategy | xr.DataArray) -> str:
    if isinstance(hide, str):
        return hide
    return "given" if isinstance(hide, xr.DataArray) else type(hide).__name__.lower()


def _own(hide: str | HideStrategy | xr.DataArray) -> bool:
    """Whether the gaps that are hidden are those of the table itself."""
    return not isinstance(hide, xr.DataArray) and isinstance(_way(hide), LikeData)


def _way(hide: str | HideStrategy) -> HideStrategy:
    return parse_hide(hide) if isinstance(hide, str) else hide


def compare(
    methods: Sequence[str | Method],
    cube: xr.DataArray,
    hide: str | HideStrategy = defaults.HIDE,
    *,
    repeats: int = 1,
    seed: int = 0,
    test: float | None = None,
    progress: Progress = lambda what: None,
) -> Iterator[Score]:
    """Score several methods on the same hidden cells, `repeats` times with other cells hidden."""
    if repeats < 1:
        raise ConfigError(f"methods are scored at least once, but {repeats} repeats were asked for")
    made = [make_method(method) for method in methods]  # a misspelt one is answered before any work
    for repeat in range(repeats):
        for name, method in made:
            progress(name)
            scored = score(method, cube, hide, seed=seed + repeat, test=test)
            yield replace(scored, method=name, repeat=repeat)


def summarise(scores: Sequence[Score], by: str = "measurement") -> pd.DataFrame:
    """One row per method and measurement (or location, or gap class), and per method over all: the
    mean of each figure over repeats, the standard deviation of the MAE as `spread`, and whether it
    is the best."""
    records = pd.DataFrame([record for scored in scores for record in scored.records(by)])
    figures = [*METRICS, "seconds"]
    records[figures] = records[figures].astype(float)
    groups = records.groupby([by, "overall", "method"], sort=False)
    table = groups[figures].mean()
    table["unit"] = groups["unit"].first()
    table["cells"] = groups["cells"].mean()
    table["spread"] = groups["mae"].std()
    best = table.groupby(level=[by, "overall"])["mae"].transform("min")
    table["best"] = table["mae"] <= best
    return table.reset_index()


def best_method(scores: Sequence[Score]) -> str:
    """The method with the least error over everything."""
    table = summarise(scores)
    whole = table[table["overall"]] if table["overall"].any() else table
    return str(whole.sort_values("mae", kind="stable")["method"].iloc[0])
