"""A linear-Gaussian state space model of many series: Kalman filter, smoother, and fit by EM.

    x_t = A x_(t-1) + q_t,   q_t ~ N(0, Q)
    y_t = x_t + r_t,         r_t ~ N(0, diag(r)), seen where a value was measured

Letters: t time, b chunks of time that are processed together, s and r series.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdsa.core.covariance import (
    apply_each,
    at_least,
    precision_of,
    precisions,
    shrink_by,
    static_covariance,
)

Floats = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

CHUNK = 96
"""Steps of a chunk. Parameters are fitted on chunks as if they were independent."""

MAX_EM_STEPS, EM_COST = 6000, 1.2e10
"""Time steps of an iteration of EM, and what they may cost: steps times the cube of the series."""

MAX_ITERATIONS = 3

MIN_EM_STEPS, MIN_STEPS = 1000, 3
"""EM runs on at least so many steps if there are, and not on fewer than three."""

MAX_NUMBERS = 1e7
"""Numbers of a batch of chunks in each array of covariances."""

MIN_NOISE = 1e-5
"""Smallest variance of the noise, of a series with variance 1."""

MAX_RADIUS, MAX_RHO = 0.999, 0.995
"""Largest absolute eigenvalue of A, and of the coefficient that it is shrunk towards. One for all
series: where series are nearly copies, coefficients of their own would contradict each other."""

NOISE_SHARE = 0.05
"""Default variance of the noise, as a share of what the other series leave unexplained of one
moment."""


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


class Smoothed(NamedTuple):
    """What the smoother leaves of each step, (t, b, s)."""

    mean: Floats
    variance: Floats
    error: Floats  # the inverse covariance of all measured values of a chunk, times these values
    precision: Floats  # the diagonal of that inverse


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
        mean = np.zeros(shape[:2], self.stationary.dtype)
        return Boundary(mean, np.broadcast_to(self.stationary, shape))

    def step(
        self, state: Boundary, values: Floats, observed: Flags
    ) -> tuple[Boundary, Floats, Floats, Floats]:
        """The state of the next step after values (b, s) were seen; precision, propagation and
        error of this one."""
        mean, covariance = state
        precision = precision_of(covariance, self.noise, observed)
        error = apply_each(precision, np.where(observed, values - mean, 0.0))
        propagation = self.transition - self.transition @ (covariance @ precision)
        following = propagation @ covariance @ self.transition.T + self.innovation
        state = Boundary(
            (mean + apply_each(covariance, error)) @ self.transition.T,
            (following + following.swapaxes(1, 2)) / 2,
        )
        return state, precision, propagation, error

    def filter(self, values: Floats, observed: Flags, state: Boundary) -> Filtered:
        """Filter chunks (t, b, s) from the state of their first step."""
        dtype = self.noise.dtype
        mean, error = np.empty((2, *values.shape), dtype)
        covariance, precision, propagation = np.empty((3, *values.shape, values.shape[2]), dtype)
        filtered = Filtered(mean, covariance, precision, propagation, error)
        for t in range(len(values)):
            filtered.mean[t], filtered.covariance[t] = state
            state, filtered.precision[t], filtered.propagation[t], filtered.error[t] = self.step(
                state, values[t], observed[t]
            )
        return filtered

    def smooth(
        self, filtered: Filtered, after: Adjoint, moments: Moments | None = None
    ) -> tuple[Smoothed, Adjoint]:
        """The smoothed chunks, and what the steps before them need to know. Adds to the sums for
        EM."""
        r, n = after
        smoothed = Smoothed(*np.empty((4, *filtered.mean.shape), filtered.mean.dtype))
        last = len(filtered.mean) - 1
        for t in reversed(range(last + 1)):
            covariance, propagation = filtered.covariance[t], filtered.propagation[t]
            precision, error = filtered.precision[t], filtered.error[t]
            if moments and t < last:
                step = propagation @ covariance
                moments.cross[:] += (step - filtered.covariance[t + 1] @ (n @ step)).sum(axis=0)
            if not moments:
                gain = self.transition - propagation
                smoothed.error[t] = error - apply_each(gain.swapaxes(1, 2), r)
                smoothed.precision[t] = np.diagonal(precision, axis1=1, axis2=2)
                smoothed.precision[t] += (n @ gain * gain).sum(axis=1)
            n = precision + propagation.swapaxes(1, 2) @ n @ propagation
            r = error + apply_each(propagation.swapaxes(1, 2), r)
            smoothed.mean[t] = filtered.mean[t] + apply_each(covariance, r)
            explained = covariance @ n
            smoothed.variance[t] = np.diagonal(covariance, axis1=1, axis2=2)
            smoothed.variance[t] -= (explained * covariance).sum(axis=-1)
            if moments:
                mean = smoothed.mean
                second = (covariance - explained @ covariance).sum(axis=0) + mean[t].T @ mean[t]
                if t < last:
                    moments.cross[:] += mean[t + 1].T @ mean[t]
                    moments.earlier[:] += second
                if t:
                    moments.later[:] += second
        return smoothed, Adjoint(r, n)

    def predict(self, values: Floats, observed: Flags) -> tuple[Floats, Floats]:
        """Mean and variance of each value of chunks (t, b, s), given all values of its chunk but
        itself.

        Where the covariances of all steps are too many to keep, the filter runs twice: once for the
        state at some steps, and once more from each of them before it is smoothed.
        """
        values = np.where(observed, values, 0.0).astype(self.noise.dtype)
        n_steps, n_chunks, n_series = values.shape
        at_once = max(CHUNK, int(MAX_NUMBERS / (n_chunks * n_series**2)))
        starts = range(0, n_steps, at_once)
        states, state = [], self.start(n_chunks)
        for t in range(starts[-1] + 1):
            if t in starts:
                states.append(state)
            if t < starts[-1]:
                state = self.step(state, values[t], observed[t])[0]
        mean, variance = np.empty((2, *values.shape), values.dtype)
        after = None
        for start, state in zip(reversed(starts), reversed(states), strict=True):
            steps = slice(start, start + at_once)
            seen = observed[steps]
            filtered = self.filter(values[steps], seen, state)
            smoothed, after = self.smooth(filtered, after or nothing_after(filtered))
            # what a value adds to the smoothed mean is known (de Jong, 1988)
            others = 1 / np.where(seen, smoothed.precision, 1.0)
            without = values[steps] - others * smoothed.error
            mean[steps] = np.where(seen, without, smoothed.mean)
            unseen = np.maximum(smoothed.variance, 0.0) + self.noise
            variance[steps] = np.where(seen, others, unseen)
        return mean, variance

    def weights(self, observed: Flags, step: int, series: int) -> Floats:
        """The weight of each observed value (t, s) in the smoothed mean of one cell.

        The mean is c' V^-1 y, where V is the covariance of the observed values y and c their
        covariance with the cell. The smoothing errors of a series y are V^-1 y, so those of c are
        the weights.
        """
        covariances = [self.stationary]
        for _ in range(step):
            following = self.transition @ covariances[-1] @ self.transition.T + self.innovation
            covariances.append(following)
        with_cell = np.empty(observed.shape)
        with_cell[step] = covariances[step][series]
        for t in range(step + 1, len(observed)):
            with_cell[t] = self.transition @ with_cell[t - 1]
        row = np.eye(len(self.noise))[series]
        for t in reversed(range(step)):
            row = row @ self.transition
            with_cell[t] = covariances[t] @ row
        values = np.where(observed, with_cell, 0.0)[:, None]
        filtered = self.filter(values, observed[:, None], self.start(1))
        r, weights = np.zeros((1, len(row))), np.empty(observed.shape)
        for t in reversed(range(len(observed))):
            gain = filtered.precision[t] @ filtered.covariance[t]
            weights[t] = (filtered.error[t] - apply_each(gain, r @ self.transition))[0]
            r = filtered.error[t] + apply_each(filtered.propagation[t].swapaxes(1, 2), r)
        return weights

    @classmethod
    def fit(
        cls,
        values: Floats,
        observed: Flags,
        *,
        n_iterations: int | None = None,
        static_iterations: int | None = None,
        noise_share: Floats | float = NOISE_SHARE,
        shrinkage: float = 0.0,
    ) -> "StateSpace":
        """Fit a table of standardised series (t, s): the covariance of one moment first, then the
        dynamics by so many iterations of EM, or as many as are quick. The first of them takes
        every step for itself and needs no smoother."""
        n_steps, n_series = values.shape
        values = np.where(observed, values, 0.0)
        covariance = static_covariance(values, observed, static_iterations)
        covariance = shrink_by(covariance, shrinkage)
        conditional = 1 / np.diagonal(np.linalg.inv(covariance))
        r = np.maximum(noise_share * conditional, MIN_NOISE)
        covariance = at_least(covariance - np.diag(np.minimum(r, conditional / 2)), 1e-7)
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
        if n_iterations:
            moments = static_moments(values, observed, steps, covariance, r, rho)
            model = model.maximise(moments, (len(steps) - 1) * steps.shape[1], rho)
            n_iterations -= 1
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
            self.smooth(filtered, nothing_after(filtered), moments)
        return moments

    def maximise(self, moments: Moments, n_pairs: int, rho: float) -> "StateSpace":
        """The parameters A and Q that suit the sums best; A is shrunk towards rho times the
        identity, the more so the fewer steps there are for each series."""
        later, cross, earlier = moments
        ridge = (0.01 + len(earlier) / n_pairs) * np.diagonal(earlier)
        a = np.linalg.solve(earlier + np.diag(ridge), (cross + np.diag(rho * ridge)).T).T
        a *= min(1.0, MAX_RADIUS / float(np.abs(np.linalg.eigvals(a)).max()))
        q = (later - a @ cross.T - cross @ a.T + a @ earlier @ a.T) / n_pairs
        return replace(self, transition=a.astype(np.float64), innovation=at_least(q, 1e-7))


def nothing_after(filtered: Filtered) -> Adjoint:
    """The end of a table."""
    return Adjoint(np.zeros_like(filtered.mean[0]), np.zeros_like(filtered.covariance[0]))


def static_moments(
    values: Floats,
    observed: Flags,
    steps: Integers,
    covariance: Floats,
    noise: Floats,
    rho: float,
) -> Moments:
    """The sums over chunks (t, b) of the steps of a table as if each step were predicted from its
    own values alone, with errors that are correlated by rho from step to step."""

    def sums(rows: Integers) -> tuple[Floats, Floats]:
        """Means (t, b, s) of these steps (t, b), and the sum of their covariances (s, r)."""
        of_rows = precisions(with_noise, values[rows.ravel()], observed[rows.ravel()])
        explained = covariance @ of_rows.total @ covariance
        means = (of_rows.error @ covariance).reshape(*rows.shape, -1)
        return means, rows.size * covariance - explained

    with_noise = covariance + np.diag(noise)
    (first, of_first), (last, of_last) = sums(steps[:1]), sums(steps[-1:])
    inner, of_inner = sums(steps[1:-1])
    mean = np.concatenate([first, inner, last])
    after, before = (part.reshape(-1, mean.shape[2]) for part in (mean[1:], mean[:-1]))
    return Moments(
        later=of_inner + of_last + after.T @ after,
        cross=rho * (of_inner + (of_first + of_last) / 2) + after.T @ before,
        earlier=of_first + of_inner + before.T @ before,
    )


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
