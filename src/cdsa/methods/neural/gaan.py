"""GaAN: a recurrent network in which stations attend to their neighbours, with a gate per head.

Letters: b window of the batch, l and k locations, f inputs of a location, h head, d and e channels
of a head.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self, cast

import torch
from torch import Tensor, einsum, nn
from torch.nn import functional as F

from cdsa.core.prepare import Cube, prepare
from cdsa.methods.engine.estimator import OnGraph
from cdsa.nn.graph import GraphCell, adjacency_of_context
from cdsa.nn.seq2seq import Seq2SeqConfig, SequenceToSequence
from cdsa.nn.types import Network, Sizes
from cdsa.training.callbacks import RunContext
from cdsa.training.loop import TrainConfig

CONTEXT_LENGTH = 12
"""Steps of the context, as published."""

MAX_BATCH_SIZE = 32

MAX_PAIRS_PER_BATCH = 130_000
"""Pairs of stations in all windows of a batch: their attention is kept for every step."""

MAX_COMPARED = 2_000_000
"""Numbers compared at once to find maxima."""


@dataclass(frozen=True, kw_only=True)
class GaanConfig(Seq2SeqConfig):
    inductive: ClassVar[bool] = True

    d_model: int = 64
    """Hidden channels of a location."""

    n_layers: int = 2
    n_heads: int = 4
    d_qk: int = 16
    """Channels of a head's queries, keys and values."""

    d_gate: int = 32
    """Channels of which a gate takes the maximum over neighbours."""

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> Network:
        return SequenceToSequence(
            lambda n: GraphCell(partial(GatedAttention, self), n, self.d_model, self.n_layers),
            nn.Linear(self.d_model, sizes.measurements),
            lambda context, like: adjacency_of_context(context, like, "gaan") > 0,
            sizes.measurements,
            n_calendar_features,
            horizon,
            self.sampling_decay,
        )


class GatedAttention(nn.Module):
    """Inputs of all locations (b, l, f) -> (b, l, out), from the neighbours of each, a mask (l, k).

    One linear layer makes all that depends on the inputs alone: queries, keys and values of the
    heads, the channels of which gates take the maximum over neighbours, the parts of the gates that
    come from a location and from the mean of its neighbours, and the direct part of the output.
    """

    def __init__(self, config: GaanConfig, inputs: int, out: int) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        d_heads = config.n_heads * config.d_qk
        self.sizes = [d_heads, d_heads, d_heads, config.d_gate, config.n_heads, config.n_heads, out]
        self.project = nn.Linear(inputs, sum(self.sizes))
        self.max_gate = nn.Linear(config.d_gate, config.n_heads, bias=False)
        self.out = nn.Linear(d_heads, out, bias=False)

    def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:
        *qkv, to_max, own_gate, mean_gate, direct = self.project(x).split(self.sizes, dim=-1)
        q, k, v = (tensor.unflatten(-1, (self.n_heads, -1)) for tensor in qkv)  # (b, l, h, d)
        scores = einsum("blhd, bkhd -> bhlk", q, k) / math.sqrt(q.shape[-1])
        attention = scores.masked_fill(~neighbours, -torch.inf).softmax(dim=-1)
        heads = einsum("bhlk, bkhe -> blhe", attention, F.leaky_relu(v, 0.1))
        gates = self.gates(to_max, own_gate, mean_gate, neighbours)
        return cast(Tensor, direct + self.out((gates.unsqueeze(-1) * heads).flatten(2)))

    def gates(
        self, to_max: Tensor, own_gate: Tensor, mean_gate: Tensor, neighbours: Tensor
    ) -> Tensor:
        """The weight of each head at each location, (b, l, h), between 0 and 1."""
        weight = neighbours.to(own_gate.dtype)
        mean = (weight / weight.sum(dim=1, keepdim=True)) @ mean_gate
        return torch.sigmoid(own_gate + self.max_gate(neighbour_max(to_max, neighbours)) + mean)


def neighbour_max(x: Tensor, neighbours: Tensor) -> Tensor:
    """The maximum of each channel over the neighbours (l, k) of a location, (b, l, f).

    Its index is found for some locations at a time and without a gradient, so that nothing of the
    size of all pairs of locations is kept.
    """
    n_at_once = max(1, MAX_COMPARED // x.numel())
    with torch.no_grad():
        indices = [
            x.unsqueeze(1).masked_fill(~rows.unsqueeze(-1), -torch.inf).max(dim=2).indices
            for rows in neighbours.split(n_at_once)
        ]
    return x.gather(1, torch.cat(indices, dim=1))


TRAINING = TrainConfig(minutes=5, batch_size=0, lr=3e-3)
"""The batch size depends on the number of stations."""


@dataclass(frozen=True, kw_only=True)
class Gaan(OnGraph):
    """Gated attention networks (GaAN).

    A location aggregates its neighbours by multi-head attention. A gate, from the location itself
    and from the maximum and the mean of its neighbours, weights each head. These aggregators
    replace the matrix products of gated recurrent units, in an encoder and a decoder with scheduled
    sampling.

    Notes
    -----
    Deviations from the paper and its authors' code: neighbours are those of a graph, given or of
    great-circle distances, in the direction of its edges, not in both; neither edges nor locations
    have features. Inputs and state go through one aggregator instead of the sum of two, so the
    reset gate comes before the aggregation of the state, not after, and the candidate state goes
    through a tanh. Queries and keys are as wide as values, and there is no layer before the first
    recurrent one. The decoder starts from zero, not from the encoder's last output. A mask of
    observed cells is an input. The share of true values in scheduled sampling decays in hundreds of
    training steps. Batches have at most 32 windows, not 64, and there is one learning rate for all
    weights, higher, which follows a cosine.

    References
    ----------
    Zhang, J., Shi, X., Xie, J., Ma, H., King, I., & Yeung, D.-Y. (2018). GaAN: Gated attention
    networks for learning on large and spatiotemporal graphs. UAI.
    """

    name: ClassVar[str] = "gaan"
    supports_known: ClassVar[bool] = False  # known covariates have no part in its training

    model: GaanConfig = GaanConfig()
    train: TrainConfig = TRAINING
    window: int = CONTEXT_LENGTH
    horizon: int = CONTEXT_LENGTH
    stride: int | None = 1

    def resolve(self, cube: Cube, run: RunContext | None = None) -> Self:
        if self.train.batch_size:
            return self
        n_stations = prepare(cube).cube.sizes["location"]
        batch_size = max(1, min(MAX_BATCH_SIZE, MAX_PAIRS_PER_BATCH // max(1, n_stations**2)))
        return replace(self, train=replace(self.train, batch_size=batch_size))


SMALL = GaanConfig(d_model=8, n_layers=1, n_heads=2, d_qk=4, d_gate=4, sampling_decay=10.0)
SMALL_TRAINING = TRAINING.few_steps(epochs=1, batch_size=8)
Gaan.PRESETS = {"small": Gaan(model=SMALL, train=SMALL_TRAINING, window=6, horizon=6, stride=6)}
