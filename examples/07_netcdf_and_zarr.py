"""NetCDF and Zarr: the same dataset comes back, with gaps filled and flags added.

python examples/07_netcdf_and_zarr.py
"""

from pathlib import Path

import xarray as xr

import cdsa

folder = Path("examples-out")
folder.mkdir(exist_ok=True)
source = cdsa.open_source(cdsa.open_demo().isel(time=slice(0, 500)))
for name in ("weather.nc", "weather.zarr"):
    source.save(cdsa.fill(source.cube, "linear"), folder / name, overwrite=True)
    again = cdsa.open_source(folder / name, refill=True)  # cells filled before are gaps again
    again.save(cdsa.fill(again.cube, "climatology"), folder / f"again-{name}", overwrite=True)
    print(f"wrote {folder / f'again-{name}'}: {again.layout}")

print(xr.open_dataset(folder / "again-weather.nc"))
