"""Validation cells of a network: which are held out from training, and what the network makes of
them. They give its errors in the user's units and calibrate its prediction intervals."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import from_components, to_components
from cdsa.core.cube import is_direction, units_of
from cdsa.core.gaps import effective_gap_lengths, gap_class
from cdsa.core.masks import AtRandom, Bursts, LikeData, natural_gap_mask
from cdsa.core.metrics import importance_weights, measure
from cdsa.core.records import Value, to_json_value
from cdsa.core.splits import segments, time_mask
from cdsa.methods.calibration import BOUND_QUANTILES, UNOBSERVED, Calibration, CalibrationSet
from cdsa.methods.engine.predictor import Predictor
from cdsa.methods.wrapper import clip_to_bounds
from cdsa.training.loop import TrainConfig

MAX_VALIDATION_WINDOWS = 96

MAX_ROUNDS = 4
"""Predictions of held-out cells with more cells hidden around them, for calibration."""

MAX_SEGMENTS = 16
"""Held-out segments in each of these rounds."""

MAX_EXTRA_HIDDEN = 0.7
"""Share of the cells around that is hidden at most."""

ENOUGH_CELLS = 100
"""Calibration cells of a measurement and gap class that suffice."""


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
    windows = windows[spread_evenly(len(windows), MAX_VALIDATION_WINDOWS)]
    steps = np.isin(step // length, windows)
    rng = np.random.default_rng([seed, 1])
    match config.masking:
        case "random":
            hidden = AtRandom(share=share)(cube, rng)
        case "like_data":
            # gaps like the data's own first: they are drawn from the gaps there are
            hidden = LikeData(share=share * 2 / 3, longest=length)(cube, rng)
            hidden = hidden | AtRandom(share=share / 3)(cube.where(~hidden), rng)
        case _:
            hidden = Bursts(share=share)(cube, rng)
    return steps, (hidden & time_mask(steps, cube)).transpose(*cube.dims)


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
    """Predictions and true values of a part of the cube, in the user's units."""

    prediction: xr.DataArray
    quantiles: NDArray[np.float64]
    """At `BOUND_QUANTILES`, (t, l, m, q); NaN for directions."""

    truth: xr.DataArray
    target: xr.DataArray
    visible: xr.DataArray
    gap_classes: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        prediction: xr.DataArray,
        truth: xr.DataArray,
        target: xr.DataArray,
        visible: xr.DataArray,
        gap_classes: NDArray[np.int64],
    ) -> "HoldoutPredictions":
        """Those of a prediction in components, (t, l, m, 1 + q)."""
        point = clip_to_bounds(from_components(prediction.isel(quantile=0), truth))
        quantiles = prediction.to_numpy()[..., 1:]
        names = prediction["measurement"].to_numpy().tolist()
        missing = np.full(quantiles.shape[:2] + quantiles.shape[3:], np.nan)
        columns = [
            quantiles[:, :, names.index(name)] if name in names else missing
            for name in truth["measurement"].to_numpy()
        ]
        return cls(point, np.stack(columns, axis=2), truth, target, visible, gap_classes)

    def target_cells(self) -> CalibrationSet:
        cells = (self.target & self.truth.notnull()).transpose(*self.truth.dims).to_numpy()
        return CalibrationSet(
            point=self.prediction.to_numpy()[cells],
            truth=self.truth.to_numpy()[cells].astype(np.float64),
            bounds=self.quantiles[cells].T,
            measurement=np.nonzero(cells)[2],
            gap_class=self.gap_classes[cells],
        )


@dataclass(frozen=True, eq=False)
class Validator:
    """Lets a trained network fill or forecast the held-out cells as it will for users."""

    predictor: Predictor
    cube: xr.DataArray
    hidden: xr.DataArray
    """Validation cells of a network that fills."""

    holdout_steps: NDArray[np.bool_]
    """Steps of the validation windows."""

    def validate(self, seed: int) -> tuple[tuple[dict[str, Value], ...], Calibration | None]:
        """Validation errors by measurement, and the calibration of prediction intervals."""
        predictions = self._forecasts() if self.predictor.horizon else self._fills()
        cells = self._calibration_set(predictions, seed)
        if cells is None:
            return self._errors(predictions, {}), None
        names = tuple(str(name) for name in self.cube["measurement"].to_numpy())
        directions = tuple(bool(flag) for flag in is_direction(self.cube))
        calibration = Calibration.fit(cells, names, directions, self._n_windows())
        unmonitored = cells.mean_absolute_errors(UNOBSERVED, directions)
        return self._errors(predictions, unmonitored), calibration

    def _n_windows(self) -> int:
        """Windows of the training period with validation cells."""
        steps = np.flatnonzero(self.hidden.any(("location", "measurement")).to_numpy())
        return 0 if self.predictor.horizon else len(np.unique(steps // self.predictor.window))

    def _errors(
        self, predictions: Sequence[HoldoutPredictions], unmonitored: Mapping[int, float]
    ) -> tuple[dict[str, Value], ...]:
        """Errors by measurement in its unit; at `unmonitored` sites by its index."""
        if not predictions:
            return ()
        weights: Sequence[NDArray[np.float64] | None] = [None] * len(predictions)
        if not self.predictor.horizon:
            weights = importance_weights(
                [(p.target, p.visible) for p in predictions], natural_gap_mask(self.cube)
            )
        errors = [
            measure(p.prediction, p.truth, p.target, p.visible, weights=weight)
            for p, weight in zip(predictions, weights, strict=True)
        ]
        names, units = self.cube["measurement"].to_numpy().tolist(), units_of(self.cube)
        return tuple(
            {
                "measurement": str(name),
                "unit": units[str(name)],
                "cells": int(row["cells"]),
                "mae": to_json_value(float(row["mae"])),
                "rmse": to_json_value(float(row["rmse"])),
                "mae_unmonitored": to_json_value(unmonitored.get(names.index(name), np.nan)),
            }
            for name, row in reduce(operator.add, errors).by("measurement").iterrows()
        )

    def _calibration_set(
        self, predictions: Sequence[HoldoutPredictions], seed: int
    ) -> CalibrationSet | None:
        """The validation cells; where a gap class has too few, they are predicted again with more
        cells hidden around them."""
        sets = [prediction.target_cells() for prediction in predictions]
        if not any(len(cells.truth) for cells in sets):
            return None
        n_cells = np.zeros((self.cube.sizes["measurement"], UNOBSERVED + 1), dtype=np.int64)
        for cells in sets:
            np.add.at(n_cells, (cells.measurement, cells.gap_class), 1)
        for number in range(0 if self.predictor.horizon else MAX_ROUNDS):
            lacking = n_cells < ENOUGH_CELLS
            lacking[:, UNOBSERVED] &= self.predictor.inductive  # others predict no such stations
            if not lacking.any():
                break
            for prediction in self._fills(np.random.default_rng([seed, 2, number])):
                cells = prediction.target_cells()
                cells = cells.select(lacking[cells.measurement, cells.gap_class])
                np.add.at(n_cells, (cells.measurement, cells.gap_class), 1)
                sets.append(cells)
        return CalibrationSet.concatenate(sets)

    def _fills(self, rng: np.random.Generator | None = None) -> list[HoldoutPredictions]:
        """Fills of each held-out segment with half a window on either side; with a generator, of
        some of them after hiding more cells and whole stations."""
        window = self.predictor.window
        predictor = self.predictor.adapt_to(self.cube.where(~self.hidden))
        has_targets = self.hidden.any(("location", "measurement")).to_numpy()
        held_out = segments(self.holdout_steps & _by_window(has_targets, window))
        if rng is not None:
            held_out = [held_out[number] for number in spread_evenly(len(held_out), MAX_SEGMENTS)]
        predictions = []
        for segment in held_out:
            steps = slice(max(0, segment.start - window // 2), segment.stop + window // 2)
            truth, target = self.cube.isel(time=steps), self.hidden.isel(time=steps)
            visible, dropped = truth.where(~target), np.zeros(truth.sizes["location"], dtype=bool)
            if rng is not None:
                mask = Bursts if rng.random() < 0.5 else AtRandom
                visible = visible.where(~mask(share=MAX_EXTRA_HIDDEN * rng.random())(visible, rng))
                dropped = rng.random(len(dropped)) < rng.random() / 2
                visible = visible.where(~xr.DataArray(dropped, dims="location"))
                visible = visible.transpose(*truth.dims)
            gaps = gap_class(effective_gap_lengths(visible.isnull().to_numpy()))
            if predictor.inductive:
                gaps[:, dropped] = UNOBSERVED
            without_dropped = predictor.without_stations(truth["location"].to_numpy()[dropped])
            prediction = without_dropped.predict_quantiles(to_components(visible), BOUND_QUANTILES)
            predictions.append(HoldoutPredictions.of(prediction, truth, target, visible, gaps))
        return predictions

    def _forecasts(self) -> list[HoldoutPredictions]:
        """Forecasts for each step of the horizon."""
        if not self.holdout_steps.any():
            return []
        first, last = np.flatnonzero(self.holdout_steps)[[0, -1]].tolist()
        predictor = self.predictor.adapt_to(self.cube.isel(time=slice(0, first + 1)))
        horizon = predictor.horizon
        origins = np.arange(first + predictor.context_length, last + 2 - horizon, horizon)
        origins = origins[spread_evenly(len(origins), MAX_VALIDATION_WINDOWS)]
        forecasts = predictor.forecast_from(to_components(self.cube), origins, BOUND_QUANTILES)
        predictions = []
        for step, forecast in enumerate(forecasts):
            truth = self.cube.isel(time=origins + step)
            prediction = forecast.assign_coords(time=truth["time"])
            target = truth.notnull() & ~truth["measurement"].isin(predictor.known_covariates)
            gaps = np.full(truth.shape, gap_class(np.array([step + 1]))[0])
            predictions.append(HoldoutPredictions.of(prediction, truth, target, truth, gaps))
        return predictions


def _by_window(flags: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Steps of the adjacent windows that have any flag, (t,)."""
    windows = np.zeros_like(flags)
    for start in range(0, len(flags), length):
        windows[start : start + length] = flags[start : start + length].any()
    return windows
