"""FC-LSTM: an encoder and a decoder that see all series at once and know of no graph.

Sutskever, Vinyals & Le, "Sequence to sequence learning with neural networks", NIPS 2014, as Li et
al. (ICLR 2018) compare with it: fully connected LSTM layers of 256 channels over all stations and
measurements flattened, scheduled sampling as theirs.

Different from there: a cell that was not measured is told apart by a flag; the share of true values
fades in hundreds of lessons; LSTM without peepholes, no weight decay, and a higher rate that falls
as a cosine; the calendar is told as sines and cosines, as to those on a graph.

Letters: b window of the batch, l location, f inputs of a location.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from torch import Tensor, nn

from cdsa.method.neural import Neural
from cdsa.models.axes import Sizes, refuse_below_one
from cdsa.models.seq2seq import Sampled, SequenceToSequence, State
from cdsa.train.loop import TrainConfig


@dataclass(frozen=True, kw_only=True)
class FcLstmConfig(Sampled):
    """Widths of the network."""

    situated: ClassVar[bool] = True
    fits_any: ClassVar[bool] = False

    hidden: int = 256
    """Channels of the state of a layer."""

    layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below_one(self, "hidden", "layers")

    def build(self, sizes: Sizes, horizon: int, clocks: int) -> nn.Module:
        """The network that foresees so many steps."""
        return SequenceToSequence(
            lambda inputs: ConnectedCell(self, sizes, inputs),
            lambda around, like: like,
            sizes.measurements,
            clocks,
            horizon,
            self.fading,
        )


class ConnectedCell(nn.Module):
    """LSTM layers over all locations flattened."""

    def __init__(self, config: FcLstmConfig, sizes: Sizes, inputs: int) -> None:
        super().__init__()
        self.width, self.hidden = sizes.measurements, config.hidden
        widths = [sizes.locations * inputs, *[config.hidden] * (config.layers - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(width, config.hidden) for width in widths)
        self.out = nn.Linear(config.hidden, sizes.locations * sizes.measurements)

    def start(self, like: Tensor) -> State:
        """Nothing is known at first: of every layer, what it tells and what it keeps."""
        return tuple(like.new_zeros(len(like), self.hidden) for _ in range(2 * len(self.cells)))

    def forward(self, x: Tensor, state: State, graph: Tensor) -> tuple[Tensor, State]:
        h, after = x.flatten(1), list[Tensor]()
        for number, cell in enumerate(self.cells):
            h, c = cell(h, (state[2 * number], state[2 * number + 1]))
            after += [h, c]
        return self.out(h).unflatten(1, (x.shape[1], self.width)), tuple(after)


def training() -> TrainConfig:
    """How it is trained."""
    return TrainConfig(minutes=5, batch=32, rate=1e-3, learn_from="hidden")


@dataclass(frozen=True, kw_only=True)
class FcLstm(Neural):
    """An encoder and a decoder that see all series at once."""

    name: ClassVar[str] = "fc-lstm"
    KNOWING: ClassVar[bool] = False  # its lessons never show what is known in advance

    model: FcLstmConfig = FcLstmConfig()
    train: TrainConfig = field(default_factory=training)
    steps: int = 12
    horizon: int = 12
    stride: int | None = 1


FcLstm.PRESETS = {
    "small": FcLstm(
        model=FcLstmConfig(hidden=8, layers=1, fading=10.0),
        train=replace(training(), minutes=None, epochs=2, batch=4, validate_every=5),
        steps=6,
        horizon=6,
        stride=3,
    ),
}
