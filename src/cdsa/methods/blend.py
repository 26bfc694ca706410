"""Weights with which the fills of several methods are combined, fitted on hidden cells.

Letters: n hidden cells, k candidates, m measurements, g gap classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import wrap_degrees
from cdsa.core.cube import is_direction
from cdsa.core.domain import Domain
from cdsa.core.gaps import GAP_CLASSES
from cdsa.core.metrics import Intervals
from cdsa.methods.calibration import MIN_CELLS, N_FOLDS, gap_classes, pooled_classes, time_folds
from cdsa.methods.wrapper import fill_gaps

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Points = NDArray[np.complex128]
"""Values that can be averaged: directions are points of the unit circle, others are real."""
Fill = tuple[xr.DataArray, Intervals]
"""A filled cube, and its bounds by level if there are any."""

STEP, SHOWN_STEP = 0.05, 0.1
"""Weights are multiples of this, in words of the second: more digits would be noise, and tiny
weights vanish."""

MIN_WEIGHT = 0.03
"""Candidates with a smaller weight for a measurement are left out of it: few are fitted again."""

PRIOR_CELLS = 300
"""Cells that the prior counts as: with so many hidden ones, data and prior have equal say. The
prior of a gap class is the weights of its measurement, whose own prior is the best candidate."""

N_ROUNDS, SMALL = 8, 0.05
"""Least squares are reweighted so often to minimise absolute errors; a residual counts as at least
this share of their mean."""

TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Blend:
    """Weights of candidates, by measurement and gap class."""

    candidates: tuple[str, ...]
    measurements: tuple[str, ...]
    weights: Floats
    """(m, g, k); they are not negative and sum to one over the candidates."""

    n_cells: NDArray[np.int64]
    """Hidden cells, (m, g)."""

    @property
    def by_measurement(self) -> Floats:
        """Mean weights over the hidden cells, (m, k)."""
        cells = np.maximum(self.n_cells, TINY)  # without hidden cells all classes are alike
        means: Floats = np.einsum("mg, mgk -> mk", cells, self.weights) / cells.sum(1)[:, None]
        return means

    @property
    def used(self) -> tuple[str, ...]:
        """Candidates with a weight, the largest first."""
        order = np.argsort(-self.by_measurement.mean(0), kind="stable")
        return tuple(self.candidates[k] for k in order if self.weights[..., k].any())

    def select(self, names: Sequence[str]) -> "Blend":
        """The same with these candidates only; the others must not have any weight."""
        columns = [self.candidates.index(name) for name in names]
        return Blend(tuple(names), self.measurements, self.weights[..., columns], self.n_cells)

    def largest(self, measurement: str) -> str:
        """The candidate with the largest weight for a measurement."""
        row = self.by_measurement[self.measurements.index(measurement)]
        return self.candidates[int(row.argmax())]

    def describe(self, measurement: str) -> str:
        """The weights for a measurement in words, such as 'cdsa 0.7, kalman 0.3; gaps of 24+ steps:
        kalman 0.9, cdsa 0.1': means over all gaps, then the lengths at which another candidate than
        there has the largest weight."""
        m, main = self.measurements.index(measurement), self.largest(measurement)
        text = self._describe(self.by_measurement[m])
        known = [g for g in range(len(GAP_CLASSES)) if self.n_cells[m, g]]
        for largest, group in groupby(known, lambda g: int(self.weights[m, g].argmax())):
            if self.candidates[largest] != main:
                classes = list(group)
                weights = self.n_cells[m, classes] @ self.weights[m, classes]
                weights = weights / self.n_cells[m, classes].sum()
                text += f"; gaps of {_describe_gaps(classes)}: {self._describe(weights)}"
        return text

    def _describe(self, weights: Floats) -> str:
        rounded = _round(weights[None], SHOWN_STEP)[0]
        order = sorted(np.flatnonzero(rounded), key=lambda k: -rounded[k])
        if len(order) == 1:
            return self.candidates[int(order[0])]
        return ", ".join(f"{self.candidates[k]} {rounded[k]:g}" for k in order)

    def to_frame(self) -> pd.DataFrame:
        """One row per measurement and gap class with hidden cells, one column per candidate."""
        rows = {
            (name, gap): self.weights[m, g]
            for m, name in enumerate(self.measurements)
            for g, (gap, _) in enumerate(GAP_CLASSES)
            if self.n_cells[m, g]
        }
        index = pd.MultiIndex.from_tuples(list(rows), names=["measurement", "gap"])
        return pd.DataFrame(list(rows.values()), index, list(self.candidates))

    def cell_weights(self, visible: xr.DataArray) -> Floats:
        """The weight of each candidate in each cell of a cube with these gaps, (k, t, l, m)."""
        rows = [self.measurements.index(str(name)) for name in visible["measurement"].to_numpy()]
        return _spread(self.weights[rows], gap_classes(visible))


def fit_blend(
    fills: Mapping[str, xr.DataArray],
    truth: xr.DataArray,
    visible: xr.DataArray,
    cell_weights: Floats | None,
    default: str,
) -> tuple[Blend, Floats]:
    """Weights of candidates from how they filled `visible`, and the cross-fitted weights of every
    cell, (k, t, l, m), for scoring: those of a fold of time are fitted on the other folds.

    Where a combination is not better than the best candidate of a measurement, once it is
    cross-fitted, that candidate is used alone. A measurement with few hidden cells gets `default`.
    `cell_weights` (t, l, m) say how much a hidden cell counts.
    """
    hidden = (truth.notnull() & visible.isnull()).transpose(*truth.dims).to_numpy()
    for filled in fills.values():  # cells that a candidate left open say nothing
        hidden &= filled.notnull().to_numpy()
    gaps, fold = gap_classes(visible), time_folds(truth.sizes["time"])
    n_measurements, n_classes = truth.sizes["measurement"], len(GAP_CLASSES)
    n_cells = np.zeros((n_measurements, n_classes), dtype=np.int64)
    weights = np.zeros((1 + N_FOLDS, n_measurements, n_classes, len(fills)))
    weights[..., list(fills).index(default)] = 1.0
    for m, direction in enumerate(is_direction(truth)):
        step, station = np.nonzero(hidden[..., m])
        at = step, station, np.full_like(step, m)
        n_cells[m] = np.bincount(gaps[at], minlength=n_classes)
        if n_cells[m].sum() >= MIN_CELLS:
            predictions = np.stack([filled.to_numpy()[at] for filled in fills.values()], axis=1)
            cells = _HiddenCells(
                points=_to_points(predictions, direction),
                truth=_to_points(truth.to_numpy()[at], direction),
                weights=np.ones(len(predictions)) if cell_weights is None else cell_weights[at],
                gap_class=gaps[at],
                direction=np.full(len(predictions), direction),
            )
            weights[:, m] = _fit_folds(cells, fold[step])
    names = tuple(str(name) for name in truth["measurement"].to_numpy())
    crossed = _spread(weights[0], gaps)
    for number in range(N_FOLDS):
        crossed[:, fold == number] = _spread(weights[1 + number], gaps[fold == number])
    return Blend(tuple(fills), names, weights[0], n_cells), crossed


def blend_fills(cube: xr.DataArray, fills: Sequence[Fill], weights: Floats, domain: Domain) -> Fill:
    """The weighted mean of fills of a cube, (k, t, l, m); directions are averaged on the circle.

    Bounds are as far from it as the weighted mean of those that give any, even where these have no
    weight, so that widths have the same meaning everywhere. Those of directions are not used.
    """
    directions, total = is_direction(cube), np.zeros(cube.shape, dtype=np.complex128)
    for (filled, _), weight in zip(fills, weights, strict=True):
        total += np.where(weight > 0, weight * _to_points(filled.to_numpy(), directions), 0)
    degrees = wrap_degrees(np.rad2deg(np.angle(total)))
    blended = fill_gaps(cube, np.where(directions, degrees, total.real), domain)
    bounded = [k for k, (_, intervals) in enumerate(fills) if intervals]

    def bound(level: float, side: int) -> xr.DataArray:
        distances = np.stack([(fills[k][1][level][side] - fills[k][0]) for k in bounded])
        shares = np.where(np.isfinite(distances), weights[bounded] + TINY, 0.0)
        with np.errstate(invalid="ignore"):  # 0 / 0 where no bound is known
            distance = np.nansum(shares * distances, axis=0) / shares.sum(axis=0)
        return blended.copy(data=blended.to_numpy() + distance)

    levels = fills[bounded[0]][1] if bounded else ()
    return blended, {level: (bound(level, 0), bound(level, 1)) for level in levels}


@dataclass(frozen=True, eq=False)
class _HiddenCells:
    """Hidden cells of one measurement."""

    points: Points
    """Predictions of the candidates, (n, k)."""

    truth: Points
    weights: Floats
    gap_class: NDArray[np.int64]
    direction: Bools

    def select(self, mask: Bools) -> "_HiddenCells":
        return _HiddenCells(*(array[mask] for array in vars(self).values()))

    def error(self, weights: Floats) -> float:
        """The mean absolute error with weights of candidates, (k,) or (n, k)."""
        mean = (self.points * weights).sum(axis=-1)
        angle = np.abs(np.angle(mean * self.truth.conj(), deg=True))
        errors = np.where(self.direction, angle, np.abs(mean - self.truth))
        return float(np.average(errors, weights=self.weights))

    def best(self) -> Floats:
        """Weight one on the best candidate."""
        alone = np.eye(self.points.shape[1])
        best: Floats = min(alone, key=self.error)
        return best


def _fit_folds(cells: _HiddenCells, fold: NDArray[np.int64]) -> Floats:
    """Weights (g, k) from all cells, then from all but those of each fold."""
    samples = [cells, *(cells.select(fold != number) for number in range(N_FOLDS))]
    # all cells may lie in one fold
    weights = np.stack([_fit_classes(sample if len(sample.truth) else cells) for sample in samples])
    alone = cells.best()
    if cells.error(weights[1 + fold, cells.gap_class]) >= cells.error(alone):
        weights[:] = alone
    return weights


def _fit_classes(cells: _HiddenCells) -> Floats:
    """Weights by gap class, (g, k), of the candidates that matter."""
    weights = _fit_each_class(cells)
    kept = weights[cells.gap_class].mean(axis=0) >= MIN_WEIGHT
    weights = np.zeros_like(weights)
    weights[:, kept] = _fit_each_class(replace(cells, points=cells.points[:, kept]))
    return _round(weights, STEP)


def _fit_each_class(cells: _HiddenCells) -> Floats:
    """Weights by gap class, (g, k); a class with few cells is pooled with its neighbours."""
    prior = _fit_weights(cells, cells.best())
    n_cells = np.bincount(cells.gap_class, minlength=len(GAP_CLASSES))
    weights = []
    for gap in range(len(GAP_CLASSES)):
        first, last = pooled_classes(n_cells, gap)
        pooled = (cells.gap_class >= first) & (cells.gap_class <= last)
        weights.append(_fit_weights(cells.select(pooled), prior))
    return np.stack(weights)


def _fit_weights(cells: _HiddenCells, prior: Floats) -> Floats:
    """Weights (k,) that minimise absolute errors, shrunk towards the prior.

    sum over n of v |sum over k of weight (point - truth)|^2 + PRIOR_CELLS |weights - prior|^2,
    where v makes the squares of residuals absolute values, and their mean one with the prior. With
    unequal weights of cells, their effective number is counted (Kish).
    """
    differences, weights = cells.points - cells.truth[:, None], prior
    with_prior = np.abs(differences @ prior)
    if not cells.weights @ with_prior > 0:  # nothing is better than a prior without errors
        return prior
    n_effective = cells.weights.sum() ** 2 / (cells.weights**2).sum()
    for _ in range(N_ROUNDS):
        residuals = np.maximum(np.abs(differences @ weights), SMALL * with_prior.mean())
        importance = cells.weights / residuals
        importance *= n_effective / (importance @ with_prior**2)
        gram = np.einsum("n, nk, nj -> kj", importance, differences.conj(), differences).real
        gram += PRIOR_CELLS * np.eye(len(prior))
        previous, weights = weights, _least_squares(gram, PRIOR_CELLS * prior, weights)
        if np.abs(weights - previous).max() < STEP / 50:
            break
    return weights


def _least_squares(gram: Floats, linear: Floats, start: Floats) -> Floats:
    """The x >= 0 with sum 1 that minimises x gram x - 2 linear x, by the active set method."""
    x, free = start, start > 0
    for _ in range(10 * len(x)):
        indices = np.append(np.flatnonzero(free), len(x))
        system = np.ones((len(x) + 1, len(x) + 1))
        system[:-1, :-1], system[-1, -1] = gram, 0.0  # the last row: the sum is one
        solution = np.zeros(len(x) + 1)
        solution[indices] = np.linalg.solve(
            system[np.ix_(indices, indices)], np.append(linear, 1.0)[indices]
        )
        target = solution[:-1]
        if (target >= 0).all():
            x, gradient = target, gram @ target - linear
            entering = int(np.argmin(gradient))
            if free[entering] or gradient[entering] >= x @ gradient - TINY * len(x):
                break
            free[entering] = True
        else:  # as far as the bounds allow
            leaving = target < 0
            x = x + (x[leaving] / (x - target)[leaving]).min() * (target - x)
            x = np.where(x > TINY, x, 0.0)
            free = free & (x > 0)
    return x


def _round(weights: Floats, step: float) -> Floats:
    """Weights (n, k) as multiples of `step` with sum one; the largest remainders are rounded up."""
    steps = weights / step
    whole = np.floor(steps + TINY)
    rank = np.argsort(np.argsort(whole - steps, axis=1, kind="stable"), axis=1)
    missing = np.round(1 / step) - whole.sum(axis=1, keepdims=True)
    rounded: Floats = np.round((whole + (rank < missing)) * step, 10)
    return rounded


def _spread(weights: Floats, gaps: NDArray[np.int64]) -> Floats:
    """Weights (m, g, k) as those of cells with these gap classes, (k, t, l, m)."""
    return np.moveaxis(weights[np.arange(len(weights)), gaps], -1, 0).copy()


def _to_points(values: NDArray[np.floating], direction: bool | Bools) -> Points:
    radians = np.deg2rad(values)
    return np.where(direction, np.cos(radians) + 1j * np.sin(radians), values)


def _describe_gaps(classes: Sequence[int]) -> str:
    """Neighbouring gap classes in words, such as '2-23 steps'."""
    start = GAP_CLASSES[classes[0]][0].split("-")[0]
    end = GAP_CLASSES[classes[-1]][0].split("-")[-1]
    if end == "1":
        return "1 step"
    return f"{start.rstrip('+')}+ steps" if end.endswith("+") else f"{start}-{end} steps"
