"""IIN: an LSTM guesses what is missing, reads its own guesses with the rest, and guesses again.

Zhou & Huang, "Recover missing sensor data with iterative imputing network", AAAI workshops 2018,
arXiv:1711.07878. What is missing are latent variables that start from a simple guess; then, round
by round, recurrent layers read the completed window, and what is missing is set to what they tell;
observed cells stay as they are. A cell has a temporal term, the mean of the moments next to it, and
a spatial term, the mean of the places near it; both are read, and are part of what is told.

Different from the paper: the first guess is a straight line between what was measured, not a mean,
from which the rounds do not find out of a long gap in minutes; the variables are found by the
rounds alone, with no slope of an objective to follow when a gap is filled; the rounds share their
weights and are learnt together from hidden cells, by the absolute error of the last one, with a
rate that rises and falls as a cosine; one layer, not several, reads in both directions, all series
of a moment at once; nearness is the graph of `graphs.py`, without coordinates all stations are
near, and what more each series says of another is learnt; how much the two terms count is learnt
too, and the spatial one is zero where nobody is near. The calendar, and which cells were measured,
are told. Cells are hidden as for our own network, whole stations in a quarter of the windows among
them, the weights that are kept are a moving average, and windows that are filled overlap by half.

Letters: b window of the batch, t time, l and k locations, m measurement, s series, n term.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, einsum, nn

from cdsa.methods.engine.estimator import Neural
from cdsa.nn.context import WindowContext
from cdsa.nn.graph import adjacency_of_distances
from cdsa.nn.interpolation import interpolate, without_itself
from cdsa.nn.types import Sizes, refuse_below_one
from cdsa.training.loop import TrainConfig


@dataclass(frozen=True, kw_only=True)
class IinConfig:
    """Widths of the network."""

    uses_context: ClassVar[bool] = True
    inductive: ClassVar[bool] = False

    d_model: int = 64
    """Channels of the state, in each direction."""

    n_layers: int = 1
    n_rounds: int = 3
    """How often it guesses."""

    def __post_init__(self) -> None:
        refuse_below_one(self, "d_model", "n_layers", "n_rounds")

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> nn.Module:
        """The network for windows of these sizes."""
        return IterativeNetwork(self, sizes, n_calendar_features)


class IterativeNetwork(nn.Module):
    """Fills windows: `forward(values, observed, around) -> guess`, (b, t, l, m)."""

    def __init__(self, config: IinConfig, sizes: Sizes, n_calendar_features: int) -> None:
        super().__init__()
        self.rounds = config.n_rounds
        series = sizes.locations * sizes.measurements
        self.read = nn.LSTM(
            4 * series + n_calendar_features,
            config.d_model,
            config.n_layers,
            batch_first=True,
            bidirectional=True,
        )
        self.tell = nn.Linear(2 * config.d_model, series)
        self.others = nn.Parameter(torch.zeros(series, series))
        """What each series says of another, beside the places near it."""
        self.shares = nn.Parameter(torch.full((2, series), 0.5))
        """How much the temporal and the spatial term of a series count."""

    def forward(self, values: Tensor, observed: Tensor, context: WindowContext) -> Tensor:
        seen, near = observed.to(values.dtype), nearness(values, context)
        guess = interpolate(torch.where(observed, values, 0.0), observed).line
        for _ in range(self.rounds):
            whole = torch.where(observed, values, guess)
            beside = einsum("lk, btkm -> btlm", near, whole).flatten(2)
            beside = beside + nn.functional.linear(whole.flatten(2), without_itself(self.others))
            terms = torch.stack([next_to(whole).flatten(2), beside])  # (2, b, t, s)
            read = [whole.flatten(2), seen.flatten(2), *terms, context.calendar]
            told = self.tell(self.read(torch.cat(read, dim=-1))[0])
            guess = (told + einsum("nbts, ns -> bts", terms, self.shares)).view_as(values)
        return guess


def nearness(values: Tensor, context: WindowContext) -> Tensor:
    """Shares of the other stations in a spatial term, (l, k): rows of one, or of none if a station
    has nobody near."""
    stations = values.shape[2]
    apart = context.distance
    graph = values.new_ones(stations, stations)
    if apart is not None:
        graph = adjacency_of_distances(apart.to(values), context.bandwidth)
    others = without_itself(graph)
    return others / others.sum(dim=1, keepdim=True).clamp(min=1e-6)


def next_to(whole: Tensor) -> Tensor:
    """The mean of the moments before and after each; at an end, of itself and the other one."""
    padded = torch.cat([whole[:, :1], whole, whole[:, -1:]], dim=1)
    return (padded[:, :-2] + padded[:, 2:]) / 2


def training() -> TrainConfig:
    """How it is trained."""
    return TrainConfig(
        minutes=5,
        batch_size=16,
        lr=2e-3,
        loss_on="hidden",
        masking="like_data",
        ema_decay=0.99,
        patience=0,
    )


@dataclass(frozen=True, kw_only=True)
class Iin(Neural):
    """Recurrent layers that read their own guesses, round by round."""

    name: ClassVar[str] = "iin"

    model: IinConfig = IinConfig()
    train: TrainConfig = field(default_factory=training)


Iin.PRESETS = {
    "small": Iin(
        model=IinConfig(d_model=8, n_layers=1, n_rounds=2),
        train=replace(training(), minutes=None, epochs=2, batch_size=4, validate_every=5),
        window=12,
        stride=6,
    ),
}
