"""Masks and fast paths of cross-dimensional attention. Each fast path has its plain equation in
`attention.py`, with the same letters, and a test that compares the two.
"""

import math
from typing import Any

import torch
from torch import Tensor, einsum
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from cdsa.nn.types import AXES, AttentionMaps, MaskMode

HEAD_MULTIPLE = 16
"""Fused attention requires queries, keys and values of one width on a CPU and an even width on
other devices; on a CPU it is fastest at multiples of this."""

MAX_MASK_PAIRS = 1 << 20
"""Up to this number of pairs of cells, the mask of the joint manner is one tensor (4 MiB)."""

MAX_FUSED_COLUMNS = 256
"""Up to this number of columns, the maps of location and measurement are applied as one: one matrix
product of a fair size instead of many tiny ones."""


def attention_mask(mode: MaskMode, steps: int, like: Tensor) -> Tensor:
    """(t, s): zero where step t may attend to step s, minus infinity elsewhere."""
    allowed = torch.ones(steps, steps, dtype=torch.bool, device=like.device)
    if mode == "causal":
        allowed = allowed.tril()
    elif mode == "diagonal" and steps > 1:  # a single step has to attend to itself
        allowed = ~torch.eye(steps, dtype=torch.bool, device=like.device)
    return torch.zeros_like(allowed, dtype=like.dtype).masked_fill(~allowed, -math.inf)


def apply_fused(maps: AttentionMaps, rows: Tensor) -> Tensor:
    """`apply_sequential` for maps (b, h, N, N) and values in another layout, (b, h, s, e, k, n), in
    which each map is one batched product of large matrices: (b, h, t, e, l, m)."""
    time, location, measurement = (maps[axis] for axis in AXES)
    b, heads, _, e, _, _ = rows.shape
    steps, locations, measurements = (maps[axis].shape[2] for axis in AXES)
    rows = rows.reshape(b * heads, rows.shape[2], -1)  # (bh, s, ekn)
    rows = torch.bmm(time.flatten(0, 1), rows)  # (bh, t, ekn)
    columns = location.shape[3] * measurement.shape[3]
    if columns <= MAX_FUSED_COLUMNS or 1 in (location.shape[3], measurement.shape[3]):
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
    return rows.reshape(b, heads, steps, e, locations, measurements)


TO_ROWS, FROM_ROWS = "btlmhe -> bhtelm", "bhtelm -> btlmhe"


class WeighRows(torch.autograd.Function):
    """v (b, t, l, m, h, e) times weights (b, t, l, m, h), and one more channel, the weights, in the
    layout of `apply_fused`: (b, h, t, e + 1, l, m), in one pass over the values."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(v, weight)
        values, weights = einsum(TO_ROWS, v), einsum(TO_ROWS, weight.unsqueeze(-1))
        b, heads, steps, e, *sizes = values.shape
        rows = v.new_empty(b, heads, steps, e + 1, *sizes)
        torch.mul(values, weights.to(v.dtype), out=rows[:, :, :, :-1])
        rows[:, :, :, -1:] = weights
        return rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_rows: Tensor) -> tuple[Tensor, Tensor]:
        v, weight = ctx.saved_tensors
        grad = einsum(FROM_ROWS, grad_rows)
        grad_weight = (grad[..., :-1] * v).sum(-1) + grad[..., -1]
        return grad[..., :-1] * weight.unsqueeze(-1).to(v.dtype), grad_weight.to(weight.dtype)


class NormaliseRows(torch.autograd.Function):
    """Sums (b, h, t, e + 1, l, m) by the last of their channels, the sum of the weights:
    (b, t, l, m, h, e)."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        means = rows[:, :, :, :-1] / rows[:, :, :, -1:]
        ctx.save_for_backward(means, rows[:, :, :, -1:].clone())
        return einsum(FROM_ROWS, means).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_means: Tensor) -> Tensor:
        means, total = ctx.saved_tensors
        b, heads, steps, e, *sizes = means.shape
        grad: Tensor = means.new_empty(b, heads, steps, e + 1, *sizes)
        sums = torch.div(einsum(TO_ROWS, grad_means), total, out=grad[:, :, :, :-1])
        torch.sum(sums * means, dim=3, keepdim=True, out=grad[:, :, :, -1:]).neg_()
        return grad


def joint_attention(q: Tensor, k: Tensor, v: Tensor, mask_mode: MaskMode = "none") -> Tensor:
    """`joint_map` applied to `v` without building it: memory grows with cells, not with pairs.

    q (b, t, l, m, h, d), k (b, s, k, n, h, d), v (b, s, k, n, h, e) -> (b, t, l, m, h, e).
    """
    steps, sizes, d, e = q.shape[1], q.shape[1:4], q.shape[-1], v.shape[-1]
    width = math.ceil(max(d, e) / HEAD_MULTIPLE) * HEAD_MULTIPLE
    q, k, v = (_cell_rows(F.pad(x, (0, width - x.shape[-1]))) for x in (q, k, v))
    scale, cells = 1 / math.sqrt(d), q.shape[2] // steps
    if mask_mode == "none":
        y = F.scaled_dot_product_attention(q, k, v, scale=scale)
    else:  # all at once or step by step; all cells of a step have the same row of the mask
        at_once = steps if q.shape[2] * k.shape[2] <= MAX_MASK_PAIRS else 1
        mask = attention_mask(mask_mode, steps, q).repeat_interleave(cells, 1)  # (t, skn)
        parts = []
        for rows, row_mask in zip(q.split(at_once * cells, 2), mask.split(at_once), strict=True):
            cell_mask = row_mask.unsqueeze(1).expand(-1, cells, -1).flatten(0, 1)
            parts.append(F.scaled_dot_product_attention(rows, k, v, cell_mask, scale=scale))
        y = torch.cat(parts, dim=2)
    return einsum("bhtlme -> btlmhe", y[..., :e].unflatten(2, sizes))


def _cell_rows(x: Tensor) -> Tensor:
    """One row per cell: (b, t, l, m, h, d) -> (b, h, tlm, d)."""
    return einsum("btlmhd -> bhtlmd", x).flatten(2, 4)
