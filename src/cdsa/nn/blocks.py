"""Layers on top of each other (the paper, section 3.3), whatever they attend to.

An attention here is the cross-dimensional one on cells, or the ordinary one on rows of the
independent manner.
"""

from collections.abc import Callable
from typing import Protocol, cast

from torch import Tensor, nn

from cdsa.nn.rollout import LayerTrace, residual_share
from cdsa.nn.types import AttentionMaps

Make = Callable[[], nn.Module]


class Attention(Protocol):
    """A module in which x looks at y, or at itself."""

    def __call__(self, x: Tensor, y: Tensor | None = None) -> Tensor: ...

    def maps(self, x: Tensor, y: Tensor | None = None) -> AttentionMaps: ...


Attend = Callable[[], Attention]


class Block(nn.Module):
    """Attention, then attention at a memory if there is one, then feed-forward; after each the
    residual and a norm. The shape of x is kept."""

    def __init__(
        self, attention: Attend, across: Attend | None, feed_forward: Make, norm: Make
    ) -> None:
        super().__init__()
        self.attention: Attention = attention()
        self.norm = norm()
        if across is not None:
            self.across: Attention = across()
            self.across_norm = norm()
        self.feed_forward = feed_forward()
        self.feed_forward_norm = norm()

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        x = self.norm(x + self.attention(x))
        if memory is not None:
            x = self.across_norm(x + self.across(x, memory))
        return cast(Tensor, self.feed_forward_norm(x + self.feed_forward(x)))

    def trace(self, x: Tensor) -> LayerTrace:
        """How its attention looks around."""
        return LayerTrace(self.attention.maps(x), residual_share(x, self.attention(x)))

    def maps(self, x: Tensor, memory: Tensor | None = None) -> list[AttentionMaps]:
        """The maps of its attention and, with a memory, of its attention at that."""
        found = [self.attention.maps(x)]
        if memory is not None:
            found.append(self.across.maps(self.norm(x + self.attention(x)), memory))
        return found


class Stack(nn.Module):
    """So many blocks; with `bare_last` the last one is only its attention, without residual and
    norm: what comes out is what was looked at, not the input carried through."""

    def __init__(
        self,
        layers: int,
        attention: Attend,
        feed_forward: Make,
        norm: Make,
        *,
        across: Attend | None = None,
        bare_last: bool = False,
    ) -> None:
        super().__init__()
        full = layers - 1 if bare_last else layers
        self.blocks = nn.ModuleList(
            Block(attention, across, feed_forward, norm) for _ in range(full)
        )
        self.last: Attention | None = attention() if bare_last else None

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        for block in self.blocks:
            x = block(x, memory)
        return x if self.last is None else self.last(x)

    def maps(self, x: Tensor, memory: Tensor | None = None) -> list[AttentionMaps]:
        """The maps of every attention, in the order they are applied."""
        found: list[AttentionMaps] = []
        for block in self.blocks:
            found += cast(Block, block).maps(x, memory)
            x = block(x, memory)
        return found if self.last is None else [*found, self.last.maps(x)]

    def traces(self, x: Tensor) -> list[LayerTrace]:
        """How every layer looks around, without a memory."""
        found: list[LayerTrace] = []
        for block in self.blocks:
            found.append(cast(Block, block).trace(x))
            x = block(x)
        if self.last is not None:  # nothing is carried through
            found.append(LayerTrace(self.last.maps(x), x.new_zeros(x.shape[:-1])))
        return found


def feed_forward(width: int, hidden: int, out: int | None = None) -> nn.Sequential:
    """Two fully connected layers on the last axis."""
    return nn.Sequential(
        nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width if out is None else out)
    )
