"""Reasons: which measured cells a value was filled from, told by a network's own maps.

A cell lies in several windows, which count as they do when their answers are put together. Of each,
the maps are rolled back through the layers (`models/reasons.py`).
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from cdsa.core.circular import base_names, to_components
from cdsa.core.times import Clock
from cdsa.errors import ConfigError, unknown
from cdsa.methods.engine.predictor import Predictor
from cdsa.methods.wrapper import Guard
from cdsa.nn.context import WindowContext
from cdsa.nn.rollout import marginal_map
from cdsa.nn.types import AXES, AttentionMaps
from cdsa.training.windows import Windows, taper

OWN_SERIES = "own series at other times"


SOURCES = (OWN_SERIES, "other places", "other measurements", "other places and measurements")
"""What a value may come from; each cell belongs to one of them."""


class Cell(NamedTuple):
    """One cell of a cube, by the names of its axes."""

    time: np.datetime64
    location: str
    measurement: str


class Contribution(NamedTuple):
    """A measured cell, and how much of a value comes from it."""

    cell: Cell
    value: float
    share: float


@runtime_checkable
class Explainable(Protocol):
    """A network that can say where its guess of a cell comes from."""

    def contributions(
        self,
        values: Tensor,
        observed: Tensor,
        *told: WindowContext | tuple[int, int, int],
    ) -> Tensor:
        """Shares of the observed cells of a single window, (1, t, l, m), in the guess of a cell,
        which stands behind its surroundings if it is told of any."""
        ...


@dataclass(frozen=True, eq=False)
class Explanation:
    """Where a value comes from."""

    cell: Cell
    value: float
    """What was filled in."""

    shares: xr.DataArray
    """Of every measured cell nearby, in time; they sum to one, or to none if nothing was measured
    there at all, and the value is what is usual."""

    values: xr.DataArray
    """What was measured there."""

    maps: dict[str, xr.DataArray]
    """Of the window that tells most of it, the map of each axis: who looks at whom, averaged over
    heads and layers; rows sum to one."""

    def top(self, most: int = 10) -> list[Contribution]:
        """The cells with the largest shares."""
        flat = self.shares.to_numpy().ravel()
        order = np.argsort(-flat, kind="stable")[:most]
        found = []
        for number in order[flat[order] > 0]:
            t, l, m = (int(at) for at in np.unravel_index(number, self.shares.shape))  # noqa: E741
            cell = Cell(
                self.shares["time"].to_numpy()[t],
                str(self.shares["location"].to_numpy()[l]),
                str(self.shares["measurement"].to_numpy()[m]),
            )
            found.append(Contribution(cell, float(self.values[t, l, m]), float(flat[number])))
        return found

    def by_axis(self) -> dict[str, float]:
        """How much comes from other times of the same series, from the same measurement at other
        places, from other measurements of the same place, and from what is other in both; at any
        time. They sum to what all shares do."""
        here = self.shares["location"] == self.cell.location
        same = self.shares["measurement"] == self.cell.measurement
        parts = (here & same, ~here & same, here & ~same, ~here & ~same)
        return {
            name: float(self.shares.where(part, 0.0).sum())
            for name, part in zip(SOURCES, parts, strict=True)
        }


def find_cell(
    cube: xr.DataArray, cell: object, location: str | None = None, measurement: str | None = None
) -> tuple[int, int, int]:
    """Where a cell stands in a cube, given as one or as its time, location and measurement; refused
    if it is not there, or was measured."""
    whole = cell if location is None and measurement is None else (cell, location, measurement)
    if not isinstance(whole, tuple | list) or len(whole) != 3 or None in whole[1:]:
        raise ConfigError(f"a cell has a time, a location and a measurement, but found {whole!r}")
    time, location, measurement = whole
    for axis, name in (("location", location), ("measurement", measurement)):
        if name not in cube[axis].to_numpy():
            raise ConfigError(unknown(axis, name, [str(n) for n in cube[axis].to_numpy()]))
    wanted = Clock().parse(time)
    times = cube["time"].to_numpy()
    at = np.flatnonzero(times == wanted)
    if not len(at):
        nearest = times[np.argmin(np.abs(times - wanted))]
        raise ConfigError(
            f"the cube has no step at {wanted.astype('datetime64[s]')}; the nearest is "
            f"{nearest.astype('datetime64[s]')}"
        )
    place = (
        int(at[0]),
        int(np.flatnonzero(cube["location"].to_numpy() == location)[0]),
        int(np.flatnonzero(cube["measurement"].to_numpy() == measurement)[0]),
    )
    if np.isfinite(cube.to_numpy()[place]):
        raise ConfigError(
            f"{measurement} at {location}, {wanted.astype('datetime64[s]')} was measured: "
            f"{cube.to_numpy()[place]:g}. Reasons are for values that were filled"
        )
    return place


def explain(
    filler: Guard, network: Predictor, cube: xr.DataArray, cell: tuple[int, int, int]
) -> Explanation:
    """Where the value of a cell comes from. The network must be placed for the cube."""
    part, time = _steps_around(network, cube, cell[0])
    inside = (time, *cell[1:])
    filled = filler.kept(part, network.predict(to_components(part))[0])
    return Explanation(
        cell=Cell(
            cube["time"].to_numpy()[cell[0]],
            str(cube["location"].to_numpy()[cell[1]]),
            str(cube["measurement"].to_numpy()[cell[2]]),
        ),
        value=float(filled.to_numpy()[inside]),
        shares=attribute(network, part, inside),
        values=part,
        maps=mean_maps(network, part, inside),
    )


def _steps_around(network: Predictor, cube: xr.DataArray, time: int) -> tuple[xr.DataArray, int]:
    """The steps that matter to one, and its number among them: windows begin at the same steps as
    in the whole cube, and none that answers for it ends with the part."""
    stride, reach = network.stride, 2 * network.window
    low = max(0, (time - reach) // stride * stride)
    high = cube.sizes["time"] if network.horizon else time + reach + 1
    return cube.isel(time=slice(low, high)), time - low


def attribute(network: Predictor, cube: xr.DataArray, cell: tuple[int, int, int]) -> xr.DataArray:
    """The shares that measured cells have in what is told of one cell."""
    model = network.model
    if not isinstance(model, Explainable):
        raise ConfigError(
            "this network cannot say where its values come from; those of cdsa and cdsa-paper can"
        )
    own = network.align(to_components(cube))
    bases = base_names(own["measurement"].to_numpy())
    asked = np.flatnonzero(bases == cube["measurement"].to_numpy()[cell[2]])
    at = np.flatnonzero(own["location"].to_numpy() == cube["location"].to_numpy()[cell[1]])
    if not len(asked) or not len(at):
        raise ConfigError(
            "the network was not trained on this series, which gets a mean: there is nothing to "
            "tell of it"
        )
    windows = network.windows(own)
    total = np.zeros((own.sizes["time"] + 1, *own.shape[1:]))  # the last for empty steps
    told_of = 0.0
    model.eval()
    for number, step, weight in _windows_covering(network, windows, cell[0]):
        window = windows.take(torch.tensor([number], device=network.device))
        around = () if window.context is None else (window.context,)
        for kind in asked:  # both components of a direction
            told = (*around, (step, int(at[0]), int(kind)))
            share = model.contributions(window.values, window.observed, *told)[0].cpu().double()
            total[window.steps[0].cpu().numpy()] += weight / len(asked) * share.numpy()
            told_of += weight / len(asked) if share.sum() > 0 else 0.0
    total /= told_of or 1.0  # a window without a single value says what is usual
    shares = xr.zeros_like(cube)
    rows = own.get_index("location").get_indexer(cube["location"].to_numpy())
    for number, base in enumerate(bases):
        of_kind = np.where(rows >= 0, total[:-1, rows, number], 0.0)
        shares.loc[{"measurement": base}] += of_kind
    return shares


def mean_maps(
    network: Predictor, cube: xr.DataArray, cell: tuple[int, int, int]
) -> dict[str, xr.DataArray]:
    """The map of each axis in the window that counts most for a cell, averaged over heads and
    layers."""
    own = network.align(to_components(cube))
    windows = network.windows(own)
    number, *_ = max(_windows_covering(network, windows, cell[0]), key=lambda found: found[2])
    window = windows.take(torch.tensor([number], device=network.device))
    around = () if window.context is None else (window.context,)
    with torch.no_grad():
        layers: list[AttentionMaps] = network.model.maps(window.values, window.observed, *around)  # type: ignore[operator]
    steps = window.steps[0].cpu().numpy()
    there = np.flatnonzero(steps >= 0)
    labels = {"time": own["time"].to_numpy()[steps[there]]}
    labels |= {axis: own[axis].to_numpy() for axis in ("location", "measurement")}
    found: dict[str, xr.DataArray] = {}
    for axis in AXES:
        each = [
            part[axis] if axis in part else marginal_map(part["cells"], axis) for part in layers
        ]
        mean = torch.stack([one.mean(dim=(0, 1)) for one in each]).mean(dim=0).cpu().double()
        if axis == "time" and mean.ndim == 2 and len(mean) == len(steps):  # without empty steps
            mean = mean[there][:, there]
        if mean.ndim == 2 and len(mean) == len(labels[axis]):  # not of a single position
            names = {axis: labels[axis], "looked_at": labels[axis]}
            found[axis] = xr.DataArray(mean.numpy(), dims=(axis, "looked_at"), coords=names)
    return found


def _windows_covering(
    network: Predictor, windows: Windows, time: int
) -> list[tuple[int, int, float]]:
    """Windows that answer for a step: their number, the step within them, and how they count."""
    steps = windows.steps.cpu().numpy()
    first = network.context_length if network.horizon else 0
    length = steps.shape[1] - first
    weight = taper(length).numpy()
    found = [(int(w), int(s)) for w, s in np.argwhere(steps == time) if s >= first]
    if not found:
        raise ConfigError(
            f"a forecaster says nothing of the first {first} steps of a table, which it looks back "
            "on: they are filled with means"
        )
    total = sum(weight[step - first] for _, step in found)
    return [(window, step, float(weight[step - first] / total)) for window, step in found]
