"""Prediction intervals calibrated on held-out cells (split conformal prediction).

The half-widths of a model's own intervals are scaled until each level covers its share of the
held-out cells of the same measurement and gap class. Those of a station that is harder to predict
than others are widened further. `ConformalFiller` does so for a filler, and gives intervals to one
that has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import EAST, angle_difference, to_components, wrap_degrees
from cdsa.core.cube import is_direction
from cdsa.core.domain import Domain
from cdsa.core.gaps import GAP_CLASSES, effective_gap_lengths, gap_class
from cdsa.core.metrics import Intervals
from cdsa.core.prepare import Cube, prepare
from cdsa.core.splits import time_mask
from cdsa.methods.base import Bounds, Filled, Filler
from cdsa.methods.error_model import ErrorModel

Floats = NDArray[np.float64]

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Levels that are calibrated; factors of other levels are interpolated."""

MAX_MODEL_LEVEL = 0.9
"""The widest interval that a model predicts itself; wider ones are scaled up from it."""

UNOBSERVED = len(GAP_CLASSES)
"""The class, after those of gap lengths, of stations without any observation."""

MIN_CELLS = 100
"""Cells from which a group is calibrated on its own."""

STATION_LEVEL, STATION_PRIOR_CELLS = 0.9, 300
"""The level at which a station is compared with all, and the cells of all that it counts among its
own."""

MOSTLY = 0.9
"""Share of the values at a bound above which only the others are calibrated on."""

N_BLOCKS, N_FOLDS = 20, 5
"""Blocks of time, and the folds of cross-fitting that they are dealt to in turn."""

TINY = 1e-9
"""The narrowest width that is scaled, as a share of the mean error."""


def quantile_pair(level: float) -> tuple[float, float]:
    """The quantiles that a model predicts for the bounds of an interval."""
    level = min(level, MAX_MODEL_LEVEL)
    return (1 - level) / 2, (1 + level) / 2


BOUND_QUANTILES = tuple(quantile for level in LEVELS for quantile in quantile_pair(level))
"""Lower and upper quantile of each of `LEVELS`."""


@dataclass(frozen=True, eq=False)
class CalibrationSet:
    """Predictions and true values of held-out cells, in the user's units."""

    point: Floats
    truth: Floats
    bounds: Floats
    """Predictions of `BOUND_QUANTILES`, (2 levels, cells)."""

    location: NDArray[np.int64]
    measurement: NDArray[np.int64]
    gap_class: NDArray[np.int64]

    def select(self, mask: NDArray[np.bool_]) -> "CalibrationSet":
        return CalibrationSet(*(array[..., mask] for array in vars(self).values()))

    @classmethod
    def concatenate(cls, sets: "Sequence[CalibrationSet]") -> "CalibrationSet":
        columns = zip(*(vars(cells).values() for cells in sets), strict=True)
        return cls(*(np.concatenate(arrays, axis=-1) for arrays in columns))

    def mean_absolute_errors(self, gap: int, directions: Sequence[bool]) -> dict[int, float]:
        """Errors in one gap class, by index of the measurements with enough cells."""
        errors = np.abs(self._errors(np.array(directions)[self.measurement]))
        means = {}
        for m in range(len(directions)):
            cells = (self.measurement == m) & (self.gap_class == gap) & ~np.isnan(self.point)
            if cells.sum() >= MIN_CELLS:
                means[m] = float(errors[cells].mean())
        return means

    def scores(self, is_direction: NDArray[np.bool_]) -> Floats:
        """Nonconformity scores, (level, cell): the error in half-widths of the interval on its
        side; for directions, the error in degrees."""
        error = self._errors(is_direction)
        below, above = self.point - self.bounds[::2], self.bounds[1::2] - self.point
        half_width = np.maximum(np.where(error >= 0, above, below), TINY * self._error_sizes(error))
        half_width = np.where(is_direction, 1.0, half_width)
        without_error = np.zeros_like(half_width)  # also where there is no width either
        return np.divide(np.abs(error), half_width, out=without_error, where=error != 0)

    def _error_sizes(self, error: Floats) -> Floats:
        """The mean absolute error of each cell's measurement, (cells,)."""
        known = np.isfinite(error)
        n_cells = np.bincount(self.measurement[known])
        sums = np.bincount(self.measurement[known], np.abs(error[known]))
        means = np.append(sums / np.maximum(n_cells, 1), np.zeros(self.measurement.max(initial=0)))
        return means[self.measurement]

    def _errors(self, is_direction: NDArray[np.bool_]) -> Floats:
        angle = angle_difference(self.truth, self.point)
        return np.where(is_direction, angle, self.truth - self.point)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Factors on the half-widths of intervals, (level, measurement, gap class); for directions the
    half-widths themselves, in degrees."""

    factors: Floats
    measurements: tuple[str, ...]
    is_direction: tuple[bool, ...]
    stations: tuple[str, ...]
    station_factors: Floats
    """Further factors, at least one, of the stations whose intervals would be too narrow."""

    n_windows: int = 0
    """Windows of the training period that held calibration cells; 0 if those lay outside of it."""

    def level_out_of_sample(self, level: float) -> float:
        """The level to request outside of the training period to reach this coverage.

        Cells of one window share what happens in it, so at a new time the exchangeable unit is the
        window: of n windows, the conformal quantile is that of level (1 + 1 / n), at most half-way
        from the level to 1.
        """
        if not self.n_windows:
            return level
        return min(level * (1 + 1 / self.n_windows), (1 + level) / 2)

    @classmethod
    def fit(
        cls,
        cells: CalibrationSet,
        cube: xr.DataArray,
        domain: Domain,
        n_windows: int = 0,
    ) -> "Calibration":
        """Factors with which the intervals of each level cover their share of the cells of a cube;
        of a measurement that is nearly always at a bound, such as rain at zero, of its other cells.

        A gap class with few cells is pooled with its neighbours. A group with too few cells falls
        back to the factor of its measurement, then to that of all measurements. Without enough
        cells overall, the model's own intervals are kept.
        """
        measurements, stations = (_names(cube[axis]) for axis in ("measurement", "location"))
        directions = is_direction(cube)
        factors = np.ones((len(LEVELS), len(measurements), UNOBSERVED + 1))
        circular = directions[cells.measurement]
        scores = cells.scores(circular)
        known = ~np.isnan(scores).any(axis=0) & ~_idle(cells, domain)
        overall = _conformal_quantiles(scores[:, known & ~circular], fallback=np.ones(len(LEVELS)))
        for m, direction in enumerate(directions):
            in_measurement = known & (cells.measurement == m)
            fallback = 180 * np.array(LEVELS) if direction else overall
            fallback = _conformal_quantiles(scores[:, in_measurement], fallback=fallback)
            n_cells = np.bincount(cells.gap_class[in_measurement], minlength=UNOBSERVED + 1)
            for gap in range(UNOBSERVED + 1):
                first, last = pooled_classes(n_cells, gap)
                pooled = (cells.gap_class >= first) & (cells.gap_class <= last)
                group = in_measurement & pooled
                factors[:, m, gap] = _conformal_quantiles(scores[:, group], fallback=fallback)
        at = LEVELS.index(STATION_LEVEL)
        widths = factors[at, cells.measurement, cells.gap_class]
        wide = known & (widths > 0)  # others stay without width, whatever they are multiplied by
        scaled = scores[at][wide] / widths[wide]
        by_station = _station_factors(scaled, cells.location[wide], len(stations))
        angles = tuple(directions.tolist())
        return cls(factors, measurements, angles, stations, by_station, n_windows)

    def bounds(
        self,
        level: float,
        filled: xr.DataArray,
        prediction: tuple[xr.DataArray, xr.DataArray, xr.DataArray],
        gap_classes: NDArray[np.int64],
        domain: Domain,
    ) -> Bounds:
        """The bounds of an interval around the filled values, within their domain.

        `prediction` is the model's point, in components, and its lower and upper quantile; bounds
        are NaN where it has none. The interval of a direction runs clockwise from lower to upper.
        """
        bounds, factors = np.full((2, *filled.shape), np.nan), self._factors_at(level)
        names = pd.Index(self.stations).get_indexer(_names(filled["location"]))
        by_station = np.where(names >= 0, self.station_factors[names], 1.0)
        for k, name in enumerate(filled["measurement"].to_numpy()):
            if str(name) not in self.measurements:
                continue
            m = self.measurements.index(str(name))
            factor = factors[m][gap_classes[:, :, k]] * by_station
            middle = filled.to_numpy()[:, :, k]
            if self.is_direction[m]:
                known = prediction[0].sel(measurement=f"{name}{EAST}").notnull().to_numpy()
                arc = np.stack([middle - factor, middle + factor])
                bounds[..., k] = np.where(known, arc, np.nan)
                continue
            point, lower, upper = (x.sel(measurement=name).to_numpy() for x in prediction)
            below, above = (factor * np.maximum(w, 0.0) for w in (point - lower, upper - point))
            bounds[..., k] = middle - below, middle + above
        low, high = domain.fit_bounds(*bounds)
        angles = is_direction(filled)
        circle = angles & (high - low >= 360)
        low, high = (np.where(angles, wrap_degrees(bound), bound) for bound in (low, high))
        low, high = np.where(circle, 0.0, low), np.where(circle, 360.0, high)
        return filled.copy(data=low), filled.copy(data=high)

    def _factors_at(self, level: float) -> Floats:
        """Factors of any level, (measurement, gap class)."""
        above = int(np.clip(np.searchsorted(LEVELS, level), 1, len(LEVELS) - 1))
        low, high = LEVELS[above - 1], LEVELS[above]
        share = float(np.clip((level - low) / (high - low), 0.0, 1.0))
        factors: Floats = (1 - share) * self.factors[above - 1] + share * self.factors[above]
        return factors


def _idle(cells: CalibrationSet, domain: Domain) -> NDArray[np.bool_]:
    """Cells at a bound where nearly all values of their measurement are: any interval that reaches
    the bound holds them, so they say nothing of its width."""
    idle = np.zeros(len(cells.truth), dtype=bool)
    for bound in (domain.low, domain.high):
        at_bound = cells.truth == bound[cells.measurement]
        n_cells, n_at_bound = (
            np.bincount(cells.measurement[mask], minlength=len(bound))
            for mask in (np.ones_like(at_bound), at_bound)
        )
        idle |= at_bound & (n_at_bound > MOSTLY * n_cells)[cells.measurement]
    return idle


def pooled_classes(n_cells: NDArray[np.int64], gap: int) -> tuple[int, int]:
    """The first and last gap class to pool with this one, until they have enough cells."""
    first = last = gap
    while gap != UNOBSERVED and last - first < UNOBSERVED - 1:
        if n_cells[first : last + 1].sum() >= MIN_CELLS:
            break
        first, last = max(0, first - 1), min(UNOBSERVED - 1, last + 1)
    return first, last


def _station_factors(scores: Floats, station: NDArray[np.int64], n_stations: int) -> Floats:
    """How much wider the intervals of each station must be to cover their share of its cells; less
    where these are few."""
    factors = np.ones(n_stations)
    ends = np.bincount(station, minlength=n_stations).cumsum()
    by_station = np.split(scores[np.argsort(station, kind="stable")], ends[:-1])
    for number, cells in enumerate(by_station):
        [factor] = _conformal_quantiles(cells[None], fallback=np.ones(1), levels=(STATION_LEVEL,))
        share = len(cells) / (len(cells) + STATION_PRIOR_CELLS)
        factors[number] = max(1.0, factor) ** share
    return factors


def _conformal_quantiles(
    scores: Floats, *, fallback: Floats, levels: Sequence[float] = LEVELS
) -> Floats:
    """The quantile of the scores (level, cell) at each level, corrected for their number."""
    n_cells = scores.shape[1]
    if n_cells < MIN_CELLS:
        return fallback
    shares = np.minimum(1.0, np.array(levels) * (1 + 1 / n_cells))
    return np.array([np.quantile(row, share) for row, share in zip(scores, shares, strict=True)])


@dataclass(frozen=True, eq=False)
class ConformalFiller(Filler):
    """A filler with intervals that are calibrated on cells that were hidden from it: its own, or of
    one width for each measurement and gap class."""

    gives_intervals: ClassVar[bool] = True

    filler: Filler
    calibration: Calibration
    error_model: ErrorModel | None
    """What the widths are proportional to; None if the filler gives intervals of its own."""

    @classmethod
    def fit(
        cls,
        filler: Filler,
        filled: xr.DataArray,
        truth: xr.DataArray,
        visible: xr.DataArray,
        intervals: Intervals | None = None,
    ) -> "ConformalFiller":
        """Calibrate a filler on how `visible` was filled by it, or by one of the same method, with
        the intervals that it gives, if any."""
        model = None if intervals else ErrorModel.fit(filled, truth, visible)
        sides = intervals or _expected_errors(filled, visible, model)
        cells = _hidden_cells(filled, truth, visible, sides)
        return cls(filler, Calibration.fit(cells, truth, Domain.of(visible)), model)

    def fill(self, cube: Cube) -> xr.DataArray:
        return self.filler.fill(cube)

    def fill_intervals(self, cube: Cube, levels: Sequence[float]) -> Filled:
        data = prepare(cube)
        if not levels:
            return self.filler.fill(data), []
        own = sorted({_own_level(level) for level in levels}) if self.filler.gives_intervals else ()
        filled, bounds = self.filler.fill_intervals(data, own)
        intervals = dict(zip(own, bounds, strict=True)) if own else None
        sides = intervals or _expected_errors(filled, data.cube, self.error_model)
        gaps = gap_classes(data.cube)
        return filled, _scaled_bounds(self.calibration, filled, sides, gaps, levels, data.domain)

    @property
    def primary(self) -> Filler:
        return self.filler.primary

    def filler_of(self, location: str, measurement: str) -> Filler:
        return self.filler.filler_of(location, measurement)

    def only_explainable(self) -> Filler | None:
        return self.filler.only_explainable()


def cross_fitted_bounds(
    filled: xr.DataArray,
    truth: xr.DataArray,
    visible: xr.DataArray,
    levels: Sequence[float],
    intervals: Intervals | None = None,
) -> dict[float, Bounds]:
    """Bounds such as a `ConformalFiller` gives, by level, for scoring on the calibration cells.

    Each fold of time is calibrated on the others; NaN where those have too few cells.
    """
    fold, domain = time_folds(truth.sizes["time"]), Domain.of(visible)
    gaps, bounds = gap_classes(visible), np.full((len(levels), 2, *truth.shape), np.nan)
    for number in np.unique(fold):
        inside, others = fold == number, time_mask(fold != number, truth)
        known = truth.where(others | visible.notnull()).transpose(*truth.dims)
        sides = intervals or _expected_errors(
            filled, visible, ErrorModel.fit(filled, known, visible)
        )
        cells = _hidden_cells(filled, known, visible, sides)
        if len(cells.truth) >= MIN_CELLS:
            calibration = Calibration.fit(cells, truth, domain)
            part = {level: (low[inside], high[inside]) for level, (low, high) in sides.items()}
            bounds[:, :, inside] = _scaled_bounds(
                calibration, filled[inside], part, gaps[inside], levels, domain
            )
    return {
        level: (filled.copy(data=lower), filled.copy(data=upper))
        for level, (lower, upper) in zip(levels, bounds, strict=True)
    }


def time_folds(n_steps: int) -> NDArray[np.int64]:
    """The fold of cross-fitting that each step belongs to."""
    return np.arange(n_steps) * N_BLOCKS // n_steps % N_FOLDS


def _own_level(level: float) -> float:
    """The level of a filler's own interval that is scaled to this one."""
    return min(level, MAX_MODEL_LEVEL)


def _expected_errors(
    filled: xr.DataArray, visible: xr.DataArray, model: ErrorModel | None
) -> Intervals:
    """The bounds to be scaled of a filler without intervals: the expected error to either side."""
    assert model is not None  # the filler would give intervals
    width = model.widths(filled, visible)
    sides = filled - width, filled + width
    return {_own_level(level): sides for level in LEVELS}


def _hidden_cells(
    filled: xr.DataArray, truth: xr.DataArray, visible: xr.DataArray, sides: Intervals
) -> CalibrationSet:
    """The cells of `truth` that are not visible, with the bounds to be scaled."""
    hidden = np.nonzero((truth.notnull() & visible.isnull()).transpose(*truth.dims).to_numpy())
    bounds = [side.to_numpy()[hidden] for level in LEVELS for side in sides[_own_level(level)]]
    return CalibrationSet(
        point=filled.to_numpy()[hidden].astype(np.float64),
        truth=truth.to_numpy()[hidden].astype(np.float64),
        bounds=np.array(bounds, dtype=np.float64),
        location=hidden[1],
        measurement=hidden[2],
        gap_class=gap_classes(visible)[hidden],
    )


def _names(axis: xr.DataArray) -> tuple[str, ...]:
    return tuple(str(name) for name in axis.to_numpy())


def gap_classes(cube: xr.DataArray) -> NDArray[np.int64]:
    """The gap class of every cell, (t, l, m)."""
    return gap_class(effective_gap_lengths(cube.isnull().to_numpy()))


def _scaled_bounds(
    calibration: Calibration,
    filled: xr.DataArray,
    sides: Intervals,
    gap_classes: NDArray[np.int64],
    levels: Sequence[float],
    domain: Domain,
) -> list[Bounds]:
    """Calibrated bounds around the filled values."""
    point = to_components(filled)
    predictions = ((level, (point, *_nearest(sides, _own_level(level)))) for level in levels)
    return [
        calibration.bounds(level, filled, prediction, gap_classes, domain)
        for level, prediction in predictions
    ]


def _nearest(sides: Intervals, level: float) -> Bounds:
    """The bounds of this level; those of one scale are the same at every level."""
    return sides[min(sides, key=lambda known: abs(known - level))]
