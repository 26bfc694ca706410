"""Gaps: runs of missing cells along time, which is axis 0 of every array here."""

import numpy as np
from numpy.typing import NDArray

GAP_CLASSES = (("1", 1), ("2-5", 5), ("6-23", 23), ("24-71", 71), ("72+", 0))
"""Names and maximum lengths of the gap classes, in steps; the last class has no maximum."""

LONG_GAP = GAP_CLASSES[-2][1] + 1
"""Minimum length of the last class."""


def run_lengths(missing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For every cell the length of its gap, 0 if it is not missing."""
    n_steps = missing.shape[0]
    step = np.arange(n_steps).reshape(-1, *[1] * (missing.ndim - 1))
    first, last = gap_starts(missing), gap_starts(missing[::-1])[::-1]
    start = np.maximum.accumulate(np.where(first, step, -1), axis=0)
    end = np.minimum.accumulate(np.where(last, step, n_steps)[::-1], axis=0)[::-1]
    return np.where(missing, end - start + 1, 0)


def effective_gap_lengths(missing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Run lengths as a measure of difficulty.

    A gap at the first or last step counts double, since its open end is as far from an observation
    as the middle of a gap of twice the length. A series that is all missing counts as a long gap.
    """
    lengths = run_lengths(missing)
    leading = np.logical_and.accumulate(missing, axis=0)
    trailing = np.logical_and.accumulate(missing[::-1], axis=0)[::-1]
    lengths = np.where(leading ^ trailing, 2 * lengths, lengths)
    return np.where(leading & trailing, np.maximum(lengths, LONG_GAP), lengths)


def bridge_variance(missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The variance of a Brownian bridge over each gap, per step.

    a b / (a + b) for a cell `a` steps after the last observation and `b` before the next; the
    distance if there is only one of them; 0 for observed cells, infinite in an empty series.
    """
    n_steps = missing.shape[0]
    step = np.arange(n_steps, dtype=np.float64).reshape(-1, *[1] * (missing.ndim - 1))
    previous = np.maximum.accumulate(np.where(missing, -np.inf, step), axis=0)
    following = np.minimum.accumulate(np.where(missing, np.inf, step)[::-1], axis=0)[::-1]
    with np.errstate(divide="ignore"):
        precision = 1 / (step - previous) + 1 / (following - step)
        return np.where(missing, 1 / precision, 0.0)


def gap_starts(missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True at the first cell of every gap."""
    starts = missing.copy()
    starts[1:] &= ~missing[:-1]
    return starts


def gap_lengths(missing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The length of every gap, one number per gap."""
    return run_lengths(missing)[gap_starts(missing)]


def gap_class(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index in `GAP_CLASSES` of gaps of these lengths."""
    return np.searchsorted([longest for _, longest in GAP_CLASSES[:-1]], lengths, side="left")
