"""DCRNN: a recurrent network whose steps diffuse along the graph of stations.

Li, Yu, Shahabi & Liu, "Diffusion convolutional recurrent neural network: data-driven traffic
forecasting", ICLR 2018. Gated recurrent units in which every matrix product is a diffusion
convolution: random walks of up to `walks` steps on the graph, each with weights of its own; an
encoder and a decoder of two layers; scheduled sampling. The graph is a Gaussian kernel of the
distances between stations, cut off where it is small.

Different from the paper: distances are great circles, not along roads, so that the walks in both
directions are one; a station that reports nothing is told apart by a flag; the calendar is told
as sines and cosines.

Letters: b window of the batch, l and k locations, f inputs of a location, w step of the walk.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, einsum, nn

from cdsa.errors import ConfigError
from cdsa.method.neural import Neural
from cdsa.models.axes import Sizes, refuse_below_one
from cdsa.models.seq2seq import SequenceToSequence, State
from cdsa.models.surroundings import Surroundings
from cdsa.train.loop import TrainConfig

THRESHOLD = 0.1
"""Weights of the graph below this are none."""


@dataclass(frozen=True, kw_only=True)
class DcrnnConfig:
    """Widths of the network."""

    situated: ClassVar[bool] = True

    hidden: int = 64
    """Channels of a location's state."""

    layers: int = 2
    walks: int = 2
    """Steps of the longest walk."""

    fading: float = 2000.0
    """Lessons in which the share of true values that the decoder starts from falls by half or so;
    0 for none."""

    def __post_init__(self) -> None:
        refuse_below_one(self, "hidden", "layers", "walks")
        if self.fading < 0:
            raise ConfigError(f"fading must not be negative, but found {self.fading:g}")

    def build(self, sizes: Sizes, horizon: int, clocks: int) -> nn.Module:
        """The network that foresees so many steps."""
        return SequenceToSequence(
            lambda inputs: DiffusionCell(self, inputs),
            walks_of(self.walks),
            sizes.measurements,
            clocks,
            horizon,
            self.fading,
        )


def graph_of(distance: Tensor) -> Tensor:
    """A Gaussian kernel of distances, cut off where it is small, (l, k)."""
    apart = distance[distance > 0]
    spread = apart.std() if apart.numel() > 1 else torch.ones_like(distance[0, 0])
    weight = torch.exp(-((distance / spread.clamp(min=1e-6)) ** 2))
    return torch.where(weight >= THRESHOLD, weight, 0.0)


def walks_of(most: int) -> Callable[[Surroundings | None, Tensor], Tensor]:
    """What makes the walks of up to so many steps, (w, l, k), of surroundings."""

    def walks(around: Surroundings | None, like: Tensor) -> Tensor:
        if around is None or around.distance is None:
            raise ConfigError(
                "'dcrnn' needs the graph of the stations, but these have no coordinates. Give them "
                "in columns lat and lon or with --locations, or use another method"
            )
        weight = graph_of(around.distance.to(like))
        step = weight / weight.sum(dim=1, keepdim=True)
        found = [torch.eye(len(step), dtype=step.dtype, device=step.device)]
        for _ in range(most):
            found.append(found[-1] @ step)
        return torch.stack(found)

    return walks


class DiffusionConvolution(nn.Module):
    """Inputs of all locations (b, l, f) -> (b, l, out), along walks (w, l, k)."""

    def __init__(self, walks: int, inputs: int, out: int) -> None:
        super().__init__()
        self.mix = nn.Linear((walks + 1) * inputs, out)

    def forward(self, x: Tensor, walks: Tensor) -> Tensor:
        told: Tensor = self.mix(einsum("wlk, bkf -> blwf", walks, x).flatten(2))
        return told


class DiffusionCell(nn.Module):
    """Gated recurrent units of several layers, each with diffusion convolutions."""

    def __init__(self, config: DcrnnConfig, inputs: int) -> None:
        super().__init__()
        self.width, self.layers = config.hidden, config.layers
        sizes = [inputs, *[config.hidden] * (config.layers - 1)]
        self.gates = nn.ModuleList(
            DiffusionConvolution(config.walks, size + config.hidden, 2 * config.hidden)
            for size in sizes
        )
        self.fresh = nn.ModuleList(
            DiffusionConvolution(config.walks, size + config.hidden, config.hidden)
            for size in sizes
        )

    def start(self, like: Tensor) -> State:
        """Nothing is known at first."""
        return tuple(like.new_zeros(*like.shape[:2], self.width) for _ in range(self.layers))

    def forward(self, x: Tensor, state: State, walks: Tensor) -> tuple[Tensor, State]:
        after = []
        for gate, fresh, h in zip(self.gates, self.fresh, state, strict=True):
            reset, update = gate(torch.cat([x, h], dim=-1), walks).sigmoid().chunk(2, dim=-1)
            new = fresh(torch.cat([x, reset * h], dim=-1), walks).tanh()
            x = update * h + (1 - update) * new
            after.append(x)
        return x, tuple(after)


def training() -> TrainConfig:
    """How it is trained."""
    return TrainConfig(minutes=5, batch=32, rate=1e-2, schedule="cosine", learn_from="hidden")


@dataclass(frozen=True, kw_only=True)
class Dcrnn(Neural):
    """A recurrent network that diffuses along the graph of stations."""

    name: ClassVar[str] = "dcrnn"

    model: DcrnnConfig = DcrnnConfig()
    train: TrainConfig = field(default_factory=training)
    steps: int = 12
    horizon: int = 12
    stride: int | None = 1


Dcrnn.PRESETS = {
    "small": Dcrnn(
        model=DcrnnConfig(hidden=8, layers=1, fading=10.0),
        train=replace(training(), minutes=None, epochs=2, batch=4, validate_every=5),
        steps=6,
        horizon=6,
        stride=3,
    ),
}
