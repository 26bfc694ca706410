"""NYC-Traffic: vehicle counts of 186 cameras in Manhattan, 2015-12-03 to 12-26; never published.

The paper's preparation of its snapshots can be applied to other counts: `camera_counts.csv` with
the columns time, camera and vehicles, one row per snapshot, and optionally lat and lon.
"""

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.datasets.metr_la import ADJACENCY, GRAPH, annotate, with_graph
from cdsa.datasets.readers import read_npz, table_to_cube
from cdsa.datasets.spec import DatasetSpec, ExpectedShape, Files, FileSet, Loaded
from cdsa.errors import TableError

COUNTS, SUBSTITUTE = "camera_counts.csv", "all207_week1_2016_interpolated.npz"
WINDOW = "5min"


def mean_counts(counts: pd.DataFrame) -> xr.DataArray:
    """The cube of snapshots (time, camera, vehicles): means over non-overlapping windows, labelled
    by their start, NaN for windows without a snapshot."""
    if not {"time", "camera", "vehicles"} <= set(counts):
        raise TableError(
            "counts of snapshots need the columns time, camera and vehicles, but there are "
            f"{', '.join(map(str, counts))}"
        )
    times = pd.to_datetime(counts["time"])
    if times.isna().any():
        raise TableError("every snapshot needs a time, but some have none")
    rows = counts.assign(time=times.dt.floor(WINDOW), camera=counts["camera"].astype(str))
    means = rows.groupby(["time", "camera"])["vehicles"].mean().unstack("camera")
    grid = pd.date_range(means.index[0], means.index[-1], freq=WINDOW)
    lat = lon = None
    if {"lat", "lon"} <= set(counts):
        cameras = rows.groupby("camera")[["lat", "lon"]].first()
        lat, lon = cameras["lat"].tolist(), cameras["lon"].tolist()
    means = means.reindex(grid)
    return table_to_cube(means, "vehicles", "vehicles", (0.0, np.inf), lat, lon)


def _load_counts(files: Files) -> Loaded:
    path = files[COUNTS][0]
    try:
        return mean_counts(pd.read_csv(path, dtype={"camera": str})), {}
    except ValueError as bad:
        raise TableError(f"{path.name} cannot be read as timestamps and counts: {bad}") from bad


def _load_substitute(files: Files) -> Loaded:
    return with_graph(annotate(read_npz(files[SUBSTITUTE][0])), files)


NYC_TRAFFIC = DatasetSpec(
    name="nyc-traffic",
    title="Vehicle counts of cameras in Manhattan, every 5 minutes, 186 cameras, December 2015",
    origin="the paper's own, never published",
    licence="-",
    manual_steps=f"the data were never published; put your own counts into {COUNTS} (columns "
    "time, camera, vehicles, one row per snapshot; lat and lon if known)",
    missing_codes="no snapshot in a window",
    extras={GRAPH: "weights between sensors, from road distances, of the stand-in"},
    expected=ExpectedShape(steps=6624, stations=186, measurements=1, missing=0.0843),
    file_sets=(
        FileSet(
            name="counts",
            files=(COUNTS,),
            load=_load_counts,
            difference=f"counts of your own, from {COUNTS}",
            user_data=True,
        ),
        FileSet(
            name="stand-in",
            files=(SUBSTITUTE,),
            optional=(ADJACENCY,),
            load=_load_substitute,
            difference="a stand-in: speed of traffic (mph) at METR-LA's 207 sensors in its first "
            "week, gaps interpolated",
        ),
    ),
)
