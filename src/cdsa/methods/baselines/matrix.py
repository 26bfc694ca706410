"""The matrix view for methods that know rows and columns: a row per time step, a column per series.

Columns are scaled to mean 0 and spread 1, so that no unit outweighs another, and stand in order of
their names, so that the order of stations changes nothing. Columns never measured are left out.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.scaler import Scaler
from cdsa.methods.baselines.simple import straight_line
from cdsa.methods.wrapper import Guess

Matrix = NDArray[np.float64]


class Imputer(Protocol):
    """What scikit-learn calls a transformer of matrices with NaN."""

    def fit(self, rows: Matrix) -> object: ...

    def transform(self, rows: Matrix) -> Matrix: ...


def learn_matrix(
    plain: xr.DataArray, make: Callable[[int], Imputer], *, in_order: bool = False
) -> Guess:
    """Fit an imputer, made for so many columns, on the matrix view of a cube.

    Unless it knows the order of rows, it could tell no more than means of a moment at which nothing
    was measured: there straight lines in time stand in.
    """
    scaler = Scaler.fit(plain, per_location=True)
    places = np.sort(plain["location"].to_numpy())
    kinds = np.sort(plain["measurement"].to_numpy())

    def rows_of(cube: xr.DataArray) -> Matrix:
        known = cube.reindex(location=places, measurement=kinds)
        return scaler.normalise(known).to_numpy().reshape(cube.sizes["time"], -1)

    learnt = rows_of(plain)
    used = np.isfinite(learnt).any(axis=0)
    if used.sum() == 0:
        return lambda cube: xr.full_like(cube, np.nan)
    imputer = make(int(used.sum()))
    imputer.fit(learnt[:, used])

    def guess(cube: xr.DataArray) -> xr.DataArray:
        whole = np.full((cube.sizes["time"], len(places) * len(kinds)), np.nan)
        rows = rows_of(cube)[:, used]
        there = np.isfinite(rows).any(axis=1) | in_order
        if there.any():
            whole[np.ix_(there, used)] = imputer.transform(rows[there])
        shape = (cube.sizes["time"], len(places), len(kinds))
        coords = {"time": cube["time"], "location": places, "measurement": kinds}
        scaled = xr.DataArray(whole.reshape(shape), dims=cube.dims, coords=coords)
        told = scaler.denormalise(scaled).reindex(
            location=cube["location"].to_numpy(), measurement=cube["measurement"].to_numpy()
        )
        return told.where(xr.DataArray(there, dims="time"), straight_line(cube))

    return guess
