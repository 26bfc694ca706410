"""The independent manner (the paper, section 3.2.1): three streams, fused after their last layers.

Each stream is an ordinary transformer whose words are the positions of one axis; a word's vector is
all that the other two axes and the channels hold there (X_T, X_L and X_M of the paper).

Letters: b window, i word, j word looked at, w channels of a word, h head, d and e channels of a
head; t time, l location, m measurement, c channels of a cell.
"""

import math
from functools import partial
from typing import cast

import torch
from torch import Tensor, einsum, nn

from cdsa.nn.attention import attention_mask
from cdsa.nn.blocks import Stack, feed_forward
from cdsa.nn.types import (
    AXES,
    AttentionConfig,
    AttentionMaps,
    Axis,
    MaskMode,
    Sizes,
)

# Cells as rows of words, the axis first, and back again.
ROWS: dict[Axis, str] = {
    "time":        "btlmc -> btlmc",
    "location":    "btlmc -> bltmc",
    "measurement": "btlmc -> bmtlc",
}  # fmt: skip


CELLS: dict[Axis, str] = {
    "time":        "btlmc -> btlmc",
    "location":    "bltmc -> btlmc",
    "measurement": "bmtlc -> btlmc",
}  # fmt: skip


class RowAttention(nn.Module):
    """Words look at words: (b, i, w) and (b, j, w') -> (b, i, w)."""

    def __init__(
        self,
        axis: Axis,
        width: int,
        memory_width: int,
        config: AttentionConfig,
        mask_mode: MaskMode,
    ) -> None:
        super().__init__()
        own, heads = config.of(axis), config.n_heads
        self.axis: Axis = axis
        self.mask_mode: MaskMode = mask_mode
        self.heads = heads
        self.query = nn.Linear(width, heads * own.d_qk, bias=False)
        self.key = nn.Linear(memory_width, heads * own.d_qk, bias=False)
        self.value = nn.Linear(memory_width, heads * own.d_v)
        self.out = nn.Linear(heads * own.d_v, width)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        y = x if y is None else y
        v = self.value(y).unflatten(-1, (self.heads, -1))  # (b, j, h, e)
        mixed = einsum("bhij, bjhe -> bihe", self.maps(x, y)[self.axis], v)
        return cast(Tensor, self.out(mixed.flatten(-2)))

    def maps(self, x: Tensor, y: Tensor | None = None) -> AttentionMaps:
        """The map of the stream's axis: (b, h, i, j)."""
        q = self.query(x).unflatten(-1, (self.heads, -1))
        k = self.key(x if y is None else y).unflatten(-1, (self.heads, -1))
        scores = einsum("bihd, bjhd -> bhij", q, k) / math.sqrt(q.shape[-1])
        if self.mask_mode != "all":
            scores = scores + attention_mask(self.mask_mode, scores.shape[-1], scores)
        return {self.axis: scores.softmax(dim=-1)}


class Stream(nn.Module):
    """The stream of one axis: (b, t, l, m, c) -> (b, t, l, m, c); a memory may have other steps."""

    def __init__(
        self,
        axis: Axis,
        config: AttentionConfig,
        sizes: Sizes,
        memory: Sizes | None = None,
        *,
        mask_mode: MaskMode = "all",
        bare_last: bool = False,
    ) -> None:
        super().__init__()
        self.axis: Axis = axis
        own, width = config.of(axis), math.prod(sizes.beside(axis)) * config.d_model
        memory_width = 0 if memory is None else math.prod(memory.beside(axis)) * config.d_model
        self.stack = Stack(
            own.n_layers,
            partial(
                RowAttention, axis, width, width, config, mask_mode if axis == "time" else "all"
            ),
            partial(feed_forward, width, own.d_ff),
            partial(nn.LayerNorm, width),
            across=partial(RowAttention, axis, width, memory_width, config, "all")
            if memory
            else None,
            bare_last=bare_last,
        )

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        y = self.stack(self._rows(x), None if memory is None else self._rows(memory))
        shape = einsum(ROWS[self.axis], x).shape[2:]
        return einsum(CELLS[self.axis], y.unflatten(-1, shape))

    def maps(self, x: Tensor, memory: Tensor | None = None) -> list[AttentionMaps]:
        """The maps of the stream's layers."""
        return self.stack.maps(self._rows(x), None if memory is None else self._rows(memory))

    def _rows(self, x: Tensor) -> Tensor:
        return einsum(ROWS[self.axis], x).flatten(2)  # (b, i, w)


class Streams(nn.Module):
    """The three streams and the weights they are fused with.

    In a decoder (`sight` of the past) a word of the location and measurement streams holds all
    steps at once and would pass the future on; these two get `start`, what was known before.
    """

    def __init__(
        self,
        config: AttentionConfig,
        sizes: Sizes,
        memory: Sizes | None = None,
        *,
        mask_mode: MaskMode = "all",
        bare_last: bool = False,
        fused: bool = True,
    ) -> None:
        super().__init__()
        self.streams = nn.ModuleDict(
            {
                axis: Stream(axis, config, sizes, memory, mask_mode=mask_mode, bare_last=bare_last)
                for axis in AXES
            }
        )
        if fused:
            self.fusion = nn.ParameterDict({axis: torch.tensor(1 / len(AXES)) for axis in AXES})

    def forward(
        self, x: Tensor, memory: dict[Axis, Tensor] | None = None, start: Tensor | None = None
    ) -> Tensor:
        return self.fuse(self.apart(x, memory, start))

    def apart(
        self, x: Tensor, memory: dict[Axis, Tensor] | None = None, start: Tensor | None = None
    ) -> dict[Axis, Tensor]:
        """What each stream says on its own."""
        return {
            axis: self.streams[axis](
                x if start is None or axis == "time" else start,
                None if memory is None else memory[axis],
            )
            for axis in AXES
        }

    def fuse(self, parts: dict[Axis, Tensor]) -> Tensor:
        """X' = a_T X'_T + a_L X'_L + a_M X'_M."""
        return torch.stack([self.fusion[axis] * part for axis, part in parts.items()]).sum(0)

    def maps(
        self, x: Tensor, memory: dict[Axis, Tensor] | None = None, start: Tensor | None = None
    ) -> dict[Axis, list[AttentionMaps]]:
        """The maps of every layer of every stream."""
        return {
            axis: cast(Stream, self.streams[axis]).maps(
                x if start is None or axis == "time" else start,
                None if memory is None else memory[axis],
            )
            for axis in AXES
        }
