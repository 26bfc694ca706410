"""The default network: its modules, its settings and how it is trained."""

import contextlib
import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from cdsa.core.config import from_dict
from cdsa.core.prepare import Cube, prepare
from cdsa.errors import ConfigError
from cdsa.methods.engine.estimator import Neural
from cdsa.methods.engine.predictor import refuse_too_many_stations
from cdsa.nn.attention import AttentionScope, Shared
from cdsa.nn.attention_bias import AttentionBias
from cdsa.nn.blocks import feed_forward
from cdsa.nn.context import WindowContext
from cdsa.nn.interpolation import interpolate
from cdsa.nn.kriging_layer import KrigingLayer
from cdsa.nn.quantile_head import FIRST_STEP, MIDDLE, QUANTILES, monotone_quantiles
from cdsa.nn.rollout import LayerTrace, normalise_to, one_hot_cell, residual_share, rollout
from cdsa.nn.types import AttentionConfig, AttentionMaps, Network, Sizes, refuse_below_one
from cdsa.training.callbacks import RunContext
from cdsa.training.checkpoint import TRAINING
from cdsa.training.loop import TrainConfig
from cdsa.training.state import settings_of

N_FEATURES = 9
"""What a cell is told: its value, whether it was observed, the straight line, how near the last and
the next observation are, the usual value, whether that is known, and what kriging says: of the
lines, and of how unusual they are."""


BASELINE_INIT = (3.0, 0.0, 0.0)
"""The first shares, before a softmax, of the easy answers: the straight line and the two of
kriging. A network that starts from kriging fits the time it learns from better, and others worse;
one that starts from the line soon learns where not to trust it."""


RESIDUAL_INIT = -2.0
"""How far at first, before a sigmoid, a network departs from kriging where there is no sensor."""


UNOBSERVED_INIT = -3.0
"""The first weight of cells that were not observed, before a sigmoid: a twentieth."""


@dataclass(frozen=True, kw_only=True)
class CdsaNetworkConfig:
    """Widths of the default network."""

    uses_context: ClassVar[bool] = True
    """It is told where and when its cells are."""

    inductive: ClassVar[bool] = True

    d_model: int = 48
    """Size of the vector that stands for one cell between layers."""

    n_heads: int = 8
    """Maps per axis and layer; `channels` must be a multiple of it."""

    n_layers: int = 6
    """Of attention and feed-forward, one on top of the other."""

    d_qk: int = 2
    """Query and key channels of a head per cell; more only costs memory."""

    d_ff: int = 96
    """Width of the feed-forward part."""

    def __post_init__(self) -> None:
        refuse_below_one(self, "d_model", "n_heads", "n_layers", "d_qk", "d_ff")
        if self.d_model % self.n_heads:
            nearest = self.n_heads * -(-self.d_model // self.n_heads)
            raise ConfigError(
                f"d_model={self.d_model} does not split into n_heads={self.n_heads}; the next size "
                f"that does is d_model={nearest}"
            )

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> Network:
        """The network that knows so many measurements; what is ahead is filled like any gap."""
        return CdsaNetwork(self, sizes, n_calendar_features)

    @property
    def attention(self) -> AttentionConfig:
        """The attention of one layer."""
        return AttentionConfig(
            manner="shared",
            d_model=self.d_model,
            n_heads=self.n_heads,
            d_qk=self.d_qk,
            d_v=self.d_model // self.n_heads,
        )


class Block(nn.Module):
    """Attention and feed-forward, each on a normed copy and added to what was there."""

    def __init__(self, config: CdsaNetworkConfig, sizes: Sizes) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.attention = Shared(config.attention, AttentionScope(sizes))
        self.attention_bias = AttentionBias(config.n_heads, sizes.measurements)
        self.unobserved_weight = nn.Parameter(torch.full((config.n_heads,), UNOBSERVED_INIT))
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = feed_forward(config.d_model, config.d_ff)

    def forward(self, x: Tensor, observed: Tensor, context: WindowContext) -> Tensor:
        x = x + self.attention(
            self.norm(x),
            bias=self.attention_bias(x.shape[1], context),
            key_weight=self.weight(observed),
            present=reporting(observed),
        )
        return cast(Tensor, x + self.feed_forward(self.feed_forward_norm(x)))

    def weight(self, observed: Tensor) -> Tensor:
        """One for what was observed, a small learnt weight for the rest of what places that report
        anything have, and none for other places: (b, t, l, m, h)."""
        there = reporting(observed).unflatten(1, (1, -1, 1, 1))
        return torch.where(observed.unsqueeze(-1), 1.0, self.unobserved_weight.sigmoid() * there)

    def trace(self, x: Tensor, observed: Tensor, context: WindowContext) -> LayerTrace:
        """How its attention looks around."""
        weight, bias = self.weight(observed), self.attention_bias(x.shape[1], context)
        told: dict[str, Any] = {"bias": bias, "present": reporting(observed)}
        added = self.attention(self.norm(x), key_weight=weight, **told)
        return LayerTrace(
            self.attention.maps(self.norm(x), **told), residual_share(x, added), weight
        )

    def maps(self, x: Tensor, observed: Tensor, context: WindowContext) -> AttentionMaps:
        """The maps of its attention, before observed cells are given more weight."""
        return self.attention.maps(
            self.norm(x),
            bias=self.attention_bias(x.shape[1], context),
            present=reporting(observed),
        )


def reporting(observed: Tensor) -> Tensor:
    """True for places that report anything in a window, (b, l), or for all if none does.

    The others are asked for and ask, but nobody listens to them: what is said of a place does not
    depend on which other places without a sensor are asked for.
    """
    there = observed.any(dim=3).any(dim=1)
    return there | ~there.any(dim=1, keepdim=True)


class BaselineAnswers(NamedTuple):
    """What is easily said of each cell, of which a network tells the difference."""

    values: Tensor
    """(b, t, l, m, 3): in the order of `MIX`."""

    available: Tensor
    """Whether it can be said at all."""

    unobserved: Tensor
    """True in a series that nothing is known of, (b, t, l, m)."""

    def combine(self, weight: Tensor) -> Tensor:
        """One of all that are there, by weights before a softmax; (b, t, l, m)."""
        return (weight.masked_fill(~self.available, -torch.inf).softmax(dim=-1) * self.values).sum(
            -1
        )


class CdsaNetwork(Network):
    """Fills windows of any size: `forward(values, observed, around) -> (b, t, l, m, 1 + q)`, the
    guess and its quantiles. Both are told as differences from the easy answers: a mix of the
    straight line and of what kriging says, of every cell its own. Where nothing was ever measured
    the difference counts for less, as much as it is learnt to be of use."""

    data_parallel = True
    explainable = True

    def __init__(self, config: CdsaNetworkConfig, sizes: Sizes, clock: int) -> None:
        super().__init__()
        self.kriging = KrigingLayer(sizes.measurements, alike=False)
        self.anomaly_kriging = KrigingLayer(sizes.measurements, alike=True)
        self.baseline_logits = nn.Parameter(
            torch.tensor(BASELINE_INIT).repeat(sizes.measurements, 1)
        )
        self.residual_scale = nn.Parameter(torch.full((sizes.measurements,), RESIDUAL_INIT))
        self.embed = nn.Linear(N_FEATURES + clock, config.d_model)
        self.variable_embedding = nn.Parameter(
            torch.randn(sizes.measurements, config.d_model) * 0.3
        )
        self.blocks = nn.ModuleList(Block(config, sizes) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.d_model)
        self.baseline_gate = nn.Linear(config.d_model, len(BASELINE_INIT))
        self.head = feed_forward(config.d_model, config.d_model, 1 + len(QUANTILES))
        last = cast(nn.Linear, self.head[-1])
        with torch.no_grad():  # at first the easy answers, and quantiles close around them
            last.weight.mul_(0.3)
            last.bias.fill_(FIRST_STEP)
            last.bias[[0, 1 + MIDDLE]] = 0.0
            self.baseline_gate.weight.mul_(0.1)
            self.baseline_gate.bias.zero_()

    def forward(self, values: Tensor, observed: Tensor, context: WindowContext) -> Tensor:
        x, answers = self._embed(values, observed, context)
        for block in self.blocks:
            x = block(x, observed, context)
        x = self.norm(x)
        guess, raw = self.head(x).split([1, len(QUANTILES)], dim=-1)
        quantiles = monotone_quantiles(raw)
        easy = answers.combine(self.baseline_logits[context.variable_ids] + self.baseline_gate(x))
        middle = quantiles[..., MIDDLE : MIDDLE + 1]
        bold = torch.where(
            answers.unobserved, self.residual_scale[context.variable_ids].sigmoid(), 1.0
        ).unsqueeze(-1)
        told = torch.cat([bold * guess, quantiles - (1 - bold) * middle], dim=-1)
        return told + easy.unsqueeze(-1)

    def contributions(
        self, values: Tensor, observed: Tensor, context: WindowContext, cell: tuple[int, int, int]
    ) -> Tensor:
        """The shares that observed cells have in the guess of one cell, of a single window: (1, t,
        l, m), which sum to one, or to none if nothing was observed.

        The guess is an easy answer and a difference. An easy answer is linear in what was observed:
        its weights say where it comes from. So do the maps of the difference, rolled back; cells
        that were not observed knew their easy answers. The two parts count by their size.
        """
        values = torch.where(observed, values, 0.0).requires_grad_()
        with torch.enable_grad():
            x, answers = self._embed(values, observed, context)
            start = x.detach()
            with torch.no_grad():
                looks = []
                for block in self.blocks:
                    looks.append(cast(Block, block).trace(start, observed, context))
                    start = block(start, observed, context)
                told = self.norm(start)
                mix = self.baseline_logits[context.variable_ids] + self.baseline_gate(told)
                difference = self.head(told)[(0, *cell, 0)].abs()
                if answers.unobserved[(0, *cell)]:
                    difference = (
                        difference * self.residual_scale[context.variable_ids[cell[2]]].sigmoid()
                    )
            easy = answers.combine(mix)
            asked = one_hot_cell(easy, cell)
            with torch.no_grad():
                share = rollout(looks, asked)
                unseen = share * ~observed
            direct = torch.autograd.grad((easy * asked).sum(), values, retain_graph=True)[0]
            through = torch.autograd.grad((easy * unseen).sum(), values)[0].abs()
        with torch.no_grad():
            size = (direct * values).abs().sum()
            easily = size / (size + difference).clamp(min=1e-12)
            network = normalise_to(
                share * observed + normalise_to(through, unseen.sum()), torch.ones(())
            )
            direct = normalise_to(direct.abs(), torch.ones(()))
            return normalise_to(easily * direct + (1 - easily) * network, torch.ones(()))

    def maps(self, values: Tensor, observed: Tensor, context: WindowContext) -> list[AttentionMaps]:
        """The maps of every layer, before observed cells are given more weight."""
        x, _ = self._embed(values, observed, context)
        found = []
        for block in self.blocks:
            found.append(cast(Block, block).maps(x, observed, context))
            x = block(x, observed, context)
        return found

    def _embed(
        self, values: Tensor, observed: Tensor, context: WindowContext
    ) -> tuple[Tensor, "BaselineAnswers"]:
        """Cells as vectors (b, t, l, m, c), and the easy answers."""
        values = torch.where(observed, values, 0.0)  # nothing behind a hidden cell can get in
        easy = interpolate(values, observed)
        known = ~context.climatology.isnan()
        usual = torch.where(known, context.climatology, 0.0)
        nearby = self.kriging(easy.line, easy.has_observation, easy, context)
        unusual = (
            self.anomaly_kriging(easy.line - usual, easy.has_observation & known, easy, context)
            + usual
        )
        simple = [values, observed, easy.line, easy.before, easy.after, usual, known]
        told = [*(part.to(values.dtype) for part in simple), nearby, unusual]
        clock = context.calendar.unflatten(1, (-1, 1, 1)).expand(*values.shape, -1)
        x = self.embed(torch.cat([torch.stack(told, dim=-1), clock], dim=-1))
        # the line where there is one, what is nearby, and what is unusual where it is known
        answers = torch.stack([easy.line, nearby, unusual], dim=-1)
        there = torch.stack([easy.has_observation, torch.ones_like(known), known], dim=-1)
        return x + self.variable_embedding[context.variable_ids], BaselineAnswers(
            answers, there, ~(easy.has_observation | known)
        )


WINDOW = 48
"""Steps of a window: two days of hours."""


MIN_WINDOW = 8


MAX_CELLS_PER_WINDOW = 30_000
"""Windows of more cells than that are shortened."""


CELLS_PER_BATCH = 10_000
"""A step of training takes windows of so many cells or a few more."""


MAX_BATCH_SIZE = 64
"""Of a step of training."""


MAX_WINDOW_STARTS = 50_000
"""Windows to learn from start at every step of the table, or at so many of them."""


MINUTES = ((30_000, 0.5), (300_000, 1.25), (math.inf, 3.0))
"""Up to so many measured cells: minutes of training."""


SIZES = (
    (1.5, CdsaNetworkConfig(d_model=32, n_layers=4, d_ff=64)),
    (30.0, CdsaNetworkConfig(n_layers=4)),
    (math.inf, CdsaNetworkConfig()),
)
"""Up to so many minutes: the network that learns best in them."""


AUTO_MODEL = CdsaNetworkConfig()


def default_training() -> TrainConfig:
    """How it learns."""
    return TrainConfig(
        batch_size=0,
        lr=2e-3,
        beta2=0.98,
        grad_clip=1.0,
        ema_decay=0.99,
        masking="like_data",
        loss_on="both",
        validate_every=100,
        patience=0,
    )


@dataclass(frozen=True, kw_only=True)
class Cdsa(Neural):
    """Cross-dimensional attention that knows places, times and gaps."""

    name: ClassVar[str] = "cdsa"
    MIN_WINDOW: ClassVar[int] = 0

    model: CdsaNetworkConfig = AUTO_MODEL
    train: TrainConfig = field(default_factory=default_training)
    window: int = 0
    """Time steps of a window, of a forecaster those looked back on; 0 chooses by the data."""

    stride: int | None = None
    """Steps from one training window to the next; chosen by the data if not given."""

    auto_size: bool = True
    """Whether the size of the network is chosen by the time there is, unless it is set otherwise;
    if not, `model` is taken as it is."""

    @property
    def size(self) -> str:
        """What was chosen, in words."""
        length = f"{self.window} + {self.horizon}" if self.horizon else f"{self.window}"
        model = self.model
        return f": windows of {length} steps, {model.n_layers} layers of {model.d_model} channels"

    def with_preset(self, name: str) -> Self:
        return replace(
            super().with_preset(name), horizon=self.horizon, known_covariates=self.known_covariates
        )

    def _with_horizon(self, steps: int) -> Self:
        """The same for so many steps ahead."""
        return replace(self, horizon=steps)

    def resolve(self, cube: Cube, run: RunContext | None = None) -> Self:
        cube = prepare(cube).cube
        there, series = cube.sizes["time"], max(1, int(np.prod(cube.shape[1:])))
        refuse_too_many_stations(int(cube.notnull().any(("time", "measurement")).sum()))
        steps = self.window
        if not steps:
            fitting = max(MIN_WINDOW, MAX_CELLS_PER_WINDOW // series - self.horizon)
            steps = max(1, min(max(WINDOW, self.horizon), fitting, there - self.horizon))
        length = steps + self.horizon
        train, model = self.train, self.model
        if train.minutes is None and train.epochs is None:
            cells = int(cube.notnull().sum())
            train = replace(train, minutes=next(m for most, m in MINUTES if cells <= most))
        if not train.batch_size:
            batch = math.ceil(CELLS_PER_BATCH / (length * series))
            train = replace(train, batch_size=min(batch, MAX_BATCH_SIZE))
        if self.auto_size and model is AUTO_MODEL:  # what is set, be it to the same, is another one
            minutes = train.minutes or math.inf
            model = next(sizes for most, sizes in SIZES if minutes <= most)
        before = settings_of(run.folder / TRAINING) if run and run.folder else None
        if (
            before and self.auto_size and model is not self.model
        ):  # with more time than it had before
            with contextlib.suppress(ConfigError):  # another method's: refused as another training
                model = from_dict(CdsaNetworkConfig, before["model"])
        stride = self.stride or min(length, max(1, there // MAX_WINDOW_STARTS))
        return replace(self, window=steps, stride=stride, train=train, model=model, auto_size=False)


Cdsa.PRESETS = {
    "small": Cdsa(
        model=CdsaNetworkConfig(d_model=8, n_heads=2, n_layers=2, d_ff=16),
        train=replace(default_training(), epochs=2, batch_size=4, validate_every=5),
        window=12,
        stride=6,
        auto_size=False,
    ),
}
