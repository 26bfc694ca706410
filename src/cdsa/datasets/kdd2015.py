"""KDD-2015 (Zheng et al., KDD 2015): PM2.5, temperature and humidity in Beijing."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from cdsa.core.cube import assign_metadata
from cdsa.datasets.readers import get_coordinates, read_npz, table_to_cube
from cdsa.datasets.spec import DatasetSpec, Download, ExpectedShape, Files, FileSet, Loaded
from cdsa.errors import TableError

GROUND, MISSING, SENSORS = "pm25_ground.txt", "pm25_missing.txt", "pm25_latlng.txt"
WEATHER, DISTRICTS, STATIONS = "meteorology.csv", "district.csv", "station.csv"
SUBSTITUTE = "standin_temp_hum_12stations.npz"

REMOVED = "removed"
"""The extra of PM2.5: True for cells that were removed on purpose."""

BEIJING = 1  # city_id
FIRST, LAST = "2014-05-01 01:00", "2015-04-30 23:00"
UNITS = {"temperature": "degC", "humidity": "percent"}
BOUNDS = {"temperature": (-np.inf, np.inf), "humidity": (0.0, 100.0)}


def _load_pm25(files: Files) -> Loaded:
    """All measured values, and the mask of those that were removed on purpose."""
    truth, remaining = _read_table(files[GROUND][0]), _read_table(files[MISSING][0])
    if not (truth.index.equals(remaining.index) and truth.columns.equals(remaining.columns)):
        raise TableError(
            f"{MISSING} must have the rows and columns of {GROUND}, but has others. Take both from "
            "one release"
        )
    differs = remaining.notna().to_numpy() & (remaining.to_numpy() != truth.to_numpy())
    if differs.any():
        row, column = np.argwhere(differs)[0]
        raise TableError(
            f"{MISSING} must have values of {GROUND} only, but differs at {truth.index[row]}, "
            f"{truth.columns[column]}. Take both from one release"
        )
    sensors = pd.read_csv(files[SENSORS][0], dtype={"sensor_id": str}).set_index("sensor_id")
    sensors = sensors.reindex(truth.columns)
    lat, lon = sensors["latitude"].tolist(), sensors["longitude"].tolist()
    cube = table_to_cube(truth, "pm25", "ug/m3", (0.0, np.inf), lat, lon)
    removed = (truth.notna() & remaining.isna()).to_numpy()[:, :, None]
    return cube, {REMOVED: cube.copy(data=removed)}


def _read_table(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, index_col="datetime")
        table.index = pd.to_datetime(table.index, format="%Y/%m/%d %H:%M:%S")
        return table.rename(columns=str).astype(float)
    except (ValueError, KeyError) as bad:
        raise TableError(
            f"{path.name} must have a column datetime (2014/05/01 01:00:00) and a column of "
            f"numbers per station, but could not be read as such: {bad}"
        ) from bad


PM25 = DatasetSpec(
    name="kdd2015-pm25",
    title="PM2.5 in Beijing, hourly, 36 stations, May 2014 to April 2015",
    origin="Microsoft Research, with ST-MVL (Yi et al., IJCAI 2016); the paper's KDD-2015",
    licence="for research; no licence stated",
    manual_steps="download STMVL-Release.zip from the ST-MVL page of Microsoft Research (address "
    f"below) and keep {GROUND}, {MISSING} and {SENSORS} of its sample data",
    missing_codes="empty entries",
    expected=ExpectedShape(
        steps=8759, stations=36, measurements=1, missing=0.1325, extras={REMOVED: 35_737}
    ),
    extras={REMOVED: "measured cells that are to be hidden; their values are in the cube"},
    file_sets=(FileSet(name="publisher", files=(GROUND, MISSING, SENSORS), load=_load_pm25),),
    downloads=(
        Download(
            url="https://www.microsoft.com/en-us/research/wp-content/uploads/2016/06/STMVL-Release.zip",
            files=(GROUND, MISSING, SENSORS),
        ),
    ),
)


def _load_published(name: str, files: Files) -> Loaded:
    as_text = {"id": str, "district_id": str}
    weather = pd.read_csv(files[WEATHER][0], usecols=["id", "time", name], dtype=as_text)
    districts = pd.read_csv(files[DISTRICTS][0], dtype=as_text)
    stations = pd.read_csv(files[STATIONS][0], dtype=as_text)
    ids = sorted(districts.loc[districts["city_id"].astype(int) == BEIJING, "district_id"])
    if not ids:
        raise TableError(f"{DISTRICTS} has no district of city {BEIJING}, which is Beijing")
    weather["time"] = pd.to_datetime(weather["time"])
    # of duplicate hours, the later row is the corrected one
    weather = weather[weather["id"].isin(ids)].drop_duplicates(["id", "time"], keep="last")
    hours = pd.date_range(FIRST, LAST, freq="h")
    table = weather.pivot(index="time", columns="id", values=name).reindex(hours, columns=ids)
    centres = stations.groupby("district_id")[["latitude", "longitude"]].mean().reindex(ids)
    return table_to_cube(table, name, UNITS[name], BOUNDS[name], *get_coordinates(centres)), {}


def _load_substitute(name: str, files: Files) -> Loaded:
    cube = read_npz(files[SUBSTITUTE][0])
    (label,) = (str(m) for m in cube["measurement"].to_numpy() if str(m).startswith(name))
    cube = cube.sel(measurement=[label]).assign_coords(measurement=[name])
    return assign_metadata(cube, units={name: UNITS[name]}, bounds={name: BOUNDS[name]}), {}


def _make_spec(short: str, name: str, missing: float, derived: str) -> DatasetSpec:
    files = (WEATHER, DISTRICTS, STATIONS)
    return DatasetSpec(
        name=f"kdd2015-{short}",
        title=f"{name} in Beijing, hourly, 16 districts, May 2014 to April 2015",
        origin="Microsoft Research, Urban Air (Zheng et al., KDD 2015); the paper's KDD-2015",
        licence="for research; no licence stated",
        manual_steps="download Data-1.zip from the Urban Air page of Urban Computing (address "
        f"below) and keep {WEATHER}, {DISTRICTS} and {STATIONS}",
        missing_codes="empty entries",
        expected=ExpectedShape(steps=8759, stations=16, measurements=1, missing=missing),
        file_sets=(
            FileSet(name="publisher", files=files, load=partial(_load_published, name)),
            FileSet(
                name="stand-in",
                files=(SUBSTITUTE,),
                load=partial(_load_substitute, name),
                difference="a stand-in: 12 air quality stations of the same city and hours"
                + derived,
            ),
        ),
        downloads=(Download(url="http://urban-computing.com/data/Data-1.zip", files=files),),
    )


TEMP = _make_spec("temp", "temperature", 0.211, "")
HUM = _make_spec("hum", "humidity", 0.289, ", humidity derived from the dew point")
