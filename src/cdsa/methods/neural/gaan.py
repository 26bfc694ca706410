"""GaAN: a recurrent network in which stations attend to their neighbours, head by head gated.

Zhang, Shi, Xie, Ma, King & Yeung, "GaAN: gated attention networks for learning on large and
spatiotemporal graphs", UAI 2018. A location aggregates its neighbours by attention of several
heads; a gate of its own, told from itself and from the maximum and the mean of its neighbours, says
how much each head counts. These aggregators stand in the place of the matrix products of gated
recurrent units, in an encoder and a decoder with scheduled sampling.

Different from the paper and its authors' code: neighbours are those of a graph, given or of
great-circle distances (`graphs.py`), in the direction of its edges, not in both, and neither edges
nor places have features; inputs and state go through one aggregator instead of two that are added,
so the reset gate lies before the state is aggregated, not behind, and what is new goes through a
tangent; queries and keys are as wide as values, and there is no layer before the first unit; the
decoder starts from nothing, not from what the encoder told last; a cell that was not measured is
told apart by a flag; the share of true values fades in hundreds of lessons; batches of 32 windows
at the most, not 64, and one rate for all weights, higher, that falls as a cosine.

Letters: b window of the batch, l and k locations, f inputs of a location, h head, d and e channels
of a head.
"""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import torch
import xarray as xr
from torch import Tensor, einsum, nn
from torch.nn import functional as F

from cdsa.methods.engine.estimator import NeuralFiller, OnGraph
from cdsa.nn.context import WindowContext
from cdsa.nn.graph import GraphCell, adjacency_of_context
from cdsa.nn.seq2seq import Sampled, SequenceToSequence
from cdsa.nn.types import Sizes, refuse_below_one
from cdsa.training.loop import TrainConfig

PAST = 12
"""Steps looked back on, as published."""


MOST_WINDOWS = 32


PAIRS_OF_A_STEP = 130_000
"""Pairs of stations in all windows of a batch: their attention is kept, step by step."""


AT_ONCE = 2_000_000
"""Numbers that are compared together to find the largest."""


@dataclass(frozen=True, kw_only=True)
class GaanConfig(Sampled):
    """Widths of the network."""

    uses_context: ClassVar[bool] = True
    inductive: ClassVar[bool] = True

    d_model: int = 64
    """Channels of a location's state."""

    n_layers: int = 2
    n_heads: int = 4
    d_qk: int = 16
    """Channels of a head's queries, keys and values."""

    d_gate: int = 32
    """Channels of what the gates are told of the neighbours."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below_one(self, "d_model", "n_layers", "n_heads", "d_qk", "d_gate")

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> nn.Module:
        """The network that foresees so many steps."""
        return SequenceToSequence(
            lambda inputs: GraphCell(self.aggregator, inputs, self.d_model, self.n_layers),
            nn.Linear(self.d_model, sizes.measurements),
            neighbours_around,
            sizes.measurements,
            n_calendar_features,
            horizon,
            self.fading,
        )

    def aggregator(self, inputs: int, out: int) -> "GatedAttention":
        """What stands in the place of a matrix product."""
        return GatedAttention(self, inputs, out)


def neighbours_around(context: WindowContext | None, like: Tensor) -> Tensor:
    """True for stations that are next to each other, and for each with itself, (l, k)."""
    return adjacency_of_context(context, like, "gaan") > 0


class GatedAttention(nn.Module):
    """Inputs of all locations (b, l, f) -> (b, l, out), from each one's neighbours (l, k).

    All that is made of the inputs alone is one product: queries, keys and values of the heads, what
    the gates are told of each neighbour, what they make of a location and of the mean of its
    neighbours, and what goes on to the output as it is.
    """

    def __init__(self, config: GaanConfig, inputs: int, out: int) -> None:
        super().__init__()
        self.heads = config.n_heads
        wide = config.n_heads * config.d_qk
        self.sizes = [wide, wide, wide, config.d_gate, config.n_heads, config.n_heads, out]
        self.project = nn.Linear(inputs, sum(self.sizes))
        self.most = nn.Linear(config.d_gate, config.n_heads, bias=False)
        self.out = nn.Linear(wide, out, bias=False)

    def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:
        *parts, around, own, beside, stays = self.project(x).split(self.sizes, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in parts)  # (b, l, h, d)
        scores = einsum("blhd, bkhd -> bhlk", q, k) / math.sqrt(q.shape[-1])
        shares = scores.masked_fill(~neighbours, -torch.inf).softmax(dim=-1)
        heads = einsum("bhlk, bkhe -> blhe", shares, F.leaky_relu(v, 0.1))
        gates = self.gates(around, own, beside, neighbours)
        told: Tensor = stays + self.out((gates.unsqueeze(-1) * heads).flatten(2))
        return told

    def gates(self, around: Tensor, own: Tensor, beside: Tensor, neighbours: Tensor) -> Tensor:
        """How much each head counts at each location, (b, l, h), between 0 and 1: by itself, by the
        largest of what is told of its neighbours, and by their mean."""
        joined = neighbours.to(own.dtype)
        mean = (joined / joined.sum(dim=1, keepdim=True)) @ beside
        return torch.sigmoid(own + self.most(most_of(around, neighbours)) + mean)


def most_of(x: Tensor, neighbours: Tensor) -> Tensor:
    """The largest value of each channel among the neighbours (l, k) of a location, (b, l, f).

    Whose it is is found for some locations at a time and without a gradient, so that nothing of
    the size of all pairs of locations is kept.
    """
    few = max(1, AT_ONCE // x.numel())
    with torch.no_grad():
        whose = [
            x.unsqueeze(1).masked_fill(~some.unsqueeze(-1), -torch.inf).max(dim=2).indices
            for some in neighbours.split(few)
        ]
    return x.gather(1, torch.cat(whose, dim=1))


def training() -> TrainConfig:
    """How it is trained; the batch is chosen by the number of stations."""
    return TrainConfig(minutes=5, batch_size=0, lr=3e-3)


@dataclass(frozen=True, kw_only=True)
class Gaan(OnGraph):
    """Stations attend to their neighbours, in a recurrent network."""

    name: ClassVar[str] = "gaan"
    KNOWING: ClassVar[bool] = False  # its lessons never show what is known in advance

    model: GaanConfig = GaanConfig()
    train: TrainConfig = field(default_factory=training)
    window: int = PAST
    horizon: int = PAST
    stride: int | None = 1

    def fit(self, cube: xr.DataArray) -> NeuralFiller:
        """Learn from the measured cells of `cube`."""
        return super(Gaan, self.settled(cube.sizes["location"])).fit(cube)

    def settled(self, stations: int) -> Self:
        """The same with a batch for so many stations, unless one was set."""
        if self.train.batch_size:
            return self
        batch = max(1, min(MOST_WINDOWS, PAIRS_OF_A_STEP // max(1, stations**2)))
        return replace(self, train=replace(self.train, batch_size=batch))


Gaan.PRESETS = {
    "small": Gaan(
        model=GaanConfig(d_model=8, n_layers=1, n_heads=2, d_qk=4, d_gate=4, fading=10.0),
        train=replace(training(), minutes=None, epochs=1, batch_size=8, validate_every=5),
        window=6,
        horizon=6,
        stride=6,
    ),
}
