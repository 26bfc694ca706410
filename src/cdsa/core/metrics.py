"""Errors as sums and counts that can be added up; every figure is a ratio of sums.

`Errors` holds one row of sums per (measurement, location, gap class). Any view, the whole or by
one of the three, is a sum of rows, so batches, repeats and parts add up without bias.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import angle_difference
from cdsa.core.cube import is_direction
from cdsa.core.gaps import GAP_CLASSES, bridge_variance, gap_class, run_lengths
from cdsa.errors import ConfigError, unknown

Floats = NDArray[np.float64]


Bools = NDArray[np.bool_]


GROUP_KEYS = ["measurement", "location", "gap"]


SCALED_SUMS = ("abs", "square", "told", "truth", "pinball", "spanned", "width")
"""Sums that are kept in standard deviations too."""


PLAIN_SUMS = ("cells", "weight", "share", "nonzero", "bounded", "inside")


SUMS = [*PLAIN_SUMS, *SCALED_SUMS, *(f"z_{name}" for name in SCALED_SUMS)]


METRICS = ("mae", "rmse", "mse", "mre", "mape", "crps", "coverage", "width")


STRATA_EDGES = (0.6, 1.0, 2.0, 4.0, 8.0, 16.0)
"""How far cells are from what was measured (`bridge_variance`): ends of strata."""


MIN_CELLS = 50
"""Of a stratum, to be counted by itself."""


MIN_WEIGHT = 1e-6
"""Of cells that are as far as none should be; they can still be looked at."""


LEVELS = tuple(number / 10 for number in range(1, 10))
"""Intervals whose ends are, with the guess between them, 19 quantiles: 0.05, 0.10 ... 0.95."""


Intervals = Mapping[float, tuple[xr.DataArray, xr.DataArray]]
"""Lower and upper ends by the share that an interval promises to hold."""


@dataclass(frozen=True, eq=False)
class Errors:
    """Sums of errors, one row per (measurement, location, gap class)."""

    sums: pd.DataFrame

    def __add__(self, other: "Errors") -> "Errors":
        both = pd.concat([self.sums, other.sums])
        return Errors(both.groupby(level=GROUP_KEYS, sort=False, observed=True).sum())

    def by(self, *keys: str) -> pd.DataFrame:
        """Figures per measurement, location or gap class, or any combination of them.

        Where several measurements are thrown together, errors are divided by each one's spread
        first, because units cannot be added; else they are in the measurement's own unit.
        """
        for key in keys:
            if key not in GROUP_KEYS:
                raise ConfigError(unknown("breakdown", key, GROUP_KEYS))
        sums = self.sums if "measurement" in keys else self._comparable()
        figures = _figures(sums.groupby(level=list(keys), sort=False, observed=True).sum())
        if keys == ("gap",):  # shortest first
            figures = figures.reindex([name for name, _ in GAP_CLASSES if name in figures.index])
        return figures

    def overall(self) -> pd.Series:
        """Figures over everything; in spreads if there are several measurements."""
        return _figures(self._comparable().sum().to_frame().T).iloc[0]

    def _comparable(self) -> pd.DataFrame:
        if self.sums.index.get_level_values("measurement").nunique() < 2:
            return self.sums
        return self.sums.assign(**{name: self.sums[f"z_{name}"] for name in SCALED_SUMS})


def _figures(sums: pd.DataFrame) -> pd.DataFrame:
    """MAE, RMSE, MSE, MRE and MAPE; CRPS, and coverage and width of the widest interval. NaN where
    nothing was counted."""
    cells = sums["weight"].where(sums["weight"] > 0)
    bounded = sums["bounded"].where(sums["bounded"] > 0)
    mse = sums["square"] / cells
    return pd.DataFrame(
        {
            "cells": sums["cells"].astype(int),
            "mae": sums["abs"] / cells,
            "rmse": np.sqrt(mse),
            "mse": mse,
            "mre": sums["told"] / sums["truth"].where(sums["truth"] > 0),
            "mape": sums["share"] / sums["nonzero"].where(sums["nonzero"] > 0),
            "crps": sums["pinball"] / sums["spanned"].where(sums["spanned"] > 0),
            "coverage": sums["inside"] / bounded,
            "width": sums["width"] / bounded,
        }
    )


def importance_weights(
    trials: Sequence[tuple[xr.DataArray, xr.DataArray]], missing: xr.DataArray
) -> list[Floats]:
    """How much each cell (t, l, m) of some trials, asked cells and what was visible, must count for
    cells to be as far from what was measured as those are that are missing, `own`, measurement by
    measurement: what is hidden in a table with gaps makes longer ones than it has, and can only be
    asked for where it was measured, at their ends."""
    wanted, places = (
        missing.to_numpy(),
        np.searchsorted(STRATA_EDGES, bridge_variance(missing.to_numpy())),
    )
    asked = [each.to_numpy() for each, _ in trials]
    strata = [
        np.searchsorted(STRATA_EDGES, bridge_variance(seen.isnull().to_numpy()))
        for _, seen in trials
    ]
    weights = [np.ones(each.shape) for each in asked]
    for m in range(missing.sizes["measurement"]):
        goal = _count([places[..., m]], [wanted[..., m]])
        there = _count([each[..., m] for each in strata], [each[..., m] for each in asked])
        if goal.sum() >= MIN_CELLS <= there.sum():
            share = _proportions(goal, there)
            for weight, stratum in zip(weights, strata, strict=True):
                weight[..., m] = share[stratum[..., m]]
    return weights


def _count(strata: Sequence[NDArray[np.int64]], cells: Sequence[Bools]) -> NDArray[np.int64]:
    pairs = zip(strata, cells, strict=True)
    counts = [np.bincount(each[there], minlength=len(STRATA_EDGES) + 1) for each, there in pairs]
    total: NDArray[np.int64] = np.sum(counts, axis=0)
    return total


def _proportions(wanted: NDArray[np.int64], there: NDArray[np.int64]) -> Floats:
    """How much a cell of each stratum must count for strata to have the wanted proportions; one
    with few cells is taken with the one before."""
    group = np.zeros(len(there), dtype=np.int64)
    for place in range(1, len(there)):
        enough = there[:place][group[:place] == group[place - 1]].sum() >= MIN_CELLS
        group[place] = group[place - 1] + (enough and there[place:].sum() >= MIN_CELLS)
    goal, found = (np.bincount(group, each) / each.sum() for each in (wanted, there))
    weight: Floats = np.maximum(goal / found, MIN_WEIGHT)
    return weight[group]


def measure(
    prediction: xr.DataArray,
    truth: xr.DataArray,
    eval_mask: xr.DataArray,
    visible: xr.DataArray,
    intervals: Intervals | None = None,
    weights: Floats | None = None,
) -> Errors:
    """Errors of `guess` on the `asked` cells of `truth`; `visible` is what the method saw.

    The visible cells tell each measurement's spread and the gap each asked cell lies in. An angle's
    error is the shorter way round. Cells without a guess are not counted. With `ends` the widest
    interval is scored too and, if they are those of `LEVELS`, the CRPS: the sum over 19 quantiles
    of twice the pinball loss, a nineteenth each, over the sum of |truth|. Directions have none.
    Cells count once, or as much as their `weight` (t, l, m).
    """
    angles = is_direction(truth)
    real = truth.to_numpy().astype(np.float64)
    guessed = prediction.transpose(*truth.dims).to_numpy().astype(np.float64)
    cells = np.nonzero(eval_mask.to_numpy() & np.isfinite(guessed) & np.isfinite(real))
    wanted, found, m = real[cells], guessed[cells], cells[2]
    error = np.where(angles[m], angle_difference(found, wanted), found - wanted)
    spread = standard_deviations(visible)[m]
    gaps = gap_class(run_lengths(visible.isnull().to_numpy())[cells])
    straight = ~angles[m]  # a share of a direction says nothing
    nonzero = (wanted != 0) & straight
    sums = {
        "abs": np.abs(error),
        "square": error**2,
        "told": np.abs(error) * straight,
        "truth": np.abs(wanted) * straight,
        **_within(intervals or {}, cells, found, wanted, straight),
    }
    counts = {name: sums.pop(name) for name in ("bounded", "inside")}
    rows = pd.DataFrame(
        sums
        | counts
        | {
            "weight": np.ones(len(m)),
            "share": np.where(nonzero, np.abs(error) / np.abs(np.where(nonzero, wanted, 1)), 0),
            "nonzero": nonzero.astype(float),
        }
        | {f"z_{name}": n / (spread**2 if name == "square" else spread) for name, n in sums.items()}
    )
    rows = rows.mul(np.ones(len(m)) if weights is None else weights[cells], axis=0).assign(
        cells=1.0
    )
    numbers = pd.MultiIndex.from_arrays([m, cells[1], gaps], names=GROUP_KEYS)
    table = rows.set_index(numbers).groupby(level=GROUP_KEYS).sum()[SUMS]
    table.index = _labelled(table.index, truth)
    return Errors(table)


def _within(
    ends: Intervals,
    cells: tuple[NDArray[np.int64], ...],
    point: Floats,
    truth: Floats,
    straight: Bools,
) -> dict[str, Floats]:
    """What is summed up of intervals, cell by cell."""
    nothing = np.zeros(len(truth))
    names = ("pinball", "spanned", "width", "bounded", "inside")
    told = dict.fromkeys(names, nothing)
    if not ends:
        return told
    at = {level: [end.to_numpy()[cells] for end in pair] for level, pair in ends.items()}
    low, high = at[max(at)]
    known = np.isfinite(low) & np.isfinite(high)
    # the interval of a direction runs clockwise from its lower to its upper end
    turn = np.where(straight, high - low, np.where(high - low >= 360, 360.0, (high - low) % 360))
    along = np.where(straight, truth - low, (truth - low) % 360)
    told["bounded"] = known.astype(float)
    told["inside"] = (known & (along >= 0) & (along <= turn)).astype(float)
    told["width"] = np.where(known, turn, 0.0)
    if set(LEVELS) <= set(at):
        lower, upper = ([at[level][side] for level in LEVELS] for side in (0, 1))
        quantiles = np.sort(np.stack([*lower, point, *upper]), axis=0)
        share = np.arange(1, len(quantiles) + 1)[:, None] / (len(quantiles) + 1)
        error = truth - quantiles
        pinball = 2 * np.maximum(share * error, (share - 1) * error).mean(axis=0)
        counted = known & straight
        told["pinball"] = np.where(counted, pinball, 0.0)
        told["spanned"] = np.where(counted, np.abs(truth), 0.0)
    return told


def _labelled(index: pd.Index, cube: xr.DataArray) -> pd.MultiIndex:
    names = [str(name) for name, _ in GAP_CLASSES]
    labels = (cube["measurement"].to_numpy(), cube["location"].to_numpy(), np.array(names))
    parts = [label[index.get_level_values(k)] for label, k in zip(labels, GROUP_KEYS, strict=True)]
    return pd.MultiIndex.from_arrays(parts, names=GROUP_KEYS)


def standard_deviations(cube: xr.DataArray) -> NDArray[np.float64]:
    """Standard deviation of each measurement's cells, on the circle for angles; 1 for what never
    changes, which so counts in its own unit."""
    values = cube.to_numpy().astype(np.float64)
    spread = np.ones(values.shape[2])
    for m, angle in enumerate(is_direction(cube)):
        known = values[:, :, m][np.isfinite(values[:, :, m])]
        if len(known) == 0 or known.min() == known.max():
            continue
        if angle:
            turned = np.deg2rad(known)
            center = np.rad2deg(np.arctan2(np.sin(turned).mean(), np.cos(turned).mean()))
            spread[m] = np.sqrt((angle_difference(known, center) ** 2).mean())
        else:
            spread[m] = known.std()
    return np.where(spread > 0, spread, 1.0)  # so tiny that its square vanishes
