"""The network users get by default: any number of steps, places and measurements.

Cross-dimensional attention in the shared manner, with three things the paper's has not: each map
leans to what is near (`priors.py`), only what was measured counts fully (`mix_weighted`), and each
cell is told the easy answer (`surroundings.py`). No weight belongs to a step or a place; those of
a measurement are found by its name.

Letters: b window of the batch, t time, l location, m measurement, c channels of a cell, h head,
q quantile.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, einsum, nn
from torch.nn import functional as F

from cdsa.errors import ConfigError
from cdsa.models.attention import (
    AttentionConfig,
    CrossDimensionalAttention,
    Maps,
    Sizes,
    refuse_below_one,
)
from cdsa.models.priors import Leanings
from cdsa.models.quantiles import FIRST_STEP, MIDDLE, QUANTILES, in_order
from cdsa.models.stack import feed_forward
from cdsa.models.surroundings import Surroundings, easy_answer

TOLD = 7
"""What a cell is told beside what its neighbours say: its value, whether it was observed, the
straight line, how near the last and the next observation are, the usual value, and whether that is
known."""
REACHES = (2.0, 6.0, 20.0)
"""How fast the weight of neighbours falls at first, per unit of distance: from far to near."""
ALIKE = 2.0
"""What a full resemblance adds to the logarithm of their weight at first."""
LEAST = 1e-6
"""Weight of the farthest of them, beside one of the nearest: somebody is always listened to."""
UNSEEN = -3.0
"""The first weight of cells that were not observed, before a sigmoid: a twentieth."""


@dataclass(frozen=True, kw_only=True)
class GeographicConfig:
    """Widths of the default network."""

    situated: ClassVar[bool] = True
    """It is told where and when its cells are."""

    channels: int = 48
    """Size of the vector that stands for one cell between layers."""

    heads: int = 8
    """Maps per axis and layer; `channels` must be a multiple of it."""

    layers: int = 6
    """Of attention and feed-forward, one on top of the other."""

    d: int = 2
    """Query and key channels of a head per cell; more only costs memory."""

    feed_forward: int = 96
    """Width of the feed-forward part."""

    def __post_init__(self) -> None:
        refuse_below_one(self, "channels", "heads", "layers", "d", "feed_forward")
        if self.channels % self.heads:
            nearest = self.heads * -(-self.channels // self.heads)
            raise ConfigError(
                f"channels={self.channels} does not split into heads={self.heads}; the next size "
                f"that does is channels={nearest}"
            )

    def build(self, sizes: Sizes, horizon: int, clocks: int) -> nn.Module:
        """The network that knows so many measurements; what is ahead is filled like any gap."""
        return Geographic(self, sizes, clocks)

    @property
    def attention(self) -> AttentionConfig:
        """The attention of one layer."""
        return AttentionConfig(
            manner="shared",
            channels=self.channels,
            heads=self.heads,
            d=self.d,
            v=self.channels // self.heads,
        )


class Block(nn.Module):
    """Attention and feed-forward, each on a normed copy and added to what was there."""

    def __init__(self, config: GeographicConfig, sizes: Sizes) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.channels)
        self.attention = CrossDimensionalAttention(config.attention, sizes)
        self.leanings = Leanings(config.heads, sizes.measurements)
        self.unseen = nn.Parameter(torch.full((config.heads,), UNSEEN))
        self.feed_forward_norm = nn.LayerNorm(config.channels)
        self.feed_forward = feed_forward(config.channels, config.feed_forward)

    def forward(self, x: Tensor, observed: Tensor, around: Surroundings) -> Tensor:
        priors = self.leanings(x.shape[1], around)
        weight = self.weight(observed)
        x = x + self.attention(self.norm(x), priors=priors, weight=weight)
        return cast(Tensor, x + self.feed_forward(self.feed_forward_norm(x)))

    def weight(self, observed: Tensor) -> Tensor:
        """One for what was observed, a small learnt weight for the rest: (b, t, l, m, h)."""
        return torch.where(observed.unsqueeze(-1), 1.0, self.unseen.sigmoid())

    def maps(self, x: Tensor, around: Surroundings) -> Maps:
        """The maps of its attention, before observed cells are given more weight."""
        return self.attention.maps(self.norm(x), priors=self.leanings(x.shape[1], around))


class Neighbours(nn.Module):
    """What other places say at the same moment: means in which those that are near or alike count
    more, one for each reach r. (b, t, l, m) -> (b, t, l, m, r), zero where nobody reports."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(REACHES).expm1().log())
        self.alike = nn.Parameter(torch.full((len(REACHES),), ALIKE).expm1().log())

    def forward(self, values: Tensor, observed: Tensor, around: Surroundings) -> Tensor:
        score = F.softplus(self.alike).unflatten(0, (-1, 1, 1)) * around.likeness.unsqueeze(-3)
        if around.distance is not None:
            score = score - F.softplus(self.slope).unflatten(0, (-1, 1, 1)) * around.distance
        own = torch.eye(score.shape[-1], dtype=torch.bool, device=score.device)
        score = score.masked_fill(own, -torch.inf)
        top = score.amax(dim=-1, keepdim=True).clamp(min=-1e30)  # of a place alone in the world
        weight = ((score - top).exp() + LEAST).masked_fill(own, 0.0)
        weight = weight.expand(len(values), *weight.shape[-3:])  # (b, r, l, k)
        told = einsum("brlk, btkm -> btlmr", weight, values)
        known = einsum("brlk, btkm -> btlmr", weight, observed.to(values.dtype))
        return told / known.clamp(min=LEAST / 10)


class Geographic(nn.Module):
    """Fills windows of any size: `forward(values, observed, around) -> (b, t, l, m, 1 + q)`, the
    guess and its quantiles. Both are told as differences from the easy answer: the straight line
    or, of a series that was not observed at all, what its neighbours say."""

    def __init__(self, config: GeographicConfig, sizes: Sizes, clock: int) -> None:
        super().__init__()
        self.neighbours = Neighbours()
        self.embed = nn.Linear(TOLD + len(REACHES) + clock, config.channels)
        self.kind = nn.Parameter(torch.randn(sizes.measurements, config.channels) * 0.3)
        self.blocks = nn.ModuleList(Block(config, sizes) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.channels)
        self.answer = feed_forward(config.channels, config.channels, 1 + len(QUANTILES))
        last = cast(nn.Linear, self.answer[-1])
        with torch.no_grad():  # at first the straight line, and quantiles close around it
            last.weight.mul_(0.3)
            last.bias.fill_(FIRST_STEP)
            last.bias[[0, 1 + MIDDLE]] = 0.0

    def forward(self, values: Tensor, observed: Tensor, around: Surroundings) -> Tensor:
        x, easy = self._embedded(values, observed, around)
        for block in self.blocks:
            x = block(x, observed, around)
        guess, raw = self.answer(self.norm(x)).split([1, len(QUANTILES)], dim=-1)
        return torch.cat([guess, in_order(raw)], dim=-1) + easy.unsqueeze(-1)

    def maps(self, values: Tensor, observed: Tensor, around: Surroundings) -> list[Maps]:
        """The maps of every layer, before observed cells are given more weight."""
        x, _ = self._embedded(values, observed, around)
        found = []
        for block in self.blocks:
            found.append(cast(Block, block).maps(x, around))
            x = block(x, observed, around)
        return found

    def _embedded(
        self, values: Tensor, observed: Tensor, around: Surroundings
    ) -> tuple[Tensor, Tensor]:
        """Cells as vectors (b, t, l, m, c), and the easy answer."""
        values = torch.where(observed, values, 0.0)  # nothing behind a hidden cell can get in
        easy = easy_answer(values, observed)
        known = ~around.usual.isnan()
        usual = torch.where(known, around.usual, 0.0)
        nearby = self.neighbours(values, observed, around)
        told = [values, observed.to(values.dtype), *easy, usual, known.to(values.dtype)]
        told += nearby.unbind(-1)
        clock = around.clock.unflatten(1, (-1, 1, 1)).expand(*values.shape, -1)
        x = self.embed(torch.cat([torch.stack(told, dim=-1), clock], dim=-1))
        silent = ~observed.any(dim=1, keepdim=True)
        answer = torch.where(silent, nearby[..., len(REACHES) // 2], easy.line)
        return x + self.kind[around.kinds], answer
