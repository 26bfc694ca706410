"""Inverse-distance weighting of the other stations."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.geo import great_circle
from cdsa.methods.baselines.simple import interpolate_linear
from cdsa.methods.wrapper import Baseline, PredictFn, refuse_no_coordinates

MIN_KM = 1e-3  # two sensors on one mast


@dataclass(frozen=True, kw_only=True)
class Idw(Baseline):
    """Inverse-distance weighting (IDW).

    A gap is filled with the weighted mean of the other stations at that time step; where none
    reports, by linear interpolation in time.

    References
    ----------
    Shepard, D. (1968). A two-dimensional interpolation function for irregularly-spaced data. ACM
    National Conference.
    """

    name: ClassVar[str] = "idw"

    power: float = 2.0
    """Weights are the distance to the power of minus this."""

    def _fit(self, components: xr.DataArray) -> PredictFn:
        refuse_no_coordinates(components, "idw")
        return self._predict

    def _predict(self, cube: xr.DataArray) -> xr.DataArray:
        refuse_no_coordinates(cube, "idw")
        distance = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
        weight, values = inverse_distance_weights(distance, self.power), cube.to_numpy()
        observed = np.isfinite(values).astype(np.float64)
        total = np.einsum("lk, tkm -> tlm", weight, np.nan_to_num(values))
        with np.errstate(invalid="ignore"):  # 0 / 0 where no other station reports
            mean = total / np.einsum("lk, tkm -> tlm", weight, observed)
        return cube.copy(data=np.where(np.isfinite(mean), mean, interpolate_linear(cube)))


def inverse_distance_weights(distance: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """Weights of the other stations from distances in km, (l, k); zero on the diagonal."""
    weight: NDArray[np.float64] = np.maximum(distance, MIN_KM) ** -power
    np.fill_diagonal(weight, 0.0)
    return weight
