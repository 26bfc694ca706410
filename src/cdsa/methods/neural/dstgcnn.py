"""DST-GCNN: convolutions over time and along a graph that is predicted for every step.

Wang, Lai, Jin, Lin, Gong, Huang & Hua, "Dynamic spatio-temporal graph-based CNNs for traffic
prediction", arXiv:1812.02019, 2018. Two streams: one predicts graphs from what the stations show,
for traffic changes who affects whom; the other is a stack of convolutions, each along such a graph
and then over time, and tells all steps ahead at once.

Different from the paper: there is a graph for every step looked back on and none for those ahead;
the weight of an edge is told by a small network from the features of the two stations at this step
and the two before, on the edges of a static graph, given or of great-circle distances, and learnt
with the rest; the paper has graphs made from the measured traffic to learn this stream from. A
convolution along the graph is a sum over walks of up to `walks` steps, in the direction of the
edges, not of a spectrum. Those over time look back only, each layer twice as far as the one before
(van den Oord et al., 2016), and are gated (Dauphin et al., 2017); layers are normalised and added
to what was there. Beside the values stand a flag of what was measured and the straight line over
gaps in what is looked back on; the calendar is told; what is foreseen is told as a difference from
the line's last value. Widths, a rate that falls as a cosine, and stopping early are ours.

Letters: b window of the batch, t time, l and k locations, m measurement, f channels of a cell,
w step of a walk.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, einsum, nn
from torch.nn import functional as F

from cdsa.methods.engine.estimator import OnGraph
from cdsa.nn.context import WindowContext
from cdsa.nn.graph import adjacency_of_context
from cdsa.nn.interpolation import interpolate
from cdsa.nn.types import Sizes, refuse_below_one, refuse_no_horizon
from cdsa.training.loop import TrainConfig

PAST = 12
"""Steps looked back on, as published."""


REACH = 3
"""Steps that a convolution over time looks at."""


@dataclass(frozen=True, kw_only=True)
class DstGcnnConfig:
    """Widths of the network."""

    uses_context: ClassVar[bool] = True
    inductive: ClassVar[bool] = True

    d_model: int = 48
    """Of a cell between layers."""

    n_layers: int = 3
    """At the least: there are as many as let the last step see the first; more begin anew to look
    at what is near."""

    diffusion_steps: int = 2
    """Steps along the graph that a convolution looks at."""

    def __post_init__(self) -> None:
        refuse_below_one(self, "d_model", "n_layers", "diffusion_steps")

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> nn.Module:
        """The network that foresees so many steps."""
        refuse_no_horizon(horizon)
        return DynamicGraphNetwork(self, sizes, n_calendar_features, horizon)


def layers_over(steps: int) -> int:
    """How many layers it takes to see so many steps, each looking twice as far as the one
    before."""
    layers = 1
    while 1 + (REACH - 1) * ((1 << layers) - 1) < steps:
        layers += 1
    return layers


class PredictedGraph(nn.Module):
    """The graph of every step, told from features (b, t, l, f): (b, t, l, k), rows of one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before = TimeConvolution(channels, channels)
        self.asks = nn.Linear(channels, 8)
        self.offers = nn.Linear(channels, 8, bias=False)  # the same for all would change no share

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        x = self.before(x)
        scores = einsum("btld, btkd -> btlk", self.asks(x), self.offers(x))
        # at first nearly the static graph, and edges never where it has none
        return (scores + graph.log()).softmax(dim=-1)


class TimeConvolution(nn.Module):
    """Features (b, t, l, f) -> (b, t, l, out), each step from itself and those before, so many
    steps `apart`, gated."""

    def __init__(self, inputs: int, out: int, apart: int = 1) -> None:
        super().__init__()
        self.mix, self.apart = nn.Linear(REACH * inputs, 2 * out), apart

    def forward(self, x: Tensor) -> Tensor:
        furthest = (REACH - 1) * self.apart
        padded = F.pad(x, (0, 0, 0, 0, furthest, 0))
        looked_at = range(0, furthest + 1, self.apart)
        near = [padded[:, first : first + x.shape[1]] for first in looked_at]
        return F.glu(self.mix(torch.cat(near, dim=-1)), dim=-1)


class SpaceTimeLayer(nn.Module):
    """Along the graph of each step, then over time, added to what was there."""

    def __init__(self, channels: int, walks: int, apart: int) -> None:
        super().__init__()
        self.walks = walks
        self.along = nn.Linear((walks + 1) * channels, channels)
        self.over = TimeConvolution(channels, channels, apart)
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor, graphs: Tensor) -> Tensor:
        walked = [self.norm(x)]
        for _ in range(self.walks):
            walked.append(einsum("btlk, btkf -> btlf", graphs, walked[-1]))
        told: Tensor = x + self.over(F.relu(self.along(torch.cat(walked, dim=-1))))
        return told


class DynamicGraphNetwork(nn.Module):
    """Foresees the last `horizon` steps of a window: `forward(values, observed, around) -> guess`,
    (b, t, l, m); the steps before are as they were seen. What is known ahead is not looked at."""

    def __init__(
        self, config: DstGcnnConfig, sizes: Sizes, n_calendar_features: int, horizon: int
    ) -> None:
        super().__init__()
        self.horizon, measurements = horizon, sizes.measurements
        self.embed = nn.Linear(3 * measurements + n_calendar_features, config.d_model)
        self.graphs = PredictedGraph(config.d_model)
        enough = layers_over(sizes.steps - horizon)
        self.layers = nn.ModuleList(
            SpaceTimeLayer(config.d_model, config.diffusion_steps, apart=1 << number % enough)
            for number in range(max(config.n_layers, enough))
        )
        self.tell = nn.Sequential(
            nn.LayerNorm(config.d_model),
            nn.Linear(config.d_model, 2 * config.d_model),
            nn.ReLU(),
            nn.Linear(2 * config.d_model, horizon * measurements),
        )

    def forward(self, values: Tensor, observed: Tensor, context: WindowContext) -> Tensor:
        past = values.shape[1] - self.horizon
        values, observed = values[:, :past], observed[:, :past]
        values = torch.where(observed, values, 0.0)
        line = interpolate(values, observed).line
        clock = context.calendar[:, :past].unsqueeze(2).expand(-1, -1, values.shape[2], -1)
        x = self.embed(torch.cat([values, observed.to(values.dtype), line, clock], dim=-1))
        graphs = self.graphs(x, adjacency_of_context(context, values, "dst-gcnn"))
        for layer in self.layers:
            x = layer(x, graphs)
        ahead = self.tell(x[:, -1]).unflatten(-1, (self.horizon, -1))  # (b, l, t, m)
        told = einsum("bltm -> btlm", ahead) + line[:, -1:]  # as a difference from the last value
        return torch.cat([values, told], dim=1)


def training() -> TrainConfig:
    """How it is trained; nothing but the horizon is hidden, as from other forecasters."""
    return TrainConfig(minutes=5, batch_size=32, lr=2e-3, loss_on="visible")


@dataclass(frozen=True, kw_only=True)
class DstGcnn(OnGraph):
    """Convolutions over time and along a predicted graph."""

    name: ClassVar[str] = "dst-gcnn"
    KNOWING: ClassVar[bool] = False

    model: DstGcnnConfig = DstGcnnConfig()
    train: TrainConfig = field(default_factory=training)
    window: int = PAST
    horizon: int = PAST
    stride: int | None = 1


DstGcnn.PRESETS = {
    "small": DstGcnn(
        model=DstGcnnConfig(d_model=8, n_layers=2),
        train=replace(training(), minutes=None, epochs=1, batch_size=8, validate_every=5),
        window=6,
        horizon=6,
        stride=6,
    ),
}
