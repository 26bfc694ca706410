"""Layers on top of each other (the paper, section 3.3).

The attention of a layer is cross-dimensional, on cells, or conventional, on the rows of a stream of
the independent manner.
"""

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from cdsa.nn.attention import Attention, AxisAttention
from cdsa.nn.rollout import LayerTrace, residual_share

MakeModule = Callable[[], nn.Module]
MakeAttention = Callable[[], Attention | AxisAttention]


class Block(nn.Module):
    """Self-attention, cross-attention to a memory if there is one, and feed-forward, each followed
    by the residual and a norm. The shape of x stays the same."""

    def __init__(
        self,
        attention: MakeAttention,
        cross_attention: MakeAttention | None,
        feed_forward: MakeModule,
        norm: MakeModule,
    ) -> None:
        super().__init__()
        self.attention = attention()
        self.norm = norm()
        if cross_attention is not None:
            self.cross_attention = cross_attention()
            self.cross_norm = norm()
        self.feed_forward = feed_forward()
        self.feed_forward_norm = norm()

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        x = self.norm(x + self.attention(x, x))
        if memory is not None:
            x = self.cross_norm(x + self.cross_attention(x, memory))
        return cast(Tensor, self.feed_forward_norm(x + self.feed_forward(x)))

    def trace(self, x: Tensor) -> LayerTrace:
        return LayerTrace(self.attention.maps(x, x), residual_share(x, self.attention(x, x)))


class Stack(nn.Module):
    """Blocks one after the other. If `last` is given, the last layer is this attention alone,
    without residual and norm: it passes on what it attends to and not its input."""

    def __init__(
        self, n_layers: int, block: Callable[[], Block], last: MakeAttention | None = None
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(block() for _ in range(n_layers - 1 if last else n_layers))
        self.last = last() if last else None

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        for block in self.blocks:
            x = block(x, memory)
        return x if self.last is None else self.last(x, x)

    def traces(self, x: Tensor) -> list[LayerTrace]:
        traces: list[LayerTrace] = []
        for block in self.blocks:
            traces.append(cast(Block, block).trace(x))
            x = block(x)
        if self.last is not None:
            traces.append(LayerTrace(self.last.maps(x, x), x.new_zeros(x.shape[:-1])))
        return traces


def feed_forward(width: int, hidden: int, out: int | None = None) -> nn.Sequential:
    """Two fully connected layers on the last axis."""
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out or width))
