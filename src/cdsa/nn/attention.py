"""Self-attention and cross-dimensional self-attention (the paper, sections 3.1 and 3.2).

Letters, the same in every equation of this file; the second letter of a pair is attended to:
    b  window of the batch     h  head     c  channels     d, e  channels of one head
    t  time,         s  the time attended to
    l  location,     k  the location attended to
    m  measurement,  n  the measurement attended to
    i  position of any axis, j  the position attended to

Every cell of `x` attends to every cell of `y`; in self-attention `y` is `x`. The manners *joint*,
*decomposed* and *shared* are classes below. *Independent* is three transformers, one per axis,
which meet only after their last layers. It is not a layer but a way to build a network, and stands
in `streams.py`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, einsum, nn

from cdsa.errors import ConfigError
from cdsa.nn.kernels import (
    NormaliseRows,
    WeighRows,
    apply_fused,
    attention_mask,
    joint_attention,
)
from cdsa.nn.types import AXES, NO_BIAS, AttentionConfig, AttentionMaps, Axis, Bias, MaskMode, Sizes

# Section 3.1: S(i, j) = q_i k_j / sqrt(d); A = softmax(S); v'_i = sum_j A(i, j) v_j.
SCORE = "bihd, bjhd -> bhij"
ATTEND = "bhij, bjhe -> bihe"

# Section 3.2: X_T, X_L and X_M times W. Each position of an axis is one row; the other two axes and
# the channels are summed away.
PROJECT: dict[Axis, str] = {
    "time":        "btlmc, lmchd -> bhtd",
    "location":    "btlmc, tmchd -> bhld",
    "measurement": "btlmc, tlchd -> bhmd",
}  # fmt: skip

# Section 3.2.2, joint: one map A between all cells p = (t, l, m), and V' = A V.
JOINT_SCORE = "btlmhd, bsknhd -> bhtlmskn"
JOINT_APPLY = "bhtlmskn, bsknhe -> btlmhe"

# Section 3.2.3, decomposed. Equations (1) and (2): V' = ~A_M ~A_L ~A_T V, where ~A_T is the tensor
# product of A_T, I_L and I_M, and so on: a map averages the values along its own axis, and the
# letters of the other two axes are carried along.
APPLY: dict[Axis, str] = {
    "time":        "bhts, bslmhe -> btlmhe",
    "location":    "bhlk, btkmhe -> btlmhe",
    "measurement": "bhmn, btlnhe -> btlmhe",
}  # fmt: skip

# Equation (3): A(p0, p1) = A_T(t0, t1) A_L(l0, l1) A_M(m0, m1). Two properties follow, which the
# tests check. Equation (4): the order of the maps does not matter. Equation (5): the rows of A sum
# to one.
FULL_MAP = "bhts, bhlk, bhmn -> bhtlmskn"

# Section 3.2.3, shared: Q_(T) K_(T)^T and so on. One query and one key per cell, viewed along each
# axis.
SHARED_SCORE: dict[Axis, str] = {
    "time":        "btlmhd, bslmhd -> bhts",
    "location":    "btlmhd, btkmhd -> bhlk",
    "measurement": "btlmhd, btlnhd -> bhmn",
}  # fmt: skip


def per_step_equation(equation: str) -> str:
    """The equation with a map for each step t: "bhlk" becomes "bhtlk".

    Not in the paper: in a causal decoder the maps of location and measurement must not depend on
    later steps either. They are applied after the time map.
    """
    return equation.replace("bh", "bht")


JOINT_QUERY_SCALE = 3.0
"""Factor on the initial queries and keys of the joint manner. A cell that attends to all others
chooses among many. (Measured on the demo data; the sums of the other manners are longer.)"""


class AxisAttention(nn.Module):
    """Section 3.1, conventional attention over the positions of one axis: x (b, i, width) attends
    to y (b, j, memory_width) -> (b, i, width)."""

    def __init__(
        self, axis: Axis, width: int, memory_width: int, config: AttentionConfig, mask: MaskMode
    ) -> None:
        super().__init__()
        sizes, heads = config.of(axis), config.n_heads
        self.axis: Axis = axis
        self.mask_mode: MaskMode = mask
        self.n_heads = heads
        self.query = nn.Linear(width, heads * sizes.d_qk, bias=False)
        self.key = nn.Linear(memory_width, heads * sizes.d_qk, bias=False)
        self.value = nn.Linear(memory_width, heads * sizes.d_v)
        self.out = nn.Linear(heads * sizes.d_v, width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        v = self.value(y).unflatten(-1, (self.n_heads, -1))  # (b, j, h, e)
        mixed = einsum(ATTEND, self.maps(x, y)[self.axis], v)
        return cast(Tensor, self.out(mixed.flatten(-2)))

    def maps(self, x: Tensor, y: Tensor) -> AttentionMaps:
        """The map of the axis, (b, h, i, j)."""
        q = self.query(x).unflatten(-1, (self.n_heads, -1))
        k = self.key(y).unflatten(-1, (self.n_heads, -1))
        return {self.axis: attention_map(einsum(SCORE, q, k), q.shape[-1], self.mask_mode)}


class AttentionScope(NamedTuple):
    """What attends to what in a layer."""

    query_sizes: Sizes
    memory_sizes: Sizes | None = None
    """Sizes of y in cross-attention. That window is known as a whole and never masked."""

    mask_mode: MaskMode = "none"
    """Steps that a step must not attend to. With "causal" the queries of a step come from that
    step and those before it, in cross-attention too."""

    def mask_of(self, axis: Axis) -> MaskMode:
        return self.mask_mode if axis == "time" and self.memory_sizes is None else "none"

    def has_per_step_maps(self, axis: Axis) -> bool:
        """Whether an axis has a map for each step, (b, h, t, N, N)."""
        return self.mask_mode == "causal" and axis != "time"


class Attention(nn.Module):
    """A layer of cross-dimensional attention: two (b, t, l, m, c) -> (b, t, l, m, c). All manners
    have values per cell; they differ in their maps."""

    def __init__(self, config: AttentionConfig, scope: AttentionScope) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.scope = scope
        self.value = nn.Linear(config.d_model, config.n_heads * config.d_v)
        self.out = nn.Linear(config.n_heads * config.d_v, config.d_model)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        v = self.split_heads(self.value(y))  # (b, s, k, n, h, e)
        return self.merge_heads(apply_sequential(self.maps(x, y), v))

    def maps(self, x: Tensor, y: Tensor) -> AttentionMaps:
        """The attention maps by axis; of the joint manner the map between all cells."""
        raise NotImplementedError

    def split_heads(self, x: Tensor) -> Tensor:
        return cast(Tensor, x.unflatten(-1, (self.n_heads, -1)))

    def merge_heads(self, mixed: Tensor) -> Tensor:
        return cast(Tensor, self.out(mixed.flatten(-2)))


class Joint(Attention):
    """Section 3.2.2: every pair of cells has a score of its own."""

    def __init__(self, config: AttentionConfig, scope: AttentionScope) -> None:
        super().__init__(config, scope)
        self.query, self.key = _query_key(config, JOINT_QUERY_SCALE)
        self.explicit = False
        """Whether `forward` builds the map, as the equations do: to check it, or to count its
        operations."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if self.explicit:
            return super().forward(x, y)
        v, q, k = (self.split_heads(z) for z in (self.value(y), self.query(x), self.key(y)))
        return self.merge_heads(joint_attention(q, k, v, self.scope.mask_of("time")))

    def maps(self, x: Tensor, y: Tensor) -> AttentionMaps:
        q, k = self.split_heads(self.query(x)), self.split_heads(self.key(y))
        return {"cells": joint_map(q, k, self.scope.mask_of("time"))}


class Decomposed(Attention):
    """Section 3.2.3: each axis has a map of its own, from queries and keys of its own, and the maps
    are applied one after the other. An axis of one position has no weights."""

    def __init__(self, config: AttentionConfig, scope: AttentionScope) -> None:
        super().__init__(config, scope)
        sizes = (scope.query_sizes, scope.memory_sizes or scope.query_sizes)
        chosen = (axis for axis in AXES if any(size.along(axis) > 1 for size in sizes))
        self.axes = nn.ModuleDict({axis: AxisMap(axis, config, scope) for axis in chosen})

    def maps(self, x: Tensor, y: Tensor) -> AttentionMaps:
        single = x.new_ones(len(x), self.n_heads, 1, 1)
        return {axis: self.axes[axis](x, y) if axis in self.axes else single for axis in AXES}


class Shared(Attention):
    """Section 3.2.3, at its end: one query and one key per cell make the maps of all axes. Its
    weights fit windows of any size."""

    def __init__(self, config: AttentionConfig, scope: AttentionScope) -> None:
        super().__init__(config, scope)
        steps, memory = scope.query_sizes.steps, scope.memory_sizes
        if memory is not None and steps != memory.steps:
            raise ConfigError(
                "the shared manner pairs the steps of both windows one by one, so both need the "
                f"same number of steps, but they have {steps} and {memory.steps}. Set the horizon "
                "to the length of the context, or choose another manner"
            )
        self.query, self.key = _query_key(config)

    def maps(
        self, x: Tensor, y: Tensor, *, bias: Bias = NO_BIAS, present: Tensor | None = None
    ) -> AttentionMaps:
        """The maps by axis, with what the default network adds to the paper: a bias on the scores,
        and the stations (b, l) that are attended to at all. Other stations are excluded from
        the maps of time and measurement too."""
        q, k = self.split_heads(self.query(x)), self.split_heads(self.key(y))
        if self.scope.mask_mode == "causal" and (bias or present is not None):
            raise ConfigError(
                "bias and present are for maps of whole windows, but this layer has a causal mask"
            )
        q_present = q
        if present is not None:  # scaled as if there were no other stations
            share = present.to(q.dtype).mean(dim=1, keepdim=True)
            q_present = q * (present / share.sqrt()).unflatten(1, (1, -1, 1, 1, 1))
            absent, near = ~present.unflatten(1, (1, 1, -1)), bias.get("location", q.new_zeros(()))
            bias = {**bias, "location": torch.where(absent, -torch.inf, near)}
        return {
            axis: shared_map(
                axis, q if axis == "location" else q_present, k, self.scope, bias.get(axis)
            )
            for axis in AXES
        }


def make_attention(config: AttentionConfig, scope: AttentionScope) -> Attention:
    if config.manner == "independent":
        raise ConfigError("the independent manner is no layer: build it with Streams")
    layers = {"joint": Joint, "decomposed": Decomposed, "shared": Shared}
    return layers[config.manner](config, scope)


class AxisMap(nn.Module):
    """A_T, A_L or A_M from flattened slices: two (b, t, l, m, c) -> (b, h, N, N). With a causal
    mask the maps of location and measurement are (b, h, t, N, N)."""

    def __init__(self, axis: Axis, config: AttentionConfig, scope: AttentionScope) -> None:
        super().__init__()
        self.axis: Axis = axis
        self.scope = scope
        shape = (config.d_model, config.n_heads, config.of(axis).d_qk)
        self.w_q = _projection(*scope.query_sizes.others(axis), *shape)
        self.w_k = _projection(*(scope.memory_sizes or scope.query_sizes).others(axis), *shape)
        if scope.memory_sizes is None:  # at first, each position attends to those like it
            self.w_k.data.copy_(self.w_q.data)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        project = PROJECT[self.axis]
        if self.scope.has_per_step_maps(self.axis):
            q = einsum(per_step_equation(project), x, self.w_q).cumsum(dim=2)  # (b, h, t, N, d)
            if self.scope.memory_sizes is None:
                k = einsum(per_step_equation(project), y, self.w_k).cumsum(dim=2)
            else:  # all of y is known
                k = einsum(project, y, self.w_k).unsqueeze(2)  # (b, h, 1, N, d)
        else:
            q, k = einsum(project, x, self.w_q), einsum(project, y, self.w_k)  # (b, h, N, d)
        scores = einsum("b...id, b...jd -> b...ij", q, k)
        return attention_map(scores, q.shape[-1], self.scope.mask_of(self.axis))


def _projection(first: int, second: int, channels: int, heads: int, d: int) -> nn.Parameter:
    """Weights shaped by the axes they sum over; equals a linear layer on flattened rows."""
    scale = 1 / math.sqrt(first * second * channels)
    return nn.Parameter(torch.randn(first, second, channels, heads, d) * scale)


def _query_key(config: AttentionConfig, scale: float = 1.0) -> tuple[nn.Linear, nn.Linear]:
    """Projections per cell. Both start from the same weights: at first, cells attend to those like
    them."""
    width = config.n_heads * config.d_qk
    query, key = (nn.Linear(config.d_model, width, bias=False) for _ in range(2))
    query.weight.data.mul_(scale)
    key.weight.data.copy_(query.weight.data)
    return query, key


def attention_map(
    scores: Tensor, n_terms: int | Tensor, mask_mode: MaskMode = "none", bias: Tensor | None = None
) -> Tensor:
    """A = softmax(S) of scores (..., i, j), which are sums of so many products."""
    scores = scores / (n_terms.sqrt() if isinstance(n_terms, Tensor) else math.sqrt(n_terms))
    if mask_mode != "none":
        scores = scores + attention_mask(mask_mode, scores.shape[-1], scores)
    if bias is not None:
        scores = scores + bias
    return scores.softmax(dim=-1)


def joint_map(q: Tensor, k: Tensor, mask_mode: MaskMode = "none") -> Tensor:
    """The map between all cells, (b, h, t, l, m, s, k, n). For small windows only."""
    scores = einsum(JOINT_SCORE, q, k) / math.sqrt(q.shape[-1])
    if mask_mode != "none":
        mask = attention_mask(mask_mode, q.shape[1], scores)
        scores = scores + mask[:, None, None, :, None, None]
    return cast(Tensor, scores.flatten(-3).softmax(dim=-1).unflatten(-1, scores.shape[-3:]))


def shared_map(
    axis: Axis, q: Tensor, k: Tensor, scope: AttentionScope, bias: Tensor | None = None
) -> Tensor:
    """The map of one axis from queries and keys per cell, A_L = softmax(Q_(L) K_(L)^T / sqrt(MTd)):
    two (b, t, l, m, h, d) -> (b, h, N, N), or (b, h, t, N, N) with a causal mask."""
    sizes, (heads, d) = Sizes(*q.shape[1:4]), q.shape[4:]
    if sizes.along(axis) == 1 == k.shape[1 + AXES.index(axis)]:
        return q.new_ones(len(q), heads, 1, 1)
    n_terms = math.prod(sizes.others(axis)) * d
    if scope.has_per_step_maps(axis):
        scores = einsum(per_step_equation(SHARED_SCORE[axis]), q, k).cumsum(dim=2)
        number = torch.arange(1, sizes.steps + 1, device=q.device, dtype=q.dtype)
        return attention_map(scores, (number * (n_terms // sizes.steps))[:, None, None])
    return attention_map(einsum(SHARED_SCORE[axis], q, k), n_terms, scope.mask_of(axis), bias)


def apply_sequential(maps: AttentionMaps, v: Tensor, order: Sequence[Axis] = AXES) -> Tensor:
    """Equation (1): one map after the other. The order does not matter, equation (4), but causal
    maps of location and measurement come after the time map."""
    if "cells" in maps:
        return einsum(JOINT_APPLY, maps["cells"], v)
    for axis in order:
        a = maps[axis]
        if a.shape[-2:] != (1, 1):
            v = einsum(APPLY[axis] if a.ndim == 4 else per_step_equation(APPLY[axis]), a, v)
    return v


def apply_weighted(maps: AttentionMaps, v: Tensor, key_weight: Tensor) -> Tensor:
    """Averages in which a cell counts by its weight (b, s, k, n, h). The sum of the weights is one
    more channel sent through the same maps, so the rows still sum to one."""
    rows = WeighRows.apply(v, key_weight)  # type: ignore[no-untyped-call]
    means: Tensor = NormaliseRows.apply(apply_fused(maps, rows))  # type: ignore[no-untyped-call]
    return means
