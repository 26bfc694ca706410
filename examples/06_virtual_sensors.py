"""Values where there is no sensor: give the coordinates of the sites.

python examples/06_virtual_sensors.py
"""

import pandas as pd

import cdsa

cube = cdsa.open_demo().isel(time=slice(0, 2000))
sites = pd.DataFrame(
    {"name": ["Central Park", "Coney Island"], "lat": [40.78, 40.57], "lon": [-73.97, -73.98]}
)
result = cdsa.fill(cube, "cdsa", at=sites, minutes=0.5)

park = result.sel(location="Central Park", measurement="temp")
columns = ["value", "lower", "upper"]
print(park[columns].to_dataframe()[columns].head())
