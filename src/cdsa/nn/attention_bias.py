"""Attention biases of the default network: maps favour near times, near or similar stations, and
the same or correlated measurements.

Each head starts as a smoother with a scale of its own, and training improves on that.

Letters: `attention.py`.
"""

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cdsa.nn.context import WindowContext
from cdsa.nn.types import Axis

TIME_SLOPES = (0.02, 1.0)
"""Initial penalty per step of lag, from the widest head to the narrowest."""

DISTANCE_SLOPES = (0.1, 10.0)
"""Initial penalty per unit of distance."""

SIMILARITY_SCALES = (0.1, 8.0)
"""Initial bonus of a station with a correlation of one."""

SAME_MEASUREMENT = (0.5, 5.0)
"""Initial bonus of the same measurement."""

CORRELATED_SCALES = (0.1, 4.0)
"""Initial bonus of a measurement with a correlation of one."""


class AttentionBias(nn.Module):
    """The bias of one layer by axis, (h, N, N), or (b, h, N, N) where the windows differ.
    Slopes and scales are positive and trained."""

    def __init__(self, n_heads: int, n_measurements: int) -> None:
        super().__init__()
        self.time_slope = nn.Parameter(_inverse_softplus(_log_range(*TIME_SLOPES, n_heads)))
        # a stride through the heads combines scales in time with scales in space
        stride = next(s for s in (3, 5, 7, 11) if math.gcd(s, n_heads) == 1)
        order = torch.arange(n_heads) * stride % n_heads
        slopes, scales = (
            _inverse_softplus(_log_range(*limits, n_heads)[order])
            for limits in (DISTANCE_SLOPES, SIMILARITY_SCALES)
        )
        self.distance_slope = nn.Parameter(slopes)
        self.similarity_scale = nn.Parameter(scales)
        correlated = _inverse_softplus(_log_range(*CORRELATED_SCALES, n_heads))
        self.correlated_scale = nn.Parameter(correlated)
        bonus = _log_range(*SAME_MEASUREMENT, n_heads).flip(0)
        self.measurement_bias = nn.Parameter(_per_head(bonus) * torch.eye(n_measurements))

    def forward(self, steps: int, context: WindowContext) -> dict[Axis, Tensor]:
        number = torch.arange(steps, device=self.time_slope.device, dtype=self.time_slope.dtype)
        lags = (number.unsqueeze(1) - number).abs()
        ids = context.variable_ids
        measurement = self.measurement_bias[:, ids.unsqueeze(1), ids]
        if context.measurement_similarity is not None:  # (m, n) or (b, m, n)
            scales = _per_head(F.softplus(self.correlated_scale))
            measurement = measurement + scales * context.measurement_similarity.unsqueeze(-3)
        similarity = context.station_similarity.unsqueeze(-3)  # (1, l, k) or (b, 1, l, k)
        location = _per_head(F.softplus(self.similarity_scale)) * similarity
        if context.distance is not None:
            slopes = _per_head(F.softplus(self.distance_slope))
            location = location - slopes * context.distance
        time = -_per_head(F.softplus(self.time_slope)) * lags
        return {"time": time, "location": location, "measurement": measurement}


def _per_head(x: Tensor) -> Tensor:
    """(h,) -> (h, 1, 1)."""
    return cast(Tensor, x.unflatten(0, (-1, 1, 1)))


def _log_range(low: float, high: float, count: int) -> Tensor:
    return torch.logspace(math.log10(low), math.log10(high), count)


def _inverse_softplus(positive: Tensor) -> Tensor:
    return positive.expm1().log()
