"""DCRNN: a recurrent network whose steps diffuse along the graph of stations.

Li, Yu, Shahabi & Liu, "Diffusion convolutional recurrent neural network: data-driven traffic
forecasting", ICLR 2018. Gated recurrent units in which every matrix product is a diffusion
convolution: random walks of up to `walks` steps on the graph, in both directions, each with weights
of its own. To forecast, an encoder and a decoder of two layers with scheduled sampling, as
published.

Different from the paper: distances are great circles, not along roads, unless a graph is given, and
the kernel is as wide as they differ without those of zero, or as they are where they hardly differ;
a cell that was not measured is told apart by a flag; the calendar is told as sines and cosines, to
the decoder too; scheduled sampling fades in hundreds of lessons, not tens of thousands; batches of
32 windows, not 64; weights begin, but for the gates' bias, and Adam is as PyTorch has them; the
rate is lower and falls as a cosine instead of in steps; nothing stops early, and the weights that
are kept are a moving average. The paper does not fill. To fill, the window is read in both
directions by such units, of fewer channels and one layer, which learn more in minutes; a cell that
was not measured starts from the last value that was, in either direction, and every cell is told
from the two states and the two values of its moment, along the graph once more. It learns from
hidden cells as our own network does, whole stations in a quarter of the windows among them.

Letters: b window of the batch, t time, l and k locations, f inputs of a location, w step of the
walk.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, cast

import torch
import xarray as xr
from torch import Tensor, nn

from cdsa.methods.engine.estimator import NeuralFiller, OnGraph
from cdsa.nn.context import WindowContext
from cdsa.nn.graph import DiffusionConvolution, GraphCell, adjacency_of_context, diffusion_matrices
from cdsa.nn.interpolation import last_seen
from cdsa.nn.seq2seq import Sampled, SequenceToSequence, inputs_of
from cdsa.nn.types import Sizes, refuse_below_one, refuse_negative
from cdsa.training.loop import TrainConfig

WINDOW, PAST = 36, 12
"""Steps of a window to fill, and those that a forecaster looks back on, as published."""


@dataclass(frozen=True, kw_only=True)
class DcrnnConfig(Sampled):
    """Widths of the network."""

    uses_context: ClassVar[bool] = True
    inductive: ClassVar[bool] = True

    d_model: int = 0
    """Channels of a location's state; 0 takes 32 to fill, and 64 to forecast, as published."""

    n_layers: int = 0
    """Of units; 0 takes one to fill, and two to forecast, as published."""

    diffusion_steps: int = 2
    """Steps of the longest walk."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below_one(self, "diffusion_steps")
        refuse_negative(self, "d_model", "n_layers")

    def settled(self, horizon: int) -> Self:
        """The same with what was left open, for the task."""
        hidden, layers = (64, 2) if horizon else (32, 1)
        return replace(self, d_model=self.d_model or hidden, n_layers=self.n_layers or layers)

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> nn.Module:
        """The network that foresees so many steps or, of none, that fills."""
        settled = self.settled(horizon)
        if not horizon:
            return DiffusionFiller(settled, sizes.measurements, n_calendar_features)
        return SequenceToSequence(
            settled.cell,
            nn.Linear(settled.d_model, sizes.measurements),
            settled.walks_around,
            sizes.measurements,
            n_calendar_features,
            horizon,
            settled.fading,
        )

    def cell(self, inputs: int) -> GraphCell:
        """Recurrent units over the graph; as published, their gates begin with a bias of one."""
        made = GraphCell(self.convolution, inputs, self.d_model, self.n_layers)
        for gate in made.gates:
            nn.init.ones_(cast(DiffusionConvolution, gate).mix.bias)
        return made

    def convolution(self, inputs: int, out: int) -> DiffusionConvolution:
        """What stands in the place of a matrix product."""
        return DiffusionConvolution(self.diffusion_steps, inputs, out)

    def walks_around(self, context: WindowContext | None, like: Tensor) -> Tensor:
        """The walks on the graph of the stations that lie around."""
        return diffusion_matrices(
            adjacency_of_context(context, like, "dcrnn"), self.diffusion_steps
        )


class DiffusionFiller(nn.Module):
    """Fills a window: `forward(values, observed, around) -> guess`, (b, t, l, m)."""

    def __init__(self, config: DcrnnConfig, measurements: int, n_calendar_features: int) -> None:
        super().__init__()
        inputs = 2 * measurements + n_calendar_features
        self.walks_around = config.walks_around
        self.forwards, self.backwards = config.cell(inputs), config.cell(inputs)
        self.tell = config.convolution(2 * (config.d_model + measurements), measurements)

    def forward(self, values: Tensor, observed: Tensor, context: WindowContext) -> Tensor:
        walks = self.walks_around(context, values)
        turned = observed.flip(1)
        last, following = last_seen(values, observed), last_seen(values.flip(1), turned)
        before = self._read(self.forwards, last, observed, context.calendar, walks)
        after = self._read(self.backwards, following, turned, context.calendar.flip(1), walks)
        both = torch.cat([before, after.flip(1), last, following.flip(1)], dim=-1)
        told: Tensor = self.tell(both.flatten(0, 1), walks)
        return cast(Tensor, told.unflatten(0, both.shape[:2]))

    def _read(
        self, cell: GraphCell, values: Tensor, seen: Tensor, clock: Tensor, walks: Tensor
    ) -> Tensor:
        """The state after each step, (b, t, l, f)."""
        state, told = cell.start(values[:, 0]), []
        for x, there, time in zip(values.unbind(1), seen.unbind(1), clock.unbind(1), strict=True):
            out, state = cell(inputs_of(x, there, time), state, walks)
            told.append(out)
        return torch.stack(told, dim=1)


def training() -> TrainConfig:
    """How it is trained; cells are hidden, and weights averaged, as for our own network. Windows
    per step are chosen by the task: those of a forecaster are short."""
    return TrainConfig(
        minutes=5,
        batch_size=0,
        lr=3e-3,
        schedule="cosine",
        loss_on="hidden",
        masking="like_data",
        ema_decay=0.99,
        patience=0,
    )


@dataclass(frozen=True, kw_only=True)
class Dcrnn(OnGraph):
    """A recurrent network that diffuses along the graph of stations."""

    name: ClassVar[str] = "dcrnn"
    KNOWING: ClassVar[bool] = False  # its lessons never show what is known in advance
    SMALLEST_WINDOW: ClassVar[int] = 0

    model: DcrnnConfig = DcrnnConfig()
    train: TrainConfig = field(default_factory=training)
    window: int = 0
    """Time steps of a window, of a forecaster those looked back on; 0 takes 36 to fill, and to
    forecast 12, as published, or as many as are foreseen."""

    stride: int | None = None
    """Steps from one training window to the next; if not given a quarter of a window to fill, and
    one to forecast."""

    def foreseeing(self, steps: int) -> Self:
        """The same for so many steps ahead, looking back on at least as many."""
        return replace(self, horizon=steps, window=max(steps, self.window) if self.window else 0)

    def fit(self, cube: xr.DataArray) -> NeuralFiller:
        """Learn from the measured cells of `cube`."""
        return super(Dcrnn, self.settled()).fit(cube)

    def settled(self) -> Self:
        """The same with what was left open, for the task."""
        ahead = self.horizon > 0
        return replace(
            self,
            model=self.model.settled(self.horizon),
            train=replace(self.train, batch_size=self.train.batch_size or (32 if ahead else 8)),
            window=self.window or (max(PAST, self.horizon) if ahead else WINDOW),
            stride=self.stride or (1 if ahead else None),
        )


Dcrnn.PRESETS = {
    "small": Dcrnn(
        model=DcrnnConfig(d_model=8, n_layers=1, fading=10.0),
        train=replace(training(), minutes=None, epochs=2, batch_size=4, validate_every=5),
        window=12,
        stride=6,
    ),
}
