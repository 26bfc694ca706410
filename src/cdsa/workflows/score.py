"""Scoring: hide, fit, fill, measure. A method never sees what it is scored on."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core import defaults
from cdsa.core.cube import units_of
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
from cdsa.core.prepare import Cube, prepare
from cdsa.core.records import Value, to_json_value
from cdsa.core.splits import keep_steps, last_steps
from cdsa.errors import ConfigError
from cdsa.methods.base import Filler, Method
from cdsa.training.callbacks import RunContext
from cdsa.workflows.fill import fill_levels

ALL = "all"
MIXED_UNITS = "standard deviations"
"""The unit of errors over several measurements: the standard deviation of each."""
Hide = str | HideStrategy | xr.DataArray
"""What is hidden: 'bursts:0.2', a strategy, or a mask."""


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """How one method did on one set of hidden cells."""

    method: str
    hide: str
    repeat: int
    errors: Errors
    hidden: int
    unfilled: int
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
        scored = self.errors.sums.index.get_level_values("measurement").unique()
        if len(scored) > 1:
            return MIXED_UNITS
        return self.units.get(str(scored[0]), "") if len(scored) else ""

    def table(self, by: str | None = None) -> pd.DataFrame:
        """Figures per 'measurement', 'location' or 'gap' (length); over everything without `by`."""
        return self.errors.overall().to_frame(ALL).T if by is None else self.errors.by(by)

    def records(self, by: str = "measurement") -> list[dict[str, Value]]:
        """Flat records, one per measurement and, with several, one more over all of them, called
        'all'. With `by` 'location' or 'gap', one per location or class of gap length instead."""
        rows = [(str(name), figures, False) for name, figures in self.errors.by(by).iterrows()]
        if len(rows) != 1:
            rows.append((ALL, self.errors.overall(), True))
        by_measurement = by == "measurement"
        return [
            {
                "method": self.method,
                by: name,
                "hide": self.hide,
                "repeat": self.repeat,
                **{figure: to_json_value(float(figures[figure])) for figure in METRICS},
                "unit": self.units.get(name, "") if by_measurement and not overall else self.unit,
                "cells": int(figures["cells"]),
                "overall": overall,
                "seconds": round(self.seconds, 3),
            }
            for name, figures, overall in rows
        ]

    def by_measurement(self) -> list[dict[str, Value]]:
        return [record for record in self.records() if not record["overall"]]


@dataclass(frozen=True, eq=False)
class Trial:
    """A method tried on hidden cells."""

    score: Score
    filler: Filler
    """The method, fitted without the hidden cells."""

    visible: xr.DataArray
    filled: xr.DataArray
    intervals: Intervals
    """By level, if the method gives any."""

    weights: NDArray[np.float64] | None
    """Weights (t, l, m) that make hidden cells like the missing ones, if they are to match."""


def try_method(
    method: Method,
    cube: Cube,
    hide: Hide = defaults.HIDE,
    *,
    seed: int = 0,
    test: float | None = None,
    match_missingness: bool = False,
    run: RunContext | None = None,
) -> Trial:
    """Hide cells, fit the method on the rest, fill, and measure.

    With `match_missingness`, hidden cells count in proportion to how similar missing cells are, so
    that the error is that of the cube's own gaps; gaps that are hidden like the data's own always
    do.
    """
    if test is not None and not 0 < test < 1:
        raise ConfigError(f"the test share lies between 0 and 1, but found {test:g}")
    data = prepare(cube)
    hidden = hidden_cells(data.cube, hide, seed=seed, test=test)
    visible = train = data.hide(hidden)  # from here on the hidden values exist in `data` only
    if test is not None:
        is_test = last_steps(data.cube, test)
        train = prepare(keep_steps(visible.cube, ~is_test), checked=True)
        visible = visible.isel(time=is_test)
    start = time.perf_counter()
    filler = method.fit(train, run)
    filled, intervals = fill_levels(filler, visible, LEVELS)
    seconds = time.perf_counter() - start
    times = visible.cube["time"]
    truth, eval_mask = data.cube.sel(time=times), hidden.sel(time=times)
    weights = None
    if match_missingness or is_like_data(hide):
        weights = importance_weights([(eval_mask, visible.cube)], natural_gap_mask(truth))[0]
    gap_lengths = run_lengths(visible.cube.isnull().to_numpy())[eval_mask.to_numpy()]
    score = Score(
        method=method.label,
        hide=describe_hide(hide),
        repeat=0,
        errors=measure(filled, truth, eval_mask, visible.cube, intervals, weights),
        hidden=int(eval_mask.sum()),
        unfilled=int((eval_mask & filled.isnull()).sum()),
        longest=int(gap_lengths.max(initial=0)),
        units=units_of(data.cube),
        seconds=seconds,
    )
    return Trial(score, filler, visible.cube, filled, intervals, weights)


def hidden_cells(
    cube: xr.DataArray, hide: Hide, *, seed: int, test: float | None = None
) -> xr.DataArray:
    """The cells to hide, the same for every method; with `test`, in the last part of the record."""
    rng = np.random.default_rng(seed)
    strategy = _strategy(hide)
    if test is None:
        hidden = strategy(cube, rng)
    else:
        late = last_steps(cube, test)
        if late.sum() < 1:
            raise ConfigError(f"a test share of {test:g} leaves no time step to test on")
        hidden = strategy(cube.isel(time=late), rng)
        hidden = hidden.reindex_like(cube, fill_value=False).astype(bool)
    if not hidden.any():
        raise ConfigError("nothing could be hidden: there are too few measured cells to score on")
    return hidden


def describe_hide(hide: Hide) -> str:
    if isinstance(hide, str):
        return hide
    return "given" if isinstance(hide, xr.DataArray) else type(hide).__name__.lower()


def is_like_data(hide: Hide) -> bool:
    return isinstance(_strategy(hide), LikeData)


def _strategy(hide: Hide) -> HideStrategy:
    if isinstance(hide, xr.DataArray):
        return GivenMask(hidden=hide)
    return parse_hide(hide) if isinstance(hide, str) else hide


def summarise(scores: Sequence[Score], by: str = "measurement") -> pd.DataFrame:
    """Summarise scores as a table.

    Parameters
    ----------
    scores
        Scores from `cdsa.compare`.
    by
        'measurement', 'location' or 'gap' (classes of gap length).

    Returns
    -------
    pandas.DataFrame
        One row per method and measurement, and one per method over all of them (`overall`): the
        mean of each figure over repeats, the standard deviation of the MAE as `spread`, and whether
        the method is the `best`.

    Examples
    --------
    >>> import cdsa
    >>> scores = cdsa.compare(cdsa.open_demo()[:200], ["linear", "mean"], "bursts:0.2")
    >>> table = cdsa.summarise(scores)
    >>> table[table["overall"] & table["best"]]["method"].tolist()
    ['linear']
    """
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
    table = table.reset_index()
    return table[["method", by, *table.columns.drop(["method", by, "overall"]), "overall"]]


def best_method(scores: Sequence[Score]) -> str:
    table = summarise(scores)
    overall = table[table["overall"]] if table["overall"].any() else table
    return str(overall.sort_values("mae", kind="stable")["method"].iloc[0])
