"""The linear-Gaussian model under a network: fitted out of fold for training, and its smoothed
means and standard deviations as inputs.

Letters: b chunk, t time, l location, m measurement.
"""

from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from cdsa.core.backbone import Backbone, Floats, choose_transformations
from cdsa.core.climatology import Times
from cdsa.core.scaler import Scaler
from cdsa.core.splits import time_mask
from cdsa.training.sampling import chunk_length

Integers = NDArray[np.int64]

CHUNKS_PER_BLOCK, MIN_BLOCKS = 2, 4
"""Chunks of a block of time, and the blocks from which on there are two folds."""

MOMENTS = ("mean", "std")


@dataclass(frozen=True, eq=False)
class TrainingBackbone:
    """The model of a training cube, and for each of two time folds one that was fitted to the other
    fold: a training window gets no parameter that depends on its own values. With too few steps for
    that, there is one fold and one model."""

    values: Floats
    """Values that training may see, (t, l, m)."""

    times: Times
    scaler: Scaler
    fold: Integers
    """(t,)."""

    backbone: Backbone
    out_of_fold: tuple[Backbone, ...]

    @classmethod
    def fit(cls, visible: xr.DataArray, scaler: Scaler, window: int) -> "TrainingBackbone":
        n_steps = visible.sizes["time"]
        block = CHUNKS_PER_BLOCK * chunk_length(n_steps, window)
        fold = np.arange(n_steps) // block % 2
        transformations = choose_transformations(visible)
        backbone = Backbone.fit(visible, transformations)
        out_of_fold: tuple[Backbone, ...] = (backbone,)
        if n_steps < MIN_BLOCKS * block:
            fold = np.zeros_like(fold)
        else:
            out_of_fold = tuple(
                Backbone.fit(visible.where(time_mask(fold != number, visible)), transformations)
                for number in range(2)
            )
        times = visible["time"].to_numpy()
        return cls(visible.to_numpy(), times, scaler, fold, backbone, out_of_fold)

    @property
    def origin(self) -> Tensor | None:
        """The scaled value of zero for measurements with a logarithm, else NaN; (m,)."""
        if not self.backbone.regions:
            return None
        offset = self.backbone.regions[0].scaling.offset
        zero = -self.scaler.mean.to_numpy() / self.scaler.std.to_numpy()
        return torch.as_tensor(np.where(np.isnan(offset), np.nan, zero), dtype=torch.float32)

    def smooth(self, steps: Integers, seen: Tensor, fold: int) -> Tensor:
        """A `Smoother`."""
        values = np.where(seen.cpu().numpy(), self.values[steps], np.nan)
        chunks = values.swapaxes(0, 1), self.times[steps].T
        moments = _moments(self.out_of_fold[fold], *chunks, self.scaler)
        return torch.as_tensor(moments.swapaxes(0, 1), dtype=torch.float32)


def smooth_cube(backbone: Backbone, components: xr.DataArray, scaler: Scaler) -> xr.DataArray:
    """Scaled means and standard deviations of the cells of a cube, along a last axis `moment`; NaN
    for series without a model."""
    aligned = backbone.align(components)
    values, times = aligned.to_numpy()[:, None], aligned["time"].to_numpy()[:, None]
    moments = _moments(backbone, values, times, scaler.select(aligned))[:, 0]
    smoothed = xr.DataArray(
        moments.astype(np.float32),
        dims=(*aligned.dims, "moment"),
        coords=dict(aligned.coords) | {"moment": list(MOMENTS)},
    )
    axes = {name: components[name].to_numpy() for name in ("location", "measurement")}
    return smoothed.reindex(axes)


def to_tensor(smoothed: xr.DataArray) -> Tensor:
    """With an empty step at the end, as a `CubeContext` has it."""
    array = smoothed.to_numpy()
    return torch.as_tensor(np.concatenate([array, np.full_like(array[:1], np.nan)]))


def _moments(backbone: Backbone, values: Floats, times: Times, scaler: Scaler) -> Floats:
    """(t, b, l, m, 2). The standard deviation is half the distance between the values one below and
    one above the mean, which a logarithm need not keep in the middle."""
    centre, lower, upper = backbone.smooth(values, times, (0.0, -1.0, 1.0))
    mean, std = scaler.mean.to_numpy(), scaler.std.to_numpy()
    return np.stack([(centre - mean) / std, (upper - lower) / (2 * std)], axis=-1)
