"""BRITS: a recurrent network reads the window forwards and backwards and fills it as it goes.

Cao, Wang, Li, Zhou, Li & Li, "BRITS: bidirectional recurrent imputation for time series", NeurIPS
2018. At every step each series is told from the state (history), then from the other series at this
step (features), and both are mixed; what is filled goes on into the state, which decays the longer
nothing was seen. It learns from what is visible: all three estimates of every observed cell, and
that the two directions agree. Where paper and authors' code are at odds, the share of the two
estimates is a sigmoid and steps are counted from the last sight before, as in the paper; the weight
of the agreement is that of the code.

Different from both: nothing is classified, so there is no loss of a label; an error is the mean
over all observed cells of a batch, not a sum of the means of each step. Series are stations times
measurements, flattened, and scaled by measurement, not each by itself; batches of 16 windows, a
learning rate that falls as a cosine, and gradients that are clipped. A table is filled from windows
that overlap by half. To forecast, the steps ahead are filled like any gap; while it learns they are
hidden from what it reads, and its estimates of them count like all others. They are told by the
forward direction alone, for the other one has read nothing before it comes to them, and needs not
agree with it there.

Letters: b window of the batch, t time, s series, h hidden channels.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from cdsa.methods.engine.estimator import Neural
from cdsa.nn.interpolation import steps_since, without_itself
from cdsa.nn.types import Sizes, refuse_below_one
from cdsa.training.loop import TrainConfig

AGREEMENT = 0.1
"""Weight of the disagreement of the two directions beside errors that are summed over the steps, as
in the authors' code."""


@dataclass(frozen=True, kw_only=True)
class BritsConfig:
    """Widths of the network."""

    uses_context: ClassVar[bool] = False
    inductive: ClassVar[bool] = False

    d_model: int = 64
    """Channels of the state."""

    def __post_init__(self) -> None:
        refuse_below_one(self, "d_model")

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> nn.Module:
        """The network for windows of these sizes."""
        return BritsNetwork(self, sizes, horizon)


class Reading(NamedTuple):
    """What one direction made of a window."""

    filled: Tensor
    """The mixed estimate of every cell, (b, t, s)."""

    error: Tensor
    """Mean absolute error of the three estimates on observed cells, summed over the three."""


class Direction(nn.Module):
    """One direction: `forward(values, observed, shown) -> Reading`, all (b, t, s); what was
    observed but is not shown is told and not read."""

    def __init__(self, series: int, hidden: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(2 * series, hidden)
        self.history = nn.Linear(hidden, series)
        self.features = nn.Linear(series, series)
        self.state_decay = nn.Linear(series, hidden)
        # not zero, where what they go through has no slope
        first = torch.empty(2, series).uniform_(-(series**-0.5), series**-0.5)
        self.value_decay, self.value_decay_shift = (nn.Parameter(part.clone()) for part in first)
        self.balance = nn.Linear(2 * series, series)

    def forward(self, values: Tensor, observed: Tensor, shown: Tensor) -> Reading:
        seen, told_on = shown.to(values.dtype), observed.to(values.dtype)
        since = steps_since(seen)
        # what does not depend on the state is told of all steps at once
        state_stays = torch.exp(-torch.relu(self.state_decay(since)))  # (b, t, h)
        value_stays = torch.exp(-torch.relu(self.value_decay * since + self.value_decay_shift))
        share = self.balance(torch.cat([value_stays, seen], dim=-1)).sigmoid()  # (b, t, s)
        weight, bias = without_itself(self.features.weight), self.features.bias
        h = values.new_zeros(len(values), self.cell.hidden_size)
        c, told = torch.zeros_like(h), []
        steps = (part.unbind(1) for part in (values, shown, seen, state_stays, share))
        for x, there, m, stays, mix in zip(*steps, strict=True):
            h = h * stays
            past = self.history(h)
            beside = nn.functional.linear(torch.where(there, x, past), weight, bias)
            mixed = torch.lerp(past, beside, mix)
            h, c = self.cell(torch.cat([torch.where(there, x, mixed), m], dim=-1), (h, c))
            told.append(torch.stack([past, beside, mixed]))
        estimates = torch.stack(told, dim=2)  # (3, b, t, s)
        error = ((estimates - values).abs() * told_on).sum() / told_on.sum().clamp(min=1)
        return Reading(estimates[-1], error)


class BritsNetwork(nn.Module):
    """Both directions: `forward(values, observed) -> (b, t, l, m)`; the last `horizon` steps are
    foreseen."""

    def __init__(self, config: BritsConfig, sizes: Sizes, horizon: int) -> None:
        super().__init__()
        self.horizon = horizon
        series = sizes.locations * sizes.measurements
        self.forwards = Direction(series, config.d_model)
        self.backwards = Direction(series, config.d_model)

    def forward(self, values: Tensor, observed: Tensor) -> Tensor:
        one, other = self._read(values, observed, observed)
        past = values.shape[1] - self.horizon
        both = (one.filled[:, :past] + other.filled[:, :past]) / 2
        return torch.cat([both, one.filled[:, past:]], dim=1).view_as(values)

    def loss(self, values: Tensor, observed: Tensor, shown: Tensor) -> Tensor:
        """What it learns by: see `OwnLesson`."""
        one, other = self._read(values, observed, shown)
        past = values.shape[1] - self.horizon
        gaps = ~shown[:, :past].flatten(2)
        apart = ((one.filled[:, :past] - other.filled[:, :past]).abs() * gaps).mean()
        return one.error + other.error + AGREEMENT * apart / values.shape[1]

    def _read(self, values: Tensor, observed: Tensor, shown: Tensor) -> tuple[Reading, Reading]:
        window = [part.flatten(2) for part in (values, observed, shown)]
        turned = self.backwards(*(part.flip(1) for part in window))
        return self.forwards(*window), turned._replace(filled=turned.filled.flip(1))


def training() -> TrainConfig:
    """How it is trained: the authors' rate, on what is visible."""
    return TrainConfig(minutes=5, batch_size=16, lr=1e-3, loss_on="visible")


@dataclass(frozen=True, kw_only=True)
class Brits(Neural):
    """A recurrent network in both directions."""

    name: ClassVar[str] = "brits"

    model: BritsConfig = BritsConfig()
    train: TrainConfig = field(default_factory=training)


Brits.PRESETS = {
    "small": Brits(
        model=BritsConfig(d_model=8),
        train=replace(training(), minutes=None, epochs=2, batch_size=4, validate_every=5),
        window=12,
        stride=6,
    ),
}
