"""KDD-2015, the air of Beijing: hourly PM2.5 at 36 stations, 2014-05-01 to 2015-04-30.

`pm25_ground.txt` has what was measured, `pm25_missing.txt` the same with cells removed on purpose:
a cell is removed where the same day and hour of that station is naturally missing in the month
after. A row per hour, a column per station, nothing between two commas where nothing was measured.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from cdsa.core.cube import describe, make_cube
from cdsa.datasets.kinds import Address, DataSet, Facts, Files, Form, Loaded
from cdsa.errors import TableError

GROUND, MISSING, PLACES = "pm25_ground.txt", "pm25_missing.txt", "pm25_latlng.txt"
REMOVED = "removed"
"""What is known beside the cube: True where a cell was removed on purpose."""


def load_pm25(files: Files) -> Loaded:
    """All that was measured, and which cells of it were removed on purpose."""
    ground, left = _table(files[GROUND][0]), _table(files[MISSING][0])
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
        unit=["ug/m3"],
    )
    removed = (ground.notna() & left.isna()).to_numpy()[:, :, None]
    described = describe(cube, bounds={"pm25": (0.0, np.inf)})
    return Loaded(described, {REMOVED: described.copy(data=removed)})


def _table(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, index_col="datetime")
        table.index = pd.to_datetime(table.index, format="%Y/%m/%d %H:%M:%S")
        return table.rename(columns=str).astype(float)
    except (ValueError, KeyError) as bad:
        raise TableError(
            f"{path.name} must have a column datetime (2014/05/01 01:00:00) and numbers in a "
            f"column per station, but could not be read so: {bad}"
        ) from bad


PM25 = DataSet(
    name="kdd2015-pm25",
    title="PM2.5 in Beijing, hourly, 36 stations, May 2014 to April 2015",
    origin="Microsoft Research, with ST-MVL (Yi et al., IJCAI 2016); the paper's KDD-2015",
    licence="for research; no licence stated",
    by_hand="download STMVL-Release.zip from Microsoft Research's page of ST-MVL (address below) "
    f"and keep {GROUND}, {MISSING} and {PLACES} of its sample data",
    missing_codes="empty entries",
    facts=Facts(steps=8759, stations=36, measurements=1, missing=0.1325, beside={REMOVED: 35_737}),
    beside={REMOVED: "measured cells that are to be hidden; their values are in the cube"},
    forms=(Form(name="publisher", files=(GROUND, MISSING, PLACES), load=load_pm25),),
    addresses=(
        Address(
            url="https://www.microsoft.com/en-us/research/wp-content/uploads/2016/06/STMVL-Release.zip",
            files=(GROUND, MISSING, PLACES),
        ),
    ),
)
