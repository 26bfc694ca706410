"""FC-LSTM: an encoder and a decoder that see all series at once and know of no graph.

Sutskever, Vinyals & Le, "Sequence to sequence learning with neural networks", NIPS 2014, as Li et
al. (ICLR 2018) compare with it: two fully connected LSTM layers of 256 channels, in the encoder and
in the decoder, over all stations and measurements flattened.

Different from there: scheduled sampling, as of those on a graph; a cell that was not measured is
told apart by a flag; the calendar, the day and if it was seen often enough the week and the year,
is told to every station as sines and cosines; LSTM without peepholes, no weight decay, batches of
32 windows, not 64, and a higher rate that falls as a cosine.

Letters: b window of the batch, l location, f inputs of a location.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from torch import Tensor, nn

from cdsa.methods.engine.estimator import Neural
from cdsa.nn.seq2seq import Sampled, SequenceToSequence, State
from cdsa.nn.types import Sizes, refuse_below_one
from cdsa.training.loop import TrainConfig


@dataclass(frozen=True, kw_only=True)
class FcLstmConfig(Sampled):
    """Widths of the network."""

    uses_context: ClassVar[bool] = True
    inductive: ClassVar[bool] = False

    d_model: int = 256
    """Channels of the state of a layer."""

    n_layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below_one(self, "d_model", "n_layers")

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> nn.Module:
        """The network that foresees so many steps."""
        return SequenceToSequence(
            lambda inputs: ConnectedCell(self, sizes.locations * inputs),
            nn.Sequential(
                nn.Linear(self.d_model, sizes.locations * sizes.measurements),
                nn.Unflatten(1, (sizes.locations, sizes.measurements)),
            ),
            lambda around, like: like,
            sizes.measurements,
            n_calendar_features,
            horizon,
            self.fading,
        )


class ConnectedCell(nn.Module):
    """LSTM layers over all locations flattened."""

    def __init__(self, config: FcLstmConfig, inputs: int) -> None:
        super().__init__()
        self.hidden = config.d_model
        widths = [inputs, *[config.d_model] * (config.n_layers - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(width, config.d_model) for width in widths)

    def start(self, like: Tensor) -> State:
        """Nothing is known at first: of every layer, what it tells and what it keeps."""
        return tuple(like.new_zeros(len(like), self.hidden) for _ in range(2 * len(self.cells)))

    def forward(self, x: Tensor, state: State, graph: Tensor) -> tuple[Tensor, State]:
        h, after = x.flatten(1), list[Tensor]()
        for number, cell in enumerate(self.cells):
            h, c = cell(h, (state[2 * number], state[2 * number + 1]))
            after += [h, c]
        return h, tuple(after)


def training() -> TrainConfig:
    """How it is trained."""
    return TrainConfig(minutes=5, batch_size=32, lr=1e-3)


@dataclass(frozen=True, kw_only=True)
class FcLstm(Neural):
    """An encoder and a decoder that see all series at once."""

    name: ClassVar[str] = "fc-lstm"
    KNOWING: ClassVar[bool] = False  # its lessons never show what is known in advance

    model: FcLstmConfig = FcLstmConfig()
    train: TrainConfig = field(default_factory=training)
    window: int = 12
    horizon: int = 12
    stride: int | None = 1


FcLstm.PRESETS = {
    "small": FcLstm(
        model=FcLstmConfig(d_model=8, n_layers=1, fading=10.0),
        train=replace(training(), minutes=None, epochs=2, batch_size=4, validate_every=5),
        window=6,
        horizon=6,
        stride=3,
    ),
}
