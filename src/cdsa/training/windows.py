"""Windows: the only crossing between labelled cubes and tensors.

Letters: b window of the batch, t time, l location, m measurement.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from cdsa.core.splits import segments
from cdsa.errors import ConfigError
from cdsa.nn.context import CubeContext, WindowContext


@dataclass(frozen=True, eq=False)
class Window:
    """A batch of windows, all (b, t, l, m). `observed` and `target` never overlap."""

    values: Tensor
    """Scaled values, zero where not observed."""

    observed: Tensor
    """True for cells that the model gets as input."""

    truth: Tensor
    """Scaled values of all measured cells, zero elsewhere."""

    target: Tensor
    """True where the loss or score is counted."""

    steps: Tensor
    """The time step of the cube behind each step, -1 beyond a short segment; (b, t)."""

    context: WindowContext | None = None
    """For a model that uses it."""

    def select_series(self, rows: Tensor, columns: Tensor) -> "Window":
        """The same for some locations and measurements, by their numbers."""
        arrays = (self.values, self.observed, self.truth, self.target)
        values, observed, truth, target = (x[:, :, rows][..., columns] for x in arrays)
        context = self.context and self.context.select_series(rows, columns)
        return Window(values, observed, truth, target, self.steps, context)


@dataclass(frozen=True, eq=False)
class Windows:
    """All windows of one cube; `take` gathers any of them without a loop over windows."""

    values: Tensor
    """The whole cube, zero where not observed, and one empty step at its end; (t + 1, l, m)."""

    observed: Tensor
    truth: Tensor
    target: Tensor
    steps: Tensor
    """Time steps of each window; -1 is the empty one; (b, t)."""

    context: CubeContext | None = None
    smoothed: Tensor | None = None
    """`RECORD_FEATURES` of each window, (b, t, l, m, 10), if they depend on the window: those of a
    forecast come from the steps before its horizon."""

    def __len__(self) -> int:
        return len(self.steps)

    def take(self, numbers: Tensor) -> Window:
        window = self.at(self.steps[numbers])
        if self.smoothed is None or window.context is None:
            return window
        context = window.context._replace(record=self.smoothed[numbers])
        return replace(window, context=context)

    def at(self, steps: Tensor) -> Window:
        """The windows of these steps (b, t)."""
        values, observed, target = self.values[steps], self.observed[steps], self.target[steps]
        context = None
        if self.context is not None:
            context = self.context.window_context(steps, values, observed)
        return Window(values, observed, self.truth[steps], target, steps, context)

    def keep(self, numbers: Tensor) -> "Windows":
        smoothed = None if self.smoothed is None else self.smoothed[numbers]
        return replace(self, steps=self.steps[numbers], smoothed=smoothed)

    def to(self, device: torch.device) -> "Windows":
        return replace(self, **{n: v.to(device) for n, v in vars(self).items() if v is not None})

    def batches(self, size: int) -> Iterator[Window]:
        """All windows in order, at most `size` at a time."""
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            yield self.take(torch.arange(start, stop, device=self.steps.device))


def cut(
    cube: xr.DataArray,
    length: int,
    stride: int,
    *,
    target: xr.DataArray | None = None,
    steps: NDArray[np.bool_] | None = None,
    context: CubeContext | None = None,
    dtype: torch.dtype = torch.float32,
) -> Windows:
    """Cut a scaled cube into windows of `length` steps that start every `stride` steps.

    Together they cover every step: the last window of a segment ends with it. Target cells are not
    observed. With `steps` (True for those to use) no window crosses an edge of a segment; a segment
    shorter than a window makes one that is padded with empty steps.
    """
    if not 1 <= stride <= length:
        raise ConfigError(
            f"windows must overlap or touch: stride lies between 1 and length={length}, but is "
            f"{stride}"
        )
    used = np.ones(cube.sizes["time"], dtype=bool) if steps is None else steps
    window_steps = [np.empty((0, length), dtype=np.int64)]
    for segment in segments(used):
        last = max(segment.start, segment.stop - length)
        starts = np.append(np.arange(segment.start, last, stride), last)
        window_steps.append(_window_steps(starts, length, segment.stop))
    measured = cube.notnull().to_numpy() & used[:, None, None]
    hidden = np.zeros_like(measured)
    if target is not None:
        aligned = target.reindex_like(cube, fill_value=False).transpose(*cube.dims)
        hidden = aligned.to_numpy() & measured
    return _windows(cube, measured, hidden, np.concatenate(window_steps), context, dtype)


def cut_at(
    cube: xr.DataArray, starts: NDArray[np.int64], length: int, context: CubeContext | None = None
) -> Windows:
    """Cut windows that start at these steps of a scaled cube, padded with empty steps where they
    reach beyond it."""
    measured, steps = cube.notnull().to_numpy(), _window_steps(starts, length, cube.sizes["time"])
    return _windows(cube, measured, np.zeros_like(measured), steps, context)


def _window_steps(starts: NDArray[np.int64], length: int, stop: int) -> NDArray[np.int64]:
    """The time steps of windows with these first steps, -1 before 0 and from `stop` on; (b, t)."""
    steps = starts[:, None] + np.arange(length)
    return np.where((steps >= 0) & (steps < stop), steps, -1)


def _windows(
    cube: xr.DataArray,
    measured: NDArray[np.bool_],
    target: NDArray[np.bool_],
    steps: NDArray[np.int64],
    context: CubeContext | None,
    dtype: torch.dtype = torch.float32,
) -> Windows:
    arrays = np.where(measured, cube.to_numpy(), 0.0), measured & ~target, target
    truth, observed, targets = (
        torch.as_tensor(np.concatenate([array, np.zeros_like(array[:1])])) for array in arrays
    )
    values = torch.where(observed, truth, 0.0).to(dtype)
    return Windows(values, observed, truth.to(dtype), targets, torch.as_tensor(steps), context)


def stitch(
    predictions: Iterable[tuple[Tensor, Tensor]], like: xr.DataArray, *, tapered: bool = False
) -> xr.DataArray:
    """The cube of predictions (b, t, l, m) with their steps (b, t): the mean where windows overlap,
    NaN where there is none.

    Predictions (b, t, l, m, q) make a cube with one more axis, `quantile`. Tapered windows count
    less towards their ends, where they see less around a cell. Batches are added up one at a time,
    so only one needs to be in memory.
    """
    n_steps = like.sizes["time"]
    total = torch.zeros(n_steps + 1, *like.shape[1:], dtype=torch.float64)
    count = torch.zeros(n_steps + 1, dtype=torch.float64)
    for prediction, steps in predictions:
        if prediction.ndim > total.ndim + 1:
            total = torch.zeros(n_steps + 1, *prediction.shape[2:], dtype=torch.float64)
        index = torch.where(steps < 0, n_steps, steps).flatten().cpu()  # empty steps: past the end
        length = steps.shape[1]
        weight = taper(length) if tapered else torch.ones(length, dtype=torch.float64)
        values = prediction.detach().cpu().to(torch.float64)
        values = values * weight.unflatten(0, (-1, *[1] * (values.ndim - 2)))
        total.index_add_(0, index, values.flatten(0, 1))
        count.index_add_(0, index, weight.expand(steps.shape).flatten())
    # 0 / 0: NaN where there was no window
    mean = total[:-1] / count[:-1].unflatten(0, (-1, *[1] * (total.ndim - 1)))
    data = mean.numpy().astype(like.dtype)
    if data.ndim == like.ndim:
        return like.copy(data=data)
    return xr.DataArray(data, dims=(*like.dims, "quantile"), coords=like.coords)


def taper(steps: int) -> Tensor:
    """Weight of each step of a window where windows overlap."""
    number = torch.arange(steps, dtype=torch.float64)
    return torch.minimum(number + 1, steps - number)
