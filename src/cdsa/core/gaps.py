"""Gaps: runs of missing cells along time, in one series or in a whole cube at once."""

import numpy as np
from numpy.typing import NDArray

GAP_CLASSES: tuple[tuple[str, int], ...] = (
    ("1", 1),
    ("2-5", 5),
    ("6-23", 23),
    ("24-71", 71),
    ("72+", 0),
)
"""Gap-length classes by their longest member, in steps; the last one has no end."""


LONG_GAP = GAP_CLASSES[-2][1] + 1
"""Steps of a gap of the last class."""


def run_lengths(missing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For every cell the length of the gap it lies in, 0 if it is not missing; time is axis 0."""
    steps = missing.shape[0]
    edge = np.zeros((1, *missing.shape[1:]), dtype=bool)
    padded = np.concatenate([edge, missing, edge])
    number = np.arange(steps).reshape(-1, *[1] * (missing.ndim - 1))
    opens = missing & ~padded[:-2]
    closes = missing & ~padded[2:]
    start = np.maximum.accumulate(np.where(opens, number, -1), axis=0)
    end = np.minimum.accumulate(np.where(closes, number, steps)[::-1], axis=0)[::-1]
    return np.where(missing, end - start + 1, 0)


def effective_gap_lengths(missing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The same as a measure of how hard a cell is to fill: a gap that is open at one end, the first
    or the last step, counts double, for the middle of a gap of twice its length is as far from
    anything as its far end is; and a series that is all missing counts as the longest gap."""
    lengths = run_lengths(missing)
    opening = np.logical_and.accumulate(missing, axis=0)
    closing = np.logical_and.accumulate(missing[::-1], axis=0)[::-1]
    lengths = np.where(opening ^ closing, 2 * lengths, lengths)
    return np.where(opening & closing, np.maximum(lengths, LONG_GAP), lengths)


def bridge_variance(missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """For every missing cell how far it is from what was measured, as a walk strays from the line:
    a b / (a + b) for a steps from the last and b to the next, or the steps to the only one; 0 on
    what was measured, and endless in a series that never was. Time is axis 0."""
    steps = missing.shape[0]
    number = np.arange(steps, dtype=np.float64).reshape(-1, *[1] * (missing.ndim - 1))
    last = np.maximum.accumulate(np.where(missing, -np.inf, number), axis=0)
    following = np.minimum.accumulate(np.where(missing, np.inf, number)[::-1], axis=0)[::-1]
    with np.errstate(divide="ignore"):
        nearness = 1 / (number - last) + 1 / (following - number)
        return np.where(missing, 1 / nearness, 0.0)


def gap_starts(missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True at the first cell of every gap; time is axis 0."""
    starts = missing.copy()
    starts[1:] &= ~missing[:-1]
    return starts


def gap_lengths(missing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The length of every gap, one number per gap; time is axis 0."""
    return run_lengths(missing)[gap_starts(missing)]


def gap_class(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The position in `CLASSES` of gaps of these lengths."""
    return np.searchsorted([longest for _, longest in GAP_CLASSES[:-1]], lengths, side="left")
