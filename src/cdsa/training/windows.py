"""Windows: the one place where labelled cubes become tensors and become cubes again.

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
    """What a model sees and is asked, all (b, t, l, m). `observed` and `asked` never overlap."""

    values: Tensor
    """Scaled values, zero where not observed."""

    observed: Tensor
    """True where the model may look."""

    truth: Tensor
    """Scaled values of all measured cells, zero elsewhere."""

    target: Tensor
    """True where the loss or score is counted."""

    steps: Tensor
    """The cube's time step behind each of the window's, -1 beyond a short stretch; (b, t)."""

    context: WindowContext | None = None
    """Where and when its cells are, for a model that wants to know."""


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
    """Where and when the cells of the whole cube are."""

    until: Tensor | None = None
    """Steps of the cube from which on a window sees nothing, (b,), but what is known in advance."""

    known: Tensor | None = None
    """True for measurements that are known in advance, (m,)."""

    def __len__(self) -> int:
        return len(self.steps)

    def take(self, numbers: Tensor) -> Window:
        """The windows with these numbers."""
        steps = self.steps[numbers]
        values, observed, asked = self.values[steps], self.observed[steps], self.target[steps]
        context = (
            None if self.context is None else self.context.window_context(steps, values, observed)
        )
        if self.until is not None:  # the clock goes on, but nothing more is seen
            before = steps < self.until[numbers].unsqueeze(1)
            seen = before.unflatten(1, (-1, 1, 1)) | (False if self.known is None else self.known)
            values, observed = torch.where(seen, values, 0.0), observed & seen
        return Window(values, observed, self.truth[steps], asked, steps, context)

    def keep(self, numbers: Tensor) -> "Windows":
        """Only the windows with these numbers."""
        until = None if self.until is None else self.until[numbers]
        return replace(self, steps=self.steps[numbers], until=until)

    def to(self, device: torch.device) -> "Windows":
        """The windows on another device."""
        return Windows(
            self.values.to(device),
            self.observed.to(device),
            self.truth.to(device),
            self.target.to(device),
            self.steps.to(device),
            context=None if self.context is None else self.context.to(device),
            until=None if self.until is None else self.until.to(device),
            known=None if self.known is None else self.known.to(device),
        )

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
    part: NDArray[np.bool_] | None = None,
    context: CubeContext | None = None,
    dtype: torch.dtype = torch.float32,
) -> Windows:
    """Cut a scaled cube into windows of `length` steps that start every `stride` steps.

    Together they cover every step: the last window of a stretch ends with it. `asked` cells are
    taken out of what the model may look at. With `part` (True for the steps to use) no window
    straddles its edges; a stretch shorter than a window makes one that goes on with empty steps.
    """
    if not 1 <= stride <= length:
        raise ConfigError(
            f"windows overlap or touch: stride lies between 1 and length={length}, but is {stride}"
        )
    used = np.ones(cube.sizes["time"], dtype=bool) if part is None else part
    measured = cube.notnull().to_numpy() & used[:, None, None]
    wanted = np.zeros_like(measured)
    if target is not None:
        aligned = target.reindex_like(cube, fill_value=False).transpose(*cube.dims)
        wanted = aligned.to_numpy() & measured
    whole = np.where(measured, cube.to_numpy(), 0.0)
    truth, observed, hidden = (
        torch.as_tensor(np.concatenate([layer, np.zeros_like(layer[:1])]))
        for layer in (whole, measured & ~wanted, wanted)
    )
    return Windows(
        values=torch.where(observed, truth, 0.0).to(dtype),
        observed=observed,
        truth=truth.to(dtype),
        target=hidden,
        steps=torch.as_tensor(_steps(segments(used), length, stride)),
        context=context,
    )


def _steps(parts: list[slice], length: int, stride: int) -> NDArray[np.int64]:
    """The time steps of every window, (b, t)."""
    windows = [np.empty((0, length), dtype=np.int64)]
    for part in parts:
        last = max(part.start, part.stop - length)
        starts = np.append(np.arange(part.start, last, stride), last)
        steps = starts[:, None] + np.arange(length)
        windows.append(np.where(steps < part.stop, steps, -1))
    return np.concatenate(windows)


def stitch(
    pieces: Iterable[tuple[Tensor, Tensor]], like: xr.DataArray, *, tapered: bool = False
) -> xr.DataArray:
    """The cube of guesses (b, t, l, m) and their steps (b, t); overlaps averaged, NaN where none.

    Guesses (b, t, l, m, q) make a cube with one more axis, `quantile`. Tapered windows count the
    less towards their ends, where they see less around a cell. Pieces are added up as they come, so
    only one need exist at a time.
    """
    steps = like.sizes["time"]
    total = torch.zeros(steps + 1, *like.shape[1:], dtype=torch.float64)
    count = torch.zeros(steps + 1, dtype=torch.float64)
    for guess, at in pieces:
        if guess.ndim > total.ndim + 1:
            total = torch.zeros(steps + 1, *guess.shape[2:], dtype=torch.float64)
        flat = torch.where(at < 0, steps, at).flatten().cpu()  # empty steps go behind the end
        weight = taper(at.shape[1]) if tapered else torch.ones(at.shape[1], dtype=torch.float64)
        told = guess.detach().cpu().to(torch.float64)
        told = told * weight.unflatten(0, (-1, *[1] * (told.ndim - 2)))
        total.index_add_(0, flat, told.flatten(0, 1))
        count.index_add_(0, flat, weight.expand(at.shape).flatten())
    # 0 / 0: NaN where no window looked
    mean = total[:-1] / count[:-1].unflatten(0, (-1, *[1] * (total.ndim - 1)))
    data = mean.numpy().astype(like.dtype)
    if data.ndim == like.ndim:
        return like.copy(data=data)
    return xr.DataArray(data, dims=(*like.dims, "quantile"), coords=like.coords)


def taper(steps: int) -> Tensor:
    """How much each step of a window counts where windows overlap."""
    number = torch.arange(steps, dtype=torch.float64)
    return torch.minimum(number + 1, steps - number)
