"""What is hidden from a network while it learns, batch by batch, as tensors (b, t, l, m)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Masking = Literal["random", "bursts", "mixed", "like_data"]


USUAL_GAP = 8.0
"""Mean length in steps of the gaps that training makes; about that of the paper's."""


ENOUGH = 0.02
"""Share of a window that must be missing for its gaps to be worth copying."""


LOST_STATIONS = 0.25
"""Share of the windows in which whole stations are hidden from a network that is told where its
cells are."""


@dataclass(frozen=True, eq=False)
class Task:
    """What a network is to learn: to fill, or to foresee."""

    horizon: int = 0
    """Steps at a window's end that are to be foreseen; 0 if it fills."""

    known: Tensor | None = None
    """True for measurements that are known in advance, (m,)."""

    tied_variables: Tensor | None = None
    """A number for each measurement, (m,); those with the same number, such as the components of a
    direction, are hidden together."""

    def future(self, like: Tensor) -> Tensor:
        """True for the cells that are to be foreseen, shaped like (b, t, l, m)."""
        future = torch.zeros_like(like, dtype=torch.bool)
        if self.horizon:
            future[:, -self.horizon :] = True
        if self.known is not None:
            future &= ~self.known.to(like.device)
        return future


def random_source(*numbers: int) -> torch.Generator:
    """A generator that depends on these numbers only: the same step draws the same, always.

    A run that goes on after a stop so needs no state of a generator, only its place.
    """
    seed = np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(seed >> np.uint64(1)))


def mask_cells(
    observed: Tensor,
    kind: Masking,
    max_ratio: float,
    source: torch.Generator,
    tied_variables: Tensor | None = None,
    others: Tensor | None = None,
) -> Tensor:
    """True where an observed cell is hidden, (b, t, l, m); each window at its own rate, `most` at
    the most.

    'random' hides single cells, 'bursts' gaps in time, series by series, 'mixed' half of the
    windows in one way and half in the other. 'like_data' hides half as 'mixed' and half with the
    gaps of `others`, however many: those are the observed cells of other windows, their stations
    shuffled. `together`: see `Task`.
    """
    place, measurements = observed.device, observed.shape[-1]
    same = torch.arange(measurements) if tied_variables is None else tied_variables.cpu()
    shape = (*observed.shape[:-1], int(same.max()) + 1)
    rate = torch.rand((len(observed), 1, 1, 1), generator=source) * max_ratio
    luck = torch.rand(shape, generator=source)
    single = luck < rate
    if kind == "random":
        return single[..., same].to(place) & observed
    starts = luck < -torch.log1p(-rate) / USUAL_GAP  # so that about `rate` is covered
    lengths = (-USUAL_GAP * torch.rand(shape, generator=source).clamp(min=1e-9).log()).ceil()
    number = torch.arange(shape[1]).unflatten(0, (-1, 1, 1))
    ends = torch.where(starts, number + lengths, 0.0)
    gaps: Tensor = ends.cummax(dim=1).values > number
    if kind != "bursts":
        gaps = torch.where(_some_windows(observed, 0.5, source), gaps, single)
    hidden = gaps[..., same]
    if kind == "like_data":
        hidden = _as_others(hidden, others, source)
    return hidden.to(place) & observed


def _some_windows(like: Tensor, share: float, source: torch.Generator) -> Tensor:
    return torch.rand((len(like), 1, 1, 1), generator=source) < share


def _as_others(hidden: Tensor, others: Tensor | None, source: torch.Generator) -> Tensor:
    """Half of the windows with the gaps of others instead, where those have some."""
    chosen = _some_windows(hidden, 0.5, source)
    shuffled = torch.randperm(hidden.shape[2], generator=source)
    if others is None:
        return hidden
    missing = ~others.cpu()[:, :, shuffled]
    enough = missing.flatten(1).to(torch.float32).mean(dim=1) >= ENOUGH
    return torch.where(chosen & enough.unflatten(0, (-1, 1, 1, 1)), missing, hidden)


def drop_stations(observed: Tensor, source: torch.Generator) -> Tensor:
    """True for whole stations in some windows, each window at its own rate up to a half: (b, l)."""
    chosen = torch.rand((len(observed), 1), generator=source) < LOST_STATIONS
    rate = torch.rand((len(observed), 1), generator=source) / 2
    luck = torch.rand((len(observed), observed.shape[2]), generator=source)
    return (chosen & (luck < rate)).to(observed.device)
