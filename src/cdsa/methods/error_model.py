"""How large the error of a filled cell is expected to be: by how far away measured values are, how
many stations report, and how much values vary around it. For methods that predict no intervals.

The absolute error on hidden cells is regressed on these features, with a logarithmic link and the
likelihood of an exponential distribution (a generalised linear model, fitted by Newton's method).

Letters: t time, l location, m measurement, n cells, f features.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import angle_difference
from cdsa.core.cube import is_direction
from cdsa.core.gaps import bridge_variance

Floats = NDArray[np.float64]
Cells = tuple[NDArray[np.intp], ...]

MIN_CELLS = 100
"""Hidden cells that a measurement needs for a regression; with fewer, all its errors are alike."""

NEARBY = 12
"""Steps before and after a cell within which values of its series count as near."""

MAX_BRIDGE = 1e4
"""The largest variance of a bridge over a gap; also that of a series without values."""

SMALLEST = 0.05
"""Added to a spread, relative to that of all values, before its logarithm."""

RIDGE, N_STEPS, MAX_LOG = 10.0, 20, 5.0
"""Strength of the prior on slopes, Newton steps, and how far, as a logarithm, an expected error may
be from the mean."""

CAPPED_AT = 0.995
"""Errors above this quantile count as that: a single spike says nothing of other cells."""


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """Expected absolute errors by measurement."""

    measurements: tuple[str, ...]
    mean: Floats
    """Of the errors, where the features have their means, (m,)."""

    slopes: Floats
    """Of the features, (m, f)."""

    centre: Floats
    """Means of the features on hidden cells, (m, f)."""

    @classmethod
    def fit(cls, filled: xr.DataArray, truth: xr.DataArray, visible: xr.DataArray) -> "ErrorModel":
        """Fit the errors of `filled` on the cells of `truth` that are not visible."""
        hidden = (truth.notnull() & visible.isnull() & filled.notnull()).transpose(*truth.dims)
        names = tuple(str(name) for name in truth["measurement"].to_numpy())
        mean, slopes, centre = np.zeros(len(names)), *np.zeros((2, len(names), N_FEATURES))
        for m, direction in enumerate(is_direction(truth)):
            cells = np.nonzero(hidden.to_numpy()[:, :, m])
            predicted, true = (x.to_numpy()[(*cells, m)].astype(float) for x in (filled, truth))
            error = angle_difference(predicted, true) if direction else predicted - true
            size = np.abs(error)
            if not len(size):
                values = visible.to_numpy()[:, :, m]
                mean[m] = values[np.isfinite(values)].std() if np.isfinite(values).any() else 0.0
                continue
            size = np.minimum(size, np.quantile(size, CAPPED_AT))
            mean[m] = size.mean()
            if len(size) >= MIN_CELLS and mean[m] > 0:
                features = _features(visible[:, :, m], filled[:, :, m], cells)
                centre[m] = features.mean(axis=0)
                intercept, slopes[m] = _regress(features - centre[m], size / mean[m])
                mean[m] *= np.exp(intercept)
        return cls(names, mean, slopes, centre)

    def widths(self, filled: xr.DataArray, visible: xr.DataArray) -> xr.DataArray:
        """The expected absolute error of each filled cell, 0 elsewhere, (t, l, m)."""
        widths = np.zeros(filled.shape)
        gaps = (visible.isnull() & filled.notnull()).transpose(*filled.dims).to_numpy()
        for k, name in enumerate(filled["measurement"].to_numpy()):
            if str(name) in self.measurements:
                m, cells = self.measurements.index(str(name)), gaps[:, :, k].nonzero()
                log = np.zeros(len(cells[0]))
                if self.slopes[m].any():
                    features = _features(visible[:, :, k], filled[:, :, k], cells)
                    log = np.clip((features - self.centre[m]) @ self.slopes[m], -MAX_LOG, MAX_LOG)
                widths[:, :, k][cells] = self.mean[m] * np.exp(log)
        return filled.copy(data=widths)


N_FEATURES = 4


def _features(visible: xr.DataArray, filled: xr.DataArray, cells: Cells) -> Floats:
    """Features (n, f) of some cells of one measurement (t, l)."""
    values = visible.to_numpy().astype(np.float64)
    known = np.isfinite(values)
    anomalies = values - _median(values, axis=0)
    low, middle, high = _quantiles(values)
    scale = (high - low) or 1.0
    spread = np.sqrt(_local_variance(np.where(known, anomalies, 0.0), known))[cells] / scale
    bridge = np.clip(bridge_variance(~known)[cells], 0.5, MAX_BRIDGE)
    reporting = known.sum(axis=1)[cells[0]] / max(1, int(known.any(axis=0).sum()))
    level = (filled.to_numpy()[cells] - middle) / scale
    return np.stack([np.log(bridge), reporting, np.log(spread + SMALLEST), np.arcsinh(level)], 1)


def _quantiles(values: Floats) -> tuple[float, float, float]:
    """The 10%, 50% and 90% quantile; the extremes where these do not differ."""
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 0.0, 0.0
    low, middle, high = np.quantile(known, [0.1, 0.5, 0.9])
    if low == high:
        low, high = known.min(), known.max()
    return float(low), float(middle), float(high)


def _median(values: Floats, axis: int) -> Floats:
    """The median along an axis, 0 where nothing is known."""
    ordered = np.sort(values, axis=axis)  # NaN come last
    n_known = np.isfinite(values).sum(axis=axis, keepdims=True)
    at = np.maximum((n_known - 1) // 2, 0)
    median: Floats = np.nan_to_num(np.take_along_axis(ordered, at, axis=axis))
    return median


def _local_variance(anomalies: Floats, known: NDArray[np.bool_]) -> Floats:
    """The variance around each cell (t, l): of its series at near steps and of its neighbours at
    its step, by their number; that of all where nothing is near."""
    count, first, second = (
        _near_sums(x) for x in (known.astype(float), anomalies, np.square(anomalies))
    )
    in_time = np.maximum(second - first**2 / np.maximum(count, 1), 0.0)
    n_stations = known.sum(axis=1, keepdims=True)
    mean = anomalies.sum(axis=1, keepdims=True) / np.maximum(n_stations, 1)
    in_space = np.where(known, anomalies - mean, 0.0)
    in_space = np.square(in_space).sum(axis=1, keepdims=True)
    total = np.square(anomalies).sum() / max(known.sum(), 1)
    variance: Floats = (in_time + in_space + total) / (count + n_stations + 1)
    return variance


def _near_sums(x: Floats) -> Floats:
    """Sums over the steps within `NEARBY` of each, (t, l)."""
    n_steps = len(x)
    cumulated = np.concatenate([np.zeros((1, x.shape[1])), x.cumsum(axis=0)])
    first = np.maximum(np.arange(n_steps) - NEARBY, 0)
    last = np.minimum(np.arange(n_steps) + NEARBY + 1, n_steps)
    sums: Floats = cumulated[last] - cumulated[first]
    return sums


def _regress(features: Floats, size: Floats) -> tuple[float, Floats]:
    """Intercept a and slopes w (f,) that minimise the sum of z + y exp(-z) with z = a + x w, plus a
    ridge; y (n,) has the mean 1."""
    intercept, slopes = 0.0, np.zeros(features.shape[1])
    ridge, design = RIDGE * np.eye(len(slopes)), np.column_stack([np.ones(len(size)), features])
    for _ in range(N_STEPS):
        log = np.clip(intercept + features @ slopes, -MAX_LOG, MAX_LOG)
        ratio = size * np.exp(-log)
        gradient = design.T @ (1 - ratio)
        gradient[1:] += ridge @ slopes
        hessian = (design * ratio[:, None]).T @ design
        hessian[1:, 1:] += ridge
        hessian[0, 0] += 1.0
        step = np.linalg.solve(hessian, gradient)
        step *= min(1.0, 1.0 / max(np.abs(step).max(), 1e-12))
        intercept, slopes = intercept - step[0], slopes - step[1:]
        if np.abs(step).max() < 1e-6:
            break
    return float(intercept), slopes
