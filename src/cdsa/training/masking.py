"""Cells that are masked from a network in training, batch by batch, as tensors (b, t, l, m).

To score a method, cells of a cube are hidden instead: `core/masks.py`.
"""

from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
import torch
from torch import Tensor

from cdsa.nn.context import WindowContext

Masking = Literal["random", "bursts", "mixed", "like_data"]

MEAN_GAP = 8.0
"""Mean length in steps of masked gaps; about that of the paper."""

MIN_MISSING = 0.02
"""Share of a window that must be missing for its gaps to be copied."""

DROP_STATIONS = 0.25
"""Share of the windows in which whole stations are dropped."""

CONTEXT_GAPS = 0.3
"""Share of the windows of a forecaster in which cells before the horizon are masked too."""

FORGET_STATIONS = 0.3
"""Share of the stations of a window that are treated as if the network did not know them."""


@dataclass(frozen=True, eq=False)
class Task:
    """What a network is trained for: imputation, or a forecast."""

    horizon: int = 0
    """Steps at the end of a window to forecast; 0 for imputation."""

    known: Tensor | None = None
    """True for known covariates, (m,)."""

    mask_groups: Tensor | None = None
    """A number for each measurement, (m,). Those with the same number, such as the components of a
    direction, are masked together."""

    def future(self, like: Tensor) -> Tensor:
        """True for the cells to forecast, shaped like (b, t, l, m)."""
        future = torch.zeros_like(like, dtype=torch.bool)
        if self.horizon:
            future[:, -self.horizon :] = True
        if self.known is not None:
            future &= ~self.known.to(like.device)
        return future


IMPUTATION = Task()


def make_generator(*numbers: int) -> torch.Generator:
    """A generator that depends on these numbers alone. A step always draws the same, so a resumed
    run needs no state of a generator."""
    seed = np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(seed >> np.uint64(1)))


def mask_cells(
    observed: Tensor,
    kind: Masking,
    max_ratio: float,
    rng: torch.Generator,
    mask_groups: Tensor | None = None,
    other_observed: Tensor | None = None,
) -> Tensor:
    """True where an observed cell is masked, (b, t, l, m), each window at a rate of its own up to
    `max_ratio`.

    'random' masks single cells, 'bursts' gaps in time, series by series, 'mixed' half of the
    windows in one way and half in the other. 'like_data' masks half as 'mixed' and half with the
    gaps of other windows, at any rate: `other_observed`, with their stations shuffled.
    """
    device, measurements = observed.device, observed.shape[-1]
    groups = torch.arange(measurements) if mask_groups is None else mask_groups.cpu()
    shape = (*observed.shape[:-1], int(groups.max()) + 1)
    rate = torch.rand((len(observed), 1, 1, 1), generator=rng) * max_ratio
    uniform = torch.rand(shape, generator=rng)
    single = uniform < rate
    match kind:
        case "random":
            masked = single
        case "bursts":
            masked = _mask_gaps(uniform, rate, rng)
        case "mixed" | "like_data":
            gaps = _mask_gaps(uniform, rate, rng)
            masked = torch.where(_half_of_windows(observed, rng), gaps, single)
        case _:
            assert_never(kind)
    masked = masked[..., groups]
    if kind == "like_data":
        masked = _copy_gaps(masked, other_observed, rng)
    return masked.to(device) & observed


def _mask_gaps(uniform: Tensor, rate: Tensor, rng: torch.Generator) -> Tensor:
    starts = uniform < -torch.log1p(-rate) / MEAN_GAP  # so that about `rate` is covered
    lengths = (-MEAN_GAP * torch.rand(uniform.shape, generator=rng).clamp(min=1e-9).log()).ceil()
    number = torch.arange(uniform.shape[1]).unflatten(0, (-1, 1, 1))
    ends = torch.where(starts, number + lengths, 0.0)
    return torch.gt(ends.cummax(dim=1).values, number)


def _half_of_windows(like: Tensor, rng: torch.Generator) -> Tensor:
    return torch.rand((len(like), 1, 1, 1), generator=rng) < 0.5


def _copy_gaps(masked: Tensor, other_observed: Tensor | None, rng: torch.Generator) -> Tensor:
    """Half of the windows with the gaps of others instead, where those have some."""
    chosen = _half_of_windows(masked, rng)
    shuffled = torch.randperm(masked.shape[2], generator=rng)
    if other_observed is None:
        return masked
    missing = ~other_observed.cpu()[:, :, shuffled]
    enough = missing.flatten(1).to(torch.float32).mean(dim=1) >= MIN_MISSING
    return torch.where(chosen & enough.unflatten(0, (-1, 1, 1, 1)), missing, masked)


def drop_stations(observed: Tensor, rng: torch.Generator, share: float = DROP_STATIONS) -> Tensor:
    """True for whole stations in some windows, each at a rate of its own up to a half: (b, l)."""
    chosen = torch.rand((len(observed), 1), generator=rng) < share
    rate = torch.rand((len(observed), 1), generator=rng) / 2
    uniform = torch.rand((len(observed), observed.shape[2]), generator=rng)
    return (chosen & (uniform < rate)).to(observed.device)


def forget_stations(context: WindowContext, n_windows: int, rng: torch.Generator) -> WindowContext:
    """The context of windows in which some stations are none of those that the weights know."""
    if context.station_ids is None:
        return context
    uniform = torch.rand((n_windows, context.station_ids.shape[-1]), generator=rng)
    return context.forget_stations((uniform < FORGET_STATIONS).to(context.station_ids.device))
