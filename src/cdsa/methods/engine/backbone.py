"""What the record around a window says of its cells: predictions of the linear-Gaussian model under
a network, fitted out of fold for training, and the straight line between observations.

Letters: b chunk, t time, l location, m measurement.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from cdsa.core.backbone import Backbone
from cdsa.core.circular import base_names
from cdsa.core.climatology import Times
from cdsa.core.cube import DIMS
from cdsa.core.scaler import Scaler
from cdsa.core.splits import segments, time_mask
from cdsa.core.standardise import Transformation
from cdsa.nn.context import BACKBONE_FEATURES, RECORD_FEATURES
from cdsa.nn.interpolation import interpolate
from cdsa.training.sampling import chunk_length

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

CHUNKS_PER_BLOCK, MIN_BLOCKS = 2, 4
"""Chunks of a block of time, and the blocks from which on there are two folds."""

MAX_RESIDUAL = 8.0
"""Standard deviations beyond which a residual is as good as an outlier."""

MIN_SPREAD = 0.02
"""Added to the standard deviation of an anomaly before its logarithm."""


class Nearest(NamedTuple):
    """The nearest observation of each series on one side of a chunk, (b, l, m)."""

    value: Floats
    """Scaled; NaN if there is none."""

    steps: Integers
    """From the first or last step of the chunk."""


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
    def fit(
        cls,
        visible: xr.DataArray,
        scaler: Scaler,
        window: int,
        transformations: Sequence[Transformation],
    ) -> "TrainingBackbone":
        n_steps = visible.sizes["time"]
        block = CHUNKS_PER_BLOCK * chunk_length(n_steps, window)
        fold = np.arange(n_steps) // block % 2
        backbone = Backbone.fit(visible, transformations)
        out_of_fold: tuple[Backbone, ...] = (backbone,)
        if n_steps < MIN_BLOCKS * block:
            fold = np.zeros_like(fold)
        else:
            out_of_fold = tuple(
                Backbone.fit(
                    visible.where(time_mask(fold != number, visible)),
                    transformations,
                    like=backbone,
                )
                for number in range(2)
            )
        times = visible["time"].to_numpy()
        return cls(visible.to_numpy(), times, scaler, fold, backbone, out_of_fold)

    def smooth(
        self, steps: Integers, seen: Tensor, fold: int, hidden_around: Integers | None
    ) -> Tensor:
        """A `Smoother`."""
        values = np.where(seen.cpu().numpy(), self.values[steps], np.nan)
        model, times = self.out_of_fold[fold], self.times[steps]
        around = None
        if hidden_around is not None:
            around = (
                self._nearest(steps[:, 0], -1 - hidden_around),
                self._nearest(steps[:, -1], 1 + hidden_around),
            )
        return torch.as_tensor(_of_chunks(model, values, times, self.scaler, around))

    def _nearest(self, steps: Integers, shift: Integers) -> Nearest:
        """The nearest observations from these steps (b,) on, shifted to the past or the future."""
        start = steps + shift
        inside = (start >= 0) & (start < len(self.values))
        index = self._observations[0 if shift[0] < 0 else 1][np.where(inside, start, 0)]
        index = np.where(inside[:, None, None], index, -1)
        values = np.take_along_axis(self.values, np.maximum(index, 0), axis=0)
        scaled = (values - self.scaler.mean.to_numpy()) / self.scaler.std.to_numpy()
        distance = np.abs(index - steps[:, None, None])
        return Nearest(np.where(index >= 0, scaled, np.nan), distance)

    @cached_property
    def _observations(self) -> tuple[Integers, Integers]:
        """The last observation at or before each step and the first at or after it, (t, l, m); -1
        if there is none."""
        observed, n_steps = np.isfinite(self.values), len(self.values)
        number = np.arange(n_steps)[:, None, None]
        before = np.maximum.accumulate(np.where(observed, number, -1))
        after = np.minimum.accumulate(np.where(observed, number, n_steps)[::-1])[::-1]
        return before, np.where(after < n_steps, after, -1)


def smooth_cube(
    backbone: Backbone, components: xr.DataArray, scaler: Scaler, steps: slice = slice(None)
) -> xr.DataArray:
    """`RECORD_FEATURES` of the cells of some steps of a cube, along a last axis `feature`; NaN for
    series without a model. The model sees these steps, the line all."""
    return _join(_of_model(backbone, components.isel(time=steps), scaler), components, scaler)


def smooth_segments(
    backbone: Backbone, components: xr.DataArray, scaler: Scaler, steps: Flags, margin: int
) -> xr.DataArray:
    """The same of some steps (t,) and so many around them; the model sees each range of time by
    itself."""
    number = np.flatnonzero(steps)
    near = np.zeros(len(steps) + 2 * margin + 1, dtype=np.int64)
    np.add.at(near, number, 1)
    np.add.at(near, number + 2 * margin + 1, -1)
    ranges = segments(near.cumsum()[margin : margin + len(steps)] > 0)
    parts = [_of_model(backbone, components.isel(time=part), scaler) for part in ranges]
    if not parts:
        return smooth_cube(backbone, components, scaler)
    of_model = xr.concat(parts, "time").reindex(time=components["time"].to_numpy())
    return _join(of_model, components, scaler)


def smooth_windows(
    backbone: Backbone,
    components: xr.DataArray,
    scaler: Scaler,
    steps: Integers,
    horizon: int,
    known: Sequence[str] = (),
) -> Tensor:
    """The same of windows at these steps (b, t) of a cube, each by itself and without its horizon
    but for measurements that are `known` in advance; (b, t, l, m, 8)."""
    if not len(steps):
        return torch.empty((*steps.shape, *components.shape[1:], len(RECORD_FEATURES)))
    aligned = backbone.align(components)
    unknown = ~np.isin(base_names(backbone.measurements), known)
    seen = np.repeat((steps >= 0)[:, :, None, None], len(unknown), axis=3)
    seen[:, steps.shape[1] - horizon :, :, unknown] = False
    values = np.where(seen, aligned.to_numpy()[steps], np.nan)
    features = _of_chunks(backbone, values, aligned["time"].to_numpy()[steps], scaler)
    labels = ("location", "measurement")
    axes = {name: aligned[name].to_numpy() for name in labels}
    smoothed = xr.DataArray(features, dims=("window", *aligned.dims, "feature"), coords=axes)
    smoothed = smoothed.reindex({name: components[name].to_numpy() for name in labels})
    return torch.as_tensor(smoothed.to_numpy())


def to_tensor(smoothed: xr.DataArray) -> Tensor:
    """With an empty step at the end, as a `CubeContext` has it."""
    array = smoothed.to_numpy()
    return torch.as_tensor(np.concatenate([array, np.full_like(array[:1], np.nan)]))


def _of_model(backbone: Backbone, components: xr.DataArray, scaler: Scaler) -> xr.DataArray:
    """`BACKBONE_FEATURES` of the cells of a cube, NaN for series without a model."""
    aligned = backbone.align(components)
    values, times = aligned.to_numpy()[:, None], aligned["time"].to_numpy()[:, None]
    features = _features(backbone, values, times, scaler.select(aligned))[:, 0]
    smoothed = xr.DataArray(
        features.astype(np.float32), dims=(*aligned.dims, "feature"), coords=dict(aligned.coords)
    )
    return smoothed.reindex({name: components[name].to_numpy() for name in DIMS[1:]})


def _join(of_model: xr.DataArray, components: xr.DataArray, scaler: Scaler) -> xr.DataArray:
    """With the `LINE_FEATURES` of the cube these steps belong to, NaN where the others are."""
    scaled = scaler.select(components).normalise(components)
    lines = of_model.isel(feature=[0] * 3).copy()
    number = components.get_index("time").get_indexer(of_model["time"].to_numpy())
    lines[:] = _lines(scaled.to_numpy()[None])[0, number]
    known = of_model.isel(feature=0).notnull()
    features = xr.concat([of_model, lines.where(known)], "feature").transpose(*of_model.dims)
    return features.assign_coords(feature=list(RECORD_FEATURES))


def _of_chunks(
    backbone: Backbone,
    values: Floats,
    times: Times,
    scaler: Scaler,
    around: tuple[Nearest, Nearest] | None = None,
) -> NDArray[np.float32]:
    """`RECORD_FEATURES` of chunks (b, t, l, m) at these times (b, t), between these observations
    before and after each; (b, t, l, m, 8)."""
    features = _features(backbone, values.swapaxes(0, 1), times.T, scaler).swapaxes(0, 1)
    lines = _lines((values - scaler.mean.to_numpy()) / scaler.std.to_numpy(), around)
    lines = np.where(np.isnan(features[..., :1]), np.nan, lines)
    return np.concatenate([features, lines], axis=-1, dtype=np.float32)


def _lines(values: Floats, around: tuple[Nearest, Nearest] | None = None) -> Floats:
    """`LINE_FEATURES` of scaled chunks (b, t, l, m) between the nearest observations before and
    after each; (b, t, l, m, 3)."""
    n_steps = values.shape[1]
    position = np.broadcast_to(np.arange(n_steps)[:, None, None], values.shape)
    if around is not None:
        before, after = (nearest.value[:, None] for nearest in around)
        values = np.concatenate([before, values, after], axis=1)
        first, last = -around[0].steps[:, None], n_steps - 1 + around[1].steps[:, None]
        position = np.concatenate([first, position, last], axis=1)
    observed = np.isfinite(values)
    tensors = (np.where(observed, values, 0.0), observed, position.copy())
    line = interpolate(*map(torch.as_tensor, tensors))
    features = torch.stack([line.line, line.proximity_before, line.proximity_after], dim=-1)
    return features.numpy() if around is None else features.numpy()[:, 1:-1]


def _features(backbone: Backbone, values: Floats, times: Times, scaler: Scaler) -> Floats:
    """`BACKBONE_FEATURES`, (t, b, l, m, 5). The standard deviation is half the distance between the
    values one below and one above the mean, which a logarithm need not keep in the middle."""
    anomaly, spread, measured = backbone.predict(values, times)
    centre, lower, upper = (backbone.values(anomaly + w * spread, times) for w in (0.0, -1.0, 1.0))
    mean, std = scaler.mean.to_numpy(), scaler.std.to_numpy()
    residual = np.clip((measured - anomaly) / spread, -MAX_RESIDUAL, MAX_RESIDUAL)
    features = {
        "mean": (centre - mean) / std,
        "std": (upper - lower) / (2 * std),
        "residual": np.nan_to_num(residual),
        "anomaly": anomaly,
        "log_spread": np.log(spread + MIN_SPREAD),
    }
    return np.stack([features[name] for name in BACKBONE_FEATURES], axis=-1)
