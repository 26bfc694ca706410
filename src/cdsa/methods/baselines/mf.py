"""Matrix factorization: each series is a combination of a few temporal factors.

Letters: t time, s series, r and q factors; u the temporal factors (t, r), v the loadings (s, r).
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import DIMS
from cdsa.core.masks import Bursts
from cdsa.errors import ConfigError
from cdsa.methods.baselines.matrix import ImputeFn, Matrix, fit_matrix
from cdsa.methods.wrapper import Baseline, PredictFn

Bools = NDArray[np.bool_]

HOLDOUT_SHARE = 0.1
"""Share of the cells on which the rank is chosen."""


@dataclass(frozen=True, kw_only=True)
class MatrixFactorization(Baseline):
    """Matrix factorization with smooth temporal factors.

    Temporal factors and loadings are fitted to the observed cells by alternating least squares
    [1]. As in [2], neighbouring time steps are tied, here by a random walk instead of an
    auto-regression. The rank is chosen on cells hidden in bursts, whatever the gaps to be filled
    are like.

    Notes
    -----
    Deviations from the papers: series are standardised and have no bias term; the strength of the
    temporal regularisation is a setting; loadings are kept from training, and the temporal factors
    are fitted anew to the table that is filled.

    References
    ----------
    [1] Koren, Y., Bell, R., & Volinsky, C. (2009). Matrix factorization techniques for recommender
    systems. Computer 42(8).

    [2] Yu, H.-F., Rao, N., & Dhillon, I. S. (2016). Temporal regularized matrix factorization for
    high-dimensional time series prediction. NIPS.
    """

    name: ClassVar[str] = "mf"

    ranks: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Numbers of factors to choose from."""

    ridge: float = 0.1
    """L2 penalty on factors and loadings."""

    smoothness: float = 1.0
    """Penalty on squared differences between neighbouring time steps of a factor; 0 for none."""

    n_rounds: int = 12
    """Rounds of alternating least squares."""

    seed: int = 0
    """Seed of the initial loadings and of the cells hidden to choose the rank."""

    def __post_init__(self) -> None:
        if not self.ranks or min(self.ranks) < 1:
            raise ConfigError(f"ranks must be numbers from 1 on, but found {self.ranks}")
        if self.ridge <= 0 or self.smoothness < 0 or self.n_rounds < 1:
            raise ConfigError(
                "ridge must be greater than 0, smoothness not negative and n_rounds at least 1, "
                f"but found {self.ridge:g}, {self.smoothness:g} and {self.n_rounds}"
            )

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return fit_matrix(components, self._fit_rows, temporal=True)

    def with_seed(self, seed: int) -> Self:
        return replace(self, seed=seed)

    def _fit_rows(self, rows: Matrix) -> ImputeFn:
        loadings = self._fit_loadings(rows, self.choose_rank(rows))
        return lambda rows: np.where(np.isfinite(rows), rows, self._reconstruct(rows, loadings))

    def choose_rank(self, rows: Matrix) -> int:
        """The rank with the least error on hidden cells of a matrix (t, s)."""
        ranks = [rank for rank in self.ranks if rank < min(rows.shape)] or [1]
        observed = np.isfinite(rows)
        if len(ranks) == 1 or observed.sum() * HOLDOUT_SHARE < 1:
            return ranks[0]
        rng = np.random.default_rng(self.seed)
        hidden = Bursts(share=HOLDOUT_SHARE)(xr.DataArray(rows[..., None], dims=DIMS), rng)
        visible = np.where(hidden.to_numpy()[..., 0], np.nan, rows)
        holdout = np.isnan(visible) & observed
        if not holdout.any() or not np.isfinite(visible).any():
            return ranks[0]
        errors = {}
        for rank in ranks:
            loadings = self._fit_loadings(visible, rank)
            errors[rank] = np.abs(self._reconstruct(visible, loadings) - rows)[holdout].mean()
        return min(errors, key=lambda rank: errors[rank])

    def _reconstruct(self, rows: Matrix, loadings: Matrix) -> Matrix:
        """The product of the loadings and of temporal factors fitted to the rows."""
        factors = self._fit_factors(np.nan_to_num(rows), np.isfinite(rows), loadings)
        return factors @ loadings.T

    def _fit_loadings(self, rows: Matrix, rank: int) -> Matrix:
        values, observed = np.nan_to_num(rows), np.isfinite(rows)
        rng = np.random.default_rng([self.seed, rank])
        v: Matrix = rng.normal(size=(values.shape[1], rank)) / np.sqrt(rank)
        penalty = self.ridge * np.eye(rank)
        for _ in range(self.n_rounds):
            u = self._fit_factors(values, observed, v)
            gram = np.einsum("ts, tr, tq -> srq", observed, u, u, optimize=True) + penalty
            v = np.linalg.solve(gram, (values.T @ u)[..., None])[..., 0]
        return v

    def _fit_factors(self, values: Matrix, observed: Bools, v: Matrix) -> Matrix:
        """The temporal factors (t, r): a ridge regression on the observed cells of each step, tied
        to the steps before and after."""
        n_steps, rank, smoothness = len(values), v.shape[1], self.smoothness
        gram = np.einsum("ts, sr, sq -> trq", observed, v, v, optimize=True)
        n_neighbours = np.full(n_steps, 2.0)
        n_neighbours[0] -= 1
        n_neighbours[-1] -= 1
        penalty = self.ridge + smoothness * n_neighbours
        gram += penalty[:, None, None] * np.eye(rank)
        if smoothness:
            return _solve_tridiagonal(gram, values @ v, smoothness)
        u: Matrix = np.linalg.solve(gram, (values @ v)[..., None])[..., 0]
        return u


def _solve_tridiagonal(diagonal: Matrix, rhs: Matrix, coupling: float) -> Matrix:
    """u of diagonal[t] u[t] - coupling (u[t - 1] + u[t + 1]) = rhs[t], by block elimination forward
    and substitution backward."""
    n_steps, rank = rhs.shape
    reduced, u = np.empty((n_steps, rank, rank + 1)), np.empty((n_steps, rank))
    previous = np.zeros((rank, rank + 1))
    for t in range(n_steps):
        left = diagonal[t] - coupling * previous[:, :rank]
        right = np.column_stack([coupling * np.eye(rank), rhs[t] + coupling * previous[:, rank]])
        previous = reduced[t] = np.linalg.solve(left, right)
    u[-1] = reduced[-1, :, rank]
    for t in range(n_steps - 2, -1, -1):
        u[t] = reduced[t, :, rank] + reduced[t, :, :rank] @ u[t + 1]
    return u
