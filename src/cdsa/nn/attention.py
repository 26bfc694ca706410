"""Cross-dimensional attention (the paper, section 3.2): three of its four manners.

The fourth, *independent*, is three ordinary transformers side by side: `streams.py`.

Every cell of `x` looks at every cell of `y`; in self-attention `y` is `x`. Maps say who looks at
whom (`maps.py`), and may lean towards what is near. What is said is mixed by them (`mixing.py`),
and may be mixed from what carries information alone: `weight`. The network users get by default
needs both. Letters: `axes.py`.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, einsum, nn
from torch.nn import functional as F

from cdsa.errors import ConfigError
from cdsa.nn.types import (
    AXES,
    NO_BIAS,
    AttentionConfig,
    AttentionMaps,
    Axis,
    Bias,
    MaskMode,
    Sizes,
)

SHARPNESS = 3.0
"""How much longer than usual the first queries and keys of the joint manner are: a cell that looks
at all others has to choose among many. (Measured on the demo data; the other manners' sums are
longer by themselves.)"""


class CrossDimensionalAttention(nn.Module):
    """Every cell of x looks at every cell of y: two (b, t, l, m, c) -> (b, t, l, m, c).

    In self-attention `sight` says which steps a step may look at. Attention `at` another window,
    which is known as a whole, is never masked; with a sight of the past its queries are those of
    what has been so far.
    """

    def __init__(
        self,
        config: AttentionConfig,
        query_sizes: Sizes,
        memory_sizes: Sizes | None = None,
        *,
        mask_mode: MaskMode = "all",
    ) -> None:
        super().__init__()
        self.config = config
        self.mask_mode: MaskMode = mask_mode
        self.is_cross = memory_sizes is not None
        heads, width = config.n_heads, config.d_model
        self.value = nn.Linear(width, heads * config.d_v)
        self.out = nn.Linear(heads * config.d_v, width)
        if config.manner == "decomposed":
            self.axes = nn.ModuleDict(
                {axis: AxisMap(axis, config, query_sizes, memory_sizes, mask_mode) for axis in AXES}
            )
        else:
            self.query = nn.Linear(width, heads * config.d_qk, bias=False)
            self.key = nn.Linear(width, heads * config.d_qk, bias=False)
            if config.manner == "joint":
                self.query.weight.data.mul_(SHARPNESS)
            self.key.weight.data.copy_(self.query.weight.data)  # at first, look at what resembles
        if (
            config.manner == "shared"
            and memory_sizes is not None
            and query_sizes.steps != memory_sizes.steps
        ):
            raise ConfigError(
                "in the shared manner the steps that look and those looked at are paired one by "
                f"one, so there must be as many, but there are {query_sizes.steps} and "
                f"{memory_sizes.steps}. Foresee as many steps as are looked back on, or "
                "choose another manner"
            )

    def forward(
        self,
        x: Tensor,
        y: Tensor | None = None,
        *,
        bias: Bias = NO_BIAS,
        weight: Tensor | None = None,
        present: Tensor | None = None,
    ) -> Tensor:
        y = x if y is None else y
        v = self._heads(self.value(y))  # (b, s, k, n, h, e)
        if self.config.manner == "joint":
            mixed = joint_mix(*self._query_key(x, y), v, self._joint_mask_mode())
        elif weight is not None:
            maps = self.maps(x, y, bias=bias, present=present)
            mixed = apply_weighted(maps, v, weight)
        else:
            mixed = apply_sequential(self.maps(x, y, bias=bias), v)
        out: Tensor = self.out(mixed.flatten(-2))
        return out

    def maps(
        self,
        x: Tensor,
        y: Tensor | None = None,
        *,
        bias: Bias = NO_BIAS,
        present: Tensor | None = None,
    ) -> AttentionMaps:
        """The maps of this layer by axis; in the joint manner the one between all cells. Priors are
        for the shared manner, and so are the places that are `present`, (b, l): the others are
        looked at by nobody, and which times and measurements go together is not theirs to tell."""
        y = x if y is None else y
        if self.config.manner == "decomposed":
            return {axis: self.axes[axis](x, y) for axis in AXES}
        q, k = self._query_key(x, y)
        if self.config.manner == "joint":
            return {"cells": joint_map(q, k, self._joint_mask_mode())}
        heard = q
        if present is not None:
            heard, near = of_places(q, present), bias.get("location", q.new_zeros(()))
            absent = ~present.unflatten(1, (1, 1, -1))
            bias = {**bias, "location": torch.where(absent, -torch.inf, near)}
        return {
            axis: shared_map(
                axis,
                q if axis == "location" else heard,
                k,
                self.mask_mode,
                is_cross=self.is_cross,
                bias=bias.get(axis),
            )
            for axis in AXES
        }

    def _joint_mask_mode(self) -> MaskMode:
        return "all" if self.is_cross else self.mask_mode

    def _query_key(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self._heads(self.query(x)), self._heads(self.key(y))

    def _heads(self, x: Tensor) -> Tensor:
        apart: Tensor = x.unflatten(-1, (self.config.n_heads, -1))
        return apart


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


def attention_mask(mask_mode: MaskMode, steps: int, like: Tensor) -> Tensor:
    """(t, s): zero where step t may look at step s, minus infinity where it may not."""
    pairs = torch.ones(steps, steps, dtype=torch.bool, device=like.device)
    if mask_mode == "past":
        pairs = pairs.tril()
    elif mask_mode == "other steps" and steps > 1:  # the only step there is has to look at itself
        pairs = ~torch.eye(steps, dtype=torch.bool, device=like.device)
    return torch.zeros_like(pairs, dtype=like.dtype).masked_fill(~pairs, -math.inf)


class AxisMap(nn.Module):
    """The map of one axis from flattened slices: (b, t, l, m, c) -> (b, h, N, N).

    With a sight of the past, maps of location and measurement are (b, h, t, N, N). An axis of one
    position has nothing to choose: its map is a single one, and it has no weights.
    """

    def __init__(
        self,
        axis: Axis,
        config: AttentionConfig,
        query_sizes: Sizes,
        memory_sizes: Sizes | None,
        mask_mode: MaskMode,
    ) -> None:
        super().__init__()
        self.axis: Axis = axis
        self.mask_mode: MaskMode = mask_mode
        self.is_cross = memory_sizes is not None
        self.masked = axis == "time" and memory_sizes is None and mask_mode != "all"
        self.heads = config.n_heads
        self.alone = query_sizes.along(axis) == 1 == (memory_sizes or query_sizes).along(axis)
        if self.alone:
            return
        rest = (config.d_model, config.n_heads, config.of(axis).d_qk)
        self.w_q = _weight(*query_sizes.beside(axis), *rest)
        self.w_k = _weight(*(memory_sizes or query_sizes).beside(axis), *rest)
        if memory_sizes is None:  # at first, each looks at what resembles it
            self.w_k.data.copy_(self.w_q.data)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if self.alone:
            return x.new_ones(len(x), self.heads, 1, 1)
        if self.mask_mode == "past" and self.axis != "time":
            return self._so_far(x, y)
        q = einsum(PROJECT[self.axis], x, self.w_q)  # (b, h, N, d)
        k = einsum(PROJECT[self.axis], y, self.w_k)  # (b, h, N, d)
        scores = einsum("bhid, bhjd -> bhij", q, k) / math.sqrt(q.shape[-1])
        if self.masked:
            scores = scores + attention_mask(self.mask_mode, scores.shape[-1], scores)
        return scores.softmax(dim=-1)

    def _so_far(self, x: Tensor, y: Tensor) -> Tensor:
        q = einsum(PROJECT_SO_FAR[self.axis], x, self.w_q).cumsum(dim=2)  # (b, h, t, N, d)
        if self.is_cross:  # all of it is known
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
    mask_mode: MaskMode = "all",
    *,
    is_cross: bool = False,
    bias: Tensor | None = None,
) -> Tensor:
    """The map of one axis from queries and keys of cells, scaled by the root of all that is summed.

    q, k: (b, t, l, m, h, d). Out: (b, h, N, N), or (b, h, t, N, N) with a sight of the past.
    """
    sizes, (heads, d) = Sizes(*q.shape[1:4]), q.shape[4:]
    if sizes.along(axis) == 1 == k.shape[1 + AXES.index(axis)]:
        return q.new_ones(len(q), heads, 1, 1)
    steps, summed = sizes.steps, math.prod(sizes.beside(axis)) * d
    if mask_mode == "past" and axis != "time":
        terms = torch.arange(1, steps + 1, device=q.device, dtype=q.dtype) * (summed // steps)
        scores = einsum(SEEN_SO_FAR[axis], q, k).cumsum(dim=2)
        scores = scores / terms.sqrt()[:, None, None]
    else:
        scores = einsum(SEEN_ALONG[axis], q, k) / math.sqrt(summed)
    if axis == "time" and mask_mode != "all" and not is_cross:
        scores = scores + attention_mask(mask_mode, steps, scores)
    if bias is not None:
        scores = scores + bias
    return scores.softmax(dim=-1)


def joint_map(q: Tensor, k: Tensor, mask_mode: MaskMode = "all") -> Tensor:
    """The map between all cells, written out: (b, h, t, l, m, s, k, n). For small windows only."""
    scores = einsum(JOINT_SCORE, q, k) / math.sqrt(q.shape[-1])
    if mask_mode != "all":
        scores = (
            scores + attention_mask(mask_mode, q.shape[1], scores)[:, None, None, :, None, None]
        )
    rows: Tensor = scores.flatten(-3).softmax(dim=-1).unflatten(-1, scores.shape[-3:])
    return rows


def full_map(maps: AttentionMaps) -> Tensor:
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


# The map averages the values along its own axis; the other axes are carried along.
MIX: dict[Axis, str] = {
    "time":        "bhts, bslmhe -> btlmhe",
    "location":    "bhlk, btkmhe -> btlmhe",
    "measurement": "bhmn, btlnhe -> btlmhe",
}  # fmt: skip


JOINT_MIX = "bhtlmskn, bsknhe -> btlmhe"


# Maps of what has been so far belong to the step t that looks.
MIX_SO_FAR: dict[Axis, str] = {
    "location":    "bhtlk, btkmhe -> btlmhe",
    "measurement": "bhtmn, btlnhe -> btlmhe",
}  # fmt: skip


WIDTH = 16
"""Torch's frugal attention wants queries, keys and values of one width on a CPU and an even one on
other devices; on a CPU it is fastest at multiples of this."""


FUSED = 256
"""Up to so many columns, the maps of location and measurement are applied as one: one product of
matrices of a fair size instead of many tiny ones."""


PAIRS_AT_ONCE = 1 << 20
"""Up to so many pairs of cells, what may be looked at is written down pair by pair (4 MiB)."""


def joint_mix(q: Tensor, k: Tensor, v: Tensor, mask_mode: MaskMode = "all") -> Tensor:
    """`joint_map` applied to `v` without ever building it: memory grows with cells, not pairs.

    q (b, t, l, m, h, d), k (b, s, k, n, h, d), v (b, s, k, n, h, e) -> (b, t, l, m, h, e).
    """
    steps, shape, scale, wide = q.shape[1], q.shape[1:4], 1 / math.sqrt(q.shape[-1]), v.shape[-1]
    if q.device.type != "meta":  # where operations are counted, as the equations have them
        width = math.ceil(max(q.shape[-1], wide) / WIDTH) * WIDTH
        q, k, v = (F.pad(part, (0, width - part.shape[-1])) for part in (q, k, v))
    q, k, v = _rows(q), _rows(k), _rows(v)
    cells, pairs = q.shape[2] // steps, q.shape[2] * k.shape[2]
    if mask_mode == "all":
        y = F.scaled_dot_product_attention(q, k, v, scale=scale)
    elif pairs <= PAIRS_AT_ONCE or q.device.type == "meta":
        seen = (
            attention_mask(mask_mode, steps, q)
            .repeat_interleave(cells, 0)
            .repeat_interleave(cells, 1)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)
    else:  # step by step: all cells of a step see the same, so one row says it for all of them
        seen = attention_mask(mask_mode, steps, q).repeat_interleave(
            cells, 1
        )  # (t, cells looked at)
        y = torch.cat(
            [
                F.scaled_dot_product_attention(
                    part, k, v, attn_mask=row.expand(1, 1, cells, -1), scale=scale
                )
                for part, row in zip(q.split(cells, dim=2), seen, strict=True)
            ],
            dim=2,
        )
    return einsum("bhtlme -> btlmhe", y[..., :wide].unflatten(2, shape))


def _rows(x: Tensor) -> Tensor:
    """One row per cell: (b, t, l, m, h, d) -> (b, h, cells, d)."""
    return einsum("btlmhd -> bhtlmd", x).flatten(2, 4)


def apply_sequential(maps: AttentionMaps, v: Tensor, order: Sequence[Axis] = AXES) -> Tensor:
    """Apply one map after the other; all were made from the same input, so any order will do.

    Maps of what has been so far belong to the step that looks, so there time comes first.
    """
    for axis in order:
        a = maps[axis]
        if a.shape[-2:] != (1, 1):
            v = einsum(MIX[axis] if a.ndim == 4 else MIX_SO_FAR[axis], a, v)
    return v


def apply_fused(maps: AttentionMaps, v: Tensor) -> Tensor:
    """The same as `mix_in_turn` for maps of (b, h, N, N), laid out for speed: the values are copied
    once so that each map is one batched product of matrices as large as can be."""
    time, location, measurement = (maps[axis] for axis in AXES)
    b, _, _, _, heads, e = v.shape
    steps, locations, measurements = (maps[axis].shape[2] for axis in AXES)
    rows = einsum("bsknhe -> bhsekn", v).reshape(b * heads, v.shape[1], -1)  # (bh, s, ekn)
    rows = torch.bmm(time.flatten(0, 1), rows)  # (bh, t, ekn)
    columns = location.shape[3] * measurement.shape[3]
    if columns <= FUSED or 1 in (location.shape[3], measurement.shape[3]):
        both = einsum("bhlk, bhmn -> bhlmkn", location, measurement)
        both = both.reshape(b * heads, -1, columns)  # (bh, lm, kn)
        rows = torch.bmm(rows.reshape(b * heads, -1, columns), both.mT)  # (bh, te, lm)
    else:
        rows = rows.reshape(b * heads, -1, measurement.shape[3])  # (bh, tek, n)
        rows = torch.bmm(rows, measurement.flatten(0, 1).mT)  # (bh, tek, m)
        rows = rows.unflatten(1, (-1, location.shape[3]))  # (bh, te, k, m)
        rows = einsum("zukm -> zumk", rows).reshape(b * heads, -1, location.shape[3])
        rows = torch.bmm(rows, location.flatten(0, 1).mT)  # (bh, tem, l)
        rows = einsum("zuml -> zulm", rows.unflatten(1, (-1, measurements)))
    apart = rows.reshape(b, heads, steps, e, locations, measurements)
    return einsum("bhtelm -> btlmhe", apart)


def apply_weighted(maps: AttentionMaps, v: Tensor, weight: Tensor) -> Tensor:
    """Averages over what carries information: a cell looked at counts with its `weight`, positive
    and (b, s, k, n, h). What the weights come to is one more channel sent through the same maps,
    and rows still sum to one."""
    weight = weight.unsqueeze(-1)
    mixed = apply_fused(maps, torch.cat([v * weight, weight], dim=-1))
    return mixed[..., :-1] / mixed[..., -1:]
