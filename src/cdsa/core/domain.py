"""The domain of a measurement: the values that it can have, as its measured values show it.

Whatever is not stated by the user is inferred. A natural bound is where values pile up, or where a
distribution of their width would reach beyond it and they never do. The resolution is the number of
decimals that the values are recorded with. Outliers, far outside of all other values, are measured
values like any other and stay in the table; what methods learn from is pulled in to the fences
around the others.

Letters: t time, l location, m measurement.
"""

import math
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import is_direction, stated_decimals, stated_range, units_of
from cdsa.core.gaps import gap_starts

Floats = NDArray[np.floating]

MIN_VALUES = 50
"""Values that a measurement needs for its domain to be inferred."""

MIN_PILE, MIN_RUNS, PILE_RATIO = 0.005, 10, 2.0
"""Values pile up at an extreme if at least this share of them, in so many separate runs, equals it,
and more often than the next value by this factor. A sensor that is stuck makes one long run."""

PER_INDEPENDENT, MIN_EXPECTED, NEAR_ZERO = 10, 3.0, 0.3
"""Values that count as one independent value, how many of these a distribution without a bound
would have below zero, and how near to zero the values come, relative to their spread."""

ZERO_RUNS = 3
"""Separate runs of zeros after which it is a bound, if nothing is below it."""

TAIL, MAX_TAILS = 0.01, 50
"""An outlier is further from the median than this quantile, on its side, by this factor."""

MAX_DIGITS, SHARE_ROUNDED = 8, 0.9
"""Significant digits of recorded values, and the share of the values that have no more decimals;
the others may be means or corrected values."""

MAX_SAMPLE = 20_000
"""Values whose decimals are looked at."""

SIGNIFICANT = 10
"""Digits of values without a resolution, more than any sensor has."""

ON_GRID, ROUNDING_ERROR = 1e-6, 1e-15
"""Distance from a rounded value, in units of the last decimal and relative to the value, that is no
more than a rounding error."""

EXACT_POWER = 22
"""The largest power of ten that is a float."""

PERCENT = frozenset({"%", "percent", "pct"})


@dataclass(frozen=True, eq=False)
class Domain:
    """Bounds and resolution of the measurements of a cube, (m,)."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    """Infinite where there is no bound."""

    decimals: NDArray[np.int64]
    """Of recorded values; where they have no resolution, as many as can mean anything."""

    fences: Floats
    """The lowest and the highest value that is no outlier, (2, m)."""

    @classmethod
    def of(cls, cube: xr.DataArray) -> "Domain":
        """What is stated in the coordinates of a cube, and else what its values show."""
        (low, high), decimals = stated_range(cube), stated_decimals(cube)
        directions, units = is_direction(cube), list(units_of(cube).values())
        values, fences = cube.to_numpy(), np.full((2, len(low)), np.inf)
        fences[0] = -np.inf
        for m in range(cube.sizes["measurement"]):
            series = values[:, :, m]
            if np.isnan([low[m], high[m]]).any():
                natural = _natural_bounds(series, units[m])
                if directions[m]:
                    natural = (-math.inf, math.inf)
                low[m], high[m] = (
                    found if math.isnan(stated) else stated
                    for stated, found in zip((low[m], high[m]), natural, strict=True)
                )
            if np.isnan(decimals[m]):
                decimals[m] = _decimals(series)
            if not directions[m]:
                fences[:, m] = _fences(series)
        return cls(low, high, decimals.astype(np.int64), fences)

    def pull_in(self, cube: xr.DataArray) -> xr.DataArray:
        """The cube with outliers at the fences."""
        if not self.outliers(cube).any():
            return cube
        return cube.copy(data=np.clip(cube.to_numpy(), *self.fences))

    def outliers(self, cube: xr.DataArray) -> NDArray[np.bool_]:
        """The measured values beyond the fences, (t, l, m)."""
        values = cube.to_numpy()
        beyond: NDArray[np.bool_] = (values < self.fences[0]) | (values > self.fences[1])
        return beyond

    def fit(self, values: Floats) -> Floats:
        """Values (..., m) as they could have been recorded: rounded and within the bounds."""
        return self._clip(self._round(values, np.rint))

    def fit_bounds(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Bounds of intervals (..., m), rounded outwards, with no value that cannot be."""
        return (
            self._clip(self._round(lower, np.floor)),
            self._clip(self._round(upper, np.ceil)),
        )

    def _clip(self, values: Floats) -> Floats:
        return np.clip(values, self.low, self.high)

    def _round(self, values: Floats, rounding: np.ufunc) -> Floats:
        rounded = np.empty(values.shape, dtype=np.float64)
        for m, decimals in enumerate(self.decimals.tolist()):
            rounded[..., m] = _round_to(values[..., m], decimals, rounding)
        return rounded

    def describe(self, m: int) -> str:
        """The bounds of a measurement in words, empty if there are none."""
        low, high = float(self.low[m]), float(self.high[m])
        if math.isfinite(low) and math.isfinite(high):
            return f"{low:g} to {high:g}"
        if math.isfinite(low):
            return f"at least {low:g}"
        return f"at most {high:g}" if math.isfinite(high) else ""


def _round_to(values: Floats, decimals: int, rounding: np.ufunc) -> Floats:
    """Values with so many decimals; what is on that grid already stays there."""
    values = values.astype(np.float64)
    if rounding is not np.rint:
        scaled = values * 10.0**decimals
        on_grid = np.abs(scaled - np.rint(scaled)) <= ON_GRID + ROUNDING_ERROR * np.abs(scaled)
        values = np.where(on_grid, values, rounding(scaled) / 10.0**decimals)
    return _nearest(values, decimals)


def _nearest(values: Floats, decimals: int) -> Floats:
    if decimals <= EXACT_POWER:
        power = 10.0**decimals
        rounded = np.rint(values * power) / power
    else:
        flat = [round(value, decimals) for value in values.ravel().tolist()]
        rounded = np.array(flat).reshape(values.shape)
    nearest: Floats = rounded + 0.0  # no negative zero
    return nearest


def _natural_bounds(series: Floats, unit: str) -> tuple[float, float]:
    """Bounds that the values (t, l) never cross, infinite where there is none."""
    known = series[np.isfinite(series)].astype(np.float64)
    if len(known) < MIN_VALUES or known.min() == known.max():
        return -math.inf, math.inf
    lowest, highest = float(known.min()), float(known.max())
    low = lowest if _piles_up(series, known, lowest) else -math.inf
    high = highest if _piles_up(series, known, highest) else math.inf
    reaches_zero = lowest == 0 and _n_runs(series == 0) >= ZERO_RUNS
    if reaches_zero or (lowest >= 0 and not math.isfinite(low) and _avoids_negatives(known)):
        low = 0.0
    percent = unit.strip().lower() in PERCENT or (
        highest == 100 and _n_runs(series == highest) >= MIN_RUNS
    )
    if percent and lowest >= 0 and highest <= 100:
        low, high = 0.0, 100.0
    return low, high


def _piles_up(series: Floats, known: Floats, extreme: float) -> bool:
    """Whether the values pile up at an extreme of them."""
    at_extreme, others = series == extreme, known[known != extreme]
    following = others[np.abs(others - extreme).argmin()]
    n_following = int((known == following).sum())
    enough = max(MIN_PILE * len(known), PILE_RATIO * n_following)
    return bool(at_extreme.sum() >= enough) and _n_runs(at_extreme) >= MIN_RUNS


def _n_runs(flags: NDArray[np.bool_]) -> int:
    return int(gap_starts(flags).sum())


def _avoids_negatives(known: Floats) -> bool:
    """Whether values that are never negative would be now and then, if they could: by the normal
    distribution of their median and their spread."""
    lower, median, upper = np.quantile(known, [0.1587, 0.5, 0.8413])
    spread = float(upper - lower) / 2
    if spread <= 0 or known.min() >= NEAR_ZERO * spread:
        return False
    expected = math.erfc(float(median) / spread / math.sqrt(2)) / 2 * len(known)
    return expected >= MIN_EXPECTED * PER_INDEPENDENT


def _fences(series: Floats) -> tuple[float, float]:
    """The lowest and the highest value (t, l) that is no outlier."""
    known = series[np.isfinite(series)].astype(np.float64)
    if len(known) < MIN_VALUES:
        return -math.inf, math.inf
    low, middle, high = np.quantile(known, [TAIL, 0.5, 1 - TAIL]).tolist()
    below, above = (MAX_TAILS * reach or math.inf for reach in (middle - low, high - middle))
    return middle - below, middle + above


def _decimals(series: Floats) -> int:
    """Decimals that all but a few of the values (t, l) are recorded with."""
    known = series[np.isfinite(series)].astype(np.float64)
    if not known.any():
        return 0 if len(known) else SIGNIFICANT
    inner = known[(known != 0) & (known > known.min()) & (known < known.max())]
    size = np.abs(inner if len(inner) else known[known != 0])
    first = -math.floor(math.log10(float(np.median(size))))  # of the first significant digit
    sample = size[:: -(-len(size) // MAX_SAMPLE)]
    tried = range(max(0, first), max(0, first) + MAX_DIGITS) if len(size) >= MIN_VALUES else ()
    for decimals in tried:
        scaled = sample * 10.0**decimals
        tolerance = np.minimum(2e-7 * scaled, 0.02)  # of single precision
        if (np.abs(scaled - np.rint(scaled)) <= tolerance).mean() >= SHARE_ROUNDED:
            return decimals
    return max(0, first + SIGNIFICANT - 1)
