"""Validation cells of a network: which are held out from training, and what the network makes of
them. They give its errors in the user's units and calibrate its prediction intervals."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import assert_never

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import from_components
from cdsa.core.cube import is_direction, units_of
from cdsa.core.domain import Domain
from cdsa.core.gaps import effective_gap_lengths, gap_class, run_lengths
from cdsa.core.masks import AtRandom, Bursts, LikeData, natural_gap_mask
from cdsa.core.metrics import importance_weights, measure
from cdsa.core.prepare import PreparedCube
from cdsa.core.records import Value, to_json_value
from cdsa.core.splits import segments, time_mask
from cdsa.methods.calibration import (
    BOUND_QUANTILES,
    MIN_CELLS,
    UNOBSERVED,
    Calibration,
    CalibrationSet,
)
from cdsa.methods.engine.predictor import Predictor
from cdsa.training.loop import TrainConfig

MAX_VALIDATION_WINDOWS, MIN_VALIDATION_WINDOWS = 96, 12
MAX_VALIDATION_CELLS = 500_000
"""Validation windows have at most about so many cells, measured or not: with many series, fewer
windows are enough, and smoothing them takes time from training."""

MIN_RUNS, LONG_GAP_QUANTILE = 4, 0.8
"""Runs of validation windows, and the share of the missing cells that lie in gaps for which two
would fit into a run, if that leaves so many runs."""

MAX_ROUNDS = 4
"""Predictions of held-out cells with more cells hidden around them, for calibration."""

MAX_GROWTH = 3
"""A round may yield so many times the cells of the one before; of stations without observations,
any number."""

MAX_SEGMENTS = 16
"""Held-out segments in each of these rounds."""

MAX_EXTRA_HIDDEN = 0.7
"""Share of the cells around that is hidden at most."""


def choose_holdout(
    cube: xr.DataArray, length: int, horizon: int, config: TrainConfig, seed: int
) -> tuple[NDArray[np.bool_], xr.DataArray]:
    """The steps of the validation windows, (t,), and the cells hidden in them.

    A forecaster is validated on the last steps; if that left too few for training, on none.
    """
    n_steps, share = cube.sizes["time"], config.holdout_share
    step, nothing = np.arange(n_steps), xr.zeros_like(cube, dtype=bool)
    measured = cube.notnull().any(("location", "measurement")).to_numpy()
    if horizon:
        end = int(np.flatnonzero(measured)[-1]) + 1 if measured.any() else 0
        n_holdout = max(length, round(share * end))
        return (step >= end - n_holdout) & (step < end) & (end >= 3 * length), nothing
    if cube.notnull().sum() * share < 1:
        return step < 0, nothing
    n_windows = max(1, n_steps // length)
    windows = np.unique((step // length)[measured & (step < n_windows * length)])
    n_validated = MAX_VALIDATION_CELLS // (length * max(1, int(np.prod(cube.shape[1:]))))
    n_validated = min(max(n_validated, MIN_VALIDATION_WINDOWS), MAX_VALIDATION_WINDOWS)
    run = _windows_per_run(cube, length, min(n_validated, len(windows)))
    first = spread_evenly(max(1, len(windows) - run + 1), max(1, n_validated // run))
    windows = windows[np.unique(np.add.outer(first, np.arange(run)))]
    steps = np.isin(step // length, windows)
    rng = np.random.default_rng([seed, 1])
    match config.masking:
        case "random":
            hidden = AtRandom(share=share)(cube, rng)
        case "like_data":
            # gaps like the data's own first: they are drawn from the gaps there are
            hidden = LikeData(share=share * 2 / 3, longest=run * length)(cube, rng)
            hidden = hidden | AtRandom(share=share / 3)(cube.where(~hidden), rng)
        case "bursts" | "mixed":
            hidden = Bursts(share=share)(cube, rng)
        case _:
            assert_never(config.masking)
    return steps, (hidden & time_mask(steps, cube)).transpose(*cube.dims)


def _windows_per_run(cube: xr.DataArray, length: int, n_validated: int) -> int:
    """Validation windows that follow each other, so that gaps as long as most of the natural ones
    fit in. Gaps of the whole network do not count: nothing could be predicted in them."""
    lengths = run_lengths(natural_gap_mask(cube).to_numpy())
    silent = cube.isnull().all(("location", "measurement")).to_numpy()
    lengths = lengths[(lengths > 0) & (run_lengths(silent) <= length)[:, None, None]]
    if not len(lengths):
        return 1
    typical = float(np.quantile(lengths, LONG_GAP_QUANTILE))
    return min(max(1, math.ceil(2 * typical / length)), max(1, n_validated // MIN_RUNS))


def gap_classes(
    cube: xr.DataArray, horizon: int, unobserved: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The gap class of each cell, (t, l, m); of a forecast, that of its lead time. Unobserved
    stations (l,) have a class of their own."""
    lengths = effective_gap_lengths(cube.isnull().to_numpy())
    if horizon:
        lead = np.arange(cube.sizes["time"]) - (cube.sizes["time"] - horizon) + 1
        lengths = np.broadcast_to(np.maximum(lead, 1)[:, None, None], cube.shape)
    return np.where(unobserved[None, :, None], UNOBSERVED, gap_class(lengths))


def spread_evenly(n: int, n_max: int) -> NDArray[np.int64]:
    """At most `n_max` of the numbers below `n`, evenly spaced."""
    if n <= n_max:
        return np.arange(n)
    return np.linspace(0, n - 1, n_max).round().astype(np.int64)


@dataclass(frozen=True, eq=False)
class HoldoutPredictions:
    """Predictions and true values of a part of the cube."""

    prediction: xr.DataArray
    """In components, the point and `BOUND_QUANTILES`; (t, l, m, 1 + q)."""

    truth: xr.DataArray
    target: xr.DataArray
    visible: xr.DataArray
    gap_classes: NDArray[np.int64]
    domain: Domain
    """Of the data without the held-out cells."""

    @cached_property
    def point(self) -> xr.DataArray:
        """The point prediction in the user's units, as it would be filled."""
        plain = from_components(self.prediction.isel(quantile=0), self.truth)
        plain = plain.transpose(*self.truth.dims)
        return plain.copy(data=self.domain.fit(plain.to_numpy()))

    def target_cells(self) -> CalibrationSet:
        cells = (self.target & self.truth.notnull()).transpose(*self.truth.dims).to_numpy()
        # NaN for directions
        quantiles = self.prediction.isel(quantile=slice(1, None)).reindex(
            measurement=self.truth["measurement"].to_numpy()
        )
        return CalibrationSet(
            point=self.point.to_numpy()[cells],
            truth=self.truth.to_numpy()[cells].astype(np.float64),
            bounds=quantiles.to_numpy()[cells].T,
            location=np.nonzero(cells)[1],
            measurement=np.nonzero(cells)[2],
            gap_class=self.gap_classes[cells],
        )


@dataclass(frozen=True, eq=False)
class Validator:
    """Lets a trained network fill or forecast the held-out cells as it will for users."""

    predictor: Predictor
    data: PreparedCube
    hidden: xr.DataArray
    """Validation cells of a network that fills."""

    holdout_steps: NDArray[np.bool_]
    """Steps of the validation windows."""

    smoothed: xr.DataArray | None = None
    """What the backbone makes of the validation windows."""

    def validate(self, seed: int) -> tuple[tuple[dict[str, Value], ...], Calibration | None]:
        """Validation errors by measurement, and the calibration of prediction intervals."""
        cube, horizon = self.data.cube, self.predictor.horizon
        predictions = self._forecasts() if horizon else self._fills()
        cells = self._calibration_set(predictions, seed)
        if cells is None:
            return self._errors(predictions, {}), None
        directions = is_direction(cube).tolist()
        # of the training period
        hidden_steps = np.flatnonzero(self.hidden.any(("location", "measurement")).to_numpy())
        n_windows = 0 if horizon else len(np.unique(hidden_steps // self.predictor.window))
        calibration = Calibration.fit(cells, cube, predictions[0].domain, n_windows)
        unmonitored = cells.mean_absolute_errors(UNOBSERVED, directions)
        return self._errors(predictions, unmonitored), calibration

    def _errors(
        self, predictions: Sequence[HoldoutPredictions], unmonitored: Mapping[int, float]
    ) -> tuple[dict[str, Value], ...]:
        """Errors by measurement in its unit; at `unmonitored` sites by its index."""
        if not predictions:
            return ()
        weights: Sequence[NDArray[np.float64] | None] = [None] * len(predictions)
        if not self.predictor.horizon:
            weights = importance_weights(
                [(p.target, p.visible) for p in predictions], natural_gap_mask(self.data.cube)
            )
        errors = [
            measure(p.point, p.truth, p.target, p.visible, weights=weight)
            for p, weight in zip(predictions, weights, strict=True)
        ]
        by_measurement = reduce(operator.add, errors).by("measurement")
        return tuple(
            {
                "measurement": name,
                "unit": unit,
                "cells": int(by_measurement["cells"][name]),
                "mae": to_json_value(float(by_measurement["mae"][name])),
                "rmse": to_json_value(float(by_measurement["rmse"][name])),
                "mae_unmonitored": to_json_value(unmonitored.get(number, np.nan)),
            }
            for number, (name, unit) in enumerate(units_of(self.data.cube).items())
            if name in by_measurement.index
        )

    def _calibration_set(
        self, predictions: Sequence[HoldoutPredictions], seed: int
    ) -> CalibrationSet | None:
        """The validation cells; where a gap class has too few, they are predicted again with more
        cells hidden around them, as long as that promises enough."""
        sets = [prediction.target_cells() for prediction in predictions]
        if not any(len(cells.truth) for cells in sets):
            return None
        n_cells = np.zeros((self.data.cube.sizes["measurement"], UNOBSERVED + 1), dtype=np.int64)
        for cells in sets:
            np.add.at(n_cells, (cells.measurement, cells.gap_class), 1)
        enough = not self.predictor.horizon and (1 + MAX_ROUNDS) * n_cells.sum() >= MIN_CELLS
        within_reach = np.ones_like(n_cells, dtype=bool)
        within_reach[:, UNOBSERVED] = self.predictor.inductive  # others predict no such stations
        for number in range(MAX_ROUNDS if enough else 0):
            lacking = within_reach & (n_cells < MIN_CELLS)
            if not lacking.any():
                break
            before = n_cells.copy()
            for prediction in self._fills(np.random.default_rng([seed, 2, number])):
                cells = prediction.target_cells()
                cells = cells.select(lacking[cells.measurement, cells.gap_class])
                np.add.at(n_cells, (cells.measurement, cells.gap_class), 1)
                sets.append(cells)
            remaining = MAX_ROUNDS - 1 - number
            hoped_for = n_cells + remaining * MAX_GROWTH * (n_cells - before)
            within_reach[:, :UNOBSERVED] &= hoped_for[:, :UNOBSERVED] >= MIN_CELLS
        return CalibrationSet.concatenate(sets)

    def _fills(self, rng: np.random.Generator | None = None) -> list[HoldoutPredictions]:
        """Fills of each held-out segment with half a window on either side; with a generator, of
        some of them after hiding more cells and whole stations."""
        window, n_steps = self.predictor.window, len(self.holdout_steps)
        known = self.data.hide(self.hidden)
        predictor, domain = self.predictor.adapt_to(known.components), known.domain
        hidden_steps = self.hidden.any(("location", "measurement")).to_numpy()
        by_window = np.logical_or.reduceat(hidden_steps, np.arange(0, n_steps, window))
        held_out = segments(self.holdout_steps & np.repeat(by_window, window)[:n_steps])
        if rng is not None:
            held_out = [held_out[number] for number in spread_evenly(len(held_out), MAX_SEGMENTS)]
        predictions = []
        for segment in held_out:
            steps = slice(max(0, segment.start - window // 2), segment.stop + window // 2)
            truth, target = self.data.cube.isel(time=steps), self.hidden.isel(time=steps)
            visible = known.isel(time=steps)
            dropped = np.zeros(truth.sizes["location"], dtype=bool)
            if rng is not None:
                mask = Bursts if rng.random() < 0.5 else AtRandom
                more_hidden = mask(share=MAX_EXTRA_HIDDEN * rng.random())(visible.cube, rng)
                dropped = rng.random(len(dropped)) < rng.random() / 2
                visible = visible.mask(more_hidden | xr.DataArray(dropped, dims="location"))
            gaps = gap_classes(visible.cube, 0, dropped & predictor.inductive)
            without_dropped = predictor.without_stations(truth["location"].to_numpy()[dropped])
            smoothed = None
            if rng is None and self.smoothed is not None:
                smoothed = self.smoothed.isel(time=steps)
            prediction = without_dropped.predict(visible.components, BOUND_QUANTILES, smoothed)
            predictions.append(
                HoldoutPredictions(prediction, truth, target, visible.cube, gaps, domain)
            )
        return predictions

    def _forecasts(self) -> list[HoldoutPredictions]:
        """Forecasts for each step of the horizon."""
        if not self.holdout_steps.any():
            return []
        cube, components = self.data.cube, self.data.components
        first, last = np.flatnonzero(self.holdout_steps)[[0, -1]].tolist()
        past = slice(0, first + 1)
        predictor = self.predictor.adapt_to(components.isel(time=past))
        domain = Domain.of(cube.isel(time=past))
        horizon = predictor.horizon
        origins = np.arange(first + predictor.context_length, last + 2 - horizon, horizon)
        origins = origins[spread_evenly(len(origins), MAX_VALIDATION_WINDOWS)]
        forecasts = predictor.forecast_from(components, origins, BOUND_QUANTILES)
        predictions = []
        for step, forecast in enumerate(forecasts):
            truth = cube.isel(time=origins + step)
            prediction = forecast.assign_coords(time=truth["time"])
            target = truth.notnull() & ~truth["measurement"].isin(predictor.known_covariates)
            gaps = np.full(truth.shape, gap_class(np.array([step + 1]))[0])
            predictions.append(HoldoutPredictions(prediction, truth, target, truth, gaps, domain))
        return predictions
