"""The independent manner (the paper, section 3.2.1): three streams, fused after their last layers.

Each stream is an ordinary transformer over the positions of one axis. The vector of a position
holds all that the other two axes and the channels have there (X_T, X_L and X_M of the paper). The
streams are whole stacks of layers of their own depth, so this manner is not an attention layer.

Letters: `attention.py`.
"""

import math
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from cdsa.nn.attention import AttentionScope, AxisAttention
from cdsa.nn.blocks import Block, Stack, feed_forward
from cdsa.nn.rollout import LayerTrace
from cdsa.nn.types import AXES, AttentionConfig, Axis


class Stream(nn.Module):
    """The stream of one axis: (b, t, l, m, c) -> (b, t, l, m, c). A memory may have other steps."""

    def __init__(
        self, axis: Axis, config: AttentionConfig, scope: AttentionScope, *, last_bare: bool
    ) -> None:
        super().__init__()
        self.dim = 1 + AXES.index(axis)
        memory = scope.memory_sizes
        width = math.prod(scope.query_sizes.others(axis)) * config.d_model
        memory_width = math.prod(memory.others(axis)) * config.d_model if memory else 0
        mask = scope._replace(memory_sizes=None).mask_of(axis)
        attend = partial(AxisAttention, axis, width, width, config, mask)
        across = partial(AxisAttention, axis, width, memory_width, config, "none")
        transform = partial(feed_forward, width, config.of(axis).d_ff)
        norm = partial(nn.LayerNorm, width)
        block = partial(Block, attend, across if memory else None, transform, norm)
        self.stack = Stack(config.of(axis).n_layers, block, attend if last_bare else None)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        y = self.stack(self.rows(x), None if memory is None else self.rows(memory))
        cells = y.unflatten(-1, x.movedim(self.dim, 1).shape[2:])
        return cast(Tensor, cells.movedim(1, self.dim))

    def rows(self, x: Tensor) -> Tensor:
        """One row per position, (b, i, width)."""
        return x.movedim(self.dim, 1).flatten(2)


class Streams(nn.Module):
    """The three streams and the weights that fuse them.

    In a causal decoder a row of the location and measurement streams holds all steps at once and
    would leak the future. These two streams get `start`, what was known before the first step.
    """

    def __init__(
        self,
        config: AttentionConfig,
        scope: AttentionScope,
        *,
        last_bare: bool = False,
        fused: bool = True,
    ) -> None:
        super().__init__()
        self.streams = nn.ModuleDict(
            {axis: Stream(axis, config, scope, last_bare=last_bare) for axis in AXES}
        )
        if fused:
            self.fusion = nn.ParameterDict({axis: torch.tensor(1 / len(AXES)) for axis in AXES})

    def forward(
        self, x: Tensor, memory: dict[Axis, Tensor] | None = None, start: Tensor | None = None
    ) -> Tensor:
        """X' = a_T X'_T + a_L X'_L + a_M X'_M."""
        outputs = self.outputs(x, memory, start)
        return torch.stack([self.fusion[axis] * y for axis, y in outputs.items()]).sum(0)

    def outputs(
        self, x: Tensor, memory: dict[Axis, Tensor] | None = None, start: Tensor | None = None
    ) -> dict[Axis, Tensor]:
        return {
            axis: self.streams[axis](
                x if start is None or axis == "time" else start,
                None if memory is None else memory[axis],
            )
            for axis in AXES
        }

    def traces(self, x: Tensor) -> list[LayerTrace]:
        """The trace of every layer, one stream after the other."""
        streams = (cast(Stream, stream) for stream in self.streams.values())
        return [trace for stream in streams for trace in stream.stack.traces(stream.rows(x))]
