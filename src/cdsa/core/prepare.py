"""Every cube is checked once, and its directions are converted and its domain is inferred once,
before a method gets it."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from cdsa.core.circular import base_names, to_components
from cdsa.core.cube import check_cube
from cdsa.core.domain import Domain


@dataclass(frozen=True, eq=False)
class PreparedCube:
    """A valid cube, and the same cube as plain numbers."""

    cube: xr.DataArray
    components: xr.DataArray
    """In float64, with outliers pulled in and every direction as two components."""

    domain: Domain
    """Bounds and resolution of its measurements, by the values that are not hidden."""

    def hide(self, hidden: xr.DataArray) -> "PreparedCube":
        """The same as if these cells had never been measured."""
        masked = self.mask(hidden)
        domain = Domain.of(masked.cube)
        if any(known.outliers(masked.cube).any() for known in (self.domain, domain)):
            return prepare(masked.cube, checked=True)  # they may be pulled in to other fences
        return replace(masked, domain=domain)

    def mask(self, masked: xr.DataArray) -> "PreparedCube":
        """The same without these cells, but with the domain of all."""
        names = base_names(self.components["measurement"].to_numpy())
        mask = masked.sel(measurement=names).transpose(*self.components.dims).to_numpy()
        visible = self.cube.where(~masked).transpose(*self.cube.dims)
        components = self.components.copy(data=np.where(mask, np.nan, self.components))
        return PreparedCube(visible, components, self.domain)

    def isel(self, **indexers: object) -> "PreparedCube":
        """Some of the steps (`time=`) or stations (`location=`), with the domain of all."""
        return PreparedCube(self.cube.isel(indexers), self.components.isel(indexers), self.domain)


Cube = xr.DataArray | PreparedCube
"""What methods and fillers accept."""


def prepare(cube: Cube, *, checked: bool = False) -> PreparedCube:
    """The prepared cube; nothing is done to one that is prepared already. A cube that was
    `checked` where it was made is not checked again."""
    if isinstance(cube, PreparedCube):
        return cube
    if not checked:
        check_cube(cube)
    domain = Domain.of(cube)
    return PreparedCube(cube, to_components(domain.pull_in(cube)), domain)
