"""From xarray to xarray: a cube in, a dataset with value, source, lower and upper out.

python examples/02_xarray_in_and_out.py
"""

import cdsa

cube = cdsa.open_demo().isel(time=slice(0, 2000))  # (time, location, measurement), NaN is missing
result = cdsa.fill(cube, minutes=0.5, interval=0.8)

pressure = result.sel(measurement="pressure", location="JFK")
filled = pressure.where(pressure["source"] == "filled", drop=True)
columns = ["value", "lower", "upper"]
print(filled[columns].to_dataframe()[columns].head())
print(f"{int((result['source'] == 'filled').sum())} cells filled by {result.attrs['method']}")
print("expected error of pressure:", float(pressure["expected_mae"]), "hPa")
