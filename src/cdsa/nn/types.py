"""What attention is about: the three axes, the four manners, and their widths.

Letters, the same in every equation of attention:
    b  window of the batch     h  head     c  channels     d, e  channels of one head
    t  time,         s  the time looked at
    l  location,     k  the location looked at
    m  measurement,  n  the measurement looked at
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from torch import Tensor

from cdsa.errors import ConfigError, unknown

Axis = Literal["time", "location", "measurement"]


AXES: tuple[Axis, ...] = get_args(Axis)


Manner = Literal["independent", "joint", "decomposed", "shared"]


MANNERS: tuple[Manner, ...] = get_args(Manner)


MaskMode = Literal["all", "other steps", "past"]
"""What a time step may look at: all steps, all but itself, or itself and those before."""


AttentionMaps = dict[Axis | Literal["cells"], Tensor]


Bias = Mapping[Axis, Tensor]
"""What is added to the scores of an axis, (h, N, N) or (b, h, N, N)."""


NO_BIAS: Bias = {}


class Sizes(NamedTuple):
    """T, L and M of a window."""

    steps: int
    locations: int
    measurements: int

    @property
    def cells(self) -> int:
        return math.prod(self)

    def along(self, axis: Axis) -> int:
        """The size of an axis."""
        return self[AXES.index(axis)]

    def beside(self, axis: Axis) -> tuple[int, int]:
        """The sizes of the two other axes."""
        first, second = (size for size, name in zip(self, AXES, strict=True) if name != axis)
        return first, second


def refuse_below_one(config: object, *names: str) -> None:
    """Refuse sizes that are not at least one."""
    for name in names:
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} must be at least 1, but found {getattr(config, name)}")


def refuse_negative(config: object, *names: str) -> None:
    """Refuse settings below zero."""
    for name in names:
        if getattr(config, name) < 0:
            raise ConfigError(f"{name} must not be negative, but found {getattr(config, name):g}")


def refuse_nothing_ahead(horizon: int) -> None:
    """Refuse a forecaster of nothing."""
    if horizon < 1:
        raise ConfigError(f"a forecaster foresees at least one step, but horizon={horizon}")


@dataclass(frozen=True, kw_only=True)
class AxisConfig:
    """What one axis has of its own."""

    d_qk: int = 6
    """Query and key channels of a head per position of the axis: decomposed and independent."""

    d_v: int = 24
    """Value channels of a head per position of the axis: independent."""

    n_layers: int = 8
    """Layers of the axis' own stream: independent."""

    d_ff: int = 64
    """Width of the feed-forward part of the axis' own stream: independent."""

    def __post_init__(self) -> None:
        refuse_below_one(self, "d_qk", "d_v", "n_layers", "d_ff")


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """Widths of one attention layer."""

    manner: Manner = "decomposed"
    """How the three axes are brought together."""

    d_model: int = 1
    """Size of the vector that stands for one cell between layers."""

    n_heads: int = 12
    """Maps per axis."""

    d_qk: int = 16
    """Query and key channels of a head per cell: joint and shared."""

    d_v: int = 3
    """Value channels of a head per cell: all but independent."""

    time: AxisConfig = AxisConfig(d_qk=6)
    location: AxisConfig = AxisConfig(d_qk=14)
    measurement: AxisConfig = AxisConfig(d_qk=6)

    def __post_init__(self) -> None:
        if self.manner not in MANNERS:
            raise ConfigError(unknown("manner", str(self.manner), MANNERS))
        refuse_below_one(self, "d_model", "n_heads", "d_qk", "d_v")

    def of(self, axis: Axis) -> AxisConfig:
        """What this axis has of its own."""
        own: AxisConfig = getattr(self, axis)
        return own
