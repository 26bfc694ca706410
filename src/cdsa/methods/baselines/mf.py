"""Matrix factorisation: a few courses over time, of which every series is a mixture.

Koren, Bell & Volinsky, "Matrix factorization techniques for recommender systems", Computer 2009,
for what was observed alone, by alternating least squares; that neighbouring moments are alike is
added as in Yu, Rao & Dhillon, "Temporal regularized matrix factorization", NIPS 2016, with a walk
in the place of their auto-regression. How many courses there are is chosen on cells hidden in
bursts, whatever the gaps that are to be filled are like.

Different from there: every series is standardised, and has no bias beside that; how much
neighbouring moments are tied is a setting, not learnt; mixtures are kept from what was learnt from,
and courses are found anew for the table that is filled.

Letters: t time, s series, r course.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import DIMS
from cdsa.core.masks import Bursts
from cdsa.errors import ConfigError
from cdsa.methods.baselines.matrix import Matrix, learn_matrix
from cdsa.methods.wrapper import GuardedFiller, Guess, guarded

Bools = NDArray[np.bool_]


HIDDEN = 0.1
"""Share of the cells that the number of courses is chosen on."""


@dataclass(frozen=True, kw_only=True)
class MatrixFactors:
    """Every series as a mixture of a few courses over time."""

    ranks: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Numbers of courses to choose from."""

    ridge: float = 0.1
    """What keeps courses and mixtures small."""

    smoothness: float = 1.0
    """What keeps neighbouring moments alike; 0 lets each be as it likes."""

    n_rounds: int = 12
    """How often courses and mixtures are found in turns."""

    seed: int = 0
    """Of the first mixtures, and of what is hidden to choose on."""

    def __post_init__(self) -> None:
        if not self.ranks or min(self.ranks) < 1:
            raise ConfigError(f"ranks are numbers from 1 on, but found {self.ranks}")
        if self.ridge <= 0 or self.smoothness < 0 or self.n_rounds < 1:
            raise ConfigError(
                "ridge must be greater than 0, ties not negative and rounds at least 1, but found "
                f"{self.ridge:g}, {self.smoothness:g} and {self.n_rounds}"
            )

    @property
    def label(self) -> str:
        """The name in tables."""
        return "mf"

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        def learn(plain: xr.DataArray) -> Guess:
            return learn_matrix(plain, lambda columns: Factors(self), in_order=True)

        return guarded(cube, learn)


class Factors:
    """The factors of a matrix (t, s), as an imputer."""

    def __init__(self, method: MatrixFactors) -> None:
        self.method = method
        self.mixtures = np.empty((0, 1))
        """How much of each course is in each series, (s, r)."""

    def fit(self, rows: Matrix) -> "Factors":
        """Find the mixtures; of as many courses as give hidden cells back best."""
        known = np.isfinite(rows)
        self.mixtures = self._mixtures(np.nan_to_num(rows), known, self.choose(rows))
        return self

    def transform(self, rows: Matrix) -> Matrix:
        """The matrix with its gaps filled; what the courses are is told from what is known."""
        return np.where(np.isfinite(rows), rows, self._told(rows, self.mixtures))

    def choose(self, rows: Matrix) -> int:
        """The number of courses."""
        possible = [rank for rank in self.method.ranks if rank < min(rows.shape)] or [1]
        known = np.isfinite(rows)
        if len(possible) == 1 or known.sum() * HIDDEN < 1:
            return possible[0]
        rng = np.random.default_rng(self.method.seed)
        hidden = Bursts(share=HIDDEN)(xr.DataArray(rows[..., None], dims=DIMS), rng)
        shown = np.where(hidden.to_numpy()[..., 0], np.nan, rows)
        asked = np.isnan(shown) & known
        if not asked.any() or not np.isfinite(shown).any():
            return possible[0]
        errors = {}
        for rank in possible:
            mixtures = self._mixtures(np.nan_to_num(shown), np.isfinite(shown), rank)
            errors[rank] = float(np.abs(self._told(shown, mixtures) - rows)[asked].mean())
        return min(errors, key=lambda rank: errors[rank])

    def _told(self, rows: Matrix, mixtures: Matrix) -> Matrix:
        """What courses and mixtures say of every cell, (t, s)."""
        told: Matrix = self._courses(np.nan_to_num(rows), np.isfinite(rows), mixtures) @ mixtures.T
        return told

    def _mixtures(self, values: Matrix, known: Bools, rank: int) -> Matrix:
        rng = np.random.default_rng([self.method.seed, rank])
        v: Matrix = rng.normal(size=(values.shape[1], rank)) / np.sqrt(rank)
        own = self.method.ridge * np.eye(rank)
        for _ in range(self.method.n_rounds):
            u = self._courses(values, known, v)
            both = np.einsum("ts, tr, tq -> srq", known, u, u, optimize=True) + own
            v = np.linalg.solve(both, (values.T @ u)[..., None])[..., 0]
        return v

    def _courses(self, values: Matrix, known: Bools, v: Matrix) -> Matrix:
        """What each course is at each moment, (t, r): a ridge regression on what is known then,
        tied to the moments before and behind."""
        steps, rank, ties = len(values), v.shape[1], self.method.smoothness
        both = np.einsum("ts, sr, sq -> trq", known, v, v, optimize=True)
        neighbours = np.full(steps, 2.0)
        neighbours[0] -= 1
        neighbours[-1] -= 1
        both += (self.method.ridge + ties * neighbours)[:, None, None] * np.eye(rank)
        if ties:
            return _tied(both, values @ v, ties)
        u: Matrix = np.linalg.solve(both, (values @ v)[..., None])[..., 0]
        return u


def _tied(both: Matrix, right: Matrix, ties: float) -> Matrix:
    """u of both[t] u[t] - ties (u[t - 1] + u[t + 1]) = right[t], all moments at once: elimination
    forwards, then backwards."""
    steps, rank = right.shape
    kept, u = np.empty((steps, rank, rank + 1)), np.empty((steps, rank))
    before = np.zeros((rank, rank + 1))
    for t in range(steps):
        left = both[t] - ties * before[:, :rank]
        sides = np.column_stack([ties * np.eye(rank), right[t] + ties * before[:, rank]])
        before = kept[t] = np.linalg.solve(left, sides)
    u[-1] = kept[-1, :, rank]
    for t in range(steps - 2, -1, -1):
        u[t] = kept[t, :, rank] + kept[t, :, :rank] @ u[t + 1]
    return u
