"""FC-LSTM: an encoder-decoder over all series at once, without a graph.

Letters: b window of the batch, l location, f inputs of a location.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from cdsa.methods.engine.estimator import Neural
from cdsa.nn.seq2seq import Seq2SeqConfig, SequenceToSequence, State
from cdsa.nn.types import Network, Sizes
from cdsa.training.loop import TrainConfig


@dataclass(frozen=True, kw_only=True)
class FcLstmConfig(Seq2SeqConfig):
    d_model: int = 256
    """Hidden channels of a layer."""

    n_layers: int = 2

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> Network:
        return SequenceToSequence(
            lambda inputs: FullyConnectedCell(self, sizes.locations * inputs),
            nn.Sequential(
                nn.Linear(self.d_model, sizes.locations * sizes.measurements),
                nn.Unflatten(1, (sizes.locations, sizes.measurements)),
            ),
            lambda context, like: like,
            sizes.measurements,
            n_calendar_features,
            horizon,
            self.sampling_decay,
        )


class FullyConnectedCell(nn.Module):
    """LSTM layers over all locations, flattened."""

    def __init__(self, config: FcLstmConfig, inputs: int) -> None:
        super().__init__()
        self.hidden = config.d_model
        sizes = [inputs, *[config.d_model] * (config.n_layers - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(size, config.d_model) for size in sizes)

    def start(self, like: Tensor) -> State:
        """Zeros: h and c of every layer."""
        return tuple(like.new_zeros(len(like), self.hidden) for _ in range(2 * len(self.cells)))

    def forward(self, x: Tensor, state: State, graph: Tensor) -> tuple[Tensor, State]:
        h, new_state = x.flatten(1), list[Tensor]()
        for number, cell in enumerate(self.cells):
            h, c = cell(h, (state[2 * number], state[2 * number + 1]))
            new_state += [h, c]
        return h, tuple(new_state)


TRAINING = TrainConfig(minutes=5, batch_size=32, lr=1e-3)


@dataclass(frozen=True, kw_only=True)
class FcLstm(Neural):
    """Fully connected LSTM encoder-decoder (FC-LSTM).

    Sequence-to-sequence learning [1] as in the comparison of [2]: two LSTM layers of 256 channels
    in the encoder and in the decoder, over all stations and measurements, flattened.

    Notes
    -----
    Deviations from the papers: scheduled sampling, as in the networks on a graph. A mask of
    observed cells and the calendar (time of day and, where seen often enough, of week and year) are
    inputs. No peepholes and no weight decay; batches of 32 windows, not 64, and a higher learning
    rate that follows a cosine.

    References
    ----------
    [1] Sutskever, I., Vinyals, O., & Le, Q. V. (2014). Sequence to sequence learning with neural
    networks. NIPS.

    [2] Li, Y., Yu, R., Shahabi, C., & Liu, Y. (2018). Diffusion convolutional recurrent neural
    network: Data-driven traffic forecasting. ICLR.
    """

    name: ClassVar[str] = "fc-lstm"
    supports_known: ClassVar[bool] = False  # known covariates have no part in its training

    model: FcLstmConfig = FcLstmConfig()
    train: TrainConfig = TRAINING
    window: int = 12
    horizon: int = 12
    stride: int | None = 1


SMALL = FcLstmConfig(d_model=8, n_layers=1, sampling_decay=10.0)
FcLstm.PRESETS = {
    "small": FcLstm(model=SMALL, train=TRAINING.few_steps(), window=6, horizon=6, stride=3)
}
