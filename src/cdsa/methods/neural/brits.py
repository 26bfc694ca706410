"""BRITS: a recurrent network that reads a window in both directions and imputes it step by step.

Letters: b window of the batch, t time, s series, h hidden channels.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from cdsa.methods.engine.estimator import Neural
from cdsa.nn.interpolation import steps_since_observed, zero_diagonal
from cdsa.nn.types import Network, NetworkConfig, Sizes
from cdsa.training.loop import TrainConfig

CONSISTENCY_WEIGHT = 0.1
"""Weight of the disagreement of the two directions, next to errors that are summed over the steps,
as in the authors' code."""


@dataclass(frozen=True, kw_only=True)
class BritsConfig(NetworkConfig):
    d_model: int = 64
    """Hidden channels."""

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> Network:
        return BritsNetwork(self, sizes, horizon)


class Rits(nn.Module):
    """One direction: `forward(values, observed, visible)`, all (b, t, s), returns the combined
    estimate of every cell, (b, t, s), and the mean absolute error on observed cells, summed over
    the three estimates. Only visible cells are read."""

    def __init__(self, n_series: int, hidden: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(2 * n_series, hidden)
        self.history = nn.Linear(hidden, n_series)
        self.features = nn.Linear(n_series, n_series)
        self.state_decay = nn.Linear(n_series, hidden)
        # not zero, where the ReLU behind them has no gradient
        initial = torch.empty(2, n_series).uniform_(-(n_series**-0.5), n_series**-0.5)
        self.value_decay, self.value_decay_shift = (nn.Parameter(row.clone()) for row in initial)
        self.balance = nn.Linear(2 * n_series, n_series)

    def forward(self, values: Tensor, observed: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        seen, target = visible.to(values.dtype), observed.to(values.dtype)
        since = steps_since_observed(seen)
        # what does not depend on the state is computed for all steps at once
        state_decay = torch.exp(-torch.relu(self.state_decay(since)))  # (b, t, h)
        value_decay = torch.exp(-torch.relu(self.value_decay * since + self.value_decay_shift))
        balance = self.balance(torch.cat([value_decay, seen], dim=-1)).sigmoid()  # (b, t, s)
        weight, bias = zero_diagonal(self.features.weight), self.features.bias
        h = values.new_zeros(len(values), self.cell.hidden_size)
        c, estimates = torch.zeros_like(h), []
        steps = (tensor.unbind(1) for tensor in (values, visible, seen, state_decay, balance))
        for x, known, m, decay, beta in zip(*steps, strict=True):
            h = h * decay
            history = self.history(h)
            features = nn.functional.linear(torch.where(known, x, history), weight, bias)
            combined = torch.lerp(history, features, beta)
            h, c = self.cell(torch.cat([torch.where(known, x, combined), m], dim=-1), (h, c))
            estimates.append(torch.stack([history, features, combined]))
        stacked = torch.stack(estimates, dim=2)  # (3, b, t, s)
        error = ((stacked - values).abs() * target).sum() / target.sum().clamp(min=1)
        return stacked[-1], error


class BritsNetwork(Network):
    """Both directions: `forward(values, observed) -> prediction`, (b, t, l, m). The last `horizon`
    steps are forecast."""

    custom_loss = True

    def __init__(self, config: BritsConfig, sizes: Sizes, horizon: int) -> None:
        super().__init__()
        self.horizon = horizon
        n_series = sizes.locations * sizes.measurements
        self.forwards = Rits(n_series, config.d_model)
        self.backwards = Rits(n_series, config.d_model)

    def forward(self, values: Tensor, observed: Tensor, context: object = None) -> Tensor:
        forth, back, _ = self._read(values, observed, observed)
        past = values.shape[1] - self.horizon
        mean = (forth[:, :past] + back[:, :past]) / 2
        return torch.cat([mean, forth[:, past:]], dim=1).view_as(values)

    def loss(self, values: Tensor, observed: Tensor, visible: Tensor) -> Tensor:
        forth, back, error = self._read(values, observed, visible)
        past = values.shape[1] - self.horizon
        gaps = ~visible[:, :past].flatten(2)
        consistency = ((forth[:, :past] - back[:, :past]).abs() * gaps).mean()
        return error + CONSISTENCY_WEIGHT * consistency / values.shape[1]

    def _read(
        self, values: Tensor, observed: Tensor, visible: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The estimates of both directions, (b, t, s), and the sum of their errors."""
        window = [tensor.flatten(2) for tensor in (values, observed, visible)]
        back, back_error = self.backwards(*(tensor.flip(1) for tensor in window))
        forth, forth_error = self.forwards(*window)
        return forth, back.flip(1), forth_error + back_error


TRAINING = TrainConfig(minutes=5, batch_size=16, lr=1e-3, loss_on="visible")


@dataclass(frozen=True, kw_only=True)
class Brits(Neural):
    """Bidirectional recurrent imputation for time series (BRITS).

    At every step each series is estimated from the hidden state (history), then from the other
    series at this step (features), and the two are combined. The imputed step enters the state,
    which decays with the time since the last observation. The loss is the error of all three
    estimates on observed cells, and the disagreement of the two directions in gaps.

    Notes
    -----
    Where the paper and the authors' code differ, the weight of the two estimates is a sigmoid and
    steps are counted from the last observation before, as in the paper; the weight of the
    disagreement is that of the code.

    Deviations from both: there is no classification and no loss of it. An error is the mean over
    all observed cells of a batch, not a sum of the means of each step. Series are stations times
    measurements, standardised per measurement. Batches have 16 windows, the learning rate follows a
    cosine, and gradients are clipped. A table is filled from windows that overlap by half. To
    forecast, the horizon is filled like any gap: in training it is hidden from the inputs and
    counted in the loss. It is predicted by the forward direction alone, since the backward one
    has read nothing before it, and the two need not agree there.

    References
    ----------
    Cao, W., Wang, D., Li, J., Zhou, H., Li, L., & Li, Y. (2018). BRITS: Bidirectional recurrent
    imputation for time series. NeurIPS.
    """

    name: ClassVar[str] = "brits"

    model: BritsConfig = BritsConfig()
    train: TrainConfig = TRAINING


Brits.PRESETS = {
    "small": Brits(model=BritsConfig(d_model=8), train=TRAINING.few_steps(), window=12, stride=6)
}
