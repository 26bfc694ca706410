"""What a network is examined on while it learns, and how it did in the user's units."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType

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
from cdsa.methods.wrapper import within_bounds
from cdsa.training.loop import TrainConfig

MAX_VALIDATION_WINDOWS = 96
"""At most so many windows have validation cells in them."""


MAX_ROUNDS = 4
"""How often at most the exam is asked again for intervals, with more hidden around its cells."""


MAX_SEGMENTS = 16
"""Of so many stretches of the exam at most."""


MAX_EXTRA_HIDDEN = 0.7


ENOUGH_CELLS = 100
"""Cells of a measurement and class of gap lengths that need no more of their kind."""


NOTHING: Mapping[int, float] = MappingProxyType({})


def choose_holdout(
    cube: xr.DataArray, length: int, horizon: int, config: TrainConfig, seed: int
) -> tuple[NDArray[np.bool_], xr.DataArray]:
    """The steps that windows of the exam lie in, and the cells hidden there for it.

    A forecaster is examined on a time of its own, the end; if that would leave too little to learn
    from, not at all.
    """
    steps = cube.sizes["time"]
    number, share = np.arange(steps), config.holdout_share
    nothing = xr.zeros_like(cube, dtype=bool)
    if horizon:
        there = np.flatnonzero(cube.notnull().any(("location", "measurement")).to_numpy())
        end = int(there[-1]) + 1 if len(there) else 0
        late = max(length, round(share * end))
        return (number >= end - late) & (number < end) & (end >= 3 * length), nothing
    if cube.notnull().sum() * share < 1:
        return number < 0, nothing
    windows = max(1, steps // length)
    measured = cube.notnull().any(("location", "measurement")).to_numpy()
    full = np.unique((number // length)[measured & (number < windows * length)])
    inside = np.isin(number // length, full[spread_evenly(len(full), MAX_VALIDATION_WINDOWS)])
    rng = np.random.default_rng([seed, 1])
    match config.masking:
        case "random":
            hidden = AtRandom(share=share)(cube, rng)
        case "like_data":
            # own gaps first: what is hidden one by one would be taken for gaps of the table's own
            hidden = LikeData(share=share * 2 / 3, longest=length)(cube, rng)
            hidden = hidden | AtRandom(share=share / 3)(cube.where(~hidden), rng)
        case _:
            hidden = Bursts(share=share)(cube, rng)
    return inside, (hidden & time_mask(inside, cube)).transpose(*cube.dims)


def gap_classes(
    cube: xr.DataArray, horizon: int, unobserved: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The class of the gap that each cell of a cube lies in; of a forecast, of its steps ahead.
    Stations that are `silent` (l,) have a class of their own."""
    lengths = effective_gap_lengths(cube.isnull().to_numpy())
    if horizon:
        number = np.arange(cube.sizes["time"]) - (cube.sizes["time"] - horizon) + 1
        lengths = np.broadcast_to(np.maximum(number, 1)[:, None, None], cube.shape)
    return np.where(unobserved[None, :, None], UNOBSERVED, gap_class(lengths))


@dataclass(frozen=True, eq=False)
class Validator:
    """A trained network before what was kept from it: it fills, or foresees, as it will for users,
    and is asked for the exam's cells."""

    predictor: Predictor
    cube: xr.DataArray
    hidden: xr.DataArray
    """Cells of `own` that are asked for, of a network that fills."""

    holdout_steps: NDArray[np.bool_]
    """Steps of the exam; of a forecaster the time of its own."""

    def validate(self, seed: int) -> tuple[tuple[dict[str, Value], ...], Calibration | None]:
        """Errors on the cells of the exam, and what makes intervals hold their share of them."""
        sheets = self._predict(BOUND_QUANTILES)
        told = self._calibration_set(sheets, seed)
        if told is None:
            return self._errors(sheets), None
        names = tuple(str(name) for name in self.cube["measurement"].to_numpy())
        angles = tuple(bool(angle) for angle in is_direction(self.cube))
        calibration = Calibration.fit(told, names, angles, self._n_windows())
        return self._errors(sheets, told.mean_absolute_errors(UNOBSERVED, angles)), calibration

    def _n_windows(self) -> int:
        """Windows with cells that are asked for, in the time that was learnt from."""
        if self.predictor.horizon:
            return 0
        asking = np.flatnonzero(self.hidden.any(("location", "measurement")).to_numpy())
        return len(np.unique(asking // self.predictor.window))

    def _errors(
        self, sheets: "Sequence[HoldoutPredictions]", elsewhere: Mapping[int, float] = NOTHING
    ) -> tuple[dict[str, Value], ...]:
        """Errors per measurement in its own unit, and `elsewhere`: at places without a sensor."""
        if not sheets:
            return ()
        names = [str(name) for name in self.cube["measurement"].to_numpy()]
        weights: Sequence[NDArray[np.float64] | None] = [None] * len(sheets)
        if not self.predictor.horizon:
            weights = importance_weights(
                [(s.target, s.visible) for s in sheets], natural_gap_mask(self.cube)
            )
        found = [
            measure(s.prediction, s.truth, s.target, s.visible, weights=weight)
            for s, weight in zip(sheets, weights, strict=True)
        ]
        figures = reduce(operator.add, found).by("measurement")
        units = units_of(self.cube)
        return tuple(
            {
                "measurement": str(name),
                "unit": units[str(name)],
                "cells": int(row["cells"]),
                "mae": to_json_value(float(row["mae"])),
                "rmse": to_json_value(float(row["rmse"])),
                "mae_elsewhere": to_json_value(elsewhere.get(names.index(str(name)), np.nan)),
            }
            for name, row in figures.iterrows()
        )

    def _calibration_set(
        self, sheets: "Sequence[HoldoutPredictions]", seed: int
    ) -> CalibrationSet | None:
        """All that was answered, for calibration.

        Gaps of all lengths are wanted, but few cells are kept for the exam. Where it has too few of
        a kind, they are asked for again with more of what is around them hidden.
        """
        cells = [sheet.target_cells() for sheet in sheets]
        if not any(len(part.truth) for part in cells):
            return None
        plenty = np.zeros((self.cube.sizes["measurement"], UNOBSERVED + 1), dtype=np.int64)
        for part in cells:
            np.add.at(plenty, (part.measurement, part.gap_class), 1)
        for number in range(0 if self.predictor.horizon else MAX_ROUNDS):
            lacking = plenty < ENOUGH_CELLS
            lacking[:, UNOBSERVED] &= self.predictor.inductive  # others know no such places
            if not lacking.any():
                break
            for sheet in self._predict(BOUND_QUANTILES, np.random.default_rng([seed, 2, number])):
                part = sheet.target_cells()
                part = part.select(lacking[part.measurement, part.gap_class])
                np.add.at(plenty, (part.measurement, part.gap_class), 1)
                cells.append(part)
        return CalibrationSet.concatenate(cells)

    def _predict(
        self, levels: Sequence[float], rng: np.random.Generator | None = None
    ) -> list["HoldoutPredictions"]:
        """The network's answers; with a generator, after hiding more of what is around."""
        return (
            self._predict_forecasts(levels)
            if self.predictor.horizon
            else self._predict_fills(levels, rng)
        )

    def _predict_fills(
        self, levels: Sequence[float], rng: np.random.Generator | None
    ) -> list["HoldoutPredictions"]:
        """One sheet for every stretch of the exam, with half a window on either side."""
        margin, sheets = self.predictor.window // 2, []
        network = self.predictor.adapt_to(self.cube.where(~self.hidden))
        asking = self.hidden.any(("location", "measurement")).to_numpy()
        parts = segments(self.holdout_steps & windows_with_targets(asking, self.predictor.window))
        if rng is not None:
            parts = [parts[n] for n in spread_evenly(len(parts), MAX_SEGMENTS)]
        for part in parts:
            low, high = max(0, part.start - margin), part.stop + margin
            piece, asked = (c.isel(time=slice(low, high)) for c in (self.cube, self.hidden))
            shown, lost = piece.where(~asked), np.zeros(piece.sizes["location"], dtype=bool)
            if rng is not None:
                more = Bursts if rng.random() < 0.5 else AtRandom
                shown = shown.where(~more(share=MAX_EXTRA_HIDDEN * rng.random())(shown, rng))
                lost = rng.random(len(lost)) < rng.random() / 2
                shown = shown.where(~xr.DataArray(lost, dims="location")).transpose(*piece.dims)
            network_then = network.without_stations(piece["location"].to_numpy()[lost])
            told = network_then.predict_quantiles(to_components(shown), levels)
            missing = shown.isnull().to_numpy()
            gaps = gap_class(effective_gap_lengths(missing))
            gaps[:, lost] = UNOBSERVED if self.predictor.inductive else gaps[:, lost]
            guess = within_bounds(from_components(told.isel(quantile=0), piece))
            sheets.append(
                HoldoutPredictions(guess, _bounds(told, piece), piece, asked, shown, gaps)
            )
        return sheets

    def _predict_forecasts(self, levels: Sequence[float]) -> list["HoldoutPredictions"]:
        """One sheet for every step ahead."""
        there, plain = np.flatnonzero(self.holdout_steps), to_components(self.cube)
        if not len(there):
            return []
        network = self.predictor.adapt_to(self.cube.isel(time=slice(0, int(there[0]) + 1)))
        first = int(there[0]) + network.context_length
        origins = np.arange(first, int(there[-1]) + 2 - network.horizon, network.horizon)
        origins = origins[spread_evenly(len(origins), MAX_VALIDATION_WINDOWS)]
        sheets = []
        for ahead, told in enumerate(network.forecast_from(plain, origins, levels)):
            truth = self.cube.isel(time=origins + ahead)
            answer = xr.concat(told, "quantile").assign_coords(time=truth["time"])
            answer = answer.transpose(..., "quantile")
            guess = within_bounds(from_components(answer.isel(quantile=0), truth))
            gaps = np.full(truth.shape, gap_class(np.array([ahead + 1]))[0])
            asked = truth.notnull() & ~truth["measurement"].isin(network.known_covariates)
            sheets.append(
                HoldoutPredictions(guess, _bounds(answer, truth), truth, asked, truth, gaps)
            )
        return sheets


def windows_with_targets(asking: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Steps whose window has a step that is asked for; windows touch."""
    whole = np.zeros_like(asking)
    for start in range(0, len(asking), length):
        whole[start : start + length] = asking[start : start + length].any()
    return whole


def spread_evenly(there: int, most: int) -> NDArray[np.int64]:
    """At most so many of the numbers below `there`, over all of them."""
    if there <= most:
        return np.arange(there)
    return np.linspace(0, there - 1, most).round().astype(np.int64)


def _bounds(told: xr.DataArray, like: xr.DataArray) -> NDArray[np.float64]:
    """Quantiles in components as those of the user's measurements, (t, l, m, q); a direction, which
    has two components, has none."""
    values, names = told.to_numpy()[..., 1:], told["measurement"].to_numpy().tolist()
    nothing = np.full(values.shape[:2] + values.shape[3:], np.nan)
    columns = [
        values[:, :, names.index(name)] if name in names else nothing
        for name in like["measurement"].to_numpy()
    ]
    return np.stack(columns, axis=2)


@dataclass(frozen=True, eq=False)
class HoldoutPredictions:
    """What was answered, asked and true, in the user's units."""

    prediction: xr.DataArray
    quantiles: NDArray[np.float64]
    """(t, l, m, q), NaN of directions."""

    truth: xr.DataArray
    target: xr.DataArray
    visible: xr.DataArray
    gap_classes: NDArray[np.int64]
    """Classes of gap lengths; a series without a value in its window lies in the longest."""

    def target_cells(self) -> CalibrationSet:
        """The asked cells, for calibration."""
        at = np.nonzero((self.target & self.truth.notnull()).transpose(*self.truth.dims).to_numpy())
        return CalibrationSet(
            point=self.prediction.to_numpy()[at],
            truth=self.truth.to_numpy()[at].astype(np.float64),
            bounds=self.quantiles[at].T,
            measurement=at[2],
            gap_class=self.gap_classes[at],
        )
