"""METR-LA: speed of traffic at 207 sensors of Los Angeles, every 5 minutes, 2012-03-01 to 06-27.

Published with DCRNN (Li et al., ICLR 2018) as `metr-la.h5`, a pandas table with one row per step,
one column per sensor and 0 for missing values. The weights of the road graph are those of DCRNN:
exp(-(d / s)^2) for road distances d with the standard deviation s, and 0 below 0.1.
"""

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.cube import assign_metadata
from cdsa.datasets.readers import get_coordinates, read_npz, regular_index, table_to_cube
from cdsa.datasets.spec import DatasetSpec, Download, ExpectedShape, Files, FileSet, Loaded
from cdsa.errors import MissingExtraError, TableError
from cdsa.io.source import open_cube

HDF, CSV, CUBE, NPZ = "metr-la.h5", "metr-la.csv", "metr-la.nc", "first10sensors_full_34272.npz"
SENSORS, DISTANCES, ADJACENCY = (
    "graph_sensor_locations.csv", "distances_la_2012.csv", "adjacency.npz",
)  # fmt: skip
OPTIONAL = (SENSORS, DISTANCES, ADJACENCY)
GRAPH = "road_graph"
MIN_WEIGHT = 0.1


def _load_hdf(files: Files) -> Loaded:
    path = files[HDF][0]
    try:
        table = pd.read_hdf(path)
    except ImportError as bad:
        raise MissingExtraError(f"reading {path.name}", "tables", "hdf") from bad
    except (OSError, ValueError, KeyError) as bad:
        raise TableError(f"{path.name} is not a pandas table in HDF5: {bad}") from bad
    return with_graph(from_table(table, files), files)


def _load_csv(files: Files) -> Loaded:
    path = files[CSV][0]
    try:
        table = pd.read_csv(path, index_col=0)
        table.index = pd.to_datetime(table.index)
        table = table.astype(float)
    except ValueError as bad:
        raise TableError(
            f"{path.name} must have timestamps in its first column and a column of numbers per "
            f"sensor, but could not be read as such: {bad}"
        ) from bad
    return with_graph(from_table(table, files), files)


def _load_cube(files: Files) -> Loaded:
    return with_graph(_drop_zeros(annotate(open_cube(files[CUBE][0]))), files)


def _load_npz(files: Files) -> Loaded:
    return with_graph(_drop_zeros(annotate(read_npz(files[NPZ][0]))), files)


def from_table(table: pd.DataFrame, files: Files) -> xr.DataArray:
    """The cube of a table with one row per step and one column per sensor; 0 means missing."""
    names = [str(name) for name in table.columns]
    lat, lon = None, None
    if SENSORS in files:
        sensors = pd.read_csv(files[SENSORS][0], dtype={"sensor_id": str}).set_index("sensor_id")
        lat, lon = get_coordinates(sensors.reindex(names))
    grid = regular_index(table.index, "5min", "METR-LA's table")
    table = table.set_axis(pd.to_datetime(table.index)).reindex(grid)
    return _drop_zeros(table_to_cube(table, "speed", "mph", (0.0, np.inf), lat, lon))


def annotate(cube: xr.DataArray) -> xr.DataArray:
    cube = cube.assign_coords(measurement=["speed"])
    return assign_metadata(cube, units={"speed": "mph"}, bounds={"speed": (0.0, np.inf)})


def _drop_zeros(cube: xr.DataArray) -> xr.DataArray:
    return cube.where(cube != 0)


def with_graph(cube: xr.DataArray, files: Files) -> Loaded:
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
        return cube, {}
    if not weights.index.isin(sensors).any():
        raise TableError("the road graph has none of the sensors of the table")
    weights = weights.reindex(index=sensors, columns=sensors).fillna(0.0)
    coords = {"location": sensors, "other": sensors}
    graph = xr.DataArray(weights.to_numpy(), dims=("location", "other"), coords=coords)
    return cube, {GRAPH: graph}


def road_graph(distances: pd.DataFrame, sensors: list[str]) -> pd.DataFrame:
    """Weights from road distances (from, to, cost) between these sensors."""
    rows = distances[distances["from"].isin(sensors) & distances["to"].isin(sensors)]
    matrix = rows.pivot_table("cost", "from", "to").reindex(index=sensors, columns=sensors)
    scale = float(np.nanstd(matrix.to_numpy())) or 1.0
    weights = np.exp(-np.square(matrix / scale))
    return weights.where(weights >= MIN_WEIGHT, 0.0)


METR_LA = DatasetSpec(
    name="metr-la",
    title="Speed of traffic in Los Angeles, every 5 minutes, 207 sensors, March to June 2012",
    origin="Los Angeles Metropolitan Transportation Authority (Jagadish et al., CACM 2014); "
    "published with DCRNN (Li et al., ICLR 2018)",
    licence="none stated by DCRNN; the copy at Zenodo is CC BY 4.0",
    manual_steps=f"download {HDF} from the drive that https://github.com/liyaguang/DCRNN links to "
    f"(or METR-LA.csv, address below), and {SENSORS} and {DISTANCES} from its data/sensor_graph",
    missing_codes="0",
    expected=ExpectedShape(steps=34272, stations=207, measurements=1, missing=0.0811),
    extras={GRAPH: "weights between sensors, from road distances"},
    file_sets=(
        FileSet(name="publisher", files=(HDF,), optional=OPTIONAL, load=_load_hdf),
        FileSet(name="csv", files=(CSV,), optional=OPTIONAL, load=_load_csv),
        FileSet(name="cube", files=(CUBE,), optional=OPTIONAL, load=_load_cube),
        FileSet(
            name="10-sensors",
            files=(NPZ,),
            optional=OPTIONAL,
            load=_load_npz,
            difference="10 of the 207 sensors",
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
            for name in (SENSORS, DISTANCES)
        ),
    ),
)
