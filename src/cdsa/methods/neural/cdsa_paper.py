"""The paper's networks (Ma et al., 2019): imputer and encoder-decoder, settings and presets.

Letters: b window of the batch, t time, l location, m measurement, c channels.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, Self, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cdsa.errors import ConfigError, unknown
from cdsa.methods.engine.estimator import Neural
from cdsa.nn.attention import AttentionScope, make_attention
from cdsa.nn.blocks import Block, Stack, feed_forward
from cdsa.nn.rollout import normalise_to, one_hot_cell, rollout
from cdsa.nn.streams import Streams
from cdsa.nn.types import (
    AXES,
    AttentionConfig,
    AttentionMaps,
    Axis,
    AxisConfig,
    Manner,
    Network,
    NetworkConfig,
    Sizes,
    refuse_no_horizon,
)
from cdsa.training.loop import TrainConfig

Norm = Literal["window", "step", "cell"]


@dataclass(frozen=True, kw_only=True)
class PaperConfig(AttentionConfig, NetworkConfig):
    """The paper's network; the defaults are the authors' for NYC-Traffic."""

    n_layers: int = 8
    """Layers of the encoder, and of the decoder if there is one. In the independent manner each
    axis sets its own number."""

    d_ff: int = 8
    """Width of the feed-forward part and of the reconstruction."""

    norm_over: Norm = "window"
    """What a layer norm runs over: all cells of a window (the only choice for a single channel),
    those of a step, or the channels of a cell. A decoder, which must not see the end of a window,
    uses the step for the window."""

    elementwise_affine: bool = False
    """Whether a layer norm has a weight and bias for each cell it runs over, not each channel."""

    mask_diagonal: bool = True
    """Whether the diagonal of the time map is masked, so that no step attends to itself. For
    filling only."""

    last_layer_bare: bool = True
    """Whether the last layer has no residual and no norm. For filling only."""

    mask_channel: bool = False
    """Whether a second channel marks the observed cells."""

    position_embedding: bool = False
    """Whether each step of the window, location and measurement adds a learnt vector to its cells;
    those of steps start from sinusoids. Without it, the joint manner sees values only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm_over not in get_args(Norm):
            raise ConfigError(unknown("norm", str(self.norm_over), get_args(Norm)))
        if self.norm_over == "cell" and self.d_model == 1:
            raise ConfigError(
                "norm_over=cell needs several channels, because the norm of one number is always "
                "the same. Set d_model=2 or more, or norm_over=window"
            )
        if self.position_embedding and self.d_model == 1:
            raise ConfigError(
                "position_embedding=true needs several channels: with one, a position cannot be "
                "distinguished from a value. Set d_model=2 or more"
            )

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int = 0) -> Network:
        return PaperForecaster(self, sizes, horizon) if horizon else PaperImputer(self, sizes)


class Norm3d(nn.Module):
    """Layer norm with a weight and bias per channel, or per cell."""

    FIRST_DIM: dict[Norm, int] = {"window": 1, "step": 2, "cell": 4}  # noqa: RUF012

    def __init__(self, config: PaperConfig, sizes: Sizes, *, causal: bool = False) -> None:
        super().__init__()
        over: Norm = "step" if causal and config.norm_over == "window" else config.norm_over
        self.first_dim = self.FIRST_DIM[over]
        first_dim = self.first_dim - 1 if config.elementwise_affine else -1
        shape = (*sizes, config.d_model)[first_dim:]
        self.weight = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[self.first_dim :]) * self.weight + self.bias


def sinusoidal_positions(steps: int, channels: int) -> Tensor:
    """Sines and cosines with wavelengths from 4 steps to four windows: (t, c)."""
    lengths = torch.logspace(math.log10(4.0), math.log10(4.0 * max(steps, 2)), (channels + 1) // 2)
    angles = 2 * math.pi * torch.arange(steps)[:, None] / lengths
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :channels]


class Embedding(nn.Module):
    """Cells as vectors: (b, t, l, m) -> (b, t, l, m, c). A single channel is the value itself, zero
    where unobserved."""

    def __init__(self, config: PaperConfig, sizes: Sizes) -> None:
        super().__init__()
        self.mask_channel = config.mask_channel
        n_inputs = 2 if config.mask_channel else 1
        is_value = config.d_model == n_inputs == 1
        self.projection = nn.Identity() if is_value else nn.Linear(n_inputs, config.d_model)
        self.positions = nn.ParameterList()
        for number, size in enumerate(sizes if config.position_embedding else ()):
            initial = sinusoidal_positions if number == 0 else torch.randn
            shape = [size if axis == number else 1 for axis in range(3)]
            vectors = initial(size, config.d_model).reshape(*shape, config.d_model)
            self.positions.append(nn.Parameter(vectors))

    def forward(self, values: Tensor, observed: Tensor) -> Tensor:
        inputs = [torch.where(observed, values, 0.0)]  # hidden values cannot leak
        if self.mask_channel:
            inputs.append(observed.to(values.dtype))
        x: Tensor = self.projection(torch.stack(inputs, dim=-1))
        for position in self.positions:
            x = x + position
        return x


def cell_stack(config: PaperConfig, scope: AttentionScope, *, last_bare: bool = False) -> Stack:
    """Layers of cross-dimensional attention on cells."""
    attend = partial(make_attention, config, scope._replace(memory_sizes=None))
    across = partial(make_attention, config, scope) if scope.memory_sizes else None
    norm = partial(Norm3d, config, scope.query_sizes, causal=scope.mask_mode == "causal")
    transform = partial(feed_forward, config.d_model, config.d_ff)
    block = partial(Block, attend, across, transform, norm)
    return Stack(config.n_layers, block, attend if last_bare else None)


class PaperImputer(Network):
    """The encoder: `forward(values, observed) -> prediction`, all (b, t, l, m)."""

    explainable = True

    def __init__(self, config: PaperConfig, sizes: Sizes) -> None:
        super().__init__()
        refuse_scalar_norm(config, sizes)
        self.embedding = Embedding(config, sizes)
        scope = AttentionScope(sizes, mask_mode="diagonal" if config.mask_diagonal else "none")
        make = Streams if config.manner == "independent" else cell_stack
        self.encoder: Streams | Stack = make(config, scope, last_bare=config.last_layer_bare)
        self.reconstruction = feed_forward(config.d_model, config.d_ff, 1)

    def forward(self, values: Tensor, observed: Tensor, context: object = None) -> Tensor:
        x = self.encoder(self.embedding(values, observed))
        return cast(Tensor, self.reconstruction(x)[..., 0])

    @torch.no_grad()
    def contributions(
        self, values: Tensor, observed: Tensor, context: object, cell: tuple[int, int, int]
    ) -> Tensor:
        if isinstance(self.encoder, Streams):
            raise ConfigError(
                "explanations need attention maps between cells, which the independent manner does "
                "not have. Train with another one: decomposed, shared or joint"
            )
        traces = self.encoder.traces(self.embedding(values, observed))
        share = rollout(traces, one_hot_cell(values, cell))
        return normalise_to(share * observed)

    def maps(self, values: Tensor, observed: Tensor, context: object = None) -> list[AttentionMaps]:
        """The maps of every layer; in the independent manner those of one axis after the other."""
        return [trace.maps for trace in self.encoder.traces(self.embedding(values, observed))]


class PaperForecaster(Network):
    """The encoder-decoder, which forecasts the last `horizon` steps of a window from the others.

    `forward(values, observed) -> prediction`, all (b, t, l, m), is autoregressive: each step uses
    the predictions of the steps before it, or what is observed within the horizon. The prediction
    before the horizon is the observed values, zero elsewhere.
    """

    teacher_forced = True

    def __init__(self, config: PaperConfig, sizes: Sizes, horizon: int) -> None:
        super().__init__()
        if not 0 < horizon < sizes.steps:
            raise ConfigError(
                f"the horizon of a window of {sizes.steps} steps lies between 1 and "
                f"{sizes.steps - 1}, but horizon={horizon}"
            )
        past, future = sizes._replace(steps=sizes.steps - horizon), sizes._replace(steps=horizon)
        refuse_scalar_norm(config, past, causal=True)
        refuse_scalar_norm(config, future, causal=True)
        self.horizon = horizon
        self.embedding = Embedding(config, past)
        self.decoder_embedding = Embedding(config, future)
        scopes = AttentionScope(past), AttentionScope(future, past, "causal")
        if config.manner == "independent":
            self.encoder: Streams | Stack = Streams(config, scopes[0], fused=False)
            self.decoder: Streams | Stack = Streams(config, scopes[1])
        else:
            self.encoder, self.decoder = (cell_stack(config, scope) for scope in scopes)
        self.reconstruction = feed_forward(config.d_model, config.d_ff, 1)

    def forward(self, values: Tensor, observed: Tensor, context: object = None) -> Tensor:
        values = torch.where(observed, values, 0.0)
        memory = self._encode(values, observed)
        step = torch.arange(-values.shape[1], 0, device=values.device)[:, None, None]
        for at in range(-self.horizon, 0):
            prediction = self._decode(memory, values, observed)
            values = torch.where((step == at) & ~observed, prediction, values)
            observed = observed | (step == at)
        return values

    def forward_teacher_forced(
        self, values: Tensor, observed: Tensor, context: object = None
    ) -> Tensor:
        """The prediction of all steps at once from the true values before each, for training. The
        causal mask hides the values of a step and of later ones."""
        return self._decode(self._encode(values, observed), values, observed)

    def _encode(self, values: Tensor, observed: Tensor) -> Tensor | dict[Axis, Tensor]:
        """The context; in the independent manner one tensor per stream."""
        x = self.embedding(values[:, : -self.horizon], observed[:, : -self.horizon])
        if isinstance(self.encoder, Streams):
            return self.encoder.outputs(x)
        return cast(Tensor, self.encoder(x))

    def _decode(
        self, memory: Tensor | dict[Axis, Tensor], values: Tensor, observed: Tensor
    ) -> Tensor:
        """Each step of the horizon, predicted from the steps before it, behind the context."""
        past = values.shape[1] - self.horizon
        inputs: list[slice | list[int]] = [slice(past - 1, -1)]  # the horizon shifted by one step
        if isinstance(self.decoder, Streams):  # and the last step before it, repeated
            inputs.append([past - 1] * self.horizon)
        shifted, *start = (self.decoder_embedding(values[:, i], observed[:, i]) for i in inputs)
        prediction = self.reconstruction(self.decoder(shifted, memory, *start))[..., 0]
        return torch.cat([values[:, :past], prediction], dim=1)


def refuse_scalar_norm(config: PaperConfig, sizes: Sizes, *, causal: bool = False) -> None:
    """Refuse layer norms over a single number, which is zero after them."""
    axes: tuple[Axis, ...] = AXES if config.manner == "independent" else ("time",)
    smallest = min(math.prod(sizes.others(axis)) for axis in axes) * config.d_model
    by_step = config.norm_over == "step" or (causal and config.norm_over == "window")
    if smallest == 1 and (config.manner == "independent" or by_step):
        raise ConfigError(
            "a layer norm over a single number is always zero, but with d_model=1 that is what a "
            f"window of {sizes.steps} steps, {sizes.locations} locations and "
            f"{sizes.measurements} measurements has. Set d_model=2 or more"
        )


AUTHORS_TRAINING = TrainConfig(
    epochs=100,
    batch_size=19,
    lr=1e-3,
    schedule="steps",
    grad_clip=5.0,
    loss="rmse",
    loss_on="visible",
    patience=0,
)
"""As in the authors' code: the loss counts all visible cells; hidden ones are never trained on."""

GENERAL_CONFIG = PaperConfig(
    manner="shared",
    d_model=16,
    n_heads=4,
    d_qk=8,
    d_v=8,
    d_ff=32,
    norm_over="cell",
    mask_diagonal=False,
    mask_channel=True,
    position_embedding=True,
).with_axes(AxisConfig(d_qk=8, d_v=16, n_layers=4, d_ff=64))

GENERAL_CONFIGS: dict[Manner, PaperConfig] = {
    "shared": GENERAL_CONFIG,
    # its cost grows with the heads and hardly with their width
    "joint": replace(GENERAL_CONFIG, manner="joint", n_heads=2, d_qk=16, d_v=16),
    "decomposed": replace(GENERAL_CONFIG, manner="decomposed", last_layer_bare=False),
    "independent": replace(GENERAL_CONFIG, manner="independent", last_layer_bare=False),
}
"""For any table: the paper's equations and depth with several channels per cell, a mask channel and
position embeddings. The authors' single channel learns slowly."""

LEARNING_RATES: dict[Manner, float] = {
    "shared": 1e-3,
    "joint": 1e-3,
    "decomposed": 3e-4,
    "independent": 3e-4,
}
"""Their learning rates, chosen on the demo data: projections of whole slices need smaller steps."""


TRAINING = TrainConfig(minutes=5, batch_size=8, lr=LEARNING_RATES["decomposed"])
FORECAST_CONFIG = replace(GENERAL_CONFIGS["decomposed"], n_layers=9)
SMALL_CONFIG = replace(
    GENERAL_CONFIGS["decomposed"], n_layers=2, d_model=4, n_heads=2, d_qk=4, d_v=2, d_ff=8
).with_axes(AxisConfig(d_qk=4, d_v=4, n_layers=1, d_ff=8))


@dataclass(frozen=True, kw_only=True)
class CdsaPaper(Neural):
    """The paper's encoder, which fills."""

    name: ClassVar[str] = "cdsa-paper"

    model: PaperConfig = GENERAL_CONFIGS["decomposed"]
    train: TrainConfig = TRAINING
    window: int = 24

    @property
    def label(self) -> str:
        """The name, and the manner if it is not the paper's choice."""
        manner = self.model.manner
        return self.name if manner == "decomposed" else f"{self.name}:{manner}"

    def with_manner(self, manner: str) -> Self:
        """The same in another manner; the general preset has widths and a rate for each."""
        before, after = self.model.manner, cast(Manner, manner)
        model = replace(self.model, manner=after)
        if replace(self.model, n_layers=GENERAL_CONFIG.n_layers) != GENERAL_CONFIGS[before]:
            return replace(self, model=model)
        rate = LEARNING_RATES[after] if self.train.lr == LEARNING_RATES[before] else self.train.lr
        model = replace(GENERAL_CONFIGS[after], n_layers=self.model.n_layers)
        return replace(self, model=model, train=replace(self.train, lr=rate))


@dataclass(frozen=True, kw_only=True)
class CdsaPaperForecast(CdsaPaper):
    """The paper's encoder-decoder, which forecasts."""

    name: ClassVar[str] = "cdsa-paper-forecast"

    model: PaperConfig = FORECAST_CONFIG
    horizon: int = 12
    stride: int | None = 1

    def _with_horizon(self, steps: int) -> Self:
        """The shared manner needs a horizon as long as the context."""
        method = super()._with_horizon(steps)
        return replace(method, horizon=method.window) if self.model.manner == "shared" else method

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_no_horizon(self.horizon)


SMALL_TRAINING = TrainConfig().few_steps()

CdsaPaper.PRESETS = {
    "paper": CdsaPaper(),
    "paper-nyc": CdsaPaper(model=PaperConfig(), train=AUTHORS_TRAINING, window=432, stride=2),
    "paper-kdd2015": CdsaPaper(model=PaperConfig(), train=AUTHORS_TRAINING, window=36),
    "paper-kdd2018": CdsaPaper(model=PaperConfig(), train=AUTHORS_TRAINING, window=48),
    "small": CdsaPaper(model=SMALL_CONFIG, train=SMALL_TRAINING, window=12, stride=6),
}
METR_LA = PaperConfig(
    n_layers=9,
    time=AxisConfig(d_qk=6, n_layers=9),
    location=AxisConfig(d_qk=14, n_layers=9),
    measurement=AxisConfig(d_qk=6, n_layers=9),
)
CdsaPaperForecast.PRESETS = {
    "paper": CdsaPaperForecast(),
    "paper-metr-la": CdsaPaperForecast(model=METR_LA, train=AUTHORS_TRAINING, window=12),
    "small": CdsaPaperForecast(
        model=SMALL_CONFIG, train=SMALL_TRAINING, window=6, horizon=6, stride=3
    ),
}
