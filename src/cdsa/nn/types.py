"""The base class of networks; the three axes, the four manners and the widths of attention."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

from torch import Tensor, nn

from cdsa.errors import ConfigError, unknown

Axis = Literal["time", "location", "measurement"]
AXES: tuple[Axis, ...] = get_args(Axis)

Manner = Literal["independent", "joint", "decomposed", "shared"]
MANNERS: tuple[Manner, ...] = get_args(Manner)

MaskMode = Literal["none", "diagonal", "causal"]
"""Steps that a step must not attend to: none, itself, or all later ones."""

AttentionMaps = dict[Axis | Literal["cells"], Tensor]
"""Who attends to whom, by axis; `cells` is a map between all cells."""

Bias = Mapping[Axis, Tensor]
"""Added to the attention scores of an axis, (h, N, N) or (b, h, N, N)."""

NO_BIAS: Bias = {}


class Network(nn.Module):
    """Base class of networks: `forward(values, observed, context)` predicts every cell of a window,
    (b, t, l, m), or with quantiles (b, t, l, m, 1 + q).

    `context` is the `WindowContext` if the configuration of the network says `uses_context`, else
    None. A network declares what it supports beyond that, and overrides the methods it needs.
    """

    data_parallel: ClassVar[bool] = False
    """Windows of a batch are independent and there are no long loops: cores may share a batch."""

    teacher_forced: ClassVar[bool] = False
    """Trains by `forward_teacher_forced`."""

    custom_loss: ClassVar[bool] = False
    """Trains by a `loss` of its own."""

    adversarial: ClassVar[bool] = False
    """Trains against a critic, so its loss does not measure its error."""

    explainable: ClassVar[bool] = False
    """Has `contributions` and `maps`."""

    def forward_teacher_forced(self, values: Tensor, observed: Tensor, context: Any) -> Tensor:
        """Predict each step from true values before it, which are unknown after training."""
        raise NotImplementedError

    def loss(self, values: Tensor, observed: Tensor, visible: Tensor) -> Tensor:
        """The loss of a batch over all observed cells, predicted from the visible ones: those that
        are neither masked nor, in a forecast, in the horizon."""
        raise NotImplementedError

    @property
    def critic_active(self) -> bool:
        """Whether the critic takes part already. Weights from before are not worth keeping."""
        return True

    def clip_critic(self) -> None:
        """Keep the weights of the critic in bounds, after every step."""

    def contributions(
        self, values: Tensor, observed: Tensor, context: Any, cell: tuple[int, int, int]
    ) -> Tensor:
        """Shares of the observed cells of a single window in the prediction of one cell, (1, t, l,
        m). They sum to one, or to zero if nothing was observed."""
        raise NotImplementedError

    def maps(self, values: Tensor, observed: Tensor, context: Any) -> list[AttentionMaps]:
        """The attention maps of every layer."""
        raise NotImplementedError


class Sizes(NamedTuple):
    """T, L and M of a window."""

    steps: int
    locations: int
    measurements: int

    @property
    def cells(self) -> int:
        return math.prod(self)

    def along(self, axis: Axis) -> int:
        return self[AXES.index(axis)]

    def others(self, axis: Axis) -> tuple[int, int]:
        first, second = (size for size, name in zip(self, AXES, strict=True) if name != axis)
        return first, second


def refuse_out_of_range(config: object, may_be_zero: Collection[str] = ()) -> None:
    """Integers must be at least 1, or 0 if in `may_be_zero`; other numbers must not be negative."""
    for name, value in vars(config).items():
        if isinstance(value, bool) or not isinstance(value, Real):
            continue
        if isinstance(value, Integral) and name not in may_be_zero:
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, but found {value}")
        elif value < 0:
            raise ConfigError(f"{name} must not be negative, but found {value:g}")


def refuse_no_horizon(horizon: int) -> None:
    if horizon < 1:
        raise ConfigError(f"a forecaster needs a horizon of at least 1 step, but found {horizon}")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Settings of a network, which build it."""

    uses_context: ClassVar[bool] = False
    """Whether the network gets the context of its cells: calendar, climatology, distances."""

    uses_backbone: ClassVar[bool] = False
    """Whether it predicts the residual of a linear-Gaussian model, when it fills."""

    inductive: ClassVar[bool] = False
    """Whether its weights serve any stations, not only those it was trained on; it then uses
    context."""

    MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        refuse_out_of_range(self, self.MAY_BE_ZERO)

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> Network:
        """The network for windows of these sizes; with a horizon, a forecaster."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class AxisConfig:
    """Widths of one axis."""

    d_qk: int = 6
    """Query and key channels of a head per position of the axis: decomposed and independent."""

    d_v: int = 24
    """Value channels of a head per position of the axis: independent."""

    n_layers: int = 8
    """Layers of the stream of the axis: independent."""

    d_ff: int = 64
    """Width of the feed-forward part of the stream of the axis: independent."""

    def __post_init__(self) -> None:
        refuse_out_of_range(self)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """Widths of one attention layer."""

    manner: Manner = "decomposed"
    """How attention combines the three axes."""

    d_model: int = 1
    """Channels of a cell between layers."""

    n_heads: int = 12
    """Attention maps per axis."""

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
        refuse_out_of_range(self)

    def with_axes(self, widths: AxisConfig) -> Self:
        return replace(self, time=widths, location=widths, measurement=widths)

    def of(self, axis: Axis) -> AxisConfig:
        return {"time": self.time, "location": self.location, "measurement": self.measurement}[axis]
