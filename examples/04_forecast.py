"""Carry a table forward, with a measurement that is known in advance.

python examples/04_forecast.py
"""

import cdsa

cube = cdsa.open_demo().isel(time=slice(0, 2000))
past = cube.copy()
past[-12:] = cube[-12:].where(cube["measurement"] == "temp")  # of the last steps only temp is known

ahead = cdsa.forecast(past, 12, known=["temp"], minutes=0.5)
jfk = ahead.sel(location="JFK", measurement="dewp").isel(time=slice(-12, None))
truth = cube.sel(location="JFK", measurement="dewp").isel(time=slice(-12, None))
print(jfk[["value", "lower", "upper"]].to_dataframe()[["value", "lower", "upper"]])
print(f"mean absolute error: {float(abs(jfk.value - truth).mean()):.2f} degF")
