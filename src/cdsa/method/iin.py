"""IIN: an LSTM guesses what is missing, reads its own guesses with the rest, and guesses again.

Zhou & Huang, "Recover missing sensor data with iterative imputing network", AAAI workshops 2018.
What is missing starts from a simple mean; then, round by round, recurrent layers read the completed
window, and what is missing is set to what they tell. The guesses are variables that are improved in
place, observed cells stay as they are. A cell is read beside its temporal term, the mean of the
moments next to it, and its spatial term, the mean of the places near it.

Different from the paper: the rounds share their weights and are learnt together from hidden cells,
by the error of the last one; the layers read every station by itself, in both directions, with the
spatial term as all it hears of the others, so that they serve any number of stations; nearness is
the graph of `graphs.py`, without coordinates all stations are near; the calendar, and which cells
were measured, are told too. Cells are hidden as for our own network, whole stations in a quarter of
the lessons among them, and the weights that are kept are a moving average.

Letters: b window of the batch, t time, l and k locations, m measurement, f inputs of a cell.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, einsum, nn

from cdsa.method.neural import Neural
from cdsa.models.axes import Sizes, refuse_below_one
from cdsa.models.graphs import graph_of
from cdsa.models.surroundings import Surroundings
from cdsa.train.loop import TrainConfig


@dataclass(frozen=True, kw_only=True)
class IinConfig:
    """Widths of the network."""

    situated: ClassVar[bool] = True

    hidden: int = 48
    """Channels of the state, in each direction."""

    layers: int = 2
    rounds: int = 3
    """How often it guesses."""

    def __post_init__(self) -> None:
        refuse_below_one(self, "hidden", "layers", "rounds")

    def build(self, sizes: Sizes, horizon: int, clocks: int) -> nn.Module:
        """The network for so many measurements."""
        return IterativeNetwork(self, sizes.measurements, clocks)


class IterativeNetwork(nn.Module):
    """Fills windows: `forward(values, observed, around) -> guess`, (b, t, l, m)."""

    def __init__(self, config: IinConfig, measurements: int, clocks: int) -> None:
        super().__init__()
        self.rounds = config.rounds
        self.read = nn.LSTM(
            4 * measurements + clocks,
            config.hidden,
            config.layers,
            batch_first=True,
            bidirectional=True,
        )
        self.tell = nn.Linear(2 * config.hidden, measurements)

    def forward(self, values: Tensor, observed: Tensor, around: Surroundings) -> Tensor:
        seen, near = observed.to(values.dtype), nearness(values, around)
        clock = around.clock.unsqueeze(2).expand(-1, -1, values.shape[2], -1)
        guess = window_mean(values, seen).expand_as(values)
        for _ in range(self.rounds):
            whole = torch.where(observed, values, guess)
            beside = einsum("lk, btkm -> btlm", near, whole)
            cells = torch.cat([whole, seen, next_to(whole), beside, clock], dim=-1)
            guess = self._told(cells)
        return guess

    def _told(self, cells: Tensor) -> Tensor:
        """What is told of cells (b, t, l, f), station by station: (b, t, l, m)."""
        rows = einsum("btlf -> bltf", cells)
        told = self.tell(self.read(rows.flatten(0, 1))[0]).unflatten(0, rows.shape[:2])
        return einsum("bltm -> btlm", told)


def nearness(values: Tensor, around: Surroundings) -> Tensor:
    """Shares of the other stations in a spatial term, (l, k): rows of one, or of none if a station
    has nobody near."""
    stations = values.shape[2]
    apart = around.distance
    graph = values.new_ones(stations, stations)
    if apart is not None:
        graph = graph_of(apart.to(values), around.width)
    others = graph * (1 - torch.eye(stations, dtype=graph.dtype, device=graph.device))
    return others / others.sum(dim=1, keepdim=True).clamp(min=1e-6)


def window_mean(values: Tensor, seen: Tensor) -> Tensor:
    """The mean of what was seen of each series in the window, zero if nothing was: (b, 1, l, m)."""
    return (values * seen).sum(dim=1, keepdim=True) / seen.sum(dim=1, keepdim=True).clamp(min=1)


def next_to(whole: Tensor) -> Tensor:
    """The mean of the moments before and after each; at an end, of itself and the other one."""
    padded = torch.cat([whole[:, :1], whole, whole[:, -1:]], dim=1)
    return (padded[:, :-2] + padded[:, 2:]) / 2


def training() -> TrainConfig:
    """How it is trained."""
    return TrainConfig(
        minutes=5,
        batch=6,
        rate=2e-3,
        learn_from="hidden",
        hide="natural",
        average=0.99,
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
        model=IinConfig(hidden=8, layers=1, rounds=2),
        train=replace(training(), minutes=None, epochs=2, batch=4, validate_every=5),
        steps=12,
        stride=6,
    ),
}
