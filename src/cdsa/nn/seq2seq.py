"""Recurrent encoder-decoder for forecasts.

The encoder reads the past. The decoder starts from its state and predicts one step after the other,
each from the one before: from its own prediction in use, and in training at times from the truth,
less and less often (scheduled sampling, Bengio et al., NIPS 2015).

Letters: b window of the batch, t time, l location, m measurement, f inputs of a location.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

import torch
from torch import Tensor, nn

from cdsa.nn.context import WindowContext
from cdsa.nn.types import Network, NetworkConfig, refuse_no_horizon

State = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(NetworkConfig):
    """Settings of an encoder-decoder with scheduled sampling."""

    uses_context: ClassVar[bool] = True

    sampling_decay: float = 100.0
    """Decay k of the probability that the decoder starts a step from the truth, an inverse sigmoid:
    one half after k ln(k) updates, 460 for 100; 0 for never."""


class Cell(Protocol):
    """One step of a recurrent network over all locations."""

    def start(self, like: Tensor) -> State:
        """The initial state, for inputs like these (b, l, f)."""

    def __call__(self, x: Tensor, state: State, graph: Tensor) -> tuple[Tensor, State]:
        """The output of the last layer and the next state."""


class SequenceToSequence(Network):
    """Forecasts the last `horizon` steps of a window, (b, t, l, m); the steps before are returned
    as they are. Values observed within the horizon replace predictions.

    `make_cell(f)` makes a cell, `head` makes values (b, l, m) of its output, and `make_graph` makes
    what cells get as graph.
    """

    teacher_forced = True

    def __init__(
        self,
        make_cell: Callable[[int], Cell],
        head: nn.Module,
        make_graph: Callable[[WindowContext | None, Tensor], Tensor],
        n_measurements: int,
        n_calendar_features: int,
        horizon: int,
        sampling_decay: float,
    ) -> None:
        super().__init__()
        refuse_no_horizon(horizon)
        self.horizon, self.make_graph, self.sampling_decay = horizon, make_graph, sampling_decay
        inputs = 2 * n_measurements + n_calendar_features
        self.encoder, self.decoder = make_cell(inputs), make_cell(inputs)
        self.head = head
        self.sampling_seed = int(torch.randint(2**31, ()))
        """From the seed of the initial weights, so that a resumed run draws the same."""
        self.n_updates: Tensor
        self.register_buffer("n_updates", torch.zeros((), dtype=torch.long))

    def forward(
        self, values: Tensor, observed: Tensor, context: WindowContext | None = None
    ) -> Tensor:
        values = torch.where(observed, values, 0.0)
        return self._run(values, observed, context, 1.0)

    def forward_teacher_forced(
        self, values: Tensor, observed: Tensor, context: WindowContext | None = None
    ) -> Tensor:
        prediction = self._run(values, observed, context, self.truth_probability())
        self.n_updates += 1
        return prediction

    def truth_probability(self) -> float:
        """How often the decoder starts from the truth: nearly always at first, then less often."""
        k = self.sampling_decay
        return k / (k + math.exp(min(self.n_updates.item() / k, 700))) if k else 0.0

    def _run(
        self, values: Tensor, observed: Tensor, context: WindowContext | None, probability: float
    ) -> Tensor:
        """The prediction, if steps start from the truth with this probability."""
        calendar = values.new_zeros(*values.shape[:2], 0) if context is None else context.calendar
        past = values.shape[1] - self.horizon
        graph = self.make_graph(context, values)
        rng = torch.Generator().manual_seed(self.sampling_seed + int(self.n_updates))
        state, outputs = self.encoder.start(values[:, 0]), [values[:, :past]]
        for t in range(past):
            x = cell_inputs(values[:, t], observed[:, t], calendar[:, t])
            _, state = self.encoder(x, state, graph)
        before, known = torch.zeros_like(values[:, 0]), torch.zeros_like(observed[:, 0])
        for t in range(past, values.shape[1]):
            x = cell_inputs(before, known, calendar[:, t])
            hidden, state = self.decoder(x, state, graph)
            prediction = cast(Tensor, self.head(hidden))  # (b, l, m)
            outputs.append(prediction.unsqueeze(1))
            before, known = prediction, torch.ones_like(known)
            if torch.rand((), generator=rng) < probability:
                before = torch.where(observed[:, t], values[:, t], prediction)
        return torch.cat(outputs, dim=1)


def cell_inputs(values: Tensor, known: Tensor, calendar: Tensor) -> Tensor:
    """Inputs of one step, (b, l, f): values, which of them are known, and the calendar."""
    everywhere = calendar.unsqueeze(1).expand(-1, values.shape[1], -1)
    return torch.cat([values, known.to(values.dtype), everywhere], dim=-1)
