"""Forecast a cube, with a measurement that is known in advance.

python examples/04_forecast.py
"""

import cdsa

cube = cdsa.open_demo().isel(time=slice(0, 2000))
past = cube.copy()
past[-12:] = cube[-12:].where(
    cube["measurement"] == "temp"
)  # only temp is known for the last steps

result = cdsa.forecast(past, 12, known=["temp"], minutes=0.5)
last = slice(-12, None)
dew_point = result.sel(location="JFK", measurement="dewp").isel(time=last)
truth = cube.sel(location="JFK", measurement="dewp").isel(time=last)
columns = ["value", "lower", "upper"]
print(dew_point[columns].to_dataframe()[columns])
print(f"mean absolute error: {float(abs(dew_point['value'] - truth).mean()):.2f} degF")
