"""What the record around a window says of its cells: predictions of the linear-Gaussian model under
a network, fitted out of fold for training, and what needs no model (`record.py`).

Letters: b chunk, t time, l location, m measurement.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
from cdsa.methods.engine.record import Record
from cdsa.nn.context import BACKBONE_FEATURES, RECORD_FEATURES
from cdsa.training.sampling import chunk_length

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Features = NDArray[np.float32]

CHUNKS_PER_BLOCK, MIN_BLOCKS = 2, 4
"""Chunks of a block of time, and the blocks from which on there are two folds."""

MAX_RESIDUAL = 8.0
"""Standard deviations beyond which a residual is as good as an outlier."""

MIN_SPREAD = 0.02
"""Added to the standard deviation of an anomaly before its logarithm."""


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
        scaled = (values - self.scaler.mean.to_numpy()) / self.scaler.std.to_numpy()
        if hidden_around is None:
            around = self.record.before(steps, scaled)
        else:
            around = self.record.around(steps, scaled, hidden_around)
        return torch.as_tensor(_join(_of_chunks(model, values, times, self.scaler), around))

    @cached_property
    def record(self) -> Record:
        scaled = (self.values - self.scaler.mean.to_numpy()) / self.scaler.std.to_numpy()
        return Record(scaled, self.times)


def smooth_cube(
    backbone: Backbone, components: xr.DataArray, scaler: Scaler, steps: slice = slice(None)
) -> xr.DataArray:
    """`RECORD_FEATURES` of the cells of some steps of a cube, along a last axis `feature`; NaN for
    series without a model. The model sees these steps only."""
    of_model = _of_model(backbone, components.isel(time=steps), scaler)
    return _with_record(of_model, Record.of(components, scaler).at(steps))


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
    return _with_record(of_model, Record.of(components, scaler).at())


def smooth_windows(
    backbone: Backbone,
    components: xr.DataArray,
    scaler: Scaler,
    steps: Integers,
    horizon: int,
    known: Sequence[str] = (),
) -> Tensor:
    """The same of windows at these steps (b, t) of a cube, each by itself and without its horizon
    but for measurements that are `known` in advance; (b, t, l, m, 10)."""
    if not len(steps):
        return torch.empty((*steps.shape, *components.shape[1:], len(RECORD_FEATURES)))

    def seen(cube: xr.DataArray) -> Floats:
        """The values of the windows (b, t, l, m), NaN where they must not be seen."""
        unknown = ~np.isin(base_names(cube["measurement"].to_numpy()), known)
        visible = np.repeat((steps >= 0)[:, :, None, None], len(unknown), axis=3)
        visible[:, steps.shape[1] - horizon :, :, unknown] = False
        return np.where(visible, cube.to_numpy()[steps], np.nan)

    aligned = backbone.align(components)
    features = _of_chunks(backbone, seen(aligned), aligned["time"].to_numpy()[steps], scaler)
    labels = ("location", "measurement")
    axes = {name: aligned[name].to_numpy() for name in labels}
    of_model = xr.DataArray(features, dims=("window", *aligned.dims, "feature"), coords=axes)
    of_model = of_model.reindex({name: components[name].to_numpy() for name in labels})
    record = Record.of(components, scaler)
    scaled = seen(components.copy(data=record.values))
    return torch.as_tensor(_join(of_model.to_numpy(), record.before(steps, scaled)))


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


def _with_record(of_model: xr.DataArray, of_record: Floats) -> xr.DataArray:
    """Features of the model and the record, labelled."""
    axes = {name: of_model[name].to_numpy() for name in DIMS}
    features = _join(of_model.transpose(*DIMS, "feature").to_numpy(), of_record)
    return xr.DataArray(
        features, dims=(*DIMS, "feature"), coords=axes | {"feature": list(RECORD_FEATURES)}
    )


def _join(of_model: Features, of_record: Floats) -> Features:
    """`RECORD_FEATURES`, all of them NaN for series without a model."""
    known = np.where(np.isnan(of_model[..., :1]), np.nan, of_record)
    return np.concatenate([of_model, known], axis=-1, dtype=np.float32)


def _of_chunks(backbone: Backbone, values: Floats, times: Times, scaler: Scaler) -> Features:
    """`BACKBONE_FEATURES` of chunks (b, t, l, m) at these times (b, t); (b, t, l, m, 5)."""
    features = _features(backbone, values.swapaxes(0, 1), times.T, scaler)
    return features.swapaxes(0, 1).astype(np.float32)


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
