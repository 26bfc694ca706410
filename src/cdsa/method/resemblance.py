"""How much stations resemble each other: the correlation of what is unusual at them.

Two sensors on the two sides of a road are near and may have nothing to do with each other; the next
one upstream is further away and tells more. Distances cannot know that, but the past does.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TRUST = 24.0
"""Steps at which two stations must both report for half of their correlation to be believed."""


def resemblance(unusual: Floats, others: Floats | None = None) -> Floats:
    """Correlations (l, k) of stations (t, l, m) with each other, or with `others` (t, k, m), over
    the steps at which both report; the mean over measurements. NaN is missing. Few common steps
    make it small, and none makes it zero."""
    other = unusual if others is None else others
    total = np.zeros((unusual.shape[1], other.shape[1]))
    weight = np.zeros_like(total)
    for m in range(unusual.shape[2]):
        (a, has_a), (b, has_b) = _centred(unusual[:, :, m]), _centred(other[:, :, m])
        common = has_a.T @ has_b
        spread = np.sqrt(((a**2).T @ has_b) * (has_a.T @ (b**2)))
        correlation = np.divide(a.T @ b, spread, out=np.zeros_like(spread), where=spread > 0)
        total += common * correlation * common / (common + TRUST)
        weight += common
    return np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)


def possible(likeness: Floats) -> Floats:
    """The nearest likenesses (l, l) that can be true together: correlations of pairs that report at
    different times need not be."""
    told = np.zeros_like(likeness)
    some = np.flatnonzero(likeness.any(axis=0) | likeness.any(axis=1))  # not places without a value
    part = likeness[np.ix_(some, some)]
    values, vectors = np.linalg.eigh((part + part.T) / 2)
    told[np.ix_(some, some)] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return told


def _centred(values: Floats) -> tuple[Floats, Floats]:
    """Values less the mean of their station, zero where missing; and one where there is one."""
    known = np.isfinite(values)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0.0).sum(axis=0) / count
    return np.where(known, values - mean, 0.0), known.astype(np.float64)
