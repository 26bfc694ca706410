"""KDD-2015, the weather of Beijing: hourly temperature and humidity in its 16 districts.

Published with "Forecasting Fine-Grained Air Quality Based on Big Data" (Zheng et al., KDD 2015):
`meteorology.csv` has a row per district or city and hour, `district.csv` says which city a district
is of, `station.csv` where its air quality stations stand. A district is put where those are on
average.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.cube import describe, make_cube
from cdsa.datasets.cubes import read_npz
from cdsa.datasets.kinds import Address, DataSet, Facts, Files, Form, Loaded
from cdsa.errors import TableError

WEATHER, DISTRICTS, PLACES = "meteorology.csv", "district.csv", "station.csv"
STANDIN = "standin_temp_hum_12stations.npz"
BEIJING = 1
FIRST, LAST = "2014-05-01 01:00", "2015-04-30 23:00"
UNITS = {"temperature": "degC", "humidity": "percent"}
BOUNDS = {"temperature": (-np.inf, np.inf), "humidity": (0.0, 100.0)}


def _load_published(name: str) -> Callable[[Files], Loaded]:
    def load(files: Files) -> Loaded:
        text = {"id": str, "district_id": str}
        weather = pd.read_csv(files[WEATHER][0], usecols=["id", "time", name], dtype=text)
        districts = pd.read_csv(files[DISTRICTS][0], dtype=text)
        stations = pd.read_csv(files[PLACES][0], dtype=text)
        ours = sorted(districts.loc[districts["city_id"].astype(int) == BEIJING, "district_id"])
        if not ours:
            raise TableError(f"{DISTRICTS} has no district of city {BEIJING}, which is Beijing")
        weather["time"] = pd.to_datetime(weather["time"])
        # an hour told twice: the later row is the corrected one
        weather = weather[weather["id"].isin(ours)].drop_duplicates(["id", "time"], keep="last")
        hours = pd.date_range(FIRST, LAST, freq="h")
        table = weather.pivot(index="time", columns="id", values=name).reindex(hours, columns=ours)
        places = stations.groupby("district_id")[["latitude", "longitude"]].mean().reindex(ours)
        placed = places.notna().all(axis=None)
        cube = make_cube(
            table.to_numpy(dtype=float)[:, :, None],
            hours.to_numpy(),
            ours,
            [name],
            lat=places["latitude"].tolist() if placed else None,
            lon=places["longitude"].tolist() if placed else None,
        )
        return Loaded(_described(cube, name))

    return load


def _load_standin(name: str) -> Callable[[Files], Loaded]:
    def load(files: Files) -> Loaded:
        cube = read_npz(files[STANDIN][0])
        (number,) = (
            place
            for place, label in enumerate(cube["measurement"].to_numpy())
            if str(label).startswith(name)
        )
        return Loaded(
            _described(cube.isel(measurement=[number]).assign_coords(measurement=[name]), name)
        )

    return load


def _described(cube: xr.DataArray, name: str) -> xr.DataArray:
    return describe(cube, units={name: UNITS[name]}, bounds={name: BOUNDS[name]})


def _data_set(short: str, name: str, missing: float, derived: str) -> DataSet:
    return DataSet(
        name=f"kdd2015-{short}",
        title=f"{name} in Beijing, hourly, 16 districts, May 2014 to April 2015",
        origin="Microsoft Research, Urban Air (Zheng et al., KDD 2015); the paper's KDD-2015",
        licence="for research; no licence stated",
        by_hand="download Data-1.zip from Urban Computing's page of Urban Air (address below) and "
        f"keep {WEATHER}, {DISTRICTS} and {PLACES}",
        missing_codes="empty entries",
        facts=Facts(steps=8759, stations=16, measurements=1, missing=missing),
        forms=(
            Form(name="publisher", files=(WEATHER, DISTRICTS, PLACES), load=_load_published(name)),
            Form(
                name="stand-in",
                files=(STANDIN,),
                load=_load_standin(name),
                differs=f"a stand-in: 12 air quality stations of the same city and hours{derived}",
            ),
        ),
        addresses=(
            Address(
                url="http://urban-computing.com/data/Data-1.zip",
                files=(WEATHER, DISTRICTS, PLACES),
            ),
        ),
    )


TEMP = _data_set("temp", "temperature", 0.211, "")
HUM = _data_set("hum", "humidity", 0.289, ", humidity derived from the dew point")
