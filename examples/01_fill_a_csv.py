"""Fill a CSV file and write it back in its own layout, with an interval for every filled value.

python examples/01_fill_a_csv.py
"""

from importlib.resources import files
from pathlib import Path

import pandas as pd

import cdsa

folder = Path("examples-out")
folder.mkdir(exist_ok=True)
table = folder / "weather.csv"  # or any table of yours
demo = pd.read_csv(files("cdsa") / "data" / "nyc_weather.csv.gz")
demo[demo["time"] < "2013-03-01"].to_csv(table, index=False)

result = cdsa.fill(
    table, minutes=1, details=True, directions=["wind_dir"], bounds={"precip": (0, None)}
)
print(result.source)  # how the file was read
print(result.expected_error)  # by measurement, from cells that were hidden
print(result.cells.head())  # value, source and interval of every filled cell

output, detail = folder / "filled.csv", folder / "gaps.csv"
cdsa.save_all(result.source, result.dataset, output, detail=detail, overwrite=True)
print("wrote", output, "and", detail)
