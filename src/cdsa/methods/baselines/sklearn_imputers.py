"""Imputers of scikit-learn: k nearest neighbours and chained equations."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

from cdsa.methods.baselines.matrix import ImputeFn, Matrix, fit_matrix
from cdsa.methods.wrapper import Baseline, PredictFn, import_optional

MAX_COMPARISONS = 5_000_000_000
"""Values that `knn` compares at most, of every time step with every donor; 20 seconds or so."""

MIN_STEPS = 1_000
"""Time steps that are sampled at least, however many series there are."""

MAX_REGRESSIONS = 5_000
"""Regressions that `mice` fits at most, of every series in every round."""


@dataclass(frozen=True, kw_only=True)
class Knn(Baseline):
    """Imputation by k nearest neighbours (`sklearn.impute.KNNImputer`).

    A row is a time step, a column a standardised series; a gap is filled with the mean over the
    most similar time steps, weighted by inverse distance.

    References
    ----------
    Troyanskaya, O., Cantor, M., Sherlock, G., et al. (2001). Missing value estimation methods for
    DNA microarrays. Bioinformatics 17(6).
    """

    name: ClassVar[str] = "knn"

    n_neighbors: int = 10
    """Time steps to average over."""

    max_donors: int = 4_000
    """Time steps to search, spread evenly over the table; fewer in a table of many millions of
    cells, because cost grows with the product."""

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return fit_matrix(components, self._fit_rows)

    def _fit_rows(self, rows: Matrix) -> ImputeFn:
        sklearn = import_optional("sklearn.impute", "knn", "scikit-learn")
        knn = sklearn.KNNImputer(
            n_neighbors=self.n_neighbors, weights="distance", keep_empty_features=True
        )
        impute: ImputeFn = knn.fit(self._donors(rows)).transform
        return impute

    def _donors(self, rows: Matrix) -> Matrix:
        affordable = max(MIN_STEPS, MAX_COMPARISONS // rows.size)
        n_donors = min(self.max_donors, affordable, len(rows))
        steps = np.linspace(0, len(rows) - 1, n_donors).astype(np.int64)
        return rows[steps]


@dataclass(frozen=True, kw_only=True)
class Mice(Baseline):
    """Multivariate imputation by chained equations (`sklearn.impute.IterativeImputer`).

    Each series is regressed on the others, round after round. A large table is fitted on a sample
    of its time steps, and hundreds of series in fewer rounds, so that cost is bounded.

    References
    ----------
    van Buuren, S., & Groothuis-Oudshoorn, K. (2011). mice: Multivariate imputation by chained
    equations in R. Journal of Statistical Software 45(3).
    """

    name: ClassVar[str] = "mice"

    max_iter: int = 10
    """Rounds over all series."""

    n_nearest_features: int = 40
    """Maximum number of predictors of a series, drawn by their correlation with it."""

    max_cells: int = 1_000_000
    """Cells to fit on, in a random sample of the time steps if there are more."""

    seed: int = 0
    """Seed of these draws."""

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return fit_matrix(components, self._fit_rows)

    def _fit_rows(self, rows: Matrix) -> ImputeFn:
        import_optional("sklearn.experimental.enable_iterative_imputer", "mice", "scikit-learn")
        sklearn = import_optional("sklearn.impute", "mice", "scikit-learn")
        n_series = rows.shape[1]
        many = n_series > self.n_nearest_features
        mice = sklearn.IterativeImputer(
            max_iter=min(self.max_iter, max(1, MAX_REGRESSIONS // n_series)),
            n_nearest_features=self.n_nearest_features if many else None,
            keep_empty_features=True,
            random_state=self.seed,
        )
        with warnings.catch_warnings(action="ignore"):  # the rounds may end before convergence
            mice.fit(self._sample(rows))

        def impute(rows: Matrix) -> Matrix:
            with warnings.catch_warnings(action="ignore"):
                filled: Matrix = mice.transform(rows)
            return filled

        return impute

    def _sample(self, rows: Matrix) -> Matrix:
        n_steps = max(MIN_STEPS, self.max_cells // rows.shape[1])
        if n_steps >= len(rows):
            return rows
        steps = np.random.default_rng(self.seed).permutation(len(rows))[:n_steps]
        return rows[np.sort(steps)]
