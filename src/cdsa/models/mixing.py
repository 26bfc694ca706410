"""Mixing: what cells say, averaged by maps. Letters: `axes.py`."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, einsum
from torch.nn import functional as F

from cdsa.models.axes import AXES, Axis, Maps, Sight
from cdsa.models.maps import may_look

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


def joint_mix(q: Tensor, k: Tensor, v: Tensor, sight: Sight = "all") -> Tensor:
    """`joint_map` applied to `v` without ever building it: memory grows with cells, not pairs.

    q (b, t, l, m, h, d), k (b, s, k, n, h, d), v (b, s, k, n, h, e) -> (b, t, l, m, h, e).
    """
    steps, shape, scale, wide = q.shape[1], q.shape[1:4], 1 / math.sqrt(q.shape[-1]), v.shape[-1]
    if q.device.type != "meta":  # where operations are counted, as the equations have them
        width = math.ceil(max(q.shape[-1], wide) / WIDTH) * WIDTH
        q, k, v = (F.pad(part, (0, width - part.shape[-1])) for part in (q, k, v))
    q, k, v = _rows(q), _rows(k), _rows(v)
    cells, pairs = q.shape[2] // steps, q.shape[2] * k.shape[2]
    if sight == "all":
        y = F.scaled_dot_product_attention(q, k, v, scale=scale)
    elif pairs <= PAIRS_AT_ONCE or q.device.type == "meta":
        seen = may_look(sight, steps, q).repeat_interleave(cells, 0).repeat_interleave(cells, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)
    else:  # step by step: all cells of a step see the same, so one row says it for all of them
        seen = may_look(sight, steps, q).repeat_interleave(cells, 1)  # (t, cells looked at)
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


def mix_in_turn(maps: Maps, v: Tensor, order: Sequence[Axis] = AXES) -> Tensor:
    """Apply one map after the other; all were made from the same input, so any order will do.

    Maps of what has been so far belong to the step that looks, so there time comes first.
    """
    for axis in order:
        a = maps[axis]
        if a.shape[-2:] != (1, 1):
            v = einsum(MIX[axis] if a.ndim == 4 else MIX_SO_FAR[axis], a, v)
    return v


def mix_at_once(maps: Maps, v: Tensor) -> Tensor:
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


def mix_weighted(maps: Maps, v: Tensor, weight: Tensor) -> Tensor:
    """Averages over what carries information: a cell looked at counts with its `weight`, positive
    and (b, s, k, n, h). What the weights come to is one more channel sent through the same maps,
    and rows still sum to one."""
    weight = weight.unsqueeze(-1)
    mixed = mix_at_once(maps, torch.cat([v * weight, weight], dim=-1))
    return mixed[..., :-1] / mixed[..., -1:]
