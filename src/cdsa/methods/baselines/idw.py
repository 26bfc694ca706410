"""Inverse-distance weighting: a gap is filled from what the other stations say at that moment;
where none does, by a straight line in time.

Shepard, "A two-dimensional interpolation function for irregularly-spaced data", ACM 1968.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.geo import great_circle
from cdsa.methods.baselines.simple import straight_line
from cdsa.methods.wrapper import GuardedFiller, guarded, refuse_nowhere

LEAST_KM = 1e-3  # two sensors on one mast


@dataclass(frozen=True, kw_only=True)
class Idw:
    """The mean over all other stations, near ones counting more."""

    power: float = 2.0
    """A station at twice the distance counts one over two to this power."""

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        refuse_nowhere(cube, "idw")
        return guarded(cube, lambda plain: self._guess)

    def _guess(self, cube: xr.DataArray) -> xr.DataArray:
        refuse_nowhere(cube, "idw")
        kilometres = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
        weight, values = inverse_distances(kilometres, self.power), cube.to_numpy()
        known = np.isfinite(values).astype(np.float64)
        with np.errstate(invalid="ignore"):  # 0 / 0: nobody else reports
            told = np.einsum("lk, tkm -> tlm", weight, np.nan_to_num(values)) / np.einsum(
                "lk, tkm -> tlm", weight, known
            )
        return cube.copy(data=np.where(np.isfinite(told), told, straight_line(cube)))


def inverse_distances(kilometres: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """How much each station counts for the others, (l, k): not at all for itself."""
    weight: NDArray[np.float64] = np.maximum(kilometres, LEAST_KM) ** -power
    np.fill_diagonal(weight, 0.0)
    return weight
