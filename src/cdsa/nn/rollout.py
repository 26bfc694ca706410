"""Where a value comes from: the maps of a network, rolled back through its layers.

A layer tells each cell anew from what was there and from what it looks at. Going back from the last
layer to the first, the share of a cell is parted between the two by their size, and what was looked
at is parted as the maps say, to the last weight: a map's row over the axes, times what the cell
looked at counts, over what all of them come to. So shares sum to one at every layer.

Letters: `axes.py`; of a single window, b is one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, einsum

from cdsa.nn.attention import apply_sequential
from cdsa.nn.types import AXES, AttentionMaps, Axis

# A share of the cell that looks goes to the cells it looks at: each map the other way round.
BACK: dict[Axis, str] = {
    "time":        "bhts, btlmh -> bslmh",
    "location":    "bhlk, btlmh -> btkmh",
    "measurement": "bhmn, btlmh -> btlnh",
}  # fmt: skip


JOINT_BACK = "bhtlmskn, btlmh -> bsknh"


class LayerTrace(NamedTuple):
    """How a layer looked around."""

    maps: AttentionMaps
    residual: Tensor
    """How much of each cell was there before, (b, t, l, m), between 0 and 1."""

    weight: Tensor | None = None
    """How much each cell counts that is looked at, (b, s, k, n, h)."""

    def back(self, share: Tensor) -> Tensor:
        """The shares (b, t, l, m) of cells, handed to those they look at."""
        heads = next(iter(self.maps.values())).shape[1]
        each = (share / heads).unsqueeze(-1).expand(*share.shape, heads)  # (b, t, l, m, h)
        if "cells" in self.maps:
            return einsum(JOINT_BACK, self.maps["cells"], each).sum(-1)
        if self.weight is not None:
            each = each / apply_sequential(self.maps, self.weight.unsqueeze(-1)).flatten(-2)
        for axis in AXES:
            if self.maps[axis].shape[-2:] != (1, 1):
                each = einsum(BACK[axis], self.maps[axis], each)
        return (each if self.weight is None else each * self.weight).sum(-1)


def residual_share(before: Tensor, added: Tensor) -> Tensor:
    """How much of a sum is what was there before, by the lengths of both: (b, t, l, m, c) twice ->
    (b, t, l, m)."""
    old, new = before.norm(dim=-1), added.norm(dim=-1)
    share: Tensor = old / (old + new).clamp(min=1e-12)
    return share


def rollout(looks: Sequence[LayerTrace], share: Tensor) -> Tensor:
    """What shares of cells behind the last layer come to before the first, (b, t, l, m)."""
    for look in reversed(looks):
        share = look.residual * share + look.back((1 - look.residual) * share)
    return share


def one_cell(like: Tensor, cell: tuple[int, int, int]) -> Tensor:
    """All the share on one cell of a single window, shaped like (1, t, l, m)."""
    share = torch.zeros_like(like)
    share[(0, *cell)] = 1.0
    return share


def normalise_to(share: Tensor, total: Tensor) -> Tensor:
    """Shares of the same proportions that sum to `total`; none if there is nothing to part."""
    whole = share.sum()
    return share * (total / whole) if whole > 0 else share
