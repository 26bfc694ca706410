"""What a map leans to before anything is learnt: near times, places that are near or alike, the
same measurement.

At first each head is a smoother of its own reach; training only improves on that.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cdsa.nn.context import WindowContext
from cdsa.nn.types import Axis

TIME_SLOPES = (0.02, 1.0)
"""Of the first scores per step of lag, from the head with the widest reach to the narrowest."""


PLACE_SLOPES = (0.1, 10.0)
"""The same per unit of distance."""


LIKENESS = (0.1, 8.0)
"""What a full resemblance adds to the first score of a place, from the least to the most."""


OWN_MEASUREMENT = (0.5, 5.0)
"""What a measurement's first score for itself is, from the most open head to the closest."""


class AttentionBias(nn.Module):
    """The priors of one layer: surroundings of T steps, L places, M measurements -> (h, N, N)
    by axis; of location (b, h, N, N) where windows differ. Slopes are positive and learnt."""

    def __init__(self, heads: int, measurements: int) -> None:
        super().__init__()
        self.time = nn.Parameter(_unsoftened(_spread(*TIME_SLOPES, heads)))
        # so that reach in time and reach in space come in all combinations
        stride = next(s for s in (3, 5, 7, 11) if math.gcd(s, heads) == 1)
        crossed = torch.arange(heads) * stride % heads
        self.place = nn.Parameter(_unsoftened(_spread(*PLACE_SLOPES, heads)[crossed]))
        self.likeness = nn.Parameter(_unsoftened(_spread(*LIKENESS, heads)[crossed]))
        own = _spread(*OWN_MEASUREMENT, heads).flip(0)
        self.kind = nn.Parameter(own.unflatten(0, (-1, 1, 1)) * torch.eye(measurements))

    def forward(self, steps: int, context: WindowContext) -> dict[Axis, Tensor]:
        number = torch.arange(steps, device=self.time.device, dtype=self.time.dtype)
        lags = (number.unsqueeze(1) - number).abs()
        kinds = context.variable_ids
        found: dict[Axis, Tensor] = {
            "time": -F.softplus(self.time).unflatten(0, (-1, 1, 1)) * lags,
            "measurement": self.kind[:, kinds.unsqueeze(1), kinds],
        }
        alike = context.station_similarity.unsqueeze(-3)  # (1, l, k) or (b, 1, l, k)
        near = F.softplus(self.likeness).unflatten(0, (-1, 1, 1)) * alike
        if context.distance is not None:
            slopes = F.softplus(self.place).unflatten(0, (-1, 1, 1))
            near = near - slopes * context.distance
        return found | {"location": near}


def _spread(low: float, high: float, count: int) -> Tensor:
    return torch.logspace(math.log10(low), math.log10(high), count)


def _unsoftened(positive: Tensor) -> Tensor:
    """The inverse of softplus."""
    return positive.expm1().log()
