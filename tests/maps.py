"""The map between all cells, written out, for tests."""

from torch import Tensor, einsum

from cdsa.nn.attention import FULL_MAP
from cdsa.nn.types import AXES, AttentionMaps


def full_map(maps: AttentionMaps) -> Tensor:
    """Equation (3), the map between all cells: (b, h, t, l, m, s, k, n)."""
    if "cells" in maps:
        return maps["cells"]
    time, *others = (maps[axis] for axis in AXES)
    if all(a.ndim == 4 for a in others):
        return einsum(FULL_MAP, time, *others)
    steps = time.shape[2]
    others = [a if a.ndim == 5 else a.unsqueeze(2).expand(-1, -1, steps, -1, -1) for a in others]
    return einsum("bhts, bhtlk, bhtmn -> bhtlmskn", time, *others)
