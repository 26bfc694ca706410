"""The network users get by default: any number of steps, places and measurements.

Cross-dimensional attention in the shared manner, with what the paper's has not: each map leans to
what is near or alike (`priors.py`), only what was measured counts fully (`mix_weighted`), each cell
is told the easy answers (`surroundings.py`, `kriging.py`), and the answer is a guess with its
quantiles. No weight belongs to a step or a place; those of a measurement are found by its name.

Letters: b window of the batch, t time, l location, m measurement, c channels of a cell, h head,
q quantile.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn

from cdsa.errors import ConfigError
from cdsa.nn.attention import CrossDimensionalAttention
from cdsa.nn.attention_bias import Leanings
from cdsa.nn.blocks import feed_forward
from cdsa.nn.context import Surroundings
from cdsa.nn.interpolation import easy_answer
from cdsa.nn.kriging_layer import Kriging
from cdsa.nn.quantile_head import FIRST_STEP, MIDDLE, QUANTILES, in_order
from cdsa.nn.rollout import Look, kept_of, one_cell, rolled_back, to_sum
from cdsa.nn.types import AttentionConfig, Maps, Sizes, refuse_below_one

TOLD = 9
"""What a cell is told: its value, whether it was observed, the straight line, how near the last and
the next observation are, the usual value, whether that is known, and what kriging says: of the
lines, and of how unusual they are."""
MIX = (3.0, 0.0, 0.0)
"""The first shares, before a softmax, of the easy answers: the straight line and the two of
kriging. A network that starts from kriging fits the time it learns from better, and others worse;
one that starts from the line soon learns where not to trust it."""
BOLD = -2.0
"""How far at first, before a sigmoid, a network departs from kriging where there is no sensor."""
UNSEEN = -3.0
"""The first weight of cells that were not observed, before a sigmoid: a twentieth."""


@dataclass(frozen=True, kw_only=True)
class GeographicConfig:
    """Widths of the default network."""

    situated: ClassVar[bool] = True
    """It is told where and when its cells are."""

    fits_any: ClassVar[bool] = True

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
        x = x + self.attention(
            self.norm(x),
            priors=self.leanings(x.shape[1], around),
            weight=self.weight(observed),
            present=present(observed),
        )
        return cast(Tensor, x + self.feed_forward(self.feed_forward_norm(x)))

    def weight(self, observed: Tensor) -> Tensor:
        """One for what was observed, a small learnt weight for the rest of what places that report
        anything have, and none for other places: (b, t, l, m, h)."""
        there = present(observed).unflatten(1, (1, -1, 1, 1))
        return torch.where(observed.unsqueeze(-1), 1.0, self.unseen.sigmoid() * there)

    def look(self, x: Tensor, observed: Tensor, around: Surroundings) -> Look:
        """How its attention looks around."""
        weight, priors = self.weight(observed), self.leanings(x.shape[1], around)
        told: dict[str, Any] = {"priors": priors, "present": present(observed)}
        added = self.attention(self.norm(x), weight=weight, **told)
        return Look(self.attention.maps(self.norm(x), **told), kept_of(x, added), weight)

    def maps(self, x: Tensor, observed: Tensor, around: Surroundings) -> Maps:
        """The maps of its attention, before observed cells are given more weight."""
        return self.attention.maps(
            self.norm(x),
            priors=self.leanings(x.shape[1], around),
            present=present(observed),
        )


def present(observed: Tensor) -> Tensor:
    """True for places that report anything in a window, (b, l), or for all if none does.

    The others are asked for and ask, but nobody listens to them: what is said of a place does not
    depend on which other places without a sensor are asked for.
    """
    there = observed.any(dim=3).any(dim=1)
    return there | ~there.any(dim=1, keepdim=True)


class Answers(NamedTuple):
    """What is easily said of each cell, of which a network tells the difference."""

    values: Tensor
    """(b, t, l, m, 3): in the order of `MIX`."""

    there: Tensor
    """Whether it can be said at all."""

    nowhere: Tensor
    """True in a series that nothing is known of, (b, t, l, m)."""

    def mixed(self, weight: Tensor) -> Tensor:
        """One of all that are there, by weights before a softmax; (b, t, l, m)."""
        return (weight.masked_fill(~self.there, -torch.inf).softmax(dim=-1) * self.values).sum(-1)


class Geographic(nn.Module):
    """Fills windows of any size: `forward(values, observed, around) -> (b, t, l, m, 1 + q)`, the
    guess and its quantiles. Both are told as differences from the easy answers: a mix of the
    straight line and of what kriging says, of every cell its own. Where nothing was ever measured
    the difference counts for less, as much as it is learnt to be of use."""

    in_parts = True
    """Windows of a batch know nothing of each other: each core may take some of them."""

    def __init__(self, config: GeographicConfig, sizes: Sizes, clock: int) -> None:
        super().__init__()
        self.nearby = Kriging(sizes.measurements, alike=False)
        self.unusual = Kriging(sizes.measurements, alike=True)
        self.mix = nn.Parameter(torch.tensor(MIX).repeat(sizes.measurements, 1))
        self.bold = nn.Parameter(torch.full((sizes.measurements,), BOLD))
        self.embed = nn.Linear(TOLD + clock, config.channels)
        self.kind = nn.Parameter(torch.randn(sizes.measurements, config.channels) * 0.3)
        self.blocks = nn.ModuleList(Block(config, sizes) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.channels)
        self.sway = nn.Linear(config.channels, len(MIX))
        self.answer = feed_forward(config.channels, config.channels, 1 + len(QUANTILES))
        last = cast(nn.Linear, self.answer[-1])
        with torch.no_grad():  # at first the easy answers, and quantiles close around them
            last.weight.mul_(0.3)
            last.bias.fill_(FIRST_STEP)
            last.bias[[0, 1 + MIDDLE]] = 0.0
            self.sway.weight.mul_(0.1)
            self.sway.bias.zero_()

    def forward(self, values: Tensor, observed: Tensor, around: Surroundings) -> Tensor:
        x, answers = self._embedded(values, observed, around)
        for block in self.blocks:
            x = block(x, observed, around)
        x = self.norm(x)
        guess, raw = self.answer(x).split([1, len(QUANTILES)], dim=-1)
        quantiles = in_order(raw)
        easy = answers.mixed(self.mix[around.kinds] + self.sway(x))
        middle = quantiles[..., MIDDLE : MIDDLE + 1]
        bold = torch.where(answers.nowhere, self.bold[around.kinds].sigmoid(), 1.0).unsqueeze(-1)
        told = torch.cat([bold * guess, quantiles - (1 - bold) * middle], dim=-1)
        return told + easy.unsqueeze(-1)

    def reasons(
        self, values: Tensor, observed: Tensor, around: Surroundings, cell: tuple[int, int, int]
    ) -> Tensor:
        """The shares that observed cells have in the guess of one cell, of a single window: (1, t,
        l, m), which sum to one, or to none if nothing was observed.

        The guess is an easy answer and a difference. An easy answer is linear in what was observed:
        its weights say where it comes from. So do the maps of the difference, rolled back; cells
        that were not observed knew their easy answers. The two parts count by their size.
        """
        values = torch.where(observed, values, 0.0).requires_grad_()
        with torch.enable_grad():
            x, answers = self._embedded(values, observed, around)
            start = x.detach()
            with torch.no_grad():
                looks = []
                for block in self.blocks:
                    looks.append(cast(Block, block).look(start, observed, around))
                    start = block(start, observed, around)
                told = self.norm(start)
                mix = self.mix[around.kinds] + self.sway(told)
                difference = self.answer(told)[(0, *cell, 0)].abs()
                if answers.nowhere[(0, *cell)]:
                    difference = difference * self.bold[around.kinds[cell[2]]].sigmoid()
            easy = answers.mixed(mix)
            asked = one_cell(easy, cell)
            with torch.no_grad():
                share = rolled_back(looks, asked)
                unseen = share * ~observed
            direct = torch.autograd.grad((easy * asked).sum(), values, retain_graph=True)[0]
            through = torch.autograd.grad((easy * unseen).sum(), values)[0].abs()
        with torch.no_grad():
            size = (direct * values).abs().sum()
            easily = size / (size + difference).clamp(min=1e-12)
            network = to_sum(share * observed + to_sum(through, unseen.sum()), torch.ones(()))
            direct = to_sum(direct.abs(), torch.ones(()))
            return to_sum(easily * direct + (1 - easily) * network, torch.ones(()))

    def maps(self, values: Tensor, observed: Tensor, around: Surroundings) -> list[Maps]:
        """The maps of every layer, before observed cells are given more weight."""
        x, _ = self._embedded(values, observed, around)
        found = []
        for block in self.blocks:
            found.append(cast(Block, block).maps(x, observed, around))
            x = block(x, observed, around)
        return found

    def _embedded(
        self, values: Tensor, observed: Tensor, around: Surroundings
    ) -> tuple[Tensor, "Answers"]:
        """Cells as vectors (b, t, l, m, c), and the easy answers."""
        values = torch.where(observed, values, 0.0)  # nothing behind a hidden cell can get in
        easy = easy_answer(values, observed)
        known = ~around.usual.isnan()
        usual = torch.where(known, around.usual, 0.0)
        nearby = self.nearby(easy.line, easy.told, easy, around)
        unusual = self.unusual(easy.line - usual, easy.told & known, easy, around) + usual
        simple = [values, observed, easy.line, easy.before, easy.after, usual, known]
        told = [*(part.to(values.dtype) for part in simple), nearby, unusual]
        clock = around.clock.unflatten(1, (-1, 1, 1)).expand(*values.shape, -1)
        x = self.embed(torch.cat([torch.stack(told, dim=-1), clock], dim=-1))
        # the line where there is one, what is nearby, and what is unusual where it is known
        answers = torch.stack([easy.line, nearby, unusual], dim=-1)
        there = torch.stack([easy.told, torch.ones_like(known), known], dim=-1)
        return x + self.kind[around.kinds], Answers(answers, there, ~(easy.told | known))
