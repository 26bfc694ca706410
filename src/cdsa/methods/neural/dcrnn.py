"""DCRNN: a recurrent network with diffusion convolutions on the graph of stations.

Letters: b window of the batch, t time, l and k locations, f inputs of a location, w diffusion step.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self, cast

import torch
from torch import Tensor, nn

from cdsa.core.prepare import Cube
from cdsa.methods.engine.estimator import OnGraph
from cdsa.nn.context import WindowContext
from cdsa.nn.graph import DiffusionConvolution, GraphCell, adjacency_of_context, diffusion_matrices
from cdsa.nn.interpolation import last_observed
from cdsa.nn.seq2seq import Seq2SeqConfig, SequenceToSequence, cell_inputs
from cdsa.nn.types import Network, Sizes
from cdsa.training.callbacks import RunContext
from cdsa.training.loop import TrainConfig

FILL_WINDOW, CONTEXT_LENGTH = 36, 12
"""Steps of a window to fill, and of the context of a forecast, as published."""


@dataclass(frozen=True, kw_only=True)
class DcrnnConfig(Seq2SeqConfig):
    inductive: ClassVar[bool] = True
    MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ("d_model", "n_layers")

    d_model: int = 0
    """Hidden channels of a location; 0 means 32 to fill, and 64 to forecast, as published."""

    n_layers: int = 0
    """Recurrent layers; 0 means one to fill, and two to forecast, as published."""

    diffusion_steps: int = 2
    """Maximum steps of the diffusion."""

    def resolve(self, horizon: int) -> Self:
        """The same with the defaults of the task."""
        d_model, n_layers = (64, 2) if horizon else (32, 1)
        return replace(self, d_model=self.d_model or d_model, n_layers=self.n_layers or n_layers)

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> Network:
        config = self.resolve(horizon)
        if not horizon:
            return DiffusionFiller(config, sizes.measurements, n_calendar_features)
        return SequenceToSequence(
            config.cell,
            nn.Linear(config.d_model, sizes.measurements),
            config.diffusion,
            sizes.measurements,
            n_calendar_features,
            horizon,
            config.sampling_decay,
        )

    def cell(self, inputs: int) -> GraphCell:
        """Recurrent layers on the graph; as published, the bias of their gates starts at one."""
        convolution = partial(DiffusionConvolution, self.diffusion_steps)
        cell = GraphCell(convolution, inputs, self.d_model, self.n_layers)
        for gate in cell.gates:
            nn.init.ones_(cast(DiffusionConvolution, gate).linear.bias)
        return cell

    def diffusion(self, context: WindowContext | None, like: Tensor) -> Tensor:
        """The diffusion matrices of the graph of stations, (w, l, k)."""
        adjacency = adjacency_of_context(context, like, "dcrnn")
        return diffusion_matrices(adjacency, self.diffusion_steps)


class DiffusionFiller(Network):
    """Fills windows: `forward(values, observed, context) -> prediction`, (b, t, l, m)."""

    def __init__(self, config: DcrnnConfig, n_measurements: int, n_calendar_features: int) -> None:
        super().__init__()
        inputs = 2 * n_measurements + n_calendar_features
        self.diffusion = config.diffusion
        self.forwards, self.backwards = config.cell(inputs), config.cell(inputs)
        self.head = DiffusionConvolution(
            config.diffusion_steps, 2 * (config.d_model + n_measurements), n_measurements
        )

    def forward(self, values: Tensor, observed: Tensor, context: WindowContext) -> Tensor:
        matrices, window = self.diffusion(context, values), (values, observed, context.calendar)
        before = self._read(self.forwards, matrices, *window)
        after = self._read(self.backwards, matrices, *(tensor.flip(1) for tensor in window))
        (state_before, last), (state_after, following) = before, [x.flip(1) for x in after]
        features = torch.cat([state_before, state_after, last, following], dim=-1)
        prediction: Tensor = self.head(features.flatten(0, 1), matrices)
        return cast(Tensor, prediction.unflatten(0, features.shape[:2]))

    def _read(
        self, cell: GraphCell, matrices: Tensor, values: Tensor, observed: Tensor, calendar: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The state and the last observed value at each step, both (b, t, l, f)."""
        values = last_observed(values, observed)
        state, outputs = cell.start(values[:, 0]), []
        steps = (tensor.unbind(1) for tensor in (values, observed, calendar))
        for inputs in zip(*steps, strict=True):
            output, state = cell(cell_inputs(*inputs), state, matrices)
            outputs.append(output)
        return torch.stack(outputs, dim=1), values


TRAINING = TrainConfig(
    minutes=5, batch_size=0, lr=3e-3, masking="like_data", ema_decay=0.99, patience=0
)
"""The batch size depends on the task: the windows of a forecaster are short."""


@dataclass(frozen=True, kw_only=True)
class Dcrnn(OnGraph):
    """Diffusion convolutional recurrent neural network (DCRNN).

    Gated recurrent units in which every matrix product is a diffusion convolution: random walks of
    up to `diffusion_steps` steps on the graph, in both directions, each with weights of its own. To
    forecast, an encoder and a decoder of two layers with scheduled sampling, as published.

    Notes
    -----
    Deviations from the paper: without a given graph, distances are great circles, not along roads;
    the bandwidth of the kernel is the standard deviation of the distances without zeros, or their
    mean where they hardly differ. A mask of observed cells and the calendar are inputs, also of the
    decoder. Scheduled sampling decays in hundreds of training steps, not tens of thousands. Batches
    have 32 windows, not 64. But for the bias of the gates, initial weights are PyTorch's, as is
    Adam. The learning rate is lower and follows a cosine instead of steps. There is no early
    stopping, and a moving average of the weights is kept.

    The paper does not fill. To fill, such units, with fewer channels and one layer, which learn
    more within minutes, read the window in both directions. A missing cell starts from the last
    observation in either direction, and every cell is predicted from the two states and the two
    values of its step by one more diffusion convolution. Training hides cells as for our own
    network, including whole stations in a quarter of the windows.

    References
    ----------
    Li, Y., Yu, R., Shahabi, C., & Liu, Y. (2018). Diffusion convolutional recurrent neural network:
    Data-driven traffic forecasting. ICLR.
    """

    name: ClassVar[str] = "dcrnn"
    supports_known: ClassVar[bool] = False  # known covariates have no part in its training
    MIN_WINDOW: ClassVar[int] = 0

    model: DcrnnConfig = DcrnnConfig()
    train: TrainConfig = TRAINING
    window: int = 0
    """Time steps of a window, without the horizon; 0 means 36 to fill, and to forecast 12, as
    published, or as many as the horizon has."""

    stride: int | None = None
    """Steps from one training window to the next; by default a quarter of a window to fill, and one
    to forecast."""

    def _with_horizon(self, steps: int) -> Self:
        return replace(self, horizon=steps, window=max(steps, self.window) if self.window else 0)

    def resolve(self, cube: Cube | None = None, run: RunContext | None = None) -> Self:
        batch_size, window, stride = 8, FILL_WINDOW, None
        if self.horizon:
            batch_size, window, stride = 32, max(CONTEXT_LENGTH, self.horizon), 1
        return replace(
            self,
            model=self.model.resolve(self.horizon),
            train=replace(self.train, batch_size=self.train.batch_size or batch_size),
            window=self.window or window,
            stride=self.stride or stride,
        )


SMALL = DcrnnConfig(d_model=8, n_layers=1, sampling_decay=10.0)
Dcrnn.PRESETS = {"small": Dcrnn(model=SMALL, train=TRAINING.few_steps(), window=12, stride=6)}
