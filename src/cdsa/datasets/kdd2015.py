"""KDD-2015 (Zheng et al., KDD 2015): PM2.5, temperature and humidity in Beijing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.cube import assign_metadata, make_cube
from cdsa.datasets.readers import read_npz
from cdsa.datasets.spec import (
    DatasetSpec,
    Download,
    ExpectedShape,
    Files,
    FileSet,
    LoadedDataset,
)
from cdsa.errors import TableError

GROUND, MISSING, PLACES = "pm25_ground.txt", "pm25_missing.txt", "pm25_latlng.txt"


REMOVED = "removed"
"""What is known beside the cube: True where a cell was removed on purpose."""


def load_pm25(files: Files) -> LoadedDataset:
    """All that was measured, and which cells of it were removed on purpose."""
    ground, left = _read_table(files[GROUND][0]), _read_table(files[MISSING][0])
    if not (ground.index.equals(left.index) and ground.columns.equals(left.columns)):
        raise TableError(
            f"{MISSING} must have the rows and columns of {GROUND}, but has others. Take both from "
            "one release"
        )
    strange = left.notna().to_numpy() & (left.to_numpy() != ground.to_numpy())
    if strange.any():
        row, column = np.argwhere(strange)[0]
        raise TableError(
            f"{MISSING} must have values of {GROUND} only, but differs at {ground.index[row]}, "
            f"{ground.columns[column]}. Take both from one release"
        )
    places = pd.read_csv(files[PLACES][0], dtype={"sensor_id": str}).set_index("sensor_id")
    known = places.reindex(ground.columns)
    cube = make_cube(
        ground.to_numpy(dtype=float)[:, :, None],
        ground.index.to_numpy(),
        list(ground.columns),
        ["pm25"],
        lat=known["latitude"].tolist(),
        lon=known["longitude"].tolist(),
        units=["ug/m3"],
    )
    removed = (ground.notna() & left.isna()).to_numpy()[:, :, None]
    described = assign_metadata(cube, bounds={"pm25": (0.0, np.inf)})
    return LoadedDataset(described, {REMOVED: described.copy(data=removed)})


def _read_table(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, index_col="datetime")
        table.index = pd.to_datetime(table.index, format="%Y/%m/%d %H:%M:%S")
        return table.rename(columns=str).astype(float)
    except (ValueError, KeyError) as bad:
        raise TableError(
            f"{path.name} must have a column datetime (2014/05/01 01:00:00) and numbers in a "
            f"column per station, but could not be read so: {bad}"
        ) from bad


PM25 = DatasetSpec(
    name="kdd2015-pm25",
    title="PM2.5 in Beijing, hourly, 36 stations, May 2014 to April 2015",
    origin="Microsoft Research, with ST-MVL (Yi et al., IJCAI 2016); the paper's KDD-2015",
    licence="for research; no licence stated",
    manual_steps="download STMVL-Release.zip from the ST-MVL page of Microsoft Research (address "
    f"below) and keep {GROUND}, {MISSING} and {PLACES} of its sample data",
    missing_codes="empty entries",
    expected=ExpectedShape(
        steps=8759, stations=36, measurements=1, missing=0.1325, extras={REMOVED: 35_737}
    ),
    extras={REMOVED: "measured cells that are to be hidden; their values are in the cube"},
    file_sets=(FileSet(name="publisher", files=(GROUND, MISSING, PLACES), load=load_pm25),),
    downloads=(
        Download(
            url="https://www.microsoft.com/en-us/research/wp-content/uploads/2016/06/STMVL-Release.zip",
            files=(GROUND, MISSING, PLACES),
        ),
    ),
)


WEATHER, DISTRICTS, DISTRICT_PLACES = "meteorology.csv", "district.csv", "station.csv"


SUBSTITUTE = "standin_temp_hum_12stations.npz"


BEIJING = 1


FIRST, LAST = "2014-05-01 01:00", "2015-04-30 23:00"


UNITS = {"temperature": "degC", "humidity": "percent"}


BOUNDS = {"temperature": (-np.inf, np.inf), "humidity": (0.0, 100.0)}


def _load_published(name: str) -> Callable[[Files], LoadedDataset]:
    def load(files: Files) -> LoadedDataset:
        text = {"id": str, "district_id": str}
        weather = pd.read_csv(files[WEATHER][0], usecols=["id", "time", name], dtype=text)
        districts = pd.read_csv(files[DISTRICTS][0], dtype=text)
        stations = pd.read_csv(files[DISTRICT_PLACES][0], dtype=text)
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
        return LoadedDataset(_annotate(cube, name))

    return load


def _load_substitute(name: str) -> Callable[[Files], LoadedDataset]:
    def load(files: Files) -> LoadedDataset:
        cube = read_npz(files[SUBSTITUTE][0])
        (number,) = (
            place
            for place, label in enumerate(cube["measurement"].to_numpy())
            if str(label).startswith(name)
        )
        return LoadedDataset(
            _annotate(cube.isel(measurement=[number]).assign_coords(measurement=[name]), name)
        )

    return load


def _annotate(cube: xr.DataArray, name: str) -> xr.DataArray:
    return assign_metadata(cube, units={name: UNITS[name]}, bounds={name: BOUNDS[name]})


def _make_spec(short: str, name: str, missing: float, derived: str) -> DatasetSpec:
    return DatasetSpec(
        name=f"kdd2015-{short}",
        title=f"{name} in Beijing, hourly, 16 districts, May 2014 to April 2015",
        origin="Microsoft Research, Urban Air (Zheng et al., KDD 2015); the paper's KDD-2015",
        licence="for research; no licence stated",
        manual_steps="download Data-1.zip from the Urban Air page of Urban Computing (address "
        f"below) and keep {WEATHER}, {DISTRICTS} and {DISTRICT_PLACES}",
        missing_codes="empty entries",
        expected=ExpectedShape(steps=8759, stations=16, measurements=1, missing=missing),
        file_sets=(
            FileSet(
                name="publisher",
                files=(WEATHER, DISTRICTS, DISTRICT_PLACES),
                load=_load_published(name),
            ),
            FileSet(
                name="stand-in",
                files=(SUBSTITUTE,),
                load=_load_substitute(name),
                difference="a stand-in: 12 air quality stations of the same city and hours"
                + derived,
            ),
        ),
        downloads=(
            Download(
                url="http://urban-computing.com/data/Data-1.zip",
                files=(WEATHER, DISTRICTS, DISTRICT_PLACES),
            ),
        ),
    )


TEMP = _make_spec("temp", "temperature", 0.211, "")


HUM = _make_spec("hum", "humidity", 0.289, ", humidity derived from the dew point")
