"""Ordinary kriging of complete fields, for sites without a model of their own.

Letters: t time, l and k stations, s sites.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cdsa.core.geo import median_distance

Floats = NDArray[np.float64]

LENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Lengths of the exponential kernel that are tried, in median distances between stations."""

NUGGETS = (0.003, 0.03, 0.1, 0.3)
"""Shares of the variance that a station shares with no neighbour."""

MAX_STEPS = 500
"""Steps of a field, spread over it, on which kernels are compared."""


@dataclass(frozen=True)
class SiteKriging:
    """The kernel that predicts each station best from the others."""

    length: float
    """In kilometres."""

    nugget: float
    error: float
    """Root mean square of the errors when each station is predicted from the others."""

    @classmethod
    def fit(cls, field: Floats, distance: Floats) -> "SiteKriging":
        """The best kernel for a field (t, l) without gaps at stations these kilometres apart."""
        sample = field[:: -(-len(field) // MAX_STEPS)]
        unit, best = median_distance(distance), None
        for length, nugget in product(LENGTHS, NUGGETS):
            kernel = cls(length * unit, nugget, np.nan)
            inverse = np.linalg.pinv(kernel._system(distance), hermitian=True)[:-1, :-1]
            errors = sample @ inverse / np.maximum(np.diagonal(inverse), 1e-12)  # Dubrule (1983)
            error = float(np.sqrt(np.mean(errors**2)))
            if best is None or error < best.error:
                best = cls(kernel.length, nugget, error)
        assert best is not None
        return best

    def weights(self, distance: Floats, to_sites: Floats) -> Floats:
        """The weight of each station (s, l) at sites, which sum to one."""
        right = np.concatenate([self._kernel(to_sites), np.ones((len(to_sites), 1))], axis=1)
        inverse = np.linalg.pinv(self._system(distance), hermitian=True)
        weights: Floats = (right @ inverse)[:, :-1]
        return weights

    def _kernel(self, distance: Floats) -> Floats:
        kernel: Floats = (1 - self.nugget) * np.exp(-distance / self.length)
        return kernel

    def _system(self, distance: Floats) -> Floats:
        """Kernel and nugget, bordered by the condition that weights sum to one."""
        n_stations = len(distance)
        system = np.ones((n_stations + 1, n_stations + 1))
        system[:-1, :-1] = self._kernel(distance) + self.nugget * np.eye(n_stations)
        system[-1, -1] = 0.0
        return system
