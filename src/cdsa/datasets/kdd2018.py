"""KDD Cup 2018, Beijing: hourly air quality and weather at the 11 stations that have both.

The publisher's tables follow two conventions: the station column is `stationId` or `station_id`,
and stations have the suffixes `_aq` and `_meo` or none. Timestamps are UTC. Some rows are repeated,
and 999999 and 999017 mean missing. Weather descriptions are encoded as integers.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.cube import DIRECTION, assign_metadata, make_cube
from cdsa.datasets.readers import get_coordinates, read_npz, regular_index
from cdsa.datasets.spec import DatasetSpec, ExpectedShape, Files, FileSet, Loaded
from cdsa.errors import TableError

STATIONS = (
    "daxing", "fangshan", "fengtaihuayuan", "huairou", "mentougou", "miyun", "pingchang",
    "pinggu", "shunyi", "tongzhou", "yanqing",
)  # fmt: skip
STATION_ALIASES = {"fengtai": "fengtaihuayuan"}
"""A station with two names: that of the weather network -> that of the air quality network."""

COLUMN_NAMES = {"stationId": "station", "station_id": "station", "utc_time": "time"}

UNITS = {
    "PM2.5": "ug/m3", "PM10": "ug/m3", "NO2": "ug/m3", "CO": "mg/m3", "O3": "ug/m3", "SO2": "ug/m3",
    "temperature": "degC", "pressure": "hPa", "humidity": "percent", "wind_direction": DIRECTION,
    "wind_speed": "m/s", "weather": "code",
}  # fmt: skip
MEASUREMENTS = tuple(UNITS)
AIR, WEATHER = MEASUREMENTS[:6], MEASUREMENTS[6:]
MISSING_CODES = (999999.0, 999017.0)
WEATHER_WORDS = (
    "Cloudy", "Dust", "Fog", "Hail", "Haze", "Heavy Rain", "Light Rain", "Light Snow", "Overcast",
    "Rain", "Rain with Hail", "Rain/Snow with Hail", "Sand", "Sleet", "Snow", "Sunny/clear",
    "Thundershower",
)  # fmt: skip
"""Weather descriptions, encoded by their position; other descriptions get the next number."""

STATION_LIST = "Beijing_AirQuality_Stations*.csv"
FULL = ("beijing_17_18_aq.csv", "beijing_17_18_meo.csv")
LATE = ("beijing_201802_201803_aq.csv", "beijing_201802_201803_me*.csv")
CUBE = "common11_paperperiod*.npz"
PERIOD = slice("2017-01-01 00:00", "2017-04-30 23:00")  # the paper's


def _load_tables(air: str, weather: str, period: slice, files: Files) -> Loaded:
    """Air quality and weather of the 11 stations on an hourly grid in UTC."""
    tables = [_read_table(path, AIR) for path in files[air]]
    tables += [_read_table(path, WEATHER) for path in files[weather]]
    rows = pd.concat(tables)
    rows = rows[rows["station"].isin(STATIONS)]
    if rows.empty:
        names = ", ".join(path.name for path in (*files[air], *files[weather]))
        raise TableError(
            f"{names} must have some of the stations {', '.join(STATIONS)}, but have none of them"
        )
    rows["weather"] = _encode_weather(rows["weather"])
    hours = regular_index(rows["time"], "h", "the tables of KDD Cup 2018")
    index = pd.MultiIndex.from_product([hours, STATIONS], names=["time", "station"])
    # of duplicate rows, the first value of each measurement is used
    table = rows.groupby(["time", "station"])[list(MEASUREMENTS)].first().reindex(index)
    station_list = next(iter(files.get(STATION_LIST, ())), None)
    lat, lon = _read_coordinates(station_list, rows)
    cube = make_cube(
        table.to_numpy(dtype=float).reshape(len(hours), len(STATIONS), len(MEASUREMENTS)),
        hours.to_numpy(),
        STATIONS,
        MEASUREMENTS,
        lat=lat,
        lon=lon,
    )
    return _annotate(cube).sel(time=period), {}


def _read_table(path: Path, names: Sequence[str]) -> pd.DataFrame:
    """Station, time, measurements and coordinates of one of the publisher's tables."""
    table = pd.read_csv(path, encoding="utf-8-sig", low_memory=False)
    table = table.rename(columns=COLUMN_NAMES)
    missing = {"station", "time", *names} - set(table)
    if missing:
        raise TableError(
            f"{path.name} needs the columns stationId (or station_id), utc_time and "
            f"{', '.join(names)}, but has no {', '.join(sorted(missing))}"
        )
    try:
        table["time"] = pd.to_datetime(table["time"])
        numbers = table[[name for name in names if name != "weather"]].astype(float)
    except ValueError as bad:
        raise TableError(f"{path.name} cannot be read as timestamps and numbers: {bad}") from bad
    table[numbers.columns] = numbers.mask(numbers.isin(MISSING_CODES))
    table["station"] = table["station"].astype(str).map(_normalise_station)
    coordinates = [name for name in ("latitude", "longitude") if name in table]
    return table[["station", "time", *names, *coordinates]].reindex(
        columns=["station", "time", *MEASUREMENTS, "latitude", "longitude"]
    )


def _normalise_station(name: str) -> str:
    plain = name.strip().removesuffix("_aq").removesuffix("_meo")
    return STATION_ALIASES.get(plain, plain)


def _encode_weather(descriptions: pd.Series) -> pd.Series:
    """Weather descriptions as numbers; the codes for missing become NaN."""
    words = descriptions.astype("string").str.strip().str.lower()
    numbers = {word.lower(): float(number) for number, word in enumerate(WEATHER_WORDS)}
    missing = words.isna() | words.isin([f"{code:.0f}" for code in MISSING_CODES])
    return words.map(numbers).astype(float).fillna(float(len(WEATHER_WORDS))).mask(missing)


def _read_coordinates(
    path: Path | None, rows: pd.DataFrame
) -> tuple[list[float], list[float]] | tuple[None, None]:
    """Coordinates from the list of stations, else from the columns of the weather tables."""
    table = rows
    if path is not None:
        table = pd.read_csv(path, encoding="utf-8-sig").rename(columns=COLUMN_NAMES)
        table["station"] = table["station"].astype(str).map(_normalise_station)
    stations = table.groupby("station")[["latitude", "longitude"]].first().reindex(STATIONS)
    return get_coordinates(stations)


def _load_cube(files: Files) -> Loaded:
    return _annotate(read_npz(files[CUBE][0])), {}


def _annotate(cube: xr.DataArray) -> xr.DataArray:
    names = [str(name) for name in cube["measurement"].to_numpy()]
    bounds = {
        name: (0.0, 100.0 if name == "humidity" else np.inf)
        for name in (*AIR, "humidity", "wind_speed")
        if name in names
    }
    return assign_metadata(cube, units={name: UNITS[name] for name in names}, bounds=bounds)


KDD2018 = DatasetSpec(
    name="kdd2018",
    title="Air quality and weather in Beijing, hourly, 11 stations, January to April 2017",
    origin="KDD Cup of Fresh Air 2018 (Biendata)",
    licence="for research and the competition; no licence stated",
    manual_steps="sign in at https://www.biendata.xyz/competition/kdd_2018/data/, download the "
    f"Beijing data and keep {FULL[0]} and {FULL[1]}, and the list of stations as "
    f"{STATION_LIST.replace('*', '')} if you have it",
    missing_codes="empty entries, 999999, 999017",
    expected=ExpectedShape(steps=2880, stations=11, measurements=12, missing=0.0683),
    file_sets=(
        FileSet(
            name="publisher",
            files=FULL,
            optional=(STATION_LIST,),
            load=partial(_load_tables, *FULL, PERIOD),
        ),
        FileSet(
            name="cube",
            files=(CUBE,),
            load=_load_cube,
            difference="reconstructed: the paper's stations from 2017-01-30 on, without the "
            "weather in words",
        ),
        FileSet(
            name="publisher-2018",
            files=LATE,
            optional=(STATION_LIST,),
            load=partial(_load_tables, *LATE, slice(None)),
            difference="of another time: February and March 2018",
        ),
    ),
)
