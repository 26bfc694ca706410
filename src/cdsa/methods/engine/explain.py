"""Explain a filled value by the attention of the network that predicted it.

A cell lies in several windows, which count as they do when their predictions are stitched. In each
one the network attributes its prediction to observed cells (`nn/rollout.py`).
"""

from operator import itemgetter

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from cdsa.core.circular import base_names
from cdsa.core.prepare import PreparedCube
from cdsa.errors import ConfigError
from cdsa.methods.engine.predictor import Predictor
from cdsa.methods.explanation import Cell, Explanation
from cdsa.methods.wrapper import Finaliser
from cdsa.nn.rollout import marginal_map
from cdsa.nn.types import AXES
from cdsa.training.windows import Window, Windows, taper

SMOOTHED_STEPS = 240
"""Steps before and after these that the smoother of the backbone sees; it hardly remembers more."""

WeightedWindow = tuple[Window, int, float]
"""A window that predicts the cell, the step of the cell in it, and the weight of its prediction;
the weights of all windows sum to one."""


def explain(
    filler: Finaliser, predictor: Predictor, data: PreparedCube, position: tuple[int, int, int]
) -> Explanation:
    """Explain the cell at a position of a cube that the predictor is adapted to."""
    if not predictor.model.explainable:
        raise ConfigError(
            "this network cannot explain its values; those of cdsa and cdsa-paper can"
        )
    around = _steps_around(predictor, data, position[0])
    nearby, step = data.isel(time=around), position[0] - around.start
    seen = slice(max(0, around.start - SMOOTHED_STEPS), around.stop + SMOOTHED_STEPS)
    smoothed = predictor.smooth(data.components, seen)
    times, locations, measurements = (data.cube[axis].to_numpy() for axis in AXES)
    location, measurement = str(locations[position[1]]), str(measurements[position[2]])
    aligned = predictor.align(nearby.components)
    windows = _windows_covering(predictor, predictor.windows(aligned, smoothed), step)
    prediction = predictor.predict(nearby.components, smoothed=smoothed)
    filled = filler.finalise(nearby, prediction.isel(quantile=0))
    return Explanation(
        cell=Cell(times[position[0]], location, measurement),
        value=float(filled.to_numpy()[(step, *position[1:])]),
        shares=_shares(predictor, aligned, windows, nearby.cube, location, measurement),
        values=nearby.cube,
        maps=_mean_maps(predictor, aligned, max(windows, key=itemgetter(2))[0]),
    )


def _steps_around(predictor: Predictor, data: PreparedCube, time: int) -> slice:
    """The steps whose windows a prediction depends on. Windows start at the same steps as in the
    whole cube, and the last one that covers the step is not cut short."""
    stride, reach = predictor.stride, 2 * predictor.window
    low = max(0, (time - reach) // stride * stride)
    high = data.cube.sizes["time"] if predictor.horizon else time + reach + 1
    return slice(low, min(high, data.cube.sizes["time"]))


def _windows_covering(predictor: Predictor, windows: Windows, time: int) -> list[WeightedWindow]:
    """The windows that predict a step."""
    steps = windows.steps.cpu().numpy()
    first = predictor.context_length if predictor.horizon else 0
    weights = taper(steps.shape[1] - first).numpy()
    covering = [(int(w), int(s)) for w, s in np.argwhere(steps == time) if s >= first]
    if not covering:
        raise ConfigError(
            f"a forecaster predicts none of the first {first} steps of a table, which are its "
            "context: they are filled with means"
        )
    total = sum(weights[step - first] for _, step in covering)
    return [
        (
            windows.take(torch.tensor([number], device=predictor.device)),
            step,
            float(weights[step - first] / total),
        )
        for number, step in covering
    ]


def _shares(
    predictor: Predictor,
    aligned: xr.DataArray,
    windows: list[WeightedWindow],
    cube: xr.DataArray,
    location: str,
    measurement: str,
) -> xr.DataArray:
    """The shares of the measured cells of the cube."""
    bases = base_names(aligned["measurement"].to_numpy())
    columns = np.flatnonzero(bases == measurement).tolist()  # two components of a direction
    rows = np.flatnonzero(aligned["location"].to_numpy() == location).tolist()
    if not columns or not rows:
        raise ConfigError(
            "the network was not trained on this series, which is filled with a mean: there is "
            "nothing to explain"
        )
    shares = np.zeros((aligned.sizes["time"] + 1, *aligned.shape[1:]))  # the last of empty steps
    explained = 0.0
    for window, step, weight in windows:
        weight /= len(columns)
        for column in columns:
            cell, context = (step, rows[0], column), window.context
            if context is not None and predictor.backbone is not None:
                context = context._replace(
                    smoothed_from=_smoothed_from(predictor, aligned, window, cell)
                )
            share = predictor.model.contributions(window.values, window.observed, context, cell)[0]
            shares[window.steps[0].cpu().numpy()] += weight * share.cpu().double().numpy()
            explained += weight if share.sum() > 0 else 0.0
    shares /= explained or 1.0  # windows without any observation predict the climatology
    result = xr.zeros_like(cube)
    rows_of_cube = aligned.get_index("location").get_indexer(cube["location"].to_numpy())
    for column, base in enumerate(bases):
        by_station = np.where(rows_of_cube >= 0, shares[:-1, rows_of_cube, column], 0.0)
        result.loc[{"measurement": base}] += by_station
    return result


def _smoothed_from(
    predictor: Predictor, aligned: xr.DataArray, window: Window, cell: tuple[int, int, int]
) -> Tensor | None:
    """What the smoothed mean of a cell is made of, within its window; None without a model."""
    backbone, steps = predictor.backbone, window.steps[0].cpu().numpy()
    location = str(aligned["location"].to_numpy()[cell[1]])
    if backbone is None or location in predictor.forgotten or location not in backbone.locations:
        return None
    known = backbone.align(aligned.isel(time=steps))
    known = known.copy(data=np.where((steps >= 0)[:, None, None], known, np.nan))  # no empty steps
    row = known.get_index("location").get_loc(location)
    column = known.get_index("measurement").get_loc(aligned["measurement"].to_numpy()[cell[2]])
    sizes = backbone.weights(known.to_numpy(), known["time"].to_numpy(), (cell[0], row, column))
    labelled = known.copy(data=sizes).reindex_like(aligned.isel(time=steps), fill_value=0.0)
    return torch.as_tensor(labelled.to_numpy(), dtype=torch.float32).to(predictor.device)


def _mean_maps(
    predictor: Predictor, aligned: xr.DataArray, window: Window
) -> dict[str, xr.DataArray]:
    """The map of each axis in a window, averaged over heads and layers; none of an axis that is
    mapped otherwise, as of a decoder."""
    with torch.no_grad():
        layers = predictor.model.maps(window.values, window.observed, window.context)
    steps = window.steps[0].cpu().numpy()
    inside = np.flatnonzero(steps >= 0)
    labels = {axis: aligned[axis].to_numpy() for axis in AXES}
    labels["time"] = labels["time"][steps[inside]]
    maps: dict[str, xr.DataArray] = {}
    for axis in AXES:
        by_layer: list[Tensor] = [
            layer[axis] if axis in layer else marginal_map(layer["cells"], axis) for layer in layers
        ]
        mean = torch.stack([a.mean(dim=(0, 1)) for a in by_layer]).mean(dim=0).cpu().double()
        if axis == "time" and mean.ndim == 2 and len(mean) == len(steps):
            mean = mean[inside][:, inside]
        if mean.ndim == 2 and len(mean) == len(labels[axis]):
            coords = {axis: labels[axis], "attended": labels[axis]}
            maps[axis] = xr.DataArray(mean.numpy(), dims=(axis, "attended"), coords=coords)
    return maps
