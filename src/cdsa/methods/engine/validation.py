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
from cdsa.methods.engine.predictor import Network
from cdsa.methods.wrapper import within_bounds
from cdsa.training.loop import TrainConfig

EXAM_WINDOWS = 96
"""At most so many windows have validation cells in them."""


CONTEXTS = 4
"""How often at most the exam is asked again for intervals, with more hidden around its cells."""


PIECES = 16
"""Of so many stretches of the exam at most."""


MOST_AROUND = 0.7


PLENTY = 100
"""Cells of a measurement and class of gap lengths that need no more of their kind."""


NOTHING: Mapping[int, float] = MappingProxyType({})


def choose_exam(
    own: xr.DataArray, length: int, ahead: int, config: TrainConfig, seed: int
) -> tuple[NDArray[np.bool_], xr.DataArray]:
    """The steps that windows of the exam lie in, and the cells hidden there for it.

    A forecaster is examined on a time of its own, the end; if that would leave too little to learn
    from, not at all.
    """
    steps = own.sizes["time"]
    number, share = np.arange(steps), config.holdout_share
    nothing = xr.zeros_like(own, dtype=bool)
    if ahead:
        there = np.flatnonzero(own.notnull().any(("location", "measurement")).to_numpy())
        end = int(there[-1]) + 1 if len(there) else 0
        late = max(length, round(share * end))
        return (number >= end - late) & (number < end) & (end >= 3 * length), nothing
    if own.notnull().sum() * share < 1:
        return number < 0, nothing
    windows = max(1, steps // length)
    measured = own.notnull().any(("location", "measurement")).to_numpy()
    full = np.unique((number // length)[measured & (number < windows * length)])
    inside = np.isin(number // length, full[evenly(len(full), EXAM_WINDOWS)])
    rng = np.random.default_rng([seed, 1])
    match config.masking:
        case "random":
            hidden = AtRandom(share=share)(own, rng)
        case "like_data":
            # own gaps first: what is hidden one by one would be taken for gaps of the table's own
            hidden = LikeData(share=share * 2 / 3, longest=length)(own, rng)
            hidden = hidden | AtRandom(share=share / 3)(own.where(~hidden), rng)
        case _:
            hidden = Bursts(share=share)(own, rng)
    return inside, (hidden & time_mask(inside, own)).transpose(*own.dims)


def gap_classes(cube: xr.DataArray, ahead: int, silent: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The class of the gap that each cell of a cube lies in; of a forecast, of its steps ahead.
    Stations that are `silent` (l,) have a class of their own."""
    lengths = effective_gap_lengths(cube.isnull().to_numpy())
    if ahead:
        number = np.arange(cube.sizes["time"]) - (cube.sizes["time"] - ahead) + 1
        lengths = np.broadcast_to(np.maximum(number, 1)[:, None, None], cube.shape)
    return np.where(silent[None, :, None], UNOBSERVED, gap_class(lengths))


@dataclass(frozen=True, eq=False)
class Exam:
    """A trained network before what was kept from it: it fills, or foresees, as it will for users,
    and is asked for the exam's cells."""

    network: Network
    own: xr.DataArray
    hidden: xr.DataArray
    """Cells of `own` that are asked for, of a network that fills."""

    steps: NDArray[np.bool_]
    """Steps of the exam; of a forecaster the time of its own."""

    def result(self, seed: int) -> tuple[tuple[dict[str, Value], ...], Calibration | None]:
        """Errors on the cells of the exam, and what makes intervals hold their share of them."""
        sheets = self._sheets(BOUND_QUANTILES)
        told = self._told(sheets, seed)
        if told is None:
            return self._errors(sheets), None
        names = tuple(str(name) for name in self.own["measurement"].to_numpy())
        angles = tuple(bool(angle) for angle in is_direction(self.own))
        calibration = Calibration.fit(told, names, angles, self._windows())
        return self._errors(sheets, told.mean_absolute_errors(UNOBSERVED, angles)), calibration

    def _windows(self) -> int:
        """Windows with cells that are asked for, in the time that was learnt from."""
        if self.network.ahead:
            return 0
        asking = np.flatnonzero(self.hidden.any(("location", "measurement")).to_numpy())
        return len(np.unique(asking // self.network.length))

    def _errors(
        self, sheets: "Sequence[_Sheet]", elsewhere: Mapping[int, float] = NOTHING
    ) -> tuple[dict[str, Value], ...]:
        """Errors per measurement in its own unit, and `elsewhere`: at places without a sensor."""
        if not sheets:
            return ()
        names = [str(name) for name in self.own["measurement"].to_numpy()]
        weights: Sequence[NDArray[np.float64] | None] = [None] * len(sheets)
        if not self.network.ahead:
            weights = importance_weights(
                [(s.asked, s.visible) for s in sheets], natural_gap_mask(self.own)
            )
        found = [
            measure(s.guess, s.truth, s.asked, s.visible, weights=weight)
            for s, weight in zip(sheets, weights, strict=True)
        ]
        figures = reduce(operator.add, found).by("measurement")
        units = units_of(self.own)
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

    def _told(self, sheets: "Sequence[_Sheet]", seed: int) -> CalibrationSet | None:
        """All that was answered, for calibration.

        Gaps of all lengths are wanted, but few cells are kept for the exam. Where it has too few of
        a kind, they are asked for again with more of what is around them hidden.
        """
        cells = [sheet.cells() for sheet in sheets]
        if not any(len(part.truth) for part in cells):
            return None
        plenty = np.zeros((self.own.sizes["measurement"], UNOBSERVED + 1), dtype=np.int64)
        for part in cells:
            np.add.at(plenty, (part.measurement, part.gap_class), 1)
        for number in range(0 if self.network.ahead else CONTEXTS):
            lacking = plenty < PLENTY
            lacking[:, UNOBSERVED] &= self.network.fits_any  # others know no such places
            if not lacking.any():
                break
            for sheet in self._sheets(BOUND_QUANTILES, np.random.default_rng([seed, 2, number])):
                part = sheet.cells()
                part = part.select(lacking[part.measurement, part.gap_class])
                np.add.at(plenty, (part.measurement, part.gap_class), 1)
                cells.append(part)
        return CalibrationSet.concatenate(cells)

    def _sheets(
        self, levels: Sequence[float], rng: np.random.Generator | None = None
    ) -> list["_Sheet"]:
        """The network's answers; with a generator, after hiding more of what is around."""
        return self._foreseen(levels) if self.network.ahead else self._filled(levels, rng)

    def _filled(self, levels: Sequence[float], rng: np.random.Generator | None) -> list["_Sheet"]:
        """One sheet for every stretch of the exam, with half a window on either side."""
        margin, sheets = self.network.length // 2, []
        network = self.network.placed(self.own.where(~self.hidden))
        asking = self.hidden.any(("location", "measurement")).to_numpy()
        parts = segments(self.steps & asking_nearby(asking, self.network.length))
        if rng is not None:
            parts = [parts[n] for n in evenly(len(parts), PIECES)]
        for part in parts:
            low, high = max(0, part.start - margin), part.stop + margin
            piece, asked = (c.isel(time=slice(low, high)) for c in (self.own, self.hidden))
            shown, lost = piece.where(~asked), np.zeros(piece.sizes["location"], dtype=bool)
            if rng is not None:
                more = Bursts if rng.random() < 0.5 else AtRandom
                shown = shown.where(~more(share=MOST_AROUND * rng.random())(shown, rng))
                lost = rng.random(len(lost)) < rng.random() / 2
                shown = shown.where(~xr.DataArray(lost, dims="location")).transpose(*piece.dims)
            network_then = network.forgetting(piece["location"].to_numpy()[lost])
            told = network_then.answers(to_components(shown), levels)
            missing = shown.isnull().to_numpy()
            gaps = gap_class(effective_gap_lengths(missing))
            gaps[:, lost] = UNOBSERVED if self.network.fits_any else gaps[:, lost]
            guess = within_bounds(from_components(told.isel(quantile=0), piece))
            sheets.append(_Sheet(guess, _ends(told, piece), piece, asked, shown, gaps))
        return sheets

    def _foreseen(self, levels: Sequence[float]) -> list["_Sheet"]:
        """One sheet for every step ahead."""
        there, plain = np.flatnonzero(self.steps), to_components(self.own)
        if not len(there):
            return []
        network = self.network.placed(self.own.isel(time=slice(0, int(there[0]) + 1)))
        first = int(there[0]) + network.past
        origins = np.arange(first, int(there[-1]) + 2 - network.ahead, network.ahead)
        origins = origins[evenly(len(origins), EXAM_WINDOWS)]
        sheets = []
        for ahead, told in enumerate(network.foresee(plain, origins, levels)):
            truth = self.own.isel(time=origins + ahead)
            answer = xr.concat(told, "quantile").assign_coords(time=truth["time"])
            answer = answer.transpose(..., "quantile")
            guess = within_bounds(from_components(answer.isel(quantile=0), truth))
            gaps = np.full(truth.shape, gap_class(np.array([ahead + 1]))[0])
            asked = truth.notnull() & ~truth["measurement"].isin(network.known)
            sheets.append(_Sheet(guess, _ends(answer, truth), truth, asked, truth, gaps))
        return sheets


def asking_nearby(asking: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Steps whose window has a step that is asked for; windows touch."""
    whole = np.zeros_like(asking)
    for start in range(0, len(asking), length):
        whole[start : start + length] = asking[start : start + length].any()
    return whole


def evenly(there: int, most: int) -> NDArray[np.int64]:
    """At most so many of the numbers below `there`, over all of them."""
    if there <= most:
        return np.arange(there)
    return np.linspace(0, there - 1, most).round().astype(np.int64)


def _ends(told: xr.DataArray, like: xr.DataArray) -> NDArray[np.float64]:
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
class _Sheet:
    """What was answered, asked and true, in the user's units."""

    guess: xr.DataArray
    quantiles: NDArray[np.float64]
    """(t, l, m, q), NaN of directions."""

    truth: xr.DataArray
    asked: xr.DataArray
    visible: xr.DataArray
    gaps: NDArray[np.int64]
    """Classes of gap lengths; a series without a value in its window lies in the longest."""

    def cells(self) -> CalibrationSet:
        """The asked cells, for calibration."""
        at = np.nonzero((self.asked & self.truth.notnull()).transpose(*self.truth.dims).to_numpy())
        return CalibrationSet(
            point=self.guess.to_numpy()[at],
            truth=self.truth.to_numpy()[at].astype(np.float64),
            bounds=self.quantiles[at].T,
            measurement=at[2],
            gap_class=self.gaps[at],
        )
