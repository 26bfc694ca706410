"""Fill a CSV and write it back in its own layout, with an interval for every filled value.

python examples/01_fill_a_csv.py
"""

from importlib.resources import files
from pathlib import Path

import pandas as pd

import cdsa

folder = Path("examples-out")
folder.mkdir(exist_ok=True)
table = folder / "weather.csv"
demo = pd.read_csv(files("cdsa") / "data" / "nyc_weather.csv.gz")
demo[demo["time"] < "2013-03-01"].to_csv(table, index=False)  # or any table of yours

source = cdsa.open_source(table, directions=["wind_dir"], bounds={"precip": (0, None)})
print(source)  # the layout that was detected
result = cdsa.fill(source.cube, minutes=1)  # the network, or a simpler method if that is better
print("filled by", result.attrs["method"])
print(result["expected_mae"].to_series())

output, detail = folder / "filled.csv", folder / "gaps.csv"
cdsa.save_all(source, result, output, detail=detail, overwrite=True)
print("wrote", output, "and", detail)
