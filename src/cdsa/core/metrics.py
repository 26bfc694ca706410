"""Errors as sums that can be added; every metric is a ratio of sums.

`Errors` holds one row of sums per (measurement, location, gap class). Any breakdown is a sum of
rows, so batches and repeats combine without bias.
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

METRICS = ("mae", "rmse", "mse", "mre", "mape", "crps", "coverage", "width")

SCALED_SUMS = ("abs", "square", "abs_scalar", "truth", "pinball", "pinball_truth", "width")
"""Sums that are also kept in standard deviations, with the prefix 'z_'. 'scalar' is whatever is not
a direction."""

PLAIN_SUMS = ("cells", "weight", "relative", "nonzero", "bounded", "covered")

SUMS = [*PLAIN_SUMS, *SCALED_SUMS, *(f"z_{name}" for name in SCALED_SUMS)]

LEVELS = tuple(number / 10 for number in range(1, 10))
"""Interval levels whose bounds, with the prediction, are the 19 quantiles 0.05, 0.10 ... 0.95."""

Intervals = Mapping[float, tuple[xr.DataArray, xr.DataArray]]
"""Lower and upper bounds by interval level."""

STRATA_EDGES = (0.6, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Upper edges of strata of `bridge_variance`, for importance weights."""

MIN_CELLS = 50
"""Cells that a stratum needs to be weighted separately."""

MIN_WEIGHT = 1e-6
"""Weight of cells in strata that the missing cells do not have; their errors stay visible."""


@dataclass(frozen=True, eq=False)
class Errors:
    """Sums of errors, one row per (measurement, location, gap class)."""

    sums: pd.DataFrame

    def __add__(self, other: "Errors") -> "Errors":
        both = pd.concat([self.sums, other.sums])
        return Errors(both.groupby(level=GROUP_KEYS, sort=False, observed=True).sum())

    def by(self, *keys: str) -> pd.DataFrame:
        """Metrics per measurement, location or gap class, or any combination of them.

        Where several measurements are combined, errors are in standard deviations, because units
        cannot be added; otherwise they are in the unit of the measurement.
        """
        for key in keys:
            if key not in GROUP_KEYS:
                raise ConfigError(unknown("breakdown", key, GROUP_KEYS))
        sums = self.sums if "measurement" in keys else self._comparable()
        metrics = _metrics(sums.groupby(level=list(keys), sort=False, observed=True).sum())
        if keys == ("gap",):  # shortest first
            metrics = metrics.reindex([name for name, _ in GAP_CLASSES if name in metrics.index])
        return metrics

    def overall(self) -> pd.Series:
        """Metrics over everything; in standard deviations if there are several measurements."""
        return _metrics(self._comparable().sum().to_frame().T).iloc[0]

    def _comparable(self) -> pd.DataFrame:
        if self.sums.index.get_level_values("measurement").nunique() < 2:
            return self.sums
        return self.sums.assign(**{name: self.sums[f"z_{name}"] for name in SCALED_SUMS})


def _metrics(sums: pd.DataFrame) -> pd.DataFrame:
    """All metrics, NaN where nothing was counted; coverage and width are of the widest interval."""
    weight = sums["weight"].where(sums["weight"] > 0)
    bounded = sums["bounded"].where(sums["bounded"] > 0)
    mse = sums["square"] / weight
    return pd.DataFrame(
        {
            "cells": sums["cells"].astype(int),
            "mae": sums["abs"] / weight,
            "rmse": np.sqrt(mse),
            "mse": mse,
            "mre": sums["abs_scalar"] / sums["truth"].where(sums["truth"] > 0),
            "mape": sums["relative"] / sums["nonzero"].where(sums["nonzero"] > 0),
            "crps": sums["pinball"] / sums["pinball_truth"].where(sums["pinball_truth"] > 0),
            "coverage": sums["covered"] / bounded,
            "width": sums["width"] / bounded,
        }
    )


def importance_weights(
    trials: Sequence[tuple[xr.DataArray, xr.DataArray]], missing: xr.DataArray
) -> list[Floats]:
    """Weights (t, l, m) that make evaluated cells representative of the `missing` ones.

    Each trial has an evaluation mask and the visible cube. Hiding cells in a table with gaps makes
    longer gaps than the table has, and only their observed ends can be scored. The weights give
    each stratum of `bridge_variance` the share that it has among the missing cells, separately for
    each measurement.
    """
    eval_masks = [mask.to_numpy() for mask, _ in trials]
    strata = [_stratum(visible.isnull()) for _, visible in trials]
    target_mask, target_strata = missing.to_numpy(), _stratum(missing)
    weights = [np.ones(mask.shape) for mask in eval_masks]
    for m in range(missing.sizes["measurement"]):
        target = _count([target_strata[..., m]], [target_mask[..., m]])
        evaluated = _count([s[..., m] for s in strata], [mask[..., m] for mask in eval_masks])
        if target.sum() >= MIN_CELLS <= evaluated.sum():
            ratio = _share_ratio(target, evaluated)
            for weight, stratum in zip(weights, strata, strict=True):
                weight[..., m] = ratio[stratum[..., m]]
    return weights


def _stratum(missing: xr.DataArray) -> NDArray[np.int64]:
    return np.searchsorted(STRATA_EDGES, bridge_variance(missing.to_numpy()))


def _count(strata: Sequence[NDArray[np.int64]], masks: Sequence[Bools]) -> NDArray[np.int64]:
    cells = [stratum[mask] for stratum, mask in zip(strata, masks, strict=True)]
    return np.bincount(np.concatenate(cells), minlength=len(STRATA_EDGES) + 1)


def _share_ratio(target: NDArray[np.int64], evaluated: NDArray[np.int64]) -> Floats:
    """The target share of each stratum over its evaluated share; a stratum with few cells is
    merged with the one before."""
    group = np.zeros(len(evaluated), dtype=np.int64)
    for i in range(1, len(evaluated)):
        enough = evaluated[:i][group[:i] == group[i - 1]].sum() >= MIN_CELLS
        group[i] = group[i - 1] + (enough and evaluated[i:].sum() >= MIN_CELLS)
    target_share, share = (np.bincount(group, n) / n.sum() for n in (target, evaluated))
    ratio: Floats = np.maximum(target_share / share, MIN_WEIGHT)
    return ratio[group]


def measure(
    prediction: xr.DataArray,
    truth: xr.DataArray,
    eval_mask: xr.DataArray,
    visible: xr.DataArray,
    intervals: Intervals | None = None,
    weights: Floats | None = None,
) -> Errors:
    """Errors of `prediction` against `truth` on the cells of `eval_mask`.

    `visible` is the cube that the method saw: it gives the standard deviation of each measurement
    and the gap of each cell. Directions err by the shorter way round. Cells without a prediction
    are not counted. With `intervals` the widest one is scored too and, if they have all `LEVELS`,
    the CRPS: the mean over 19 quantiles of twice the pinball loss, over the sum of |truth|;
    directions have none. `weights` (t, l, m) are one by default.
    """
    directions = is_direction(truth)
    actual = truth.to_numpy().astype(np.float64)
    predicted = prediction.transpose(*truth.dims).to_numpy().astype(np.float64)
    cells = np.nonzero(eval_mask.to_numpy() & np.isfinite(predicted) & np.isfinite(actual))
    y, y_hat, m = actual[cells], predicted[cells], cells[2]
    error = np.where(directions[m], angle_difference(y_hat, y), y_hat - y)
    std = standard_deviations(visible)[m]
    gaps = gap_class(run_lengths(visible.isnull().to_numpy())[cells])
    scalar = ~directions[m]  # relative errors of directions are meaningless
    nonzero = (y != 0) & scalar
    sums = {
        "abs": np.abs(error),
        "square": error**2,
        "abs_scalar": np.abs(error) * scalar,
        "truth": np.abs(y) * scalar,
        **_interval_sums(intervals or {}, cells, y_hat, y, scalar),
    }
    counts = {name: sums.pop(name) for name in ("bounded", "covered")}
    rows = pd.DataFrame(
        sums
        | counts
        | {
            "weight": np.ones(len(m)),
            "relative": np.where(nonzero, np.abs(error) / np.abs(np.where(nonzero, y, 1)), 0),
            "nonzero": nonzero.astype(float),
        }
        | {f"z_{name}": s / (std**2 if name == "square" else std) for name, s in sums.items()}
    )
    cell_weights = np.ones(len(m)) if weights is None else weights[cells]
    rows = rows.mul(cell_weights, axis=0).assign(cells=1.0)
    index = pd.MultiIndex.from_arrays([m, cells[1], gaps], names=GROUP_KEYS)
    table = rows.set_index(index).groupby(level=GROUP_KEYS).sum()[SUMS]
    gap_names = np.array([name for name, _ in GAP_CLASSES])
    labels = (truth["measurement"].to_numpy(), truth["location"].to_numpy(), gap_names)
    levels = [
        names[table.index.get_level_values(key)]
        for names, key in zip(labels, GROUP_KEYS, strict=True)
    ]
    table.index = pd.MultiIndex.from_arrays(levels, names=GROUP_KEYS)
    return Errors(table)


def _interval_sums(
    intervals: Intervals,
    cells: tuple[NDArray[np.int64], ...],
    prediction: Floats,
    truth: Floats,
    scalar: Bools,
) -> dict[str, Floats]:
    """The terms of CRPS, coverage and width for each cell."""
    names = ("pinball", "pinball_truth", "width", "bounded", "covered")
    sums = dict.fromkeys(names, np.zeros(len(truth)))
    if not intervals:
        return sums
    bounds = {
        level: [bound.to_numpy()[cells] for bound in pair] for level, pair in intervals.items()
    }
    low, high = bounds[max(bounds)]
    known = np.isfinite(low) & np.isfinite(high)
    # the interval of a direction runs clockwise from its lower to its upper bound
    arc = np.where(high - low >= 360, 360.0, (high - low) % 360)
    width = np.where(scalar, high - low, arc)
    offset = np.where(scalar, truth - low, (truth - low) % 360)
    sums["bounded"] = known.astype(float)
    sums["covered"] = (known & (offset >= 0) & (offset <= width)).astype(float)
    sums["width"] = np.where(known, width, 0.0)
    if set(LEVELS) <= set(bounds):
        lower, upper = ([bounds[level][side] for level in LEVELS] for side in (0, 1))
        quantiles = np.sort(np.stack([*lower, prediction, *upper]), axis=0)
        q = np.arange(1, len(quantiles) + 1)[:, None] / (len(quantiles) + 1)
        error = truth - quantiles
        pinball = 2 * np.maximum(q * error, (q - 1) * error).mean(axis=0)
        counted = known & scalar
        sums["pinball"] = np.where(counted, pinball, 0.0)
        sums["pinball_truth"] = np.where(counted, np.abs(truth), 0.0)
    return sums


def standard_deviations(cube: xr.DataArray) -> NDArray[np.float64]:
    """The standard deviation of each measurement, on the circle for directions; 1 for constants,
    whose errors then stay in their own unit."""
    values = cube.to_numpy().astype(np.float64)
    stds = np.ones(values.shape[2])
    for m, direction in enumerate(is_direction(cube)):
        observed = values[:, :, m][np.isfinite(values[:, :, m])]
        if len(observed) == 0 or observed.min() == observed.max():
            continue
        if direction:
            radians = np.deg2rad(observed)
            center = np.rad2deg(np.arctan2(np.sin(radians).mean(), np.cos(radians).mean()))
            stds[m] = np.sqrt((angle_difference(observed, center) ** 2).mean())
        else:
            stds[m] = observed.std()
    return np.where(stds > 0, stds, 1.0)  # the square of a tiny difference may underflow
