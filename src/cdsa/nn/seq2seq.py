"""Encoder and decoder, step by step: what recurrent forecasters share.

The encoder reads the past; the decoder starts from its state and tells one step after the other,
each from the one before: from its own guess when it is used, and now and then from the truth while
it learns, less and less often (scheduled sampling, Bengio et al., NIPS 2015).

Letters: b window of the batch, t time, l location, m measurement, f inputs of a location.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from cdsa.nn.context import WindowContext
from cdsa.nn.types import Network, refuse_negative, refuse_no_horizon

State = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Settings of scheduled sampling."""

    fading: float = 100.0
    """How slowly the share of true values falls that the decoder starts from, as an inverse
    sigmoid: to one half after k ln(k) lessons, 460 of 100; 0 for none."""

    def __post_init__(self) -> None:
        refuse_negative(self, "fading")


class Cell(Protocol):
    """One step of a recurrent network over all locations."""

    def start(self, like: Tensor) -> State:
        """The state before the first step, for inputs like these (b, l, f)."""
        ...

    def __call__(self, x: Tensor, state: State, graph: Tensor) -> tuple[Tensor, State]:
        """What its last layer tells and the next state; `graph` is whatever the network made of the
        surroundings."""
        ...


class SequenceToSequence(Network):
    """Foresees the last `horizon` steps of a window: `forward(values, observed, around) -> guess`,
    (b, t, l, m); the steps before are as they were seen. What is observed within the horizon is
    used in the place of a guess. `make` makes cells for so many inputs of a location, and `tell`
    makes values (b, l, m) of what a cell tells."""

    teacher_forced = True

    def __init__(
        self,
        make: Callable[[int], Cell],
        tell: nn.Module,
        graph_of: Callable[[WindowContext | None, Tensor], Tensor],
        measurements: int,
        n_calendar_features: int,
        horizon: int,
        fading: float,
    ) -> None:
        super().__init__()
        refuse_no_horizon(horizon)
        self.horizon, self.graph_of, self.fading = horizon, graph_of, fading
        inputs = 2 * measurements + n_calendar_features
        self.encode, self.decode = make(inputs), make(inputs)
        self.tell = tell
        self.dice = int(torch.randint(2**31, ()))
        """By the seed that the first weights are from; so a run that goes on casts the same."""
        self.lessons: Tensor
        self.register_buffer("lessons", torch.zeros((), dtype=torch.long))

    def forward(
        self, values: Tensor, observed: Tensor, context: WindowContext | None = None
    ) -> Tensor:
        return self._run(torch.where(observed, values, 0.0), observed, context, truth=1.0)

    def forward_teacher_forced(
        self, values: Tensor, observed: Tensor, context: WindowContext | None = None
    ) -> Tensor:
        """The same with the truth as what a step starts from, now and then."""
        told = self._run(values, observed, context, truth=self.truth_share())
        self.lessons += 1
        return told

    def truth_share(self) -> float:
        """How often the decoder starts from the truth: nearly always at first, then ever less."""
        if not self.fading:
            return 0.0
        return self.fading / (self.fading + math.exp(min(self.lessons.item() / self.fading, 700)))

    def _run(
        self, values: Tensor, observed: Tensor, context: WindowContext | None, *, truth: float
    ) -> Tensor:
        clock = values.new_zeros(*values.shape[:2], 0) if context is None else context.calendar
        past = values.shape[1] - self.horizon
        graph = self.graph_of(context, values)
        dice = torch.Generator().manual_seed(self.dice + int(self.lessons))
        state, told = self.encode.start(values[:, 0]), [values[:, :past]]
        for t in range(past):
            x = inputs_of(values[:, t], observed[:, t], clock[:, t])
            _, state = self.encode(x, state, graph)
        guess, known = torch.zeros_like(values[:, 0]), torch.zeros_like(observed[:, 0])
        for t in range(past, values.shape[1]):
            x = inputs_of(guess, known, clock[:, t])
            out, state = self.decode(x, state, graph)
            answer = cast(Tensor, self.tell(out))  # (b, l, m)
            told.append(answer.unsqueeze(1))
            guess, known = answer, torch.ones_like(known)
            if torch.rand((), generator=dice) < truth:
                guess = torch.where(observed[:, t], values[:, t], answer)
        return torch.cat(told, dim=1)


def inputs_of(values: Tensor, known: Tensor, clock: Tensor) -> Tensor:
    """What a step is told of each location, (b, l, f): its values, which of them are known, and the
    time."""
    everywhere = clock.unsqueeze(1).expand(-1, values.shape[1], -1)
    return torch.cat([values, known.to(values.dtype), everywhere], dim=-1)
