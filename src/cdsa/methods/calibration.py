"""Intervals made honest: a network's own are widened or narrowed until they hold what they promise
on cells that were hidden from it, by measurement and gap length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import EAST, angle_difference, to_components, wrap_degrees
from cdsa.core.cube import is_direction, round_significant, valid_range
from cdsa.core.gaps import GAP_CLASSES, effective_gap_lengths, gap_class
from cdsa.core.metrics import standard_deviations
from cdsa.core.splits import time_mask
from cdsa.methods.base import Filler
from cdsa.methods.wrapper import DIGITS

Ends = tuple[xr.DataArray, xr.DataArray]
"""Lower and upper ends."""


Floats = NDArray[np.float64]


SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Shares that intervals are calibrated to hold; between two of them the factor is in between."""


WIDEST = 0.9
"""The widest interval that a network tells itself; wider ones are this one, widened more."""


NEVER = len(GAP_CLASSES)
"""The class, behind those of gap lengths, of stations of which nothing was ever measured."""


ENOUGH = 100
"""Cells in a class of gap lengths from which it is calibrated on its own."""


PARTS, FOLDS = 20, 5
"""Of the time; each fifth of them learns from the others."""


TINY = 1e-9


def ends_of(level: float) -> tuple[float, float]:
    """The quantiles that an interval of this level lies between, as far as a network tells them."""
    told = min(level, WIDEST)
    return (1 - told) / 2, (1 + told) / 2


@dataclass(frozen=True, eq=False)
class Told:
    """A network's answers for some cells, and what is true of them, in the user's units."""

    point: Floats
    truth: Floats
    ends: Floats
    """Lower and upper end of each of `SHARES`, one after the other: (2 levels, cells)."""

    measurement: NDArray[np.int64]
    gap: NDArray[np.int64]
    """The class of the gap each cell lies in."""

    def only(self, chosen: NDArray[np.bool_]) -> "Told":
        """Some of the cells."""
        return Told(
            self.point[chosen],
            self.truth[chosen],
            self.ends[:, chosen],
            self.measurement[chosen],
            self.gap[chosen],
        )

    @classmethod
    def joined(cls, parts: "Sequence[Told]") -> "Told":
        """All cells of several answers."""
        return cls(
            np.concatenate([part.point for part in parts]),
            np.concatenate([part.truth for part in parts]),
            np.concatenate([part.ends for part in parts], axis=1),
            np.concatenate([part.measurement for part in parts]),
            np.concatenate([part.gap for part in parts]),
        )

    def errors(self, gap: int, angles: Sequence[bool]) -> dict[int, float]:
        """The mean absolute error in a class of gaps, of the measurements with enough cells."""
        found = {}
        for m, angle in enumerate(angles):
            mine = (self.measurement == m) & (self.gap == gap) & ~np.isnan(self.point)
            off = self.truth[mine] - self.point[mine]
            off = angle_difference(self.truth[mine], self.point[mine]) if angle else off
            if mine.sum() >= ENOUGH:
                found[m] = float(np.abs(off).mean())
        return found

    def scores(self, level: int, angles: NDArray[np.bool_]) -> Floats:
        """How many half-widths of the interval of `SHARES[level]` the truth is away from the point;
        of directions, how many degrees."""
        error = self.truth - self.point
        lower, upper = self.ends[2 * level], self.ends[2 * level + 1]
        half = np.where(error >= 0, upper - self.point, self.point - lower)
        widths = np.abs(error) / np.maximum(half, TINY)
        turned = np.abs(angle_difference(self.truth, self.point))
        away: Floats = np.where(angles, turned, widths)
        return away


@dataclass(frozen=True, eq=False)
class Calibration:
    """Factors on the half-widths of intervals, (level, measurement, gap class); of directions the
    half-widths themselves, in degrees."""

    factors: Floats
    measurements: tuple[str, ...]
    angles: tuple[bool, ...]
    windows: int = 0
    """Windows of the time that was learnt from in which cells were hidden for it; 0 if they lay in
    a time of their own."""

    def at_new_times(self, level: float) -> float:
        """The level to ask for at times that were not learnt from, to hold this one.

        What happens in a window happens to all its cells, so at a new time it is windows, not
        cells, that are one more of the same kind: among n of them the quantile is taken a share of
        1 / n further out, as conformal prediction does, but at most half of the way to all.
        """
        return min(level * (1 + 1 / self.windows), (1 + level) / 2) if self.windows else level

    @classmethod
    def learn(
        cls,
        told: Told,
        measurements: tuple[str, ...],
        angles: tuple[bool, ...],
        windows: int = 0,
    ) -> "Calibration":
        """Factors with which the intervals of each level hold their share of what is true.

        A class with few cells is taken together with those next to it, shorter and longer; places
        that were never measured and have few take the factor of their measurement, a measurement
        with few cells that of all. Without enough anywhere intervals stay as the network tells
        them.
        """
        factors = np.ones((len(SHARES), len(measurements), NEVER + 1))
        turning = np.array(angles)[told.measurement]
        for row, level in enumerate(SHARES):
            scores = told.scores(row, turning)
            common = _share_of(scores[~turning], level, fallback=1.0)
            for m, angle in enumerate(angles):
                mine = told.measurement == m
                own = _share_of(scores[mine], level, fallback=180 * level if angle else common)
                for gap in range(NEVER + 1):
                    cells = mine & _classes_around(told.gap, gap, mine & ~np.isnan(scores))
                    factors[row, m, gap] = _share_of(scores[cells], level, fallback=own)
        return cls(factors, measurements, angles, windows)

    def interval(
        self,
        level: float,
        filled: xr.DataArray,
        told: tuple[xr.DataArray, xr.DataArray, xr.DataArray],
        gaps: NDArray[np.int64],
    ) -> Ends:
        """The ends of an interval around what was filled, from a network's guess and its lower and
        upper quantiles in components; NaN where it guessed nothing. The interval of a direction
        runs clockwise from its lower to its upper end."""
        ends = np.full((2, *filled.shape), np.nan)
        factors, low, high = self._at(level), *valid_range(filled)
        for k, name in enumerate(filled["measurement"].to_numpy()):
            if str(name) not in self.measurements:
                continue
            number = self.measurements.index(str(name))
            factor, middle = factors[number][gaps[:, :, k]], filled.to_numpy()[:, :, k]
            if self.angles[number]:
                known = told[0].sel(measurement=f"{name}{EAST}").notnull().to_numpy()
                around = wrap_degrees(
                    round_significant(np.stack([middle - factor, middle + factor]), DIGITS)
                )
                whole = np.stack([np.zeros_like(middle), np.full_like(middle, 360.0)])
                ends[..., k] = np.where(known, np.where(factor < 180, around, whole), np.nan)
                continue
            guess, lower, upper = (part.sel(measurement=name).to_numpy() for part in told)
            below, above = (factor * np.maximum(w, 0.0) for w in (guess - lower, upper - guess))
            ends[..., k] = np.clip([middle - below, middle + above], low[k], high[k])
        low_end, high_end = (round_significant(end, DIGITS) for end in ends)
        return filled.copy(data=low_end), filled.copy(data=high_end)

    def _at(self, level: float) -> Floats:
        """Factors between those of the calibrated levels: (measurement, gap class)."""
        upper = int(np.clip(np.searchsorted(SHARES, level), 1, len(SHARES) - 1))
        low, high = SHARES[upper - 1], SHARES[upper]
        share = float(np.clip((level - low) / (high - low), 0.0, 1.0))
        between: Floats = (1 - share) * self.factors[upper - 1] + share * self.factors[upper]
        return between


def _classes_around(
    gaps: NDArray[np.int64], gap: int, known: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The cells of a class of gap lengths, with as many classes next to it as it takes to have
    enough that are known."""
    near: NDArray[np.bool_] = gaps == gap
    for reach in range(1, len(GAP_CLASSES)):
        if gap == NEVER or (near & known).sum() >= ENOUGH:
            break
        near = (np.abs(gaps - gap) <= reach) & (gaps != NEVER)
    return near


def _share_of(scores: Floats, level: float, *, fallback: float) -> float:
    """What this share of the scores does not exceed, a little more for few of them."""
    known = scores[~np.isnan(scores)]
    if len(known) < ENOUGH:
        return fallback
    return float(np.quantile(known, min(1.0, level * (1 + 1 / len(known)))))


@dataclass(frozen=True, eq=False)
class BoundedFiller:
    """A filler that knows nothing of intervals, with those that it needs: of one width for each
    measurement and class of gap lengths, calibrated on cells that were hidden from it."""

    filler: Filler
    calibration: Calibration
    spread: dict[str, float]
    """What a width is told in, by measurement."""

    @classmethod
    def learn(
        cls, filler: Filler, filled: xr.DataArray, truth: xr.DataArray, visible: xr.DataArray
    ) -> "BoundedFiller":
        """Intervals for a filler from what it, or its like, made of `visible`."""
        names = [str(name) for name in truth["measurement"].to_numpy()]
        spread = standard_deviations(visible)
        at = np.nonzero((truth.notnull() & visible.isnull()).transpose(*truth.dims).to_numpy())
        point = filled.to_numpy()[at].astype(np.float64)
        side = np.where(np.arange(2 * len(SHARES)) % 2, 1.0, -1.0)[:, None]
        told = Told(
            point=point,
            truth=truth.to_numpy()[at].astype(np.float64),
            ends=point + side * spread[at[2]],
            measurement=at[2],
            gap=gap_class(effective_gap_lengths(visible.isnull().to_numpy())[at]),
        )
        angles = tuple(bool(angle) for angle in is_direction(truth))
        calibration = Calibration.learn(told, tuple(names), angles)
        return cls(filler, calibration, dict(zip(names, spread.tolist(), strict=True)))

    def fill(self, cube: xr.DataArray) -> xr.DataArray:
        """The cube with every fillable gap filled and every measured value as it was."""
        return self.filler.fill(cube)

    def fill_between(
        self, cube: xr.DataArray, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[Ends]]:
        """The cube filled, and lower and upper ends for every level."""
        filled = self.fill(cube)
        return filled, self.around(filled, cube, levels)

    def around(
        self, filled: xr.DataArray, cube: xr.DataArray, levels: Sequence[float]
    ) -> list[Ends]:
        """Lower and upper ends for every level, of a cube that was filled already."""
        guess = to_components(filled)
        names = guess["measurement"].to_numpy()
        width = xr.DataArray([self.spread.get(str(n), np.nan) for n in names], dims="measurement")
        gaps = gap_class(effective_gap_lengths(cube.isnull().to_numpy()))
        told = guess, guess - width, guess + width
        return [self.calibration.interval(level, filled, told, gaps) for level in levels]


def ends_from_others(
    filler: Filler,
    filled: xr.DataArray,
    truth: xr.DataArray,
    visible: xr.DataArray,
    levels: Sequence[float],
) -> dict[float, Ends]:
    """Intervals such as `BoundedFiller` would give, by level, to be scored on the very cells they
    are learnt from: time is cut into parts, of which each fifth is learnt from the others. NaN if
    those have too few cells to learn from."""
    fold = np.arange(truth.sizes["time"]) * PARTS // truth.sizes["time"] % FOLDS
    asked = (truth.notnull() & visible.isnull()).transpose(*truth.dims)
    found: dict[float, Ends] = {}
    for number in range(FOLDS):
        mine = time_mask(fold == number, truth)
        rest = truth.where(~mine).transpose(*truth.dims)
        ends = [(xr.full_like(truth, np.nan), xr.full_like(truth, np.nan)) for _ in levels]
        if int((asked & ~mine).sum()) >= ENOUGH:
            ends = BoundedFiller.learn(filler, filled, rest, visible).around(
                filled, visible, levels
            )
        for level, pair in zip(levels, ends, strict=True):
            old = found.get(level, pair)
            low, high = (new.where(mine, end) for new, end in zip(pair, old, strict=True))
            found[level] = low.transpose(*truth.dims), high.transpose(*truth.dims)
    return found
