"""Auto-regression of each series on its own, with gaps filled by a Kalman smoother."""

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import numpy as np
import xarray as xr
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from cdsa.methods.baselines.simple import to_cube, to_frame
from cdsa.methods.wrapper import Baseline, PredictFn, import_optional

Floats = NDArray[np.float64]

MIN_RUNS_PER_COEFFICIENT = 10
"""Complete runs of values that an order needs for each of its coefficients."""

MAX_ROOT = 0.995
"""Largest root of a stationary process; others are damped to it."""


@dataclass(frozen=True)
class Process:
    mean: float
    scale: float
    """Standard deviation of the values; coefficients and innovations are those of scaled ones."""

    coefficients: tuple[float, ...]
    """Of lag 1, 2, ..."""

    innovation_variance: float


@dataclass(frozen=True, kw_only=True)
class AutoRegressive(Baseline):
    """Auto-regression of each series, smoothed from both sides.

    Coefficients are estimated by least squares on all complete runs of values, the order is chosen
    by Akaike's criterion on the runs of the longest order tried. The Kalman smoother of
    statsmodels' state-space model (`SARIMAX` without a moving average) fills gaps from both sides
    and continues the series into the future.

    Notes
    -----
    Deviations from the reference: coefficients are those of least squares, not of maximum
    likelihood; the mean is subtracted beforehand; the order is at least 1; a process that is not
    stationary is damped until it is, all its roots alike; a series with too few complete runs gets
    its mean.

    References
    ----------
    Box, G. E. P., & Jenkins, G. M. (1970). Time Series Analysis: Forecasting and Control.
    """

    name: ClassVar[str] = "ar"

    max_order: int = 12
    """Maximum number of lags."""

    def _fit(self, components: xr.DataArray) -> PredictFn:
        _statsmodels()  # says what to install before any work
        processes = {
            name: fit_process(series.to_numpy(), self.max_order)
            for name, series in to_frame(components).items()
        }

        def predict(cube: xr.DataArray) -> xr.DataArray:
            frame = to_frame(cube.copy())
            for name, series in frame.items():
                if (process := processes.get(name)) is not None:
                    frame[name] = smooth(series.to_numpy(), process)
            return to_cube(frame, cube)

        return predict


def fit_process(series: Floats, max_order: int) -> Process | None:
    """The process of a series (t,) with gaps; None if it has too few complete runs."""
    known = series[np.isfinite(series)]
    if not len(known):
        return None
    mean, scale = float(known.mean()), float(known.std()) or 1.0
    series = (series - mean) / scale
    longest, common_runs = 0, np.empty((0, 1))
    for order in range(1, max_order + 1):
        runs = _complete_runs(series, order)
        if len(runs) < MIN_RUNS_PER_COEFFICIENT * order:
            break
        longest, common_runs = order, runs
    if not longest:
        return None

    def akaike(order: int) -> float:
        variance = _least_squares(common_runs, order)[1]
        return float(np.log(max(variance, 1e-300))) + 2 * (order + 1) / len(common_runs)

    # orders are compared on the same values, those of the longest; the best is then refitted on all
    best = min(range(1, longest + 1), key=akaike)
    coefficients, variance = _least_squares(_complete_runs(series, best), best)
    return Process(mean, scale, _stationary(coefficients), max(variance, 1e-12))


def _least_squares(runs: Floats, order: int) -> tuple[Floats, float]:
    """Coefficients of the last column on the lags before it, and the mean squared residual."""
    target, lags = runs[:, -1], runs[:, -2 : -2 - order : -1]
    coefficients: Floats = np.linalg.lstsq(lags, target, rcond=None)[0].astype(np.float64)
    return coefficients, float(np.mean((target - lags @ coefficients) ** 2))


def _complete_runs(series: Floats, order: int) -> Floats:
    """All runs of `order` + 1 values without a gap, (n, order + 1)."""
    if len(series) <= order:
        return np.empty((0, order + 1))
    runs = sliding_window_view(series, order + 1)
    complete: Floats = runs[np.isfinite(runs).all(axis=1)]
    return complete


def _stationary(coefficients: Floats) -> tuple[float, ...]:
    """The coefficients, damped until all roots are within `MAX_ROOT`."""
    order = len(coefficients)
    companion = np.zeros((order, order))
    companion[0], companion[1:, :-1] = coefficients, np.eye(order - 1)
    root = float(np.abs(np.linalg.eigvals(companion)).max())
    damped = coefficients * min(1.0, MAX_ROOT / max(root, MAX_ROOT)) ** np.arange(1, order + 1)
    return tuple(float(coefficient) for coefficient in damped)


def smooth(series: Floats, process: Process) -> Floats:
    """The series (t,) with gaps filled by the Kalman smoother."""
    scaled = (series - process.mean) / process.scale
    if not np.isfinite(scaled).any():
        return np.full_like(scaled, process.mean)
    order = (len(process.coefficients), 0, 0)
    model = _statsmodels().SARIMAX(scaled, order=order, trend="n", enforce_stationarity=True)
    parameters = [*process.coefficients, process.innovation_variance]
    smoothed: Floats = model.smooth(parameters).smoothed_state[0]
    return smoothed * process.scale + process.mean


def _statsmodels() -> ModuleType:
    return import_optional("statsmodels.tsa.statespace.sarimax", "ar", "statsmodels")
