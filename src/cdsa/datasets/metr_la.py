"""METR-LA: speed of traffic at 207 sensors of Los Angeles, every 5 minutes, 2012-03-01 to 06-27.

Published with DCRNN (Li et al., ICLR 2018) as `metr-la.h5`, a pandas table: a row per step, a
column per sensor, zero where nothing was measured. The road graph is made from road distances as
DCRNN does: exp(-(d / s)^2) with s their standard deviation, nothing below 0.1.
"""

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.cube import assign_metadata, make_cube
from cdsa.datasets.readers import read_npz, regular_index
from cdsa.datasets.spec import (
    DatasetSpec,
    Download,
    ExpectedShape,
    Files,
    FileSet,
    LoadedDataset,
)
from cdsa.errors import MissingExtraError, TableError
from cdsa.io.source import open_cube

HDF, CSV, CUBE, NPZ = "metr-la.h5", "metr-la.csv", "metr-la.nc", "first10sensors_full_34272.npz"
PLACES, DISTANCES, ADJACENCY = (
    "graph_sensor_locations.csv", "distances_la_2012.csv", "adjacency.npz",
)  # fmt: skip
OPTIONAL = (PLACES, DISTANCES, ADJACENCY)
GRAPH = "road_graph"
MIN_WEIGHT = 0.1


def _load_hdf(files: Files) -> LoadedDataset:
    path = files[HDF][0]
    try:
        table = pd.read_hdf(path)
    except ImportError as bad:
        raise MissingExtraError(f"reading {path.name}", "tables", "hdf") from bad
    except (OSError, ValueError, KeyError) as bad:
        raise TableError(f"{path.name} is not a pandas table in HDF5: {bad}") from bad
    return with_graph(from_table(table, files), files)


def _load_csv(files: Files) -> LoadedDataset:
    path = files[CSV][0]
    try:
        table = pd.read_csv(path, index_col=0)
        table.index = pd.to_datetime(table.index)
        table = table.astype(float)
    except ValueError as bad:
        raise TableError(
            f"{path.name} must have stamps in its first column and a column of numbers per sensor, "
            f"but could not be read so: {bad}"
        ) from bad
    return with_graph(from_table(table, files), files)


def _load_cube(files: Files) -> LoadedDataset:
    return with_graph(_annotate(open_cube(files[CUBE][0])), files)


def _load_npz(files: Files) -> LoadedDataset:
    return with_graph(_annotate(read_npz(files[NPZ][0])), files)


def from_table(table: pd.DataFrame, files: Files) -> xr.DataArray:
    """The cube of a row per step and a column per sensor; zero is missing."""
    sensors = [str(name) for name in table.columns]
    lat, lon = None, None
    if PLACES in files:
        places = pd.read_csv(files[PLACES][0], dtype={"sensor_id": str}).set_index("sensor_id")
        known = places[["latitude", "longitude"]].reindex(sensors)
        if known.notna().all(axis=None):
            lat, lon = known["latitude"].tolist(), known["longitude"].tolist()
    grid = regular_index(table.index, "5min", "METR-LA's table")
    values = (
        table.set_axis(pd.to_datetime(table.index)).reindex(grid).to_numpy(dtype=float)[:, :, None]
    )
    return _annotate(make_cube(values, grid.to_numpy(), sensors, ["speed"], lat=lat, lon=lon))


def _annotate(cube: xr.DataArray) -> xr.DataArray:
    named = cube.assign_coords(measurement=["speed"])
    known = assign_metadata(named, units={"speed": "mph"}, bounds={"speed": (0.0, np.inf)})
    return known.where(known != 0)


def with_graph(cube: xr.DataArray, files: Files) -> LoadedDataset:
    """With the road graph beside the cube, if there is a file to have it from."""
    sensors = [str(name) for name in cube["location"].to_numpy()]
    if ADJACENCY in files:
        with np.load(files[ADJACENCY][0], allow_pickle=False) as file:
            ids = file["ids"].astype(str)
            weights = pd.DataFrame(file["adj"], index=ids, columns=ids)
    elif DISTANCES in files:
        weights = road_graph(
            pd.read_csv(files[DISTANCES][0], dtype={"from": str, "to": str}), sensors
        )
    else:
        return LoadedDataset(cube)
    if not weights.index.isin(sensors).any():
        raise TableError("the road graph has none of the sensors of the table")
    ours = weights.reindex(index=sensors, columns=sensors).fillna(0.0)
    graph = xr.DataArray(
        ours.to_numpy(), dims=("location", "other"), coords={"location": sensors, "other": sensors}
    )
    return LoadedDataset(cube, {GRAPH: graph})


def road_graph(distances: pd.DataFrame, sensors: list[str]) -> pd.DataFrame:
    """Weights from road distances (from, to, cost) between these sensors."""
    known = distances[distances["from"].isin(sensors) & distances["to"].isin(sensors)]
    far = known.pivot_table("cost", "from", "to").reindex(index=sensors, columns=sensors)
    spread = float(np.nanstd(far.to_numpy())) or 1.0
    near = np.exp(-np.square(far / spread))
    return near.where(near >= MIN_WEIGHT, 0.0)


SUBSTITUTE = "10 of the 207 sensors"
METR_LA = DatasetSpec(
    name="metr-la",
    title="Speed of traffic in Los Angeles, every 5 minutes, 207 sensors, March to June 2012",
    origin="Los Angeles Metropolitan Transportation Authority (Jagadish et al., CACM 2014); "
    "published with DCRNN (Li et al., ICLR 2018)",
    licence="none stated by DCRNN; the copy at Zenodo is CC BY 4.0",
    manual_steps=f"download {HDF} from the drive that https://github.com/liyaguang/DCRNN links to "
    f"(or METR-LA.csv, address below), and {PLACES} and {DISTANCES} from its data/sensor_graph",
    missing_codes="0",
    expected=ExpectedShape(steps=34272, stations=207, measurements=1, missing=0.0811),
    extras={GRAPH: "links between sensors, from road distances"},
    file_sets=(
        FileSet(name="publisher", files=(HDF,), optional=OPTIONAL, load=_load_hdf),
        FileSet(name="csv", files=(CSV,), optional=OPTIONAL, load=_load_csv),
        FileSet(name="cube", files=(CUBE,), optional=OPTIONAL, load=_load_cube),
        FileSet(
            name="10-sensors",
            files=(NPZ,),
            optional=OPTIONAL,
            load=_load_npz,
            difference=SUBSTITUTE,
        ),
    ),
    downloads=(
        Download(url="https://zenodo.org/records/5146275/files/METR-LA.csv", files=(CSV,)),
        *(
            Download(
                url="https://raw.githubusercontent.com/liyaguang/DCRNN/master/data/sensor_graph/"
                + name,
                files=(name,),
            )
            for name in (PLACES, DISTANCES)
        ),
    ),
)
