"""The content of a report of a fill, and the cells worth checking."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.cube import is_direction
from cdsa.core.gaps import gap_starts, run_lengths
from cdsa.core.metrics import standard_deviations
from cdsa.core.text import format_interval
from cdsa.core.times import Clock
from cdsa.workflows.select import Selection

N_CELLS_TO_CHECK = 15


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportContent:
    name: str
    cube: xr.DataArray
    """What was filled: the stations of the file, then sites without a sensor."""

    result: xr.Dataset
    selection: Selection
    """The method that filled, and how it was chosen."""

    n_sites: int = 0
    """Sites without a sensor that are not in the file."""

    messages: tuple[str, ...] = ()
    """How the file was read, and what else the user was told."""

    command: str = ""
    clock: Clock = field(default_factory=Clock)

    @property
    def stations(self) -> xr.DataArray:
        """The cube of the file."""
        return self.cube.isel(location=slice(self.cube.sizes["location"] - self.n_sites))

    @property
    def interval(self) -> str:
        """The interval of filled cells, such as '90% interval'; empty if they have none."""
        if not has_intervals(self.result):
            return ""
        return format_interval(self.result.attrs.get("interval"))

    def format_time(self, time: np.datetime64) -> str:
        return self.clock.format(np.array([time], dtype="datetime64[ns]"))[0]


def cells_to_check(content: ReportContent) -> pd.DataFrame:
    """Filled cells to check by hand: one per gap, from every measurement in turn, those with the
    widest intervals or, without intervals, in the longest gaps first."""
    result, cube = content.result, content.cube
    filled = (result["source"] == "filled").to_numpy()
    missing = cube.isnull().to_numpy()
    lengths = run_lengths(missing)
    uncertainty = lengths.astype(np.float64)
    if has_intervals(result):
        width = (result["upper"] - result["lower"]).to_numpy()
        arc = np.where(width >= 360, 360.0, width % 360)  # a direction's interval runs clockwise
        uncertainty = np.where(is_direction(cube), arc, width) / standard_deviations(cube)
    step = np.arange(len(missing))[:, None, None]
    gap_start = np.maximum.accumulate(np.where(gap_starts(missing), step, 0), axis=0)
    cells = np.argwhere(filled & np.isfinite(uncertainty))
    cells = cells[np.argsort(-uncertainty[tuple(cells.T)], kind="stable")]
    gaps = np.column_stack([gap_start[tuple(cells.T)], cells[:, 1:]])
    _, first_of_gap = np.unique(gaps, axis=0, return_index=True)
    cells = cells[np.sort(first_of_gap)]
    rank = pd.Series(cells[:, 2]).groupby(cells[:, 2]).cumcount().to_numpy()  # per measurement
    t, l, m = cells[np.argsort(rank, kind="stable")[:N_CELLS_TO_CHECK]].T  # noqa: E741
    values = {
        name: result[name].to_numpy()[t, l, m] if name in result else np.nan
        for name in ("value", "lower", "upper")
    }
    return pd.DataFrame(
        {
            "step": t,
            "time": cube["time"].to_numpy()[t],
            "location": cube["location"].to_numpy()[l],
            "measurement": cube["measurement"].to_numpy()[m],
            **values,
            "gap": lengths[t, l, m],
            "series": list(zip(l.tolist(), m.tolist(), strict=True)),
        }
    )


def has_intervals(result: xr.Dataset) -> bool:
    return "lower" in result and bool(
        result["lower"].where(result["source"] == "filled").notnull().any()
    )
