"""IIN: a recurrent network that reads its own predictions and refines them, round by round.

Letters: b window of the batch, t time, l and k locations, m measurement, s series, n term.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, einsum, nn

from cdsa.methods.engine.estimator import Neural
from cdsa.nn.context import WindowContext
from cdsa.nn.graph import adjacency_of_distances
from cdsa.nn.interpolation import interpolate, zero_diagonal
from cdsa.nn.types import Network, NetworkConfig, Sizes
from cdsa.training.loop import TrainConfig


@dataclass(frozen=True, kw_only=True)
class IinConfig(NetworkConfig):
    uses_context: ClassVar[bool] = True

    d_model: int = 64
    """Hidden channels in each direction."""

    n_layers: int = 1
    n_rounds: int = 3
    """Rounds of prediction."""

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> Network:
        return IterativeNetwork(self, sizes, n_calendar_features)


class IterativeNetwork(Network):
    """Fills windows: `forward(values, observed, context) -> prediction`, (b, t, l, m)."""

    def __init__(self, config: IinConfig, sizes: Sizes, n_calendar_features: int) -> None:
        super().__init__()
        self.n_rounds = config.n_rounds
        n_series = sizes.locations * sizes.measurements
        self.lstm = nn.LSTM(
            4 * n_series + n_calendar_features,
            config.d_model,
            config.n_layers,
            batch_first=True,
            bidirectional=True,
        )
        self.head = nn.Linear(2 * config.d_model, n_series)
        self.series_weights = nn.Parameter(torch.zeros(n_series, n_series))
        """Learnt part of the spatial term, next to the mean of near stations."""
        self.term_weights = nn.Parameter(torch.full((2, n_series), 0.5))
        """Of the temporal and the spatial term, per series."""

    def forward(self, values: Tensor, observed: Tensor, context: WindowContext) -> Tensor:
        mask, weights = observed.to(values.dtype), neighbour_weights(values, context)
        prediction = interpolate(torch.where(observed, values, 0.0), observed).line
        for _ in range(self.n_rounds):
            x = torch.where(observed, values, prediction)
            spatial = einsum("lk, btkm -> btlm", weights, x).flatten(2)
            spatial = spatial + nn.functional.linear(
                x.flatten(2), zero_diagonal(self.series_weights)
            )
            terms = torch.stack([neighbour_mean(x).flatten(2), spatial])  # (2, b, t, s)
            inputs = [x.flatten(2), mask.flatten(2), *terms, context.calendar]
            residual = self.head(self.lstm(torch.cat(inputs, dim=-1))[0])
            weighted = einsum("nbts, ns -> bts", terms, self.term_weights)
            prediction = (residual + weighted).view_as(values)
        return prediction


def neighbour_weights(values: Tensor, context: WindowContext) -> Tensor:
    """Weights of the other stations in the spatial term, (l, k): rows sum to one, or to zero
    without a near station."""
    n_stations = values.shape[2]
    adjacency = values.new_ones(n_stations, n_stations)
    if context.distance is not None:
        adjacency = adjacency_of_distances(context.distance.to(values), context.bandwidth)
    others = zero_diagonal(adjacency)
    return others / others.sum(dim=1, keepdim=True).clamp(min=1e-6)


def neighbour_mean(x: Tensor) -> Tensor:
    """The mean of the steps before and after; at either end, of the step itself and its only
    neighbour."""
    padded = torch.cat([x[:, :1], x, x[:, -1:]], dim=1)
    return (padded[:, :-2] + padded[:, 2:]) / 2


TRAINING = TrainConfig(
    minutes=5, batch_size=16, lr=2e-3, masking="like_data", ema_decay=0.99, patience=0
)


@dataclass(frozen=True, kw_only=True)
class Iin(Neural):
    """Iterative imputing network (IIN).

    Missing values are latent variables with an initial value. In each round, recurrent layers read
    the completed window, and the missing values are replaced by their prediction; observed cells
    stay as they are. Each cell has a temporal term, the mean of the neighbouring steps, and a
    spatial term, the mean of the near stations. Both are inputs, and part of the prediction.

    Notes
    -----
    Deviations from the paper: the initial value is a linear interpolation, not a mean, from which
    the rounds do not find their way out of a long gap within minutes. When a gap is filled, the
    latent variables are found by the rounds alone, without gradient steps on an objective. Rounds
    share their weights and are trained together on hidden cells, by the absolute error of the last
    one, with a cosine learning rate after a warm-up. There is one bidirectional layer,
    over all series of a step at once. Near stations are those of the graph of distances, or all of
    them without coordinates; further weights between series, and the weights of the two terms, are
    learnt; the spatial term is zero without a near station. The calendar and the mask of observed
    cells are inputs. Cells are hidden as for our own network, including whole stations in a quarter
    of the windows; a moving average of the weights is kept, and windows overlap by half when a
    table is filled.

    References
    ----------
    Zhou, J., & Huang, Z. (2018). Recover missing sensor data with iterative imputing network. AAAI
    Workshops. arXiv:1711.07878.
    """

    name: ClassVar[str] = "iin"

    model: IinConfig = IinConfig()
    train: TrainConfig = TRAINING


SMALL = IinConfig(d_model=8, n_rounds=2)
Iin.PRESETS = {"small": Iin(model=SMALL, train=TRAINING.few_steps(), window=12, stride=6)}
