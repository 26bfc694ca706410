"""Auto-regression: each series on its own, every value from those just before it.

Box & Jenkins, "Time Series Analysis", 1970. Coefficients are found by least squares over all
stretches without a gap that are long enough, their number by Akaike's criterion on the stretches of
the longest order tried; gaps are then filled, and series carried forward, by the smoother of
statsmodels' state space model (`SARIMAX` without its moving average), which sees what lies on both
sides.

Different from there: coefficients are those of least squares, not of the greatest likelihood; the
mean is subtracted beforehand; an order is at least one; a process that would not come back to its
mean is damped until it does, all its roots alike; a series with too few stretches gets its mean.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from cdsa.errors import ConfigError, MissingExtraError
from cdsa.methods.wrapper import GuardedFiller, Guess, guarded

Floats = NDArray[np.float64]


ENOUGH = 10
"""Stretches of values, for each coefficient, that an order is tried with."""


STEADY = 0.995
"""Largest root of a process that comes back to its mean; others are damped to it."""


@dataclass(frozen=True)
class Process:
    """An auto-regression: what it swings around, its coefficients from the last value back, and the
    variance of what is new at each step."""

    mean: float
    coefficients: tuple[float, ...]
    news: float


@dataclass(frozen=True, kw_only=True)
class AutoRegressive:
    """Each series from its own past and future; how far back is chosen by the data."""

    max_order: int = 12
    """Steps back at the most."""

    def __post_init__(self) -> None:
        if self.max_order < 1:
            raise ConfigError(f"most must be at least 1, but found {self.max_order}")

    @property
    def label(self) -> str:
        """The name in tables."""
        return "ar"

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        _state_space()  # says what to install before any work
        return guarded(cube, self._learn)

    def _learn(self, plain: xr.DataArray) -> Guess:
        values = plain.to_numpy()
        places, kinds = (plain[axis].to_numpy() for axis in ("location", "measurement"))
        found = {
            (place, kind): learn_process(values[:, l, m].astype(np.float64), self.max_order)
            for l, place in enumerate(places)  # noqa: E741
            for m, kind in enumerate(kinds)
        }

        def guess(cube: xr.DataArray) -> xr.DataArray:
            told = cube.copy()
            for l, place in enumerate(cube["location"].to_numpy()):  # noqa: E741
                for m, kind in enumerate(cube["measurement"].to_numpy()):
                    process = found.get((place, kind))
                    if process is not None:
                        told[:, l, m] = smoothed(cube.to_numpy()[:, l, m], process)
            return told

        return guess


def learn_process(series: Floats, most: int) -> Process | None:
    """The process that a series (t,) with gaps follows; None if it has too few values together."""
    known = series[np.isfinite(series)]
    if not len(known):
        return None
    mean = float(known.mean())
    tried, same = 0, np.empty((0, 1))
    for order in range(1, most + 1):
        rows = _stretches(series - mean, order)
        if len(rows) < ENOUGH * order:
            break
        tried, same = order, rows
    if not tried:
        return None

    def criterion(order: int) -> float:
        news = _regressed(same, order)[1]
        return float(np.log(max(news, 1e-300))) + 2 * (order + 1) / len(same)

    # orders are compared on the same values, those of the longest; the best is found on all it has
    best = min(range(1, tried + 1), key=criterion)
    coefficients, news = _regressed(_stretches(series - mean, best), best)
    return Process(mean, _steadied(coefficients), max(news, 1e-12))


def _regressed(rows: Floats, order: int) -> tuple[Floats, float]:
    """Coefficients of the last column on those before it, from the last back, and the mean square
    of what they leave."""
    target, past = rows[:, -1], rows[:, -2 : -2 - order : -1]
    coefficients: Floats = np.linalg.lstsq(past, target, rcond=None)[0].astype(np.float64)
    return coefficients, float(np.mean((target - past @ coefficients) ** 2))


def _stretches(series: Floats, order: int) -> Floats:
    """All runs of `order` + 1 values without a gap, (n, order + 1)."""
    if len(series) <= order:
        return np.empty((0, order + 1))
    rows = sliding_window_view(series, order + 1)
    whole: Floats = rows[np.isfinite(rows).all(axis=1)]
    return whole


def _steadied(coefficients: Floats) -> tuple[float, ...]:
    """Coefficients of a process that comes back to its mean."""
    order = len(coefficients)
    companion = np.zeros((order, order))
    companion[0], companion[1:, :-1] = coefficients, np.eye(order - 1)
    root = float(np.abs(np.linalg.eigvals(companion)).max())
    damped = coefficients * min(1.0, STEADY / max(root, STEADY)) ** np.arange(1, order + 1)
    return tuple(float(part) for part in damped)


def smoothed(series: Floats, process: Process) -> Floats:
    """The series (t,) with its gaps filled by what is likeliest from both sides."""
    off = series.astype(np.float64) - process.mean
    if not np.isfinite(off).any():
        return np.full_like(off, process.mean)
    order = (len(process.coefficients), 0, 0)
    model = _state_space()(off, order=order, trend="n", enforce_stationarity=True)
    told: Floats = model.smooth([*process.coefficients, process.news]).smoothed_state[0]
    return told + process.mean


def _state_space() -> Any:
    try:
        from statsmodels.tsa.statespace.sarimax import SARIMAX
    except ImportError as bad:
        raise MissingExtraError("The method 'ar'", "statsmodels", "baselines") from bad
    return SARIMAX
