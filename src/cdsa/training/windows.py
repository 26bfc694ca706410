"""Windows: the only crossing between labelled cubes and tensors.

Letters: b window of the batch, t time, l location, m measurement.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

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
    """True where the model may look."""

    truth: Tensor
    """Scaled values of all measured cells, zero elsewhere."""

    target: Tensor
    """True where the loss or score is counted."""

    steps: Tensor
    """The time step of the cube behind each step, -1 beyond a short segment; (b, t)."""

    context: WindowContext | None = None
    """For a model that uses it."""


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
    origins: Tensor | None = None
    """The first step to forecast in each window, (b,). From there on, only known covariates are
    observed."""

    known: Tensor | None = None
    """True for known covariates, (m,)."""

    def __len__(self) -> int:
        return len(self.steps)

    def take(self, numbers: Tensor) -> Window:
        """The windows with these numbers."""
        steps = self.steps[numbers]
        values, observed, target = self.values[steps], self.observed[steps], self.target[steps]
        context = None
        if self.context is not None:
            context = self.context.window_context(steps, values, observed)
        if self.origins is not None:
            past = (steps < self.origins[numbers].unsqueeze(1)).unflatten(1, (-1, 1, 1))
            visible = past if self.known is None else past | self.known
            values, observed = torch.where(visible, values, 0.0), observed & visible
        return Window(values, observed, self.truth[steps], target, steps, context)

    def keep(self, numbers: Tensor) -> "Windows":
        """Only the windows with these numbers."""
        origins = None if self.origins is None else self.origins[numbers]
        return replace(self, steps=self.steps[numbers], origins=origins)

    def to(self, device: torch.device) -> "Windows":
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if value is not None
        }
        return replace(self, **moved)

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
    measured = cube.notnull().to_numpy() & used[:, None, None]
    hidden = np.zeros_like(measured)
    if target is not None:
        aligned = target.reindex_like(cube, fill_value=False).transpose(*cube.dims)
        hidden = aligned.to_numpy() & measured
    window_steps = _window_steps(segments(used), length, stride)
    return _windows(cube, measured, hidden, window_steps, context, dtype)


def cut_at(
    cube: xr.DataArray,
    starts: NDArray[np.int64],
    length: int,
    *,
    context: CubeContext | None = None,
    dtype: torch.dtype = torch.float32,
) -> Windows:
    """Cut windows that start at these steps of a scaled cube, padded with empty steps where they
    reach beyond it."""
    steps = starts[:, None] + np.arange(length)
    steps = np.where((steps >= 0) & (steps < cube.sizes["time"]), steps, -1)
    measured = cube.notnull().to_numpy()
    return _windows(cube, measured, np.zeros_like(measured), steps, context, dtype)


def _windows(
    cube: xr.DataArray,
    measured: NDArray[np.bool_],
    hidden: NDArray[np.bool_],
    steps: NDArray[np.int64],
    context: CubeContext | None,
    dtype: torch.dtype,
) -> Windows:
    truth, observed, target = (
        torch.as_tensor(np.concatenate([array, np.zeros_like(array[:1])]))
        for array in (np.where(measured, cube.to_numpy(), 0.0), measured & ~hidden, hidden)
    )
    return Windows(
        values=torch.where(observed, truth, 0.0).to(dtype),
        observed=observed,
        truth=truth.to(dtype),
        target=target,
        steps=torch.as_tensor(steps),
        context=context,
    )


def _window_steps(used: list[slice], length: int, stride: int) -> NDArray[np.int64]:
    """The time steps of every window, (b, t)."""
    windows = [np.empty((0, length), dtype=np.int64)]
    for segment in used:
        last = max(segment.start, segment.stop - length)
        starts = np.append(np.arange(segment.start, last, stride), last)
        steps = starts[:, None] + np.arange(length)
        windows.append(np.where(steps < segment.stop, steps, -1))
    return np.concatenate(windows)


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
