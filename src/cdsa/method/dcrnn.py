"""DCRNN: a recurrent network whose steps diffuse along the graph of stations.

Li, Yu, Shahabi & Liu, "Diffusion convolutional recurrent neural network: data-driven traffic
forecasting", ICLR 2018. Gated recurrent units in which every matrix product is a diffusion
convolution: random walks of up to `walks` steps on the graph, in both directions, each with weights
of its own. To forecast, an encoder and a decoder of two layers with scheduled sampling, as
published.

Different from the paper: distances are great circles, not along roads, unless a graph is given; a
cell that was not measured is told apart by a flag; the calendar is told as sines and cosines, to
the decoder too; scheduled sampling fades in hundreds of lessons, not thousands; Adam is as it
comes, its rate is lower and falls as a cosine instead of in steps, and the weights that are kept
are a moving average. The paper does not fill. To fill, the window is read in both directions by
such units, of fewer channels and one layer, which learn more in minutes; a cell that was not
measured starts from the last value that was, in either direction, and every cell is told from the
two states and the two values of its moment, along the graph once more. It learns from hidden cells
as our own network does, whole stations in a quarter of the lessons among them.

Letters: b window of the batch, t time, l and k locations, f inputs of a location, w step of the
walk.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, cast

import torch
from torch import Tensor, nn

from cdsa.method.graph import OnGraph
from cdsa.models.axes import Sizes, refuse_below_one
from cdsa.models.graphs import DiffusionConvolution, GraphCell, graph_around, walks_on
from cdsa.models.recurrence import last_seen
from cdsa.models.seq2seq import Sampled, SequenceToSequence, inputs_of
from cdsa.models.surroundings import Surroundings
from cdsa.train.loop import TrainConfig

PAST = 12
"""Steps that a forecaster looks back on, as published."""


@dataclass(frozen=True, kw_only=True)
class DcrnnConfig(Sampled):
    """Widths of the network."""

    situated: ClassVar[bool] = True
    fits_any: ClassVar[bool] = True

    hidden: int = 32
    """Channels of a location's state; 64 of a forecaster, as published, unless it was set."""

    layers: int = 1
    """Of units; two of a forecaster, as published, unless it was set."""

    walks: int = 2
    """Steps of the longest walk."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below_one(self, "hidden", "layers", "walks")

    def build(self, sizes: Sizes, horizon: int, clocks: int) -> nn.Module:
        """The network that foresees so many steps or, of none, that fills."""
        if not horizon:
            return DiffusionFiller(self, sizes.measurements, clocks)
        return SequenceToSequence(
            self.cell, self.walks_around, sizes.measurements, clocks, horizon, self.fading
        )

    def cell(self, inputs: int) -> GraphCell:
        """Recurrent units over the graph; as published, their gates begin with a bias of one."""
        made = GraphCell(self.convolution, inputs, self.hidden, self.layers)
        for gate in made.gates:
            nn.init.ones_(cast(DiffusionConvolution, gate).mix.bias)
        return made

    def convolution(self, inputs: int, out: int) -> DiffusionConvolution:
        """What stands in the place of a matrix product."""
        return DiffusionConvolution(self.walks, inputs, out)

    def walks_around(self, around: Surroundings | None, like: Tensor) -> Tensor:
        """The walks on the graph of the stations that lie around."""
        return walks_on(graph_around(around, like, "dcrnn"), self.walks)


class DiffusionFiller(nn.Module):
    """Fills a window: `forward(values, observed, around) -> guess`, (b, t, l, m)."""

    def __init__(self, config: DcrnnConfig, measurements: int, clocks: int) -> None:
        super().__init__()
        inputs = 2 * measurements + clocks
        self.walks_around = config.walks_around
        self.forwards, self.backwards = config.cell(inputs), config.cell(inputs)
        self.tell = config.convolution(2 * (config.hidden + measurements), measurements)

    def forward(self, values: Tensor, observed: Tensor, around: Surroundings) -> Tensor:
        walks = self.walks_around(around, values)
        last = last_seen(values, observed)
        values, turned, clock = values.flip(1), observed.flip(1), around.clock.flip(1)
        following = last_seen(values, turned)
        before = self._read(self.forwards, last, observed, around.clock, walks)
        after = self._read(self.backwards, following, turned, clock, walks)
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


PUBLISHED = DcrnnConfig(hidden=64, layers=2)
"""The forecaster."""
AHEAD_BATCH = 32
"""Windows per step of a forecaster, which are short."""


def training() -> TrainConfig:
    """How it is trained; cells are hidden, and weights averaged, as for our own network."""
    return TrainConfig(
        minutes=5,
        batch=8,
        rate=3e-3,
        schedule="cosine",
        learn_from="hidden",
        hide="natural",
        average=0.99,
        patience=0,
    )


@dataclass(frozen=True, kw_only=True)
class Dcrnn(OnGraph):
    """A recurrent network that diffuses along the graph of stations."""

    name: ClassVar[str] = "dcrnn"
    KNOWING: ClassVar[bool] = False  # its lessons never show what is known in advance

    model: DcrnnConfig = DcrnnConfig()
    train: TrainConfig = field(default_factory=training)

    def foreseeing(self, steps: int) -> Self:
        """The same for so many steps ahead, as wide as published and looking back on as many steps
        as there, or as are foreseen, unless it was set."""
        past = PAST if self.steps == Dcrnn.steps else self.steps
        model, train, usual = self.model, self.train, DcrnnConfig()
        hidden = PUBLISHED.hidden if model.hidden == usual.hidden else model.hidden
        layers = PUBLISHED.layers if model.layers == usual.layers else model.layers
        batch = AHEAD_BATCH if train.batch == training().batch else train.batch
        return replace(
            self,
            model=replace(model, hidden=hidden, layers=layers),
            horizon=steps,
            steps=max(steps, past),
            stride=self.stride or 1,
            train=replace(train, batch=batch),
        )


Dcrnn.PRESETS = {
    "small": Dcrnn(
        model=DcrnnConfig(hidden=8, layers=1, fading=10.0),
        train=replace(training(), minutes=None, epochs=2, batch=4, validate_every=5),
        steps=12,
        stride=6,
    ),
}
