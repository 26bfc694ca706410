"""Scaling of every measurement to mean 0 and standard deviation 1, and back."""

from dataclasses import dataclass

import numpy as np
import xarray as xr


@dataclass(frozen=True, eq=False)
class Scaler:
    """Mean and standard deviation per measurement, or per location and measurement."""

    mean: xr.DataArray
    std: xr.DataArray

    @classmethod
    def fit(cls, cube: xr.DataArray, *, per_location: bool = False) -> "Scaler":
        """The scaler of the observed cells of `cube`, which should be visible training cells."""
        dims = ["time"] if per_location else ["time", "location"]
        # an empty series gets mean 0 and standard deviation 1
        values = cube.astype(np.float64).where(cube.notnull().any(dims), 0.0)
        low, high = values.min(dims), values.max(dims)
        constant = low == high  # becomes zero, not rounding noise divided by rounding noise
        mean = values.mean(dims).where(~constant, low)
        std = values.std(dims)
        std = std.where(~constant & (std > 0), 1.0)
        return cls(mean.reset_coords(drop=True), std.reset_coords(drop=True))

    def select(self, cube: xr.DataArray) -> "Scaler":
        names = cube["measurement"].to_numpy()
        return Scaler(self.mean.sel(measurement=names), self.std.sel(measurement=names))

    def normalise(self, cube: xr.DataArray) -> xr.DataArray:
        return self._as_cube((cube - self.mean) / self.std, cube)

    def denormalise(self, cube: xr.DataArray) -> xr.DataArray:
        return self._as_cube(cube * self.std + self.mean, cube)

    def _as_cube(self, result: xr.DataArray, cube: xr.DataArray) -> xr.DataArray:
        if result.shape != cube.shape:  # xarray aligns on labels and silently drops unknown ones
            unknown = [
                str(label)
                for dim in self.mean.dims
                for label in cube[dim].to_numpy()
                if label not in self.mean[dim].to_numpy()
            ]
            raise ValueError(f"the scaler was not fitted on: {', '.join(unknown)}")
        return result.transpose(*cube.dims).astype(cube.dtype)
