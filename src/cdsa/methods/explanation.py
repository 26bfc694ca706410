"""What a filled value comes from, in the user's terms."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.times import Clock
from cdsa.errors import ConfigError, unknown

SAME_SERIES = "same series, other times"
GROUPS = (SAME_SERIES, "other stations", "other measurements", "other stations and measurements")
"""What a value may come from; each measured cell belongs to one of them."""


class Cell(NamedTuple):
    """One cell of a cube, by the names of its axes."""

    time: np.datetime64
    location: str
    measurement: str


class Contribution(NamedTuple):
    """A measured cell and its share in a filled value."""

    cell: Cell
    value: float
    share: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """The measured cells that a filled value comes from."""

    cell: Cell
    value: float
    shares: xr.DataArray
    """Share of every measured cell nearby in time. They sum to one, or to zero if nothing was
    measured there and the value is the climatology."""

    values: xr.DataArray
    """The measured values of the same cells."""

    maps: dict[str, xr.DataArray]
    """Attention map of each axis in the most important window, averaged over heads and layers;
    rows sum to one."""

    def __repr__(self) -> str:
        time, location, measurement = self.cell
        where = f"{measurement} at {location}, {time.astype('datetime64[s]')}"
        return f"<Explanation: {where}: {self.value:.4g}>"

    def to_frame(self) -> pd.DataFrame:
        """All contributions, the largest first."""
        rows = [(*item.cell, item.value, item.share) for item in self.top(self.shares.size)]
        return pd.DataFrame(rows, columns=[*Cell._fields, "value", "share"])

    def top(self, n: int = 10) -> list[Contribution]:
        """The cells with the largest shares."""
        flat = self.shares.to_numpy().ravel()
        order = np.argsort(-flat, kind="stable")[:n]
        labels = [self.shares[axis].to_numpy() for axis in Cell._fields]
        contributions = []
        for number in order[flat[order] > 0]:
            position = np.unravel_index(number, self.shares.shape)
            time, location, name = (x[i] for x, i in zip(labels, position, strict=True))
            value, share = float(self.values[position]), float(flat[number])
            contributions.append(Contribution(Cell(time, str(location), str(name)), value, share))
        return contributions

    def by_group(self) -> dict[str, float]:
        """The sum of the shares in each of `GROUPS`."""
        here = self.shares["location"] == self.cell.location
        same = self.shares["measurement"] == self.cell.measurement
        masks = (here & same, ~here & same, here & ~same, ~here & ~same)
        return {
            group: float(self.shares.where(mask, 0.0).sum())
            for group, mask in zip(GROUPS, masks, strict=True)
        }


def find_cell(
    cube: xr.DataArray, time: object, location: str, measurement: str
) -> tuple[int, int, int]:
    """The position of a cell in a cube; refused if there is none, or if it was measured."""
    names = {axis: [str(name) for name in cube[axis].to_numpy()] for axis in cube.dims[1:]}
    for axis, name in (("location", location), ("measurement", measurement)):
        if name not in names[axis]:
            raise ConfigError(unknown(axis, name, names[axis]))
    requested = Clock().parse(time)
    times = cube["time"].to_numpy()
    steps = np.flatnonzero(times == requested)
    if not len(steps):
        nearest = times[np.argmin(np.abs(times - requested))]
        raise ConfigError(
            f"there is no time step at {requested.astype('datetime64[s]')}; the nearest is "
            f"{nearest.astype('datetime64[s]')}"
        )
    station, variable = names["location"].index(location), names["measurement"].index(measurement)
    position = int(steps[0]), station, variable
    if np.isfinite(cube.to_numpy()[position]):
        raise ConfigError(
            f"{measurement} at {location}, {requested.astype('datetime64[s]')} was measured: "
            f"{cube.to_numpy()[position]:g}. Only filled values are explained"
        )
    return position
