"""What a network is examined on while it learns, and how it did in the user's units."""

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from cdsa.cube import unit_of
from cdsa.masks import AtRandom, Bursts
from cdsa.method.guard import base_names, from_components
from cdsa.method.network import Network
from cdsa.metrics import measure
from cdsa.results import Value, plain
from cdsa.train.loop import TrainConfig, answers
from cdsa.windows import Windows

EXAM_WINDOWS = 48
"""At most so many windows have validation cells in them."""


def choose_exam(
    own: xr.DataArray, length: int, ahead: int, config: TrainConfig, seed: int
) -> tuple[NDArray[np.bool_], xr.DataArray]:
    """The steps that windows of the exam lie in, and the cells hidden there for it.

    A forecaster is examined on a time of its own, the end; if that would leave too little to learn
    from, not at all.
    """
    steps = own.sizes["time"]
    number, share = np.arange(steps), config.validation
    nothing = xr.zeros_like(own, dtype=bool)
    if ahead:
        there = np.flatnonzero(own.notnull().any(("location", "measurement")).to_numpy())
        end = int(there[-1]) + 1 if len(there) else 0
        late = max(length, round(share * end))
        return (number >= end - late) & (number < end) & (end >= 3 * length), nothing
    if own.notnull().sum() * share < 1:
        return number < 0, nothing
    windows = max(1, steps // length)
    chosen = np.unique(np.linspace(0, windows - 1, EXAM_WINDOWS).round().astype(int))
    inside = np.isin(number // length, chosen) & (number < windows * length)
    way = AtRandom if config.hide == "random" else Bursts
    hidden = way(share=share)(own, np.random.default_rng([seed, 1]))
    return inside, hidden & on_time(inside, own)


def on_time(steps: NDArray[np.bool_], cube: xr.DataArray) -> xr.DataArray:
    """A mask of steps with the cube's own times."""
    return xr.DataArray(steps, dims="time", coords={"time": cube["time"]})


def exam_errors(network: Network, exam: Windows, own: xr.DataArray) -> tuple[dict[str, Value], ...]:
    """Errors on the cells of the exam, per measurement in its own unit."""
    told = [
        (guess, torch.where(window.observed | window.asked, window.truth, torch.nan), asked)
        for guess, window, asked in answers(network.model, exam, 16)
    ]
    if not told:
        return ()
    guesses, truths, asks = (torch.cat(parts) for parts in zip(*told, strict=True))
    guess, truth = _as_cube(guesses, network, own), _as_cube(truths, network, own)
    names = list(base_names(network.measurements))
    first = [names.index(name) for name in own["measurement"].to_numpy()]
    asked = truth.copy(data=asks.flatten(0, 1)[..., first].cpu().numpy())
    figures = measure(guess, truth, asked, truth.where(~asked)).by("measurement")
    units = unit_of(own)
    return tuple(
        {
            "measurement": str(name),
            "unit": units[str(name)],
            "cells": int(row["cells"]),
            "mae": plain(float(row["mae"])),
            "rmse": plain(float(row["rmse"])),
        }
        for name, row in figures.iterrows()
    )


def _as_cube(windows: torch.Tensor, network: Network, own: xr.DataArray) -> xr.DataArray:
    """Windows one behind the other as a cube in the user's units: (b, t, l, m) -> (bt, l, m)."""
    values = windows.flatten(0, 1).cpu().double().numpy()
    coords = {"location": network.locations, "measurement": network.measurements}
    cells = xr.DataArray(values, dims=own.dims, coords=coords)
    like = xr.DataArray(
        np.empty((len(values), *own.shape[1:])),
        dims=own.dims,
        coords={name: c for name, c in own.coords.items() if "time" not in c.dims},
    )
    return from_components(network.scaler.denormalise(cells), like)
