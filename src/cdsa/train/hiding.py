"""What is hidden from a network while it learns, batch by batch, as tensors (b, t, l, m)."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

Hiding = Literal["random", "bursts", "mixed"]
USUAL_GAP = 8.0
"""Mean length in steps of the gaps that training makes; about that of the paper's."""


def random_source(*numbers: int) -> torch.Generator:
    """A generator that depends on these numbers only: the same step draws the same, always.

    A run that goes on after a stop so needs no state of a generator, only its place.
    """
    seed = np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(seed >> np.uint64(1)))


def hide_cells(
    observed: Tensor,
    kind: Hiding,
    most: float,
    source: torch.Generator,
    together: Tensor | None = None,
) -> Tensor:
    """True where an observed cell is hidden, (b, t, l, m); each window at its own rate, `most` at
    the most.

    'random' hides single cells, 'bursts' gaps in time, series by series, 'mixed' half of the
    windows in one way and half in the other. `together` has a number for each measurement; those
    with the same number, such as the components of a direction, are hidden together.
    """
    place, measurements = observed.device, observed.shape[-1]
    same = torch.arange(measurements) if together is None else together.cpu()
    shape = (*observed.shape[:-1], int(same.max()) + 1)
    rate = torch.rand((len(observed), 1, 1, 1), generator=source) * most
    luck = torch.rand(shape, generator=source)
    single = luck < rate
    if kind == "random":
        return single[..., same].to(place) & observed
    starts = luck < -torch.log1p(-rate) / USUAL_GAP  # so that about `rate` is covered
    lengths = (-USUAL_GAP * torch.rand(shape, generator=source).clamp(min=1e-9).log()).ceil()
    number = torch.arange(shape[1]).unflatten(0, (-1, 1, 1))
    ends = torch.where(starts, number + lengths, 0.0)
    gaps: Tensor = ends.cummax(dim=1).values > number
    if kind == "mixed":
        chosen = torch.rand((len(observed), 1, 1, 1), generator=source) < 0.5
        gaps = torch.where(chosen, gaps, single)
    return gaps[..., same].to(place) & observed
