"""Every cube is checked once, and its directions are converted once, before a method gets it."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from cdsa.core.circular import base_names, to_components
from cdsa.core.cube import check_cube


@dataclass(frozen=True, eq=False)
class PreparedCube:
    """A valid cube, and the same cube as plain numbers."""

    cube: xr.DataArray
    components: xr.DataArray
    """In float64, with every direction as two components."""

    def hide(self, hidden: xr.DataArray) -> "PreparedCube":
        """The same without the hidden cells of the cube."""
        names = base_names(self.components["measurement"].to_numpy())
        mask = hidden.sel(measurement=names).transpose(*self.components.dims).to_numpy()
        return PreparedCube(
            self.cube.where(~hidden).transpose(*self.cube.dims),
            self.components.copy(data=np.where(mask, np.nan, self.components)),
        )

    def isel(self, **indexers: object) -> "PreparedCube":
        """Some of the steps (`time=`) or stations (`location=`)."""
        return PreparedCube(self.cube.isel(indexers), self.components.isel(indexers))


Cube = xr.DataArray | PreparedCube
"""What methods and fillers accept."""


def prepare(cube: Cube, *, checked: bool = False) -> PreparedCube:
    """The prepared cube; nothing is done to one that is prepared already. A cube that was
    `checked` where it was made is not checked again."""
    if isinstance(cube, PreparedCube):
        return cube
    if not checked:
        check_cube(cube)
    return PreparedCube(cube, to_components(cube))
