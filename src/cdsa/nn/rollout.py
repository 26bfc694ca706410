"""Where a value comes from: attention rollout through the layers of a network.

The output of a layer is the residual plus what it attends to. From the last layer back to the
first, the share of a cell is split between the two by their norms, and the attended part is
distributed by the row of the maps, times the weights of the cells, normalised. So shares sum to one
at every layer.

Letters: `attention.py`; of a single window, b is one.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, einsum

from cdsa.nn.attention import apply_sequential
from cdsa.nn.types import AXES, AttentionMaps, Axis

# The transpose of a map: a cell passes its share to the cells that it attends to.
JOINT_TRANSPOSED = "bhtlmskn, btlmh -> bsknh"


class LayerTrace(NamedTuple):
    """What a layer attended to."""

    maps: AttentionMaps
    residual: Tensor
    """Share of the residual in each cell, (b, t, l, m), between 0 and 1."""

    key_weight: Tensor | None = None
    """How much each cell counts that is attended to, (b, s, k, n, h)."""

    def distribute(self, share: Tensor) -> Tensor:
        """Pass the shares (b, t, l, m) of cells to the cells that they attend to."""
        heads = next(iter(self.maps.values())).shape[1]
        per_head = (share / heads).unsqueeze(-1).expand(*share.shape, heads)  # (b, t, l, m, h)
        if "cells" in self.maps:
            return einsum(JOINT_TRANSPOSED, self.maps["cells"], per_head).sum(-1)
        if self.key_weight is not None:
            total = apply_sequential(self.maps, self.key_weight.unsqueeze(-1))
            per_head = per_head / total.flatten(-2)
        transposed: AttentionMaps = {axis: a.mT for axis, a in self.maps.items()}
        per_head = apply_sequential(transposed, per_head.unsqueeze(-1)).flatten(-2)
        return (per_head if self.key_weight is None else per_head * self.key_weight).sum(-1)


def residual_share(before: Tensor, added: Tensor) -> Tensor:
    """Share of the residual in a sum, by norms: two (b, t, l, m, c) -> (b, t, l, m)."""
    old, new = before.norm(dim=-1), added.norm(dim=-1)
    return cast(Tensor, old / (old + new).clamp(min=1e-12))


def rollout(traces: Sequence[LayerTrace], share: Tensor) -> Tensor:
    """Shares of cells after the last layer as shares of cells before the first, (b, t, l, m)."""
    for trace in reversed(traces):
        share = trace.residual * share + trace.distribute((1 - trace.residual) * share)
    return share


def one_hot_cell(like: Tensor, cell: tuple[int, int, int]) -> Tensor:
    """The whole share on one cell of a single window, (1, t, l, m)."""
    share = torch.zeros_like(like)
    share[(0, *cell)] = 1.0
    return share


def normalise_to(share: Tensor, total: Tensor | float = 1.0) -> Tensor:
    """Shares in the same proportions that sum to `total`; unchanged if they sum to zero."""
    current = share.sum()
    return share * (total / current) if current > 0 else share


def marginal_map(cells: Tensor, axis: Axis) -> Tensor:
    """A map between all cells (b, h, t, l, m, s, k, n) summed to one axis, averaged over the cells
    that attend: (b, h, N, N)."""
    others = [number for number in range(3) if number != AXES.index(axis)]
    summed = cells.sum(dim=[5 + number for number in others])
    return summed.mean(dim=[2 + number for number in others])
