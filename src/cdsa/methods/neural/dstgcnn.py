"""DST-GCNN: convolutions over time and on a graph that is predicted for every step.

Letters: b window of the batch, t time, l and k locations, m measurement, f channels of a cell,
d channels of a query.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, einsum, nn
from torch.nn import functional as F

from cdsa.methods.engine.estimator import OnGraph
from cdsa.nn.context import WindowContext
from cdsa.nn.graph import adjacency_of_context
from cdsa.nn.interpolation import interpolate
from cdsa.nn.types import Network, NetworkConfig, Sizes, refuse_no_horizon
from cdsa.training.loop import TrainConfig

CONTEXT_LENGTH = 12
"""Steps of the context, as published."""

KERNEL_SIZE = 3
"""Steps of a convolution over time."""

D_QUERY = 8
"""Channels of the queries and keys that predict an edge."""


@dataclass(frozen=True, kw_only=True)
class DstGcnnConfig(NetworkConfig):
    uses_context: ClassVar[bool] = True
    inductive: ClassVar[bool] = True

    d_model: int = 48
    """Channels of a cell between layers."""

    n_layers: int = 3
    """Minimum number of layers. There are at least as many as the last step needs to see the first;
    the dilations of further layers start again at 1."""

    diffusion_steps: int = 2
    """Maximum steps of a convolution along the graph."""

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> Network:
        refuse_no_horizon(horizon)
        return DynamicGraphNetwork(self, sizes, n_calendar_features, horizon)


def layers_to_cover(n_steps: int) -> int:
    """The number of layers, each with twice the dilation of the one before, that see this many
    steps."""
    n_layers = 1
    while 1 + (KERNEL_SIZE - 1) * ((1 << n_layers) - 1) < n_steps:
        n_layers += 1
    return n_layers


class PredictedGraph(nn.Module):
    """The adjacency of every step from features (b, t, l, f): (b, t, l, k), rows sum to one."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.temporal = TimeConvolution(d_model, d_model)
        self.query = nn.Linear(d_model, D_QUERY)
        self.key = nn.Linear(d_model, D_QUERY, bias=False)  # a bias would cancel in the softmax

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        x = self.temporal(x)
        scores = einsum("btld, btkd -> btlk", self.query(x), self.key(x))
        # initially close to the static graph, and without edges where it has none
        return (scores + adjacency.log()).softmax(dim=-1)


class TimeConvolution(nn.Module):
    """A causal, dilated and gated convolution over time: (b, t, l, f) -> (b, t, l, out)."""

    def __init__(self, inputs: int, out: int, dilation: int = 1) -> None:
        super().__init__()
        self.mix, self.dilation = nn.Linear(KERNEL_SIZE * inputs, 2 * out), dilation

    def forward(self, x: Tensor) -> Tensor:
        reach = (KERNEL_SIZE - 1) * self.dilation
        padded = F.pad(x, (0, 0, 0, 0, reach, 0))
        starts = range(0, reach + 1, self.dilation)
        taps = [padded[:, start : start + x.shape[1]] for start in starts]
        return F.glu(self.mix(torch.cat(taps, dim=-1)), dim=-1)


class SpaceTimeLayer(nn.Module):
    """A convolution along the graph of each step, then over time, with a residual connection."""

    def __init__(self, d_model: int, diffusion_steps: int, dilation: int) -> None:
        super().__init__()
        self.diffusion_steps = diffusion_steps
        self.spatial = nn.Linear((diffusion_steps + 1) * d_model, d_model)
        self.temporal = TimeConvolution(d_model, d_model, dilation)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        diffused = [self.norm(x)]
        for _ in range(self.diffusion_steps):
            diffused.append(einsum("btlk, btkf -> btlf", adjacency, diffused[-1]))
        return cast(Tensor, x + self.temporal(F.relu(self.spatial(torch.cat(diffused, dim=-1)))))


class DynamicGraphNetwork(Network):
    """Forecasts the last `horizon` steps of a window: `forward(values, observed, context) ->
    prediction`, (b, t, l, m); the steps before are returned as they are. Values in the horizon are
    not read."""

    def __init__(
        self, config: DstGcnnConfig, sizes: Sizes, n_calendar_features: int, horizon: int
    ) -> None:
        super().__init__()
        self.horizon, n_measurements = horizon, sizes.measurements
        self.embedding = nn.Linear(3 * n_measurements + n_calendar_features, config.d_model)
        self.graph = PredictedGraph(config.d_model)
        n_covering = layers_to_cover(sizes.steps - horizon)
        self.layers = nn.ModuleList(
            SpaceTimeLayer(config.d_model, config.diffusion_steps, dilation=1 << n % n_covering)
            for n in range(max(config.n_layers, n_covering))
        )
        self.head = nn.Sequential(
            nn.LayerNorm(config.d_model),
            nn.Linear(config.d_model, 2 * config.d_model),
            nn.ReLU(),
            nn.Linear(2 * config.d_model, horizon * n_measurements),
        )

    def forward(self, values: Tensor, observed: Tensor, context: WindowContext) -> Tensor:
        past = values.shape[1] - self.horizon
        values, observed = values[:, :past], observed[:, :past]
        values = torch.where(observed, values, 0.0)
        line = interpolate(values, observed).line
        calendar = context.calendar[:, :past].unsqueeze(2).expand(-1, -1, values.shape[2], -1)
        x = self.embedding(torch.cat([values, observed.to(values.dtype), line, calendar], dim=-1))
        adjacency = self.graph(x, adjacency_of_context(context, values, "dst-gcnn"))
        for layer in self.layers:
            x = layer(x, adjacency)
        change = self.head(x[:, -1]).unflatten(-1, (self.horizon, -1))  # (b, l, t, m)
        forecast = einsum("bltm -> btlm", change) + line[:, -1:]
        return torch.cat([values, forecast], dim=1)


TRAINING = TrainConfig(minutes=5, batch_size=32, lr=2e-3, loss_on="visible")
"""Nothing but the horizon is hidden, as from the other forecasters."""


@dataclass(frozen=True, kw_only=True)
class DstGcnn(OnGraph):
    """Dynamic spatio-temporal graph-based convolutional network (DST-GCNN).

    Two streams: one predicts graphs from the observations, since influences between roads change
    with the traffic; the other stacks convolutions, each along such a graph and then over time, and
    forecasts all steps at once.

    Notes
    -----
    Deviations from the paper: there is a graph for every step of the context and none for the
    horizon. The weight of an edge is predicted by a small network from the features of the two
    stations at this step and the two before, on the edges of a static graph (given, or of
    great-circle distances), and trained with the rest; the paper derives graphs from measured
    traffic to train this stream. A convolution along the graph is a sum over walks of up to
    `diffusion_steps` steps, in the direction of the edges, instead of a spectral one. Those over
    time are causal, with dilations that double from layer to layer [2], and gated [3]; layers have
    layer norm and residual connections. A mask of observed cells, the linear interpolation over
    gaps in the context, and the calendar are inputs; the forecast is the difference from the last
    interpolated value. Sizes, the cosine learning rate and early stopping are ours.

    References
    ----------
    [1] Wang, M., Lai, B., Jin, Z., Lin, Y., Gong, X., Huang, J., & Hua, X. (2018). Dynamic
    spatio-temporal graph-based CNNs for traffic prediction. arXiv:1812.02019.

    [2] van den Oord, A., et al. (2016). WaveNet: A generative model for raw audio.
    arXiv:1609.03499.

    [3] Dauphin, Y. N., Fan, A., Auli, M., & Grangier, D. (2017). Language modeling with gated
    convolutional networks. ICML.
    """

    name: ClassVar[str] = "dst-gcnn"
    supports_known: ClassVar[bool] = False

    model: DstGcnnConfig = DstGcnnConfig()
    train: TrainConfig = TRAINING
    window: int = CONTEXT_LENGTH
    horizon: int = CONTEXT_LENGTH
    stride: int | None = 1


SMALL = DstGcnnConfig(d_model=8, n_layers=2)
SMALL_TRAINING = TRAINING.few_steps(epochs=1, batch_size=8)
DstGcnn.PRESETS = {
    "small": DstGcnn(model=SMALL, train=SMALL_TRAINING, window=6, horizon=6, stride=6)
}
