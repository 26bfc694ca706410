"""Multiple imputation by chained equations: each series regressed on the others, in turns.

van Buuren & Groothuis-Oudshoorn, "mice: Multivariate Imputation by Chained Equations in R",
Journal of Statistical Software 2011; here scikit-learn's `IterativeImputer` with its Bayesian ridge
regression. One imputation is drawn, the most likely one, because a table is filled once.
"""

import warnings
from dataclasses import dataclass

import xarray as xr

from cdsa.errors import MissingExtraError
from cdsa.method.guard import GuardedFiller, guarded
from cdsa.method.matrix import Imputer, Matrix, learn_matrix


@dataclass(frozen=True, kw_only=True)
class Mice:
    """Each series predicted from the others, round after round."""

    rounds: int = 10
    """How often each series gets its turn."""

    companions: int = 40
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
                max_iter=self.rounds,
                n_nearest_features=self.companions if columns > self.companions else None,
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
