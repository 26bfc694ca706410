"""Imputers of scikit-learn as methods: k nearest neighbours and chained equations."""

import warnings
from dataclasses import dataclass

import numpy as np
import xarray as xr

from cdsa.errors import MissingExtraError
from cdsa.methods.baselines.matrix import Imputer, Matrix, learn_matrix
from cdsa.methods.wrapper import GuardedFiller, guarded


@dataclass(frozen=True, kw_only=True)
class Knn:
    """The weighted mean over the moments that look most alike."""

    n_neighbors: int = 10
    """Moments to average over; nearer ones count more."""

    max_donors: int = 4_000
    """Moments to choose from, spread evenly over time: work grows with their number."""

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        return guarded(cube, lambda plain: learn_matrix(plain, self._imputer))

    def _imputer(self, columns: int) -> Imputer:
        try:
            from sklearn.impute import KNNImputer
        except ImportError as bad:
            raise MissingExtraError("The method 'knn'", "scikit-learn", "baselines") from bad
        knn = KNNImputer(n_neighbors=self.n_neighbors, weights="distance", keep_empty_features=True)
        return _Thinned(knn, self.max_donors)


class _Thinned:
    """An imputer that learns from at most `most` rows, spread evenly."""

    def __init__(self, imputer: Imputer, most: int) -> None:
        self.imputer, self.most = imputer, most

    def fit(self, rows: Matrix) -> object:
        chosen = np.linspace(0, len(rows) - 1, min(self.most, len(rows))).astype(int)
        return self.imputer.fit(rows[chosen])

    def transform(self, rows: Matrix) -> Matrix:
        return self.imputer.transform(rows)


@dataclass(frozen=True, kw_only=True)
class Mice:
    """Each series predicted from the others, round after round."""

    max_iter: int = 10
    """How often each series gets its turn."""

    n_nearest_features: int = 40
    """Series that one is predicted from at most: those most correlated with it are likeliest."""

    seed: int = 0
    """Chooses the companions where there are more."""

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        return guarded(cube, lambda plain: learn_matrix(plain, self._imputer))

    def _imputer(self, columns: int) -> Imputer:
        try:
            from sklearn.experimental import enable_iterative_imputer  # noqa: F401
            from sklearn.impute import IterativeImputer
        except ImportError as bad:
            raise MissingExtraError("The method 'mice'", "scikit-learn", "baselines") from bad
        return _Quiet(
            IterativeImputer(
                max_iter=self.max_iter,
                n_nearest_features=self.n_nearest_features
                if columns > self.n_nearest_features
                else None,
                keep_empty_features=True,
                random_state=self.seed,
            )
        )


class _Quiet:
    """An imputer that does not warn when its rounds end before the last digit settles."""

    def __init__(self, imputer: Imputer) -> None:
        self.imputer = imputer

    def fit(self, rows: Matrix) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.imputer.fit(rows)

    def transform(self, rows: Matrix) -> Matrix:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.imputer.transform(rows)
