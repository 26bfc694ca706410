"""The covariance of many series at one moment, estimated from a table with gaps.

Letters: t time, b steps that are processed together, s and r series, k series of a block.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]

MAX_STATIC_STEPS, MIN_STATIC_STEPS = 1500, 300
"""Time steps, spread over the table, of an iteration that estimates the covariance of one moment;
every iteration takes others."""

MIN_STATIC_ITERATIONS, MAX_STATIC_ITERATIONS, STATIC_EFFORT = 12, 80, 40.0
"""Iterations of this EM: what an iteration leaves of an error is about the share of the cells that
are missing, so there are more of them where more is missing."""

STATIC_COST, MAX_STATIC_COST = 4e9, 4e10
"""What more than the least number of iterations may cost, and what these may cost before they get
fewer steps: iterations times steps times the cube of the series."""

STATIC_RATE, LAST_STATIC_RATE = 0.6, 0.3
"""How far an iteration moves if it sees a part of the steps, and how far the last third of them:
what the steps of one suggest is noisy."""

STATIC_NUMBERS = 300_000
"""Numbers of the matrices of steps that are inverted together."""

LEAF = 18
"""Series up to which a matrix is inverted as a whole."""

EIGENVALUE_FLOOR = 0.02
"""Smallest eigenvalue of the initial covariance: with many gaps, pairwise covariances alone would
promise relations between series that do not exist."""

SHRINKAGE = 50.0
"""Common steps of two series at which their covariance is shrunk by half."""

STATIC_NOISE = 1e-4
"""Variance of the noise when the covariance of one moment is estimated."""

SHARES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7)
"""Shares by which covariances are reduced on trial."""

BLOCK, MIN_STEPS, N_COMPARED, N_ITERATIONS = 96, 192, 200, 12
"""Steps of the blocks of two halves of a table, the fewest steps of a table that is halved, the
steps on which shares are compared, and the iterations of a half's covariance."""


def static_covariance(values: Floats, observed: Flags, n_iterations: int | None = None) -> Floats:
    """Covariance (s, r) of the series at one moment, by so many iterations of EM from the pairwise
    covariances, or as many as it takes; values are zero where not observed."""
    weight = observed.astype(np.float64)
    n_common = weight.T @ weight
    covariance: Floats = values.T @ values / np.maximum(n_common, 1)
    shrunken = covariance * n_common / (n_common + SHRINKAGE)
    np.fill_diagonal(shrunken, np.maximum(np.diagonal(covariance), EIGENVALUE_FLOOR))
    covariance = at_least(shrunken, EIGENVALUE_FLOOR)
    rows = np.flatnonzero(observed.any(axis=1))
    most = int(MAX_STATIC_COST / MIN_STATIC_ITERATIONS / len(covariance) ** 3)
    n_steps = max(MIN_STATIC_STEPS, min(MAX_STATIC_STEPS, most))
    n_parts = max(1, round(len(rows) / n_steps))
    noise = STATIC_NOISE * np.eye(len(covariance))
    if n_iterations is None:
        missing = min(max(1 - float(observed[rows].mean()), 1e-9), 0.9) if len(rows) else 0.5
        affordable = int(STATIC_COST / (n_steps * len(covariance) ** 3))
        wanted = min(round(STATIC_EFFORT / -math.log(missing)), MAX_STATIC_ITERATIONS, affordable)
        n_iterations = max(wanted, MIN_STATIC_ITERATIONS)
    for number in range(n_iterations):
        part = rows[number % n_parts :: n_parts]
        precision = precisions(covariance + noise, values[part], observed[part])
        mean = precision.error @ covariance
        explained = covariance @ precision.total @ covariance
        expected = covariance + (mean.T @ mean - explained) / max(1, len(part))
        rate = STATIC_RATE if number < 2 * n_iterations / 3 else LAST_STATIC_RATE
        rate = rate if n_parts > 1 else 1.0
        covariance = at_least(covariance + rate * (expected - covariance), 1e-6)
    return covariance


def choose_shrinkage(values: Floats, observed: Flags) -> float:
    """The share by which the covariances between series are to be reduced, because they do not
    hold: those of one half of the table are reduced by some shares, and each value of the other
    half is predicted from the others of its step. The share that is best there is too large for the
    whole table: twice as many steps halve the odds of noise.
    """
    block = np.arange(len(values)) // BLOCK % 2
    rows = np.flatnonzero((block == 1) & (observed.sum(axis=1) > 1))
    if len(values) < MIN_STEPS or not len(rows) or not observed[block == 0].any():
        return 0.0
    rows = rows[np.linspace(0, len(rows) - 1, min(N_COMPARED, len(rows))).astype(np.int64)]
    half = static_covariance(values[block == 0], observed[block == 0], N_ITERATIONS)
    errors = [prediction_errors(shrink_by(half, x), values[rows], observed[rows]) for x in SHARES]
    # in relation to a series' own error, which is tiny where it has a near-copy
    share = SHARES[int(np.argmin([np.log(of_series + 1e-9).mean() for of_series in errors]))]
    return share / (2 - share)


def shrink_by(covariance: Floats, share: float) -> Floats:
    """The covariance with smaller relations between series and the same variances."""
    reduced: Floats = (1 - share) * covariance + share * np.diag(np.diagonal(covariance))
    return reduced


def prediction_errors(covariance: Floats, values: Floats, observed: Flags) -> Floats:
    """Mean absolute error of each series whose values (t, s) are predicted from the others of their
    step, (s,)."""
    noise = STATIC_NOISE * np.eye(len(covariance))
    precision = precisions(covariance + noise, values, observed)
    errors = np.abs(precision.error / np.where(observed, precision.diagonal, 1.0))
    means: Floats = errors.sum(axis=0) / np.maximum(1, observed.sum(axis=0))
    return means


class Precisions(NamedTuple):
    """The inverse covariance of the observed values of each step, zero for the others."""

    error: Floats
    """Times the values of the step, (t, s)."""

    diagonal: Floats
    """(t, s)."""

    total: Floats
    """Summed over the steps, (s, r)."""


def precisions(covariance: Floats, values: Floats, observed: Flags) -> Precisions:
    """Of many steps with one covariance (s, r) of all series; values (t, s) are zero where not
    observed.

    Where o is observed and m is not, and K is the inverse of the whole covariance, the inverse of
    its observed block is K_oo - K_om (K_mm)^-1 K_mo. So only the smaller of both blocks is
    factorised.
    """
    whole = inverse(covariance[None])[0]
    error, diagonal = np.zeros(observed.shape), np.zeros(observed.shape)
    total = np.zeros_like(whole)
    few_missing = observed.sum(axis=1) > observed.shape[1] / 2
    for rows in _of_like_size(observed, few_missing):
        seen = observed[rows]
        of_few = bool(few_missing[rows[0]])
        factor = _block_factors(whole if of_few else covariance, ~seen if of_few else seen)
        if of_few:
            factor = np.where(seen[:, :, None], whole @ factor, 0.0)
        explained = apply_each(factor, apply_each(factor.swapaxes(1, 2), values[rows]))
        squares = (factor**2).sum(axis=2)
        columns = factor.swapaxes(0, 1).reshape(len(whole), -1)
        if of_few:
            error[rows] = np.where(seen, values[rows] @ whole - explained, 0.0)
            diagonal[rows] = np.where(seen, np.diagonal(whole) - squares, 0.0)
            both = seen.astype(np.float64)
            total += whole * (both.T @ both) - columns @ columns.T
        else:
            error[rows], diagonal[rows] = explained, squares
            total += columns @ columns.T
    return Precisions(error, diagonal, total)


def _of_like_size(observed: Flags, few_missing: Flags) -> Iterator[NDArray[np.int64]]:
    """Steps in batches, with few values missing or most, and with blocks of about one size."""
    n_series, n_observed = observed.shape[1], observed.sum(axis=1)
    size = np.where(few_missing, n_series - n_observed, n_observed)
    for flag in (True, False):
        rows = np.flatnonzero((few_missing == flag) & (n_observed > 0))
        rows = rows[np.argsort(size[rows], kind="stable")]
        while len(rows):
            at_once = max(1, STATIC_NUMBERS // (n_series * max(1, int(size[rows[-1]]))))
            rows, batch = rows[:-at_once], rows[-at_once:]
            yield batch


def _block_factors(matrix: Floats, inside: Flags) -> Floats:
    """Matrices F (b, s, k) with F F' = the inverse of the block of a matrix (s, r) that lies inside
    (b, s), zero outside."""
    size = inside.sum(axis=1)
    series = np.argsort(~inside, axis=1, kind="stable")[:, : max(1, int(size.max()))]  # (b, k)
    used = np.arange(series.shape[1]) < size[:, None]
    block = matrix[series[:, :, None], series[:, None, :]]
    block = np.where(used[:, :, None] & used[:, None, :], block, np.eye(series.shape[1]))
    factor = np.where(used[:, None, :], inverse_factor(block).swapaxes(1, 2), 0.0)  # (b, k, k)
    factors = np.zeros((*inside.shape, series.shape[1]))
    np.put_along_axis(factors, series[:, :, None], factor, axis=1)
    return factors


def precision_of(covariance: Floats, noise: Floats, observed: Flags) -> Floats:
    """The inverse covariance of the observed values (b, s) with noise (s,), zero for the others;
    (b, s, r). Of a covariance (b, s, r), or one for all."""
    shape = (*observed.shape, observed.shape[1])
    if not observed.any():
        return np.zeros(shape, covariance.dtype)
    both = observed[:, :, None] & observed[:, None, :]
    variance = np.where(both, covariance, 0.0)
    diagonal = np.arange(observed.shape[1])
    variance[:, diagonal, diagonal] += np.where(observed, noise, 1.0)
    return np.where(both, inverse(variance), 0.0)


def inverse(matrix: Floats) -> Floats:
    """Inverses of symmetric positive definite matrices (b, s, r)."""
    factor = inverse_factor(matrix)
    return factor.swapaxes(1, 2) @ factor


def inverse_factor(matrix: Floats) -> Floats:
    """Inverses of the Cholesky factors, half by half: for small matrices, products of halves are
    faster than a factorisation of the whole."""
    n = matrix.shape[1]
    if n <= (LEAF if len(matrix) > 1 else 2 * LEAF):
        whole: Floats = np.linalg.inv(np.linalg.cholesky(matrix))
        return whole
    half = n // 2
    upper = inverse_factor(matrix[:, :half, :half])
    side = matrix[:, half:, :half] @ upper.swapaxes(1, 2)
    lower = inverse_factor(matrix[:, half:, half:] - side @ side.swapaxes(1, 2))
    factor = np.zeros_like(matrix)
    factor[:, :half, :half], factor[:, half:, half:] = upper, lower
    factor[:, half:, :half] = -lower @ (side @ upper)
    return factor


def apply_each(matrix: Floats, vector: Floats) -> Floats:
    """Products of matrices (b, s, r) and vectors (b, r)."""
    product: Floats = (matrix @ vector[..., None])[..., 0]
    return product


def at_least(matrix: Floats, smallest: float) -> Floats:
    """The symmetric matrix with no eigenvalue below this."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    projected: Floats = (vectors * np.maximum(values, smallest)) @ vectors.T
    return projected
