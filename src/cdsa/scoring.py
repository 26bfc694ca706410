"""Scoring: hide, fit, fill, measure. A method never sees what it is asked for."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.cube import check_cube, unit_of
from cdsa.errors import ConfigError
from cdsa.masks import Bursts, Given, Hide, read_hide
from cdsa.method import Method, make_method
from cdsa.metrics import FIGURES, Errors, measure
from cdsa.results import Value, plain
from cdsa.splits import only, split_in_order

ALL = "all"
Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
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

    units: dict[str, str]
    seconds: float

    def table(self, by: str | None = None) -> pd.DataFrame:
        """Figures per 'measurement', 'location' or 'gap', or all three; overall without any."""
        if by is None:
            return self.errors.overall().to_frame(ALL).T
        return self.errors.by(by)

    def records(self, by: str = "measurement") -> list[dict[str, Value]]:
        """Flat records, one per measurement; with several, one more over all, in spreads.

        With `by` 'location' or 'gap' one per location or gap class instead, over all measurements.
        """
        rows = {str(name): figures for name, figures in self.errors.by(by).iterrows()}
        several = self.errors.sums.index.get_level_values("measurement").nunique() > 1
        mixed = "spreads" if several else next(iter(self.units.values()), "")
        units = dict(self.units) if by == "measurement" else dict.fromkeys(rows, mixed)
        if len(rows) > 1:
            rows[ALL], units[ALL] = self.errors.overall(), mixed
        return [
            {
                "method": self.method,
                by: name,
                "hide": self.hide,
                "repeat": self.repeat,
                **{figure: plain(float(figures[figure])) for figure in FIGURES},
                "unit": units.get(name, ""),
                "cells": int(figures["cells"]),
                "seconds": round(self.seconds, 3),
            }
            for name, figures in rows.items()
        ]


def score(
    method: str | Method,
    cube: xr.DataArray,
    hide: str | Hide | xr.DataArray = "bursts:0.2",
    *,
    seed: int = 0,
    test: float | None = None,
) -> Score:
    """How well a method gives back measured cells that were hidden from it.

    The same `seed` hides the same cells from every method. With `test`, the method learns from the
    first part of the time only and is asked about the last part, of that share.
    """
    check_cube(cube)
    name, made = make_method(method)
    hidden = hidden_cells(cube, hide, seed=seed, test=test)
    visible = cube.where(~hidden)  # from here on the hidden values exist in `cube` alone
    learnt_from = visible
    if test is not None:
        part = split_in_order(cube, test=test)
        learnt_from, visible = only(visible, part.train), visible.isel(time=part.test)
    start = time.perf_counter()
    filled = made.fit(learnt_from).fill(visible)
    seconds = time.perf_counter() - start
    truth, asked = cube.sel(time=visible["time"]), hidden.sel(time=visible["time"])
    errors = measure(filled, truth, asked, visible)
    return Score(
        method=name,
        hide=hide if isinstance(hide, str) else type(hide).__name__.lower(),
        repeat=seed,
        errors=errors,
        hidden=int(asked.sum()),
        unanswered=int((asked & filled.isnull()).sum()),
        units=unit_of(cube),
        seconds=seconds,
    )


def hidden_cells(
    cube: xr.DataArray, hide: str | Hide | xr.DataArray, *, seed: int, test: float | None = None
) -> xr.DataArray:
    """The cells to hide, the same for every method; with `test` in the last part of time only."""
    rng = np.random.default_rng(seed)
    way: Hide = Given(hidden=hide) if isinstance(hide, xr.DataArray) else _way(hide)
    if test is None:
        hidden = way(cube, rng)
    else:
        late = split_in_order(cube, test=test).test
        if late.sum() < 1:
            raise ConfigError(f"a test share of {test:g} leaves no time step to test on")
        hidden = way(cube.isel(time=late), rng).reindex_like(cube, fill_value=False).astype(bool)
    if not hidden.any():
        raise ConfigError("nothing could be hidden: there are too few measured cells to score on")
    return hidden


def _way(hide: str | Hide) -> Hide:
    return read_hide(hide) if isinstance(hide, str) else hide


def compare(
    methods: Sequence[str | Method],
    cube: xr.DataArray,
    hide: str | Hide = "bursts:0.2",
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


def expected_error(cube: xr.DataArray, method: str | Method, *, seed: int = 0) -> Score:
    """The error to expect of filling `cube`: a tenth of what is there hidden in bursts."""
    return score(method, cube, Bursts(share=0.1), seed=seed)


def summarise(scores: Sequence[Score], by: str = "measurement") -> pd.DataFrame:
    """One row per method and measurement (or location, or gap class): the mean of each figure over
    repeats, the standard deviation of the MAE as `spread`, and whether it is the best."""
    records = pd.DataFrame([record for scored in scores for record in scored.records(by)])
    figures = [*FIGURES, "seconds"]
    records[figures] = records[figures].astype(float)
    groups = records.groupby([by, "method"], sort=False)
    table = groups[figures].mean()
    table["unit"] = groups["unit"].first()
    table["spread"] = groups["mae"].std().fillna(0.0)
    table["best"] = table["mae"] <= table.groupby(level=by)["mae"].transform("min")
    return table.reset_index()
