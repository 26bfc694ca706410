"""Maps: who looks at whom, how much (the paper, section 3.2). Letters: `axes.py`.

A map has one row per position that looks and one column per position looked at, and its rows sum to
one. It may lean towards what is near: a `prior`, added to its scores.
"""

import math

import torch
from torch import Tensor, einsum, nn

from cdsa.models.axes import AXES, AttentionConfig, Axis, Maps, Sight, Sizes

# Queries and keys of an axis: one row per position; the other two axes and the channels are summed
# away (X_T, X_L and X_M of the paper times W).
PROJECT: dict[Axis, str] = {
    "time":        "btlmc, lmchd -> bhtd",
    "location":    "btlmc, tmchd -> bhld",
    "measurement": "btlmc, tlchd -> bhmd",
}  # fmt: skip
# Queries and keys of cells, seen along each axis (Q_(T) K_(T)^T and so on).
SEEN_ALONG: dict[Axis, str] = {
    "time":        "btlmhd, bslmhd -> bhts",
    "location":    "btlmhd, btkmhd -> bhlk",
    "measurement": "btlmhd, btlnhd -> bhmn",
}  # fmt: skip
JOINT_SCORE = "btlmhd, bsknhd -> bhtlmskn"
WHOLE = "bhts, bhlk, bhmn -> bhtlmskn"

# With a sight of the past only, the maps of location and measurement too are made from what has
# been so far: one map for each step t that looks. They come after the time map.
PROJECT_SO_FAR: dict[Axis, str] = {
    "location":    "btlmc, tmchd -> bhtld",
    "measurement": "btlmc, tlchd -> bhtmd",
}  # fmt: skip
SEEN_SO_FAR: dict[Axis, str] = {
    "location":    "btlmhd, btkmhd -> bhtlk",
    "measurement": "btlmhd, btlnhd -> bhtmn",
}  # fmt: skip
WHOLE_SO_FAR = "bhts, bhtlk, bhtmn -> bhtlmskn"


def may_look(sight: Sight, steps: int, like: Tensor) -> Tensor:
    """(t, s): zero where step t may look at step s, minus infinity where it may not."""
    pairs = torch.ones(steps, steps, dtype=torch.bool, device=like.device)
    if sight == "past":
        pairs = pairs.tril()
    elif sight == "other steps" and steps > 1:  # the only step there is has to look at itself
        pairs = ~torch.eye(steps, dtype=torch.bool, device=like.device)
    return torch.zeros_like(pairs, dtype=like.dtype).masked_fill(~pairs, -math.inf)


class AxisMap(nn.Module):
    """The map of one axis from flattened slices: (b, t, l, m, c) -> (b, h, N, N).

    With a sight of the past, maps of location and measurement are (b, h, t, N, N). An axis of one
    position has nothing to choose: its map is a single one, and it has no weights.
    """

    def __init__(
        self, axis: Axis, config: AttentionConfig, looks: Sizes, at: Sizes | None, sight: Sight
    ) -> None:
        super().__init__()
        self.axis: Axis = axis
        self.sight: Sight = sight
        self.at_another = at is not None
        self.masked = axis == "time" and at is None and sight != "all"
        self.heads = config.heads
        self.alone = looks.along(axis) == 1 == (at or looks).along(axis)
        if self.alone:
            return
        rest = (config.channels, config.heads, config.of(axis).d)
        self.w_q = _weight(*looks.beside(axis), *rest)
        self.w_k = _weight(*(at or looks).beside(axis), *rest)
        if at is None:  # at first, each looks at what resembles it
            self.w_k.data.copy_(self.w_q.data)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if self.alone:
            return x.new_ones(len(x), self.heads, 1, 1)
        if self.sight == "past" and self.axis != "time":
            return self._so_far(x, y)
        q = einsum(PROJECT[self.axis], x, self.w_q)  # (b, h, N, d)
        k = einsum(PROJECT[self.axis], y, self.w_k)  # (b, h, N, d)
        scores = einsum("bhid, bhjd -> bhij", q, k) / math.sqrt(q.shape[-1])
        if self.masked:
            scores = scores + may_look(self.sight, scores.shape[-1], scores)
        return scores.softmax(dim=-1)

    def _so_far(self, x: Tensor, y: Tensor) -> Tensor:
        q = einsum(PROJECT_SO_FAR[self.axis], x, self.w_q).cumsum(dim=2)  # (b, h, t, N, d)
        if self.at_another:  # all of it is known
            k = einsum(PROJECT[self.axis], y, self.w_k)  # (b, h, N, d)
            scores = einsum("bhtid, bhjd -> bhtij", q, k)
        else:
            k = einsum(PROJECT_SO_FAR[self.axis], y, self.w_k).cumsum(dim=2)  # (b, h, t, N, d)
            scores = einsum("bhtid, bhtjd -> bhtij", q, k)
        scores = scores / math.sqrt(q.shape[-1])
        return scores.softmax(dim=-1)


def _weight(first: int, second: int, channels: int, heads: int, d: int) -> nn.Parameter:
    """A projection shaped by the axes it eats; equals a linear layer on flattened rows."""
    spread = 1 / math.sqrt(first * second * channels)
    return nn.Parameter(torch.randn(first, second, channels, heads, d) * spread)


def shared_map(
    axis: Axis,
    q: Tensor,
    k: Tensor,
    sight: Sight = "all",
    *,
    at_another: bool = False,
    prior: Tensor | None = None,
) -> Tensor:
    """The map of one axis from queries and keys of cells, scaled by the root of all that is summed.

    q, k: (b, t, l, m, h, d). Out: (b, h, N, N), or (b, h, t, N, N) with a sight of the past.
    """
    sizes, (heads, d) = Sizes(*q.shape[1:4]), q.shape[4:]
    if sizes.along(axis) == 1 == k.shape[1 + AXES.index(axis)]:
        return q.new_ones(len(q), heads, 1, 1)
    steps, summed = sizes.steps, math.prod(sizes.beside(axis)) * d
    if sight == "past" and axis != "time":
        terms = torch.arange(1, steps + 1, device=q.device, dtype=q.dtype) * (summed // steps)
        scores = einsum(SEEN_SO_FAR[axis], q, k).cumsum(dim=2)
        scores = scores / terms.sqrt()[:, None, None]
    else:
        scores = einsum(SEEN_ALONG[axis], q, k) / math.sqrt(summed)
    if axis == "time" and sight != "all" and not at_another:
        scores = scores + may_look(sight, steps, scores)
    if prior is not None:
        scores = scores + prior
    return scores.softmax(dim=-1)


def joint_map(q: Tensor, k: Tensor, sight: Sight = "all") -> Tensor:
    """The map between all cells, written out: (b, h, t, l, m, s, k, n). For small windows only."""
    scores = einsum(JOINT_SCORE, q, k) / math.sqrt(q.shape[-1])
    if sight != "all":
        scores = scores + may_look(sight, q.shape[1], scores)[:, None, None, :, None, None]
    rows: Tensor = scores.flatten(-3).softmax(dim=-1).unflatten(-1, scores.shape[-3:])
    return rows


def whole_map(maps: Maps) -> Tensor:
    """The map between all cells that a layer's maps amount to: (b, h, t, l, m, s, k, n)."""
    if "cells" in maps:
        return maps["cells"]
    time, *others = (maps[axis] for axis in AXES)
    if all(part.ndim == 4 for part in others):
        return einsum(WHOLE, time, *others)
    steps = time.shape[2]
    others = [
        part if part.ndim == 5 else part.unsqueeze(2).expand(-1, -1, steps, -1, -1)
        for part in others
    ]
    return einsum(WHOLE_SO_FAR, time, *others)


def along(cells: Tensor, axis: Axis) -> Tensor:
    """What a map between all cells (b, h, t, l, m, s, k, n) comes to along one axis, averaged over
    the cells that look: (b, h, N, N)."""
    looks = AXES.index(axis)
    rest = [number for number in range(3) if number != looks]
    summed = cells.sum(dim=[5 + number for number in rest])
    return summed.mean(dim=[2 + number for number in rest])


def of_places(q: Tensor, present: Tensor) -> Tensor:
    """Queries of some places alone, scaled as if there were no others."""
    share = present.to(q.dtype).mean(dim=1, keepdim=True)
    scale: Tensor = (present / share.sqrt()).unflatten(1, (1, -1, 1, 1, 1))
    return q * scale
