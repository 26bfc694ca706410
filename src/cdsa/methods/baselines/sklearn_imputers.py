"""Imputers of scikit-learn: k nearest neighbours and chained equations."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

from cdsa.methods.baselines.matrix import ImputeFn, Matrix, fit_matrix
from cdsa.methods.wrapper import Baseline, PredictFn, import_optional


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
    """Time steps to search, spread evenly over the table: cost grows with their number."""

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return fit_matrix(components, self._fit_rows)

    def _fit_rows(self, rows: Matrix) -> ImputeFn:
        sklearn = import_optional("sklearn.impute", "knn", "scikit-learn")
        knn = sklearn.KNNImputer(
            n_neighbors=self.n_neighbors, weights="distance", keep_empty_features=True
        )
        donors = np.linspace(0, len(rows) - 1, min(self.max_donors, len(rows))).astype(int)
        impute: ImputeFn = knn.fit(rows[donors]).transform
        return impute


@dataclass(frozen=True, kw_only=True)
class Mice(Baseline):
    """Multivariate imputation by chained equations (`sklearn.impute.IterativeImputer`).

    Each series is regressed on the others, round after round.

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

    seed: int = 0
    """Seed of that draw."""

    def _fit(self, components: xr.DataArray) -> PredictFn:
        return fit_matrix(components, self._fit_rows)

    def _fit_rows(self, rows: Matrix) -> ImputeFn:
        import_optional("sklearn.experimental.enable_iterative_imputer", "mice", "scikit-learn")
        sklearn = import_optional("sklearn.impute", "mice", "scikit-learn")
        many = rows.shape[1] > self.n_nearest_features
        mice = sklearn.IterativeImputer(
            max_iter=self.max_iter,
            n_nearest_features=self.n_nearest_features if many else None,
            keep_empty_features=True,
            random_state=self.seed,
        )
        with warnings.catch_warnings(action="ignore"):  # the rounds may end before convergence
            mice.fit(rows)

        def impute(rows: Matrix) -> Matrix:
            with warnings.catch_warnings(action="ignore"):
                filled: Matrix = mice.transform(rows)
            return filled

        return impute
