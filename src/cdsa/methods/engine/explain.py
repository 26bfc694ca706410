"""Reasons: which measured cells a value was filled from, told by a network's own maps.

A cell lies in several windows, which count as they do when their answers are put together. Of each,
the maps are rolled back through the layers (`models/reasons.py`).
"""

import numpy as np
import torch
import xarray as xr

from cdsa.core.circular import base_names, to_components
from cdsa.core.prepare import prepare
from cdsa.errors import ConfigError
from cdsa.methods.engine.predictor import Predictor
from cdsa.methods.explanation import Cell, Explanation
from cdsa.methods.wrapper import Guarantees
from cdsa.nn.rollout import marginal_map
from cdsa.nn.types import AXES
from cdsa.training.windows import Windows, taper


def explain(
    filler: Guarantees, network: Predictor, cube: xr.DataArray, cell: tuple[int, int, int]
) -> Explanation:
    """Where the value of a cell comes from. The network must be placed for the cube."""
    part, time = _steps_around(network, cube, cell[0])
    inside = (time, *cell[1:])
    filled = filler.finalise(prepare(part, checked=True), network.predict(to_components(part))[0])
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
    if not model.explainable:
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
        for kind in asked:  # both components of a direction
            inside = (step, int(at[0]), int(kind))
            share = model.contributions(window.values, window.observed, window.context, inside)
            share = share[0].cpu().double()
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
    with torch.no_grad():
        layers = network.model.maps(window.values, window.observed, window.context)
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
