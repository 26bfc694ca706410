"""Values where there is no sensor: places with coordinates are filled like stations.

python examples/06_virtual_sensors.py
"""

import pandas as pd

import cdsa

source = cdsa.open_source(cdsa.open_demo().isel(time=slice(0, 2000)))
places = pd.DataFrame(
    {"name": ["Central Park", "Coney Island"], "lat": [40.78, 40.57], "lon": [-73.97, -73.98]}
)
source = source.with_sites(places)
result = cdsa.fill(source.cube, "cdsa", minutes=0.5)

park = result.sel(location="Central Park", measurement="temp")
print(park[["value", "lower", "upper"]].to_dataframe()[["value", "lower", "upper"]].head())
