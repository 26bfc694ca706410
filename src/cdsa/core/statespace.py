"""A linear-Gaussian state space model of many series: Kalman filter, smoother, and fit by EM.

    x_t = A x_(t-1) + q_t,   q_t ~ N(0, Q)
    y_t = x_t + r_t,         r_t ~ N(0, diag(r)), seen where a value was measured

Letters: t time, b chunks of time that are processed together, s and r series.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

CHUNK = 96
"""Steps of a chunk. Parameters are fitted on chunks as if they were independent."""

MAX_STATIC_STEPS = 3000
"""Time steps, spread over the table, from which the covariance of one moment is estimated."""

MAX_EM_STEPS, EM_COST = 6000, 1.2e10
"""Time steps of an iteration of EM, and what they may cost: steps times the cube of the series."""

MAX_ITERATIONS = 6

MIN_EM_STEPS, MIN_STEPS = 1000, 3
"""EM runs on at least so many steps if there are, and not on fewer than three."""

MAX_NUMBERS = 2e7
"""Numbers of a batch of chunks in each array of covariances."""

EIGENVALUE_FLOOR = 0.02
"""Smallest eigenvalue of the initial covariance: with many gaps, pairwise covariances alone would
promise relations between series that do not exist."""

SHRINKAGE = 50.0
"""Common steps of two series at which their covariance is shrunk by half."""

MIN_NOISE = 1e-4
"""Smallest variance of the noise, of a series with variance 1."""

MAX_RADIUS, MAX_RHO = 0.999, 0.995
"""Largest absolute eigenvalue of A, and of the coefficient that it is shrunk towards. One for all
series: where series are nearly copies, coefficients of their own would contradict each other."""

NOISE_SHARE = 0.05
"""Variance of the noise, as a share of what the other series leave unexplained of one moment."""


class Boundary(NamedTuple):
    """What a chunk needs to know of the steps before it: mean and covariance of its first state."""

    mean: Floats  # (b, s)
    covariance: Floats  # (b, s, r)


class Adjoint(NamedTuple):
    """What a chunk needs to know of the steps after it (Durbin & Koopman, section 4.4)."""

    r: Floats  # (b, s)
    n: Floats  # (b, s, r)


class Filtered(NamedTuple):
    """What the filter leaves for the smoother, for each step."""

    mean: Floats  # of the state before the step is seen, (t, b, s)
    covariance: Floats  # (t, b, s, r)
    precision: Floats  # of the prediction errors, zero for what was not measured, (t, b, s, r)
    propagation: Floats  # how an error of the state before the step reaches the next, (t, b, s, r)
    error: Floats  # precision times prediction error, (t, b, s)


class Moments(NamedTuple):
    """Sums over pairs of steps: of E[x_t x_t'], E[x_t x_(t-1)'] and E[x_(t-1) x_(t-1)']."""

    later: Floats
    cross: Floats
    earlier: Floats


@dataclass(frozen=True, eq=False)
class StateSpace:
    """Parameters of the model, and its filter and smoother."""

    transition: Floats
    """A, (s, r)."""

    innovation: Floats
    """Q, (s, r)."""

    noise: Floats
    """r, (s,)."""

    stationary: Floats
    """Covariance of a state of which nothing is known, (s, r)."""

    def start(self, n_chunks: int) -> Boundary:
        """The state before anything was seen."""
        shape = (n_chunks, *self.stationary.shape)
        return Boundary(np.zeros(shape[:2]), np.broadcast_to(self.stationary, shape))

    def step(
        self, state: Boundary, values: Floats, observed: Flags
    ) -> tuple[Boundary, Floats, Floats, Floats]:
        """The state of the next step after values (b, s) were seen; precision, propagation and
        error of this one."""
        mean, covariance = state
        precision = self.precision(covariance, observed)
        error = _apply(precision, np.where(observed, values - mean, 0.0))
        propagation = self.transition - self.transition @ (covariance @ precision)
        following = propagation @ covariance @ self.transition.T + self.innovation
        state = Boundary(
            (mean + _apply(covariance, error)) @ self.transition.T,
            (following + following.swapaxes(1, 2)) / 2,
        )
        return state, precision, propagation, error

    def precision(self, covariance: Floats, observed: Flags) -> Floats:
        """The inverse covariance of the observed values, (b, s, r), zero for the others."""
        both = observed[:, :, None] & observed[:, None, :]
        variance = np.where(both, covariance, 0.0)
        diagonal = np.arange(observed.shape[1])
        variance[:, diagonal, diagonal] += np.where(observed, self.noise, 1.0)
        return np.where(both, np.linalg.inv(variance), 0.0)

    def filter(self, values: Floats, observed: Flags, state: Boundary) -> Filtered:
        """Filter chunks (t, b, s) from the state of their first step."""
        mean, error = np.empty((2, *values.shape))
        covariance, precision, propagation = np.empty((3, *values.shape, values.shape[2]))
        filtered = Filtered(mean, covariance, precision, propagation, error)
        for t in range(len(values)):
            filtered.mean[t], filtered.covariance[t] = state
            state, filtered.precision[t], filtered.propagation[t], filtered.error[t] = self.step(
                state, values[t], observed[t]
            )
        return filtered

    def smooth(
        self, filtered: Filtered, after: Adjoint, moments: Moments | None = None
    ) -> tuple[Floats, Floats, Adjoint]:
        """Smoothed means and variances of chunks (t, b, s), and what the steps before them need to
        know. Adds to the sums for EM."""
        r, n = after
        mean, variance = np.empty((2, *filtered.mean.shape))
        last = len(mean) - 1
        for t in reversed(range(len(mean))):
            covariance, propagation = filtered.covariance[t], filtered.propagation[t]
            if moments and t < last:
                step = propagation @ covariance
                moments.cross[:] += (step - filtered.covariance[t + 1] @ (n @ step)).sum(axis=0)
            n = filtered.precision[t] + propagation.swapaxes(1, 2) @ n @ propagation
            r = filtered.error[t] + _apply(propagation.swapaxes(1, 2), r)
            mean[t] = filtered.mean[t] + _apply(covariance, r)
            explained = covariance @ n
            variance[t] = np.diagonal(covariance, axis1=1, axis2=2)
            variance[t] -= (explained * covariance).sum(axis=-1)
            if moments:
                second = (covariance - explained @ covariance).sum(axis=0) + mean[t].T @ mean[t]
                if t < last:
                    moments.cross[:] += mean[t + 1].T @ mean[t]
                    moments.earlier[:] += second
                if t:
                    moments.later[:] += second
        return mean, variance, Adjoint(r, n)

    def smooth_chunks(self, values: Floats, observed: Flags) -> Floats:
        """Smoothed means of chunks (t, b, s) of which nothing else is known."""
        n_chunks, n_series = values.shape[1:]
        filtered = self.filter(values, observed, self.start(n_chunks))
        return self.smooth(filtered, nothing_after(n_chunks, n_series))[0]

    def smooth_table(self, values: Floats, observed: Flags) -> tuple[Floats, Floats]:
        """Exact smoothed means and variances of a table (t, s).

        The filter runs twice: once for the state at the start of each chunk, and once more before a
        chunk is smoothed, so that only one chunk of covariances is in memory.
        """
        values, observed = np.where(observed, values, 0.0)[:, None], observed[:, None]
        states, state = [], self.start(1)
        for t in range(len(values)):
            if t % CHUNK == 0:
                states.append(state)
            state = self.step(state, values[t], observed[t])[0]
        mean, variance = np.empty((2, *values.shape))
        after = nothing_after(1, values.shape[2])
        for number in reversed(range(len(states))):
            steps = slice(number * CHUNK, (number + 1) * CHUNK)
            filtered = self.filter(values[steps], observed[steps], states[number])
            mean[steps], variance[steps], after = self.smooth(filtered, after)
        return mean[:, 0], np.maximum(variance[:, 0], 0.0)

    @classmethod
    def fit(
        cls,
        values: Floats,
        observed: Flags,
        *,
        n_iterations: int | None = None,
        static_steps: int = MAX_STATIC_STEPS,
    ) -> "StateSpace":
        """Fit a table of standardised series (t, s): the covariance of one moment first, then the
        dynamics by so many iterations of EM, or as many as are quick."""
        n_steps, n_series = values.shape
        values = np.where(observed, values, 0.0)
        covariance = static_covariance(values, observed, static_steps)
        conditional = 1 / np.diagonal(np.linalg.inv(covariance))
        r = np.maximum(NOISE_SHARE * conditional, MIN_NOISE)
        covariance = covariance - np.diag(np.minimum(r, conditional / 2))
        both = observed[1:] & observed[:-1]
        products, squares = values[1:] * values[:-1], (values[1:] ** 2 + values[:-1] ** 2) / 2
        rho = float((products * both).sum() / max((squares * both).sum(), 1e-12))
        rho = min(max(rho, 0.0), MAX_RHO)
        model = cls(rho * np.eye(n_series), (1 - rho**2) * covariance, r, covariance)
        if n_steps < MIN_STEPS:
            return model
        most = max(MIN_EM_STEPS, min(MAX_EM_STEPS, round(EM_COST / n_series**3)))
        steps = chunk_steps(observed, most)
        if n_iterations is None:
            affordable = int(EM_COST / 2 / (steps.size * n_series**3))
            n_iterations = min(MAX_ITERATIONS, 1 + affordable)
        for _ in range(n_iterations):
            moments = model.expect(values, observed, steps)
            model = model.maximise(moments, (len(steps) - 1) * steps.shape[1], rho)
        return model

    def expect(self, values: Floats, observed: Flags, steps: Integers) -> Moments:
        """The sums over chunks (t, b) of the steps of a table, a few of them at a time."""
        n_series = values.shape[1]
        moments = Moments(*np.zeros((3, n_series, n_series)))
        n_batches = math.ceil(steps.size * n_series**2 / MAX_NUMBERS)
        for batch in np.array_split(steps, min(n_batches, steps.shape[1]), axis=1):
            filtered = self.filter(values[batch], observed[batch], self.start(batch.shape[1]))
            self.smooth(filtered, nothing_after(batch.shape[1], n_series), moments)
        return moments

    def maximise(self, moments: Moments, n_pairs: int, rho: float) -> "StateSpace":
        """The parameters A and Q that suit the sums best; A is shrunk towards rho times the
        identity, the more so the fewer steps there are for each series."""
        later, cross, earlier = moments
        ridge = (0.01 + len(earlier) / n_pairs) * np.diagonal(earlier)
        a = np.linalg.solve(earlier + np.diag(ridge), (cross + np.diag(rho * ridge)).T).T
        a *= min(1.0, MAX_RADIUS / float(np.abs(np.linalg.eigvals(a)).max()))
        q = (later - a @ cross.T - cross @ a.T + a @ earlier @ a.T) / n_pairs
        return replace(self, transition=a.astype(np.float64), innovation=_at_least(q, 1e-7))


def nothing_after(n_chunks: int, n_series: int) -> Adjoint:
    """The end of a table."""
    return Adjoint(np.zeros((n_chunks, n_series)), np.zeros((n_chunks, n_series, n_series)))


def static_covariance(values: Floats, observed: Flags, max_steps: int = MAX_STATIC_STEPS) -> Floats:
    """Covariance (s, r) of the series at one moment, by three iterations of EM from the pairwise
    covariances; values are zero where not observed."""
    weight = observed.astype(np.float64)
    n_common = weight.T @ weight
    covariance = values.T @ values / np.maximum(n_common, 1)
    shrunken = covariance * n_common / (n_common + SHRINKAGE)
    np.fill_diagonal(shrunken, np.maximum(np.diagonal(covariance), EIGENVALUE_FLOOR))
    covariance = _at_least(shrunken, EIGENVALUE_FLOOR)
    rows = np.flatnonzero(observed.any(axis=1))
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), max_steps)).astype(np.int64)]
    noise = np.full(len(covariance), 1e-3)
    for _ in range(3):
        static = StateSpace(np.zeros_like(covariance), covariance, noise, covariance)
        total = np.zeros_like(covariance)
        for batch in np.array_split(rows, max(1, len(rows) // 128)):
            prior = static.start(len(batch)).covariance
            gain = prior @ static.precision(prior, observed[batch])
            mean = _apply(gain, values[batch])
            total += mean.T @ mean + (prior - gain @ prior).sum(axis=0)
        covariance = _at_least(total / len(rows), 1e-6)
    return covariance


def _apply(matrix: Floats, vector: Floats) -> Floats:
    """Products of matrices (b, s, r) and vectors (b, r)."""
    product: Floats = (matrix @ vector[..., None])[..., 0]
    return product


def _at_least(matrix: Floats, smallest: float) -> Floats:
    """The symmetric matrix with no eigenvalue below this."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    projected: Floats = (vectors * np.maximum(values, smallest)) @ vectors.T
    return projected


def chunk_steps(observed: Flags, n_steps: int) -> Integers:
    """Steps (t, b) of chunks with observations that are spread over a table (t, s), about so many
    steps in total."""
    length = min(CHUNK, len(observed))
    starts = np.arange(0, len(observed) - length + 1, length)
    starts = starts[[bool(observed[first : first + length].any()) for first in starts]]
    starts = starts if len(starts) else np.zeros(1, dtype=np.int64)
    n_chunks = max(1, min(len(starts), n_steps // length))
    chosen = starts[np.linspace(0, len(starts) - 1, n_chunks).round().astype(np.int64)]
    steps: Integers = np.arange(length)[:, None] + chosen
    return steps
