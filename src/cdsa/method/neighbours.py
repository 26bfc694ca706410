"""K nearest neighbours: a gap is filled from moments at which the rest of the network looked alike.

Troyanskaya et al., "Missing value estimation methods for DNA microarrays", Bioinformatics 2001;
here scikit-learn's `KNNImputer`, with moments as rows and series as columns.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from cdsa.errors import MissingExtraError
from cdsa.method.guard import GuardedFiller, guarded
from cdsa.method.matrix import Imputer, Matrix, learn_matrix


@dataclass(frozen=True, kw_only=True)
class Knn:
    """The weighted mean over the moments that look most alike."""

    neighbours: int = 10
    """Moments to average over; nearer ones count more."""

    donors: int = 4_000
    """Moments to choose from, spread evenly over time: work grows with their number."""

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        return guarded(cube, lambda plain: learn_matrix(plain, self._imputer))

    def _imputer(self, columns: int) -> Imputer:
        try:
            from sklearn.impute import KNNImputer
        except ImportError as bad:
            raise MissingExtraError("The method 'knn'", "scikit-learn", "baselines") from bad
        knn = KNNImputer(n_neighbors=self.neighbours, weights="distance", keep_empty_features=True)
        return _Thinned(knn, self.donors)


class _Thinned:
    """An imputer that learns from at most `most` rows, spread evenly."""

    def __init__(self, imputer: Imputer, most: int) -> None:
        self.imputer, self.most = imputer, most

    def fit(self, rows: Matrix) -> object:
        chosen = np.linspace(0, len(rows) - 1, min(self.most, len(rows))).astype(int)
        return self.imputer.fit(rows[chosen])

    def transform(self, rows: Matrix) -> Matrix:
        return self.imputer.transform(rows)
