"""The paper's networks (Ma et al., 2019): imputer and encoder-decoder, settings and presets."""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cdsa.core.config import override
from cdsa.errors import ConfigError, unknown
from cdsa.methods.engine.estimator import Neural
from cdsa.nn.attention import AttentionScope, make_attention
from cdsa.nn.blocks import Stack, feed_forward
from cdsa.nn.context import WindowContext
from cdsa.nn.rollout import normalise_to, one_hot_cell, rollout
from cdsa.nn.streams import Streams
from cdsa.nn.types import (
    AXES,
    MANNERS,
    AttentionConfig,
    AttentionMaps,
    Axis,
    AxisConfig,
    Manner,
    MaskMode,
    Network,
    Sizes,
    refuse_below_one,
    refuse_no_horizon,
)
from cdsa.training.loop import TrainConfig

Norm = Literal["window", "step", "cell"]


@dataclass(frozen=True, kw_only=True)
class PaperConfig(AttentionConfig):
    """The paper's network; the defaults are the authors' for NYC-Traffic."""

    n_layers: int = 8
    """Layers of the encoder, and of the decoder if there is one. In the independent manner each
    axis has its own number."""

    d_ff: int = 8
    """Width of the feed-forward part and of the reconstruction."""

    norm_over: Norm = "window"
    """What a layer norm runs over: all cells of a window (the only choice that leaves something of
    a single channel), those of a step, or the channels of a cell. A decoder, which must not see the
    end of a window, takes the step for the window."""

    elementwise_affine: bool = False
    """Whether a layer norm has a scale and shift for each cell it runs over, not each channel."""

    mask_diagonal: bool = True
    """A step cannot look at itself: the diagonal of the time map is masked. For filling only."""

    last_layer_bare: bool = True
    """The last layer has no residual and no norm. For filling only."""

    mask_channel: bool = False
    """Whether each cell says if it was measured, beside its value."""

    position_embedding: bool = False
    """Whether each step of the window, location and measurement adds a learnt vector to its cells;
    steps start from waves. Without, a cell of the joint manner knows nothing but values."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below_one(self, "n_layers", "d_ff")
        if self.norm_over not in get_args(Norm):
            raise ConfigError(unknown("norm", str(self.norm_over), get_args(Norm)))
        if self.norm_over == "cell" and self.d_model == 1:
            raise ConfigError(
                "norm_over=cell needs several channels, because the norm of one number is always "
                "the same; set d_model=2 or more, or norm_over=window"
            )
        if self.position_embedding and self.d_model == 1:
            raise ConfigError(
                "position_embedding=true needs several channels: with one, a position cannot be "
                "distinguished from a value. Set d_model=2 or more"
            )

    uses_context: ClassVar[bool] = False
    inductive: ClassVar[bool] = False

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int = 0) -> Network:
        """The network for windows of these sizes; with a horizon, one that foresees."""
        return PaperForecaster(self, sizes, horizon) if horizon else PaperImputer(self, sizes)


class Norm3d(nn.Module):
    """Layer norm with a scale and shift per channel, or per cell."""

    FIRST_DIM: dict[Norm, int] = {"window": 1, "step": 2, "cell": 4}  # noqa: RUF012

    def __init__(self, config: PaperConfig, sizes: Sizes, *, causal: bool = False) -> None:
        super().__init__()
        over: Norm = "step" if causal and config.norm_over == "window" else config.norm_over
        self.first_dim = self.FIRST_DIM[over]
        whole = (*sizes, config.d_model)
        shape = whole[self.first_dim - 1 :] if config.elementwise_affine else whole[-1:]
        self.weight = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[self.first_dim :]) * self.weight + self.bias


def sinusoidal_positions(steps: int, channels: int) -> Tensor:
    """Sines and cosines of rising wave lengths, from 4 steps to four windows: (t, c)."""
    lengths = torch.logspace(math.log10(4.0), math.log10(4.0 * max(steps, 2)), (channels + 1) // 2)
    angles = 2 * math.pi * torch.arange(steps)[:, None] / lengths
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :channels]


class Embedding(nn.Module):
    """Cells as vectors: (b, t, l, m) -> (b, t, l, m, c). One channel is the value itself, zero
    where it was not observed."""

    def __init__(self, config: PaperConfig, sizes: Sizes) -> None:
        super().__init__()
        self.mask_channel = config.mask_channel
        known = 2 if config.mask_channel else 1
        plain = config.d_model == known == 1
        self.projection = nn.Identity() if plain else nn.Linear(known, config.d_model)
        self.positions = nn.ParameterList()
        if config.position_embedding:
            for number, size in enumerate(sizes):
                first = sinusoidal_positions if number == 0 else torch.randn
                shape = [size if axis == number else 1 for axis in range(3)]
                self.positions.append(
                    nn.Parameter(first(size, config.d_model).reshape(*shape, config.d_model))
                )

    def forward(self, values: Tensor, observed: Tensor) -> Tensor:
        parts = [torch.where(observed, values, 0.0)]  # nothing behind a hidden cell can get in
        if self.mask_channel:
            parts.append(observed.to(values.dtype))
        x: Tensor = self.projection(torch.stack(parts, dim=-1))
        for place in self.positions:
            x = x + place
        return x


def cell_stack(
    config: PaperConfig,
    sizes: Sizes,
    memory: Sizes | None = None,
    *,
    mask_mode: MaskMode = "none",
    last_bare: bool = False,
) -> Stack:
    """Layers of cross-dimensional attention on cells."""
    attend = partial(make_attention, config)
    across = partial(attend, AttentionScope(sizes, memory, mask_mode)) if memory else None
    return Stack(
        config.n_layers,
        partial(attend, AttentionScope(sizes, None, mask_mode)),
        partial(feed_forward, config.d_model, config.d_ff),
        partial(Norm3d, config, sizes, causal=mask_mode == "causal"),
        cross_attention=across,
        last_bare=last_bare,
    )


def make_reconstruction(config: PaperConfig) -> nn.Module:
    """The fully connected part that makes a value of a cell's vector."""
    return feed_forward(config.d_model, config.d_ff, 1)


class PaperImputer(Network):
    """The network that fills: `forward(values, observed) -> guess`, all (b, t, l, m)."""

    explainable = True

    def __init__(self, config: PaperConfig, sizes: Sizes) -> None:
        super().__init__()
        refuse_scalar_norm(config, sizes)
        self.embedding = Embedding(config, sizes)
        mask_mode: MaskMode = "diagonal" if config.mask_diagonal else "none"
        make = Streams if config.manner == "independent" else cell_stack
        self.encoder: Streams | Stack = make(
            config, sizes, mask_mode=mask_mode, last_bare=config.last_layer_bare
        )
        self.reconstruction = make_reconstruction(config)

    def forward(
        self, values: Tensor, observed: Tensor, context: WindowContext | None = None
    ) -> Tensor:
        x = self.encoder(self.embedding(values, observed))
        return cast(Tensor, self.reconstruction(x)[..., 0])

    @torch.no_grad()
    def contributions(
        self,
        values: Tensor,
        observed: Tensor,
        context: WindowContext | None,
        cell: tuple[int, int, int],
    ) -> Tensor:
        if isinstance(self.encoder, Streams):
            raise ConfigError(
                "reasons are told by maps between cells, which the independent manner has not. "
                "Train in another: decomposed, shared or joint"
            )
        looks = self.encoder.traces(self.embedding(values, observed))
        share = rollout(looks, one_hot_cell(values, cell))
        return normalise_to(share * observed, torch.ones(()))

    def maps(
        self, values: Tensor, observed: Tensor, context: WindowContext | None = None
    ) -> list[AttentionMaps]:
        """The maps of every layer; in the independent manner those of one axis after the other."""
        return self.encoder.maps(self.embedding(values, observed))


class PaperForecaster(Network):
    """The network that foresees the last `horizon` steps of a window from those before them.

    `forward(values, observed) -> guess`, all (b, t, l, m), goes step by step: each guess is what
    the next one builds on. What is observed within the horizon is used in its place. The guess of
    the steps before the horizon is what was seen there, zero elsewhere.
    """

    teacher_forced = True

    def __init__(self, config: PaperConfig, sizes: Sizes, horizon: int) -> None:
        super().__init__()
        if not 0 < horizon < sizes.steps:
            raise ConfigError(
                f"a window of {sizes.steps} steps foresees between 1 and {sizes.steps - 1} of "
                f"them, but horizon={horizon}"
            )
        past, ahead = sizes._replace(steps=sizes.steps - horizon), sizes._replace(steps=horizon)
        refuse_scalar_norm(config, past, causal=True)
        refuse_scalar_norm(config, ahead, causal=True)
        self.horizon = horizon
        self.embedding = Embedding(config, past)
        self.decoder_embedding = Embedding(config, ahead)
        if config.manner == "independent":
            self.encoder: Streams | Stack = Streams(config, past, fused=False)
            self.decoder: Streams | Stack = Streams(config, ahead, past, mask_mode="causal")
        else:
            self.encoder = cell_stack(config, past)
            self.decoder = cell_stack(config, ahead, past, mask_mode="causal")
        self.reconstruction = make_reconstruction(config)

    def forward(
        self, values: Tensor, observed: Tensor, context: WindowContext | None = None
    ) -> Tensor:
        past, ahead = self._split(torch.where(observed, values, 0.0))
        seen, known = self._split(observed)
        memory = self._encode(past, seen)
        for step in range(self.horizon):
            so_far = torch.arange(self.horizon, device=values.device) < step
            told = known | so_far[:, None, None]
            guess = self._decode(memory, past, seen, ahead, told)
            chosen = so_far.logical_not()[:, None, None] & ~known
            ahead = torch.where(chosen, guess, ahead)
        return torch.cat([past, ahead], dim=1)

    def forward_teacher_forced(
        self, values: Tensor, observed: Tensor, context: WindowContext | None = None
    ) -> Tensor:
        """The guess of every step from the true values before it, in one go: for training.

        By the causal mask the guess of a step cannot depend on values of that step or later ones.
        """
        past, ahead = self._split(values)
        seen, known = self._split(observed)
        guess = self._decode(self._encode(past, seen), past, seen, ahead, known)
        return torch.cat([past, guess], dim=1)

    def maps(
        self, values: Tensor, observed: Tensor, context: WindowContext | None = None
    ) -> list[AttentionMaps]:
        """The maps of the encoder's layers, then two of each layer of the decoder: among the steps
        ahead, and at the encoder's output. The independent manner: one axis after the other."""
        past, ahead = self._split(values)
        seen, known = self._split(observed)
        shifted, *start = self._decoder_inputs(past, seen, ahead, known)
        maps = self.encoder.maps(self.embedding(past, seen))
        memory: Any = self._encode(past, seen)  # of the independent manner, one per stream
        return maps + self.decoder.maps(shifted, memory, *start)

    def _split(self, window: Tensor) -> tuple[Tensor, Tensor]:
        return window[:, : -self.horizon], window[:, -self.horizon :]

    def _encode(self, past: Tensor, seen: Tensor) -> Tensor | dict[Axis, Tensor]:
        x = self.embedding(past, seen)
        if isinstance(self.encoder, Streams):
            return self.encoder.outputs(x)
        return cast(Tensor, self.encoder(x))

    def _decoder_inputs(
        self, past: Tensor, seen: Tensor, ahead: Tensor, known: Tensor
    ) -> tuple[Tensor, ...]:
        """The decoder's input: each step stands for the one before it. The independent manner also
        wants what was known at the start."""
        values = torch.cat([past[:, -1:], ahead[:, :-1]], dim=1)
        observed = torch.cat([seen[:, -1:], known[:, :-1]], dim=1)
        shifted = self.decoder_embedding(values, observed)
        if not isinstance(self.decoder, Streams):
            return (shifted,)
        last = (part[:, -1:].expand_as(values) for part in (past, seen))
        return shifted, self.decoder_embedding(*last)

    def _decode(
        self,
        memory: Tensor | dict[Axis, Tensor],
        past: Tensor,
        seen: Tensor,
        ahead: Tensor,
        known: Tensor,
    ) -> Tensor:
        shifted, *start = self._decoder_inputs(past, seen, ahead, known)
        return cast(Tensor, self.reconstruction(self.decoder(shifted, memory, *start))[..., 0])


def refuse_scalar_norm(config: PaperConfig, sizes: Sizes, *, causal: bool = False) -> None:
    """Refuse what a layer norm would wipe out: vectors of a single number."""
    over: tuple[Axis, ...] = AXES if config.manner == "independent" else ("time",)
    smallest = min(math.prod(sizes.others(axis)) for axis in over) * config.d_model
    by_step = config.norm_over == "step" or (causal and config.norm_over == "window")
    if smallest == 1 and (config.manner == "independent" or by_step):
        raise ConfigError(
            "a layer norm over a single number leaves nothing of it, and with d_model=1 that is "
            f"what a window of {sizes.steps} steps, {sizes.locations} locations and "
            f"{sizes.measurements} measurements comes to; set channels to 2 or more"
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
"""As in the authors' code: all visible cells are asked for; what is hidden is never trained on."""


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
    time=AxisConfig(d_qk=8, d_v=16, n_layers=4, d_ff=64),
    location=AxisConfig(d_qk=8, d_v=16, n_layers=4, d_ff=64),
    measurement=AxisConfig(d_qk=8, d_v=16, n_layers=4, d_ff=64),
)


GENERAL_CONFIGS: dict[Manner, PaperConfig] = {
    "shared": GENERAL_CONFIG,
    # its time goes with the heads and hardly with their width
    "joint": replace(GENERAL_CONFIG, manner="joint", n_heads=2, d_qk=16, d_v=16),
    "decomposed": replace(GENERAL_CONFIG, manner="decomposed", last_layer_bare=False),
    "independent": replace(GENERAL_CONFIG, manner="independent", last_layer_bare=False),
}
"""For a user's own table: the paper's equations and depth with several channels per cell, which are
told what was measured and where they stand. The authors' single channel learns slowly."""


LEARNING_RATES: dict[Manner, float] = {
    "shared": 1e-3,
    "joint": 1e-3,
    "decomposed": 3e-4,
    "independent": 3e-4,
}
"""Learning rates for these: what is projected from whole slices wants shorter steps. (Both chosen
on the demo data.)"""


def general_training(manner: Manner) -> TrainConfig:
    """How those are trained."""
    return TrainConfig(minutes=5, batch_size=8, lr=LEARNING_RATES[manner])


SMALL_CONFIG = replace(
    GENERAL_CONFIGS["decomposed"],
    n_layers=2,
    d_model=4,
    n_heads=2,
    d_qk=4,
    d_v=2,
    d_ff=8,
    time=AxisConfig(d_qk=4, d_v=4, n_layers=1, d_ff=8),
    location=AxisConfig(d_qk=4, d_v=4, n_layers=1, d_ff=8),
    measurement=AxisConfig(d_qk=4, d_v=4, n_layers=1, d_ff=8),
)


@dataclass(frozen=True, kw_only=True)
class CdsaPaper(Neural):
    """The paper's encoder, which fills."""

    name: ClassVar[str] = "cdsa-paper"

    model: PaperConfig = GENERAL_CONFIGS["decomposed"]
    train: TrainConfig = field(default_factory=lambda: general_training("decomposed"))
    window: int = 24

    @property
    def label(self) -> str:
        """The name, and the manner if it is not the paper's choice."""
        manner = self.model.manner
        return self.name if manner == "decomposed" else f"{self.name}:{manner}"

    def with_preset(self, name: str) -> "CdsaPaper":
        """The settings of this name, for the same task."""
        return get_preset(name, forecast=self.horizon > 0)

    def with_manner(self, manner: str) -> Self:
        """The same in another manner; the general preset has widths and a rate for each."""
        if manner not in MANNERS:
            raise ConfigError(unknown("manner", manner, MANNERS))
        changed = override(self, [f"model.manner={manner}"])
        before, after = self.model.manner, changed.model.manner
        if replace(self.model, n_layers=GENERAL_CONFIG.n_layers) != GENERAL_CONFIGS[before]:
            return changed
        rate = LEARNING_RATES[after] if self.train.lr == LEARNING_RATES[before] else self.train.lr
        return replace(
            changed,
            model=replace(GENERAL_CONFIGS[after], n_layers=self.model.n_layers),
            train=replace(self.train, lr=rate),
        )


@dataclass(frozen=True, kw_only=True)
class CdsaPaperForecast(CdsaPaper):
    """The paper's encoder-decoder, which foresees."""

    name: ClassVar[str] = "cdsa-paper-forecast"

    model: PaperConfig = field(
        default_factory=lambda: replace(GENERAL_CONFIGS["decomposed"], n_layers=9)
    )
    window: int = 24
    horizon: int = 12
    stride: int | None = 1

    def _with_horizon(self, steps: int) -> Self:
        """The same for so many steps ahead; the shared manner needs as many to look back on."""
        made = super()._with_horizon(steps)
        return replace(made, horizon=made.window) if self.model.manner == "shared" else made

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_no_horizon(self.horizon)


FILLERS: dict[str, CdsaPaper] = {
    "paper": CdsaPaper(),
    "paper-nyc": CdsaPaper(model=PaperConfig(), train=AUTHORS_TRAINING, window=432, stride=2),
    "paper-kdd2015": CdsaPaper(model=PaperConfig(), train=AUTHORS_TRAINING, window=36),
    "paper-kdd2018": CdsaPaper(model=PaperConfig(), train=AUTHORS_TRAINING, window=48),
    "small": CdsaPaper(
        model=SMALL_CONFIG,
        train=TrainConfig(epochs=2, batch_size=4, validate_every=5),
        window=12,
        stride=6,
    ),
}


FORECASTERS: dict[str, CdsaPaperForecast] = {
    "paper": CdsaPaperForecast(),
    "paper-metr-la": CdsaPaperForecast(
        model=PaperConfig(
            n_layers=9,
            time=AxisConfig(d_qk=6, n_layers=9),
            location=AxisConfig(d_qk=14, n_layers=9),
            measurement=AxisConfig(d_qk=6, n_layers=9),
        ),
        train=AUTHORS_TRAINING,
        window=12,
        horizon=12,
    ),
    "small": CdsaPaperForecast(
        model=SMALL_CONFIG,
        train=TrainConfig(epochs=2, batch_size=4, validate_every=5),
        window=6,
        horizon=6,
        stride=3,
    ),
}


def get_preset(name: str, *, forecast: bool = False) -> CdsaPaper:
    """The settings of this name."""
    known: dict[str, CdsaPaper] = {**FORECASTERS} if forecast else {**FILLERS}
    if name not in known:
        raise ConfigError(unknown("preset", name, known))
    return known[name]
