"""How much stations resemble each other: the correlation of what is unusual at them.

Two sensors on the two sides of a road are near and may have nothing to do with each other; the next
one upstream is further away and tells more. Distances cannot know that, but the past does.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TRUST = 24.0
"""Steps at which two stations must both report for half of their correlation to be believed."""


BLOCKS = 10
"""Stretches of time that a cube is parted into, to tell likeness from outside each of them."""


def resemblance(unusual: Floats, others: Floats | None = None) -> Floats:
    """Correlations (l, k) of stations (t, l, m) with each other, or with `others` (t, k, m), over
    the steps at which both report; the mean over measurements. NaN is missing. Few common steps
    make it small, and none makes it zero."""
    ours = _centred(unusual)
    return _told(_sums(ours, ours if others is None else _centred(others)))


def resemblance_outside(unusual: Floats, length: int) -> tuple[NDArray[np.int64], Floats]:
    """Which block of time each step belongs to, (t,); and correlations (block, l, k) for windows of
    this length that begin in a block, told from the steps that no such window sees.

    What a network is told of a cell while it learns so knows nothing of that cell. Of many stations
    that report for a short time, correlations told from everything would know a good deal. So they
    do in less than three windows, where nothing is left outside.
    """
    steps = len(unusual)
    count = min(BLOCKS, steps // length)
    if count < 3:
        return np.zeros(steps, dtype=np.int64), possible(resemblance(unusual))[None]
    block = np.arange(steps) * count // steps
    values, known = _centred(unusual)
    parts = [(values[block == one], known[block == one]) for one in range(count)]
    sums = np.stack([_sums(part, part) for part in parts])
    outside = [sums.sum(axis=0) - sums[one : one + 2].sum(axis=0) for one in range(count)]
    return block, np.stack([possible(_told(part)) for part in outside])


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
    """Values less the mean of their series, zero where missing; and one where there is one."""
    known = np.isfinite(values)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, values - mean, 0.0), known.astype(np.float64)


def _sums(ours: tuple[Floats, Floats], others: tuple[Floats, Floats]) -> Floats:
    """Over the steps at which both report: products, squares of the one and of the other, and how
    many there are; (4, m, l, k)."""
    (a, has_a), (b, has_b) = ours, others
    sums = np.empty((4, a.shape[2], a.shape[1], b.shape[1]))
    for m in range(a.shape[2]):
        sums[0, m] = a[:, :, m].T @ b[:, :, m]
        sums[1, m] = (a[:, :, m] ** 2).T @ has_b[:, :, m]
        sums[2, m] = has_a[:, :, m].T @ b[:, :, m] ** 2
        sums[3, m] = has_a[:, :, m].T @ has_b[:, :, m]
    return sums


def _told(sums: Floats) -> Floats:
    """The correlations (l, k) that such sums tell."""
    products, ours, others, common = sums
    spread = np.sqrt(np.maximum(ours * others, 0.0))
    correlation = np.divide(products, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    believed = (common * correlation * common / (common + TRUST)).sum(axis=0)
    weight: Floats = common.sum(axis=0)
    told: Floats = np.divide(believed, weight, out=np.zeros_like(weight), where=weight > 0)
    return told
