"""Scaling: every measurement brought to mean 0 and spread 1, and back.

A scaler is learnt from the cells it is given and from nothing else; hand it visible training cells.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr


@dataclass(frozen=True, eq=False)
class Scaler:
    """Mean and spread by axis name: per measurement, or per location and measurement."""

    mean: xr.DataArray
    std: xr.DataArray

    @classmethod
    def fit(cls, cube: xr.DataArray, *, per_location: bool = False) -> "Scaler":
        """The scaler of the measured cells of `cube`."""
        over = ["time"] if per_location else ["time", "location"]
        known = cube.notnull().any(over)
        # a series without a single value stands at 0: it has mean 0 and spread 1
        steady = cube.astype(np.float64).where(known, 0.0)
        low, high = steady.min(over), steady.max(over)
        constant = low == high  # becomes zero, not rounding noise divided by rounding noise
        mean = steady.mean(over).where(~constant, low)
        spread = steady.std(over)
        spread = spread.where(~constant & (spread > 0), 1.0)
        bare = [name for name in mean.coords if name not in mean.dims]
        return cls(mean.drop_vars(bare), spread.drop_vars(bare))

    def select(self, cube: xr.DataArray) -> "Scaler":
        """The scaler of the measurements that a cube has."""
        names = cube["measurement"].to_numpy()
        return Scaler(self.mean.sel(measurement=names), self.std.sel(measurement=names))

    def normalise(self, cube: xr.DataArray) -> xr.DataArray:
        """Values in spreads from the mean."""
        return self._keep(cube, (cube - self.mean) / self.std)

    def denormalise(self, cube: xr.DataArray) -> xr.DataArray:
        """Values in their own unit again."""
        return self._keep(cube, cube * self.std + self.mean)

    def _keep(self, cube: xr.DataArray, result: xr.DataArray) -> xr.DataArray:
        if result.shape != cube.shape:  # xarray joins on labels and would silently drop strangers
            strange = [
                str(label)
                for axis in self.mean.dims
                for label in cube[axis].to_numpy()
                if label not in self.mean[axis].to_numpy()
            ]
            raise ValueError(f"the scaler was not learnt for: {', '.join(strange)}")
        return result.transpose(*cube.dims).astype(cube.dtype)
