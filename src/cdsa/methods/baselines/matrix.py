"""The cube as a matrix, a row per time step and a column per series, for imputers of matrices.

Columns are standardised and sorted by name, so that neither units nor the order of stations matter.
Columns without any observation are left out.
"""

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.scaler import Scaler
from cdsa.methods.baselines.simple import interpolate_linear
from cdsa.methods.wrapper import PredictFn

Matrix = NDArray[np.float64]


ImputeFn = Callable[[Matrix], Matrix]
"""Fills the gaps of a matrix with the columns fitted on."""


def fit_matrix(
    components: xr.DataArray, fit: Callable[[Matrix], ImputeFn], *, temporal: bool = False
) -> PredictFn:
    """Fit an imputer on the matrix of a cube.

    An imputer that is not `temporal` ignores the order of rows and could only fill an empty row
    with means: such rows are interpolated linearly in time instead.
    """
    scaler = Scaler.fit(components, per_location=True)
    locations = np.sort(components["location"].to_numpy())
    measurements = np.sort(components["measurement"].to_numpy())

    def to_rows(cube: xr.DataArray) -> Matrix:
        known = cube.reindex(location=locations, measurement=measurements)
        return scaler.normalise(known).to_numpy().reshape(cube.sizes["time"], -1)

    training_rows = to_rows(components)
    used = np.isfinite(training_rows).any(axis=0)
    if not used.any():
        return lambda cube: xr.full_like(cube, np.nan)
    impute = fit(training_rows[:, used])

    def predict(cube: xr.DataArray) -> xr.DataArray:
        rows = to_rows(cube)[:, used]
        filled = np.full((len(rows), len(locations) * len(measurements)), np.nan)
        imputed = np.isfinite(rows).any(axis=1) | temporal
        if imputed.any():
            filled[np.ix_(imputed, used)] = impute(rows[imputed])
        scaled = xr.DataArray(
            filled.reshape(len(rows), len(locations), len(measurements)),
            dims=cube.dims,
            coords={"time": cube["time"], "location": locations, "measurement": measurements},
        )
        prediction = scaler.denormalise(scaled).reindex(
            location=cube["location"].to_numpy(), measurement=cube["measurement"].to_numpy()
        )
        return prediction.where(xr.DataArray(imputed, dims="time"), interpolate_linear(cube))

    return predict
