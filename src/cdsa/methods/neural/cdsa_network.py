"""The network of the method `cdsa`, and its settings.

Letters: b window of the batch, t time, l location, m measurement, c channels, h heads, q quantiles.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cdsa.errors import ConfigError
from cdsa.nn.attention import AttentionScope, Shared, apply_weighted
from cdsa.nn.attention_bias import AttentionBias
from cdsa.nn.blocks import feed_forward
from cdsa.nn.context import RECORD_FEATURES, WindowContext
from cdsa.nn.interpolation import interpolate
from cdsa.nn.kriging_layer import KrigingLayer
from cdsa.nn.quantile_head import INITIAL_STEP, MEDIAN, QUANTILES, monotone_quantiles
from cdsa.nn.rollout import LayerTrace, normalise_to, one_hot_cell, residual_share, rollout
from cdsa.nn.types import AttentionConfig, AttentionMaps, Network, NetworkConfig, Sizes

BASELINE_INIT = (1.0, 0.0, 0.0, 3.0)
"""Initial logits of the baselines: interpolation, kriging, kriging of anomalies, and the smoothed
mean, which gets most of the weight where there is one. With much more, the weights would hardly
have a gradient."""

SMOOTHED = len(BASELINE_INIT) - 1
"""The smoothed mean among the baselines."""

MIN_SCALE = 0.003
"""Residuals are predicted in standard deviations of the smoothed mean, plus this."""

LOG_OFFSET = 0.03
"""Added to these standard deviations before their logarithm, an input."""

MIN_LOW_PRECISION = 32
"""Channels from which on it pays to train in bfloat16, where a processor can."""

RESIDUAL_INIT = -2.0
"""Initial logit of the residual's scale in series without any observation."""

UNOBSERVED_INIT = -3.0
"""Initial logit of the weight of unobserved cells as keys: a twentieth."""


@dataclass(frozen=True, kw_only=True)
class CdsaNetworkConfig(NetworkConfig):
    uses_context: ClassVar[bool] = True
    inductive: ClassVar[bool] = True
    uses_backbone: ClassVar[bool] = True

    d_model: int = 48
    """Channels of a cell between layers."""

    n_heads: int = 8
    """Attention maps per axis and layer; `d_model` must be a multiple of it."""

    n_layers: int = 6
    """Blocks of attention and feed-forward."""

    d_qk: int = 2
    """Query and key channels of a head per cell; more only costs memory."""

    d_ff: int = 96
    """Width of the feed-forward part."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % self.n_heads:
            nearest = self.n_heads * -(-self.d_model // self.n_heads)
            raise ConfigError(
                f"d_model={self.d_model} does not split into n_heads={self.n_heads}; the next size "
                f"that does is d_model={nearest}"
            )

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> Network:
        return CdsaNetwork(self, sizes, n_calendar_features)


FEATURES = (
    "value", "observed", "interpolation", "proximity_before", "proximity_after",
    "log_bridge_variance", "climatology", "has_climatology", "kriging", "anomaly_kriging",
    "smoothed_mean", "has_smoothed_mean", "smoothed_std", "smoothed_log_std",
    "residual", "anomaly", "log_spread", "measured_anomaly", "same_hour", "has_same_hour",
)  # fmt: skip
"""Inputs of the network for each cell, in this order."""


class BaselineAnswers(NamedTuple):
    """Predictions without a network; the network predicts the residual."""

    values: Tensor
    """(b, t, l, m, 4), in the order of `BASELINE_INIT`."""

    available: Tensor
    """Where each of them exists."""

    scale: Tensor
    """Unit of the residual, (b, t, l, m)."""

    unobserved: Tensor
    """True in series with neither an observation nor a climatology, (b, t, l, m)."""

    def weights(self, logits: Tensor) -> Tensor:
        """Weights of the available ones, by a softmax: (b, t, l, m, 4)."""
        return logits.masked_fill(~self.available, -torch.inf).softmax(dim=-1)


class Block(nn.Module):
    """Attention and feed-forward with residual connections, each after a norm."""

    def __init__(self, config: CdsaNetworkConfig, sizes: Sizes) -> None:
        super().__init__()
        c, h = config.d_model, config.n_heads
        widths = AttentionConfig(d_model=c, n_heads=h, d_qk=config.d_qk, d_v=c // h)
        self.norm = nn.LayerNorm(c)
        self.attention = Shared(widths, AttentionScope(sizes))
        self.attention_bias = AttentionBias(h, sizes.measurements)
        self.unobserved_weight = nn.Parameter(torch.full((h,), UNOBSERVED_INIT))
        self.feed_forward_norm = nn.LayerNorm(c)
        self.feed_forward = feed_forward(c, config.d_ff)

    def forward(self, x: Tensor, observed: Tensor, context: WindowContext) -> Tensor:
        x = x + self.attend(x, observed, context)[0]
        return cast(Tensor, x + self.feed_forward(self.feed_forward_norm(x)))

    def trace(self, x: Tensor, observed: Tensor, context: WindowContext) -> LayerTrace:
        added, maps, key_weight = self.attend(x, observed, context)
        return LayerTrace(maps, residual_share(x, added), key_weight)

    def attend(
        self, x: Tensor, observed: Tensor, context: WindowContext
    ) -> tuple[Tensor, AttentionMaps, Tensor]:
        """What attention adds to x, its maps, and the weights of the cells attended to."""
        x, attention = self.norm(x), self.attention
        bias, key_weight = self.attention_bias(x.shape[1], context), self.key_weight(observed)
        v = attention.split_heads(attention.value(x))
        maps = attention.maps(x, x, bias=bias, present=reporting(observed))
        return attention.merge_heads(apply_weighted(maps, v, key_weight)), maps, key_weight

    def key_weight(self, observed: Tensor) -> Tensor:
        """How much a cell counts that is attended to, (b, t, l, m, h): observed cells one, other
        cells of reporting stations a learnt weight, the rest nothing."""
        present = reporting(observed).unflatten(1, (1, -1, 1, 1))
        return torch.where(observed.unsqueeze(-1), 1.0, self.unobserved_weight.sigmoid() * present)


def reporting(observed: Tensor) -> Tensor:
    """True for stations with any observation in a window, (b, l), or for all if none has one.

    No cell attends to the others, so the prediction at an unmonitored site does not depend on which
    other sites are predicted with it.
    """
    present = observed.any(dim=3).any(dim=1)
    return present | ~present.any(dim=1, keepdim=True)


@cache
def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether products in bfloat16 are faster than in single precision."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())


class CdsaNetwork(Network):
    """Fills windows of any size: `forward(values, observed, context) -> (b, t, l, m, 1 + q)`, the
    prediction and its quantiles.

    The network predicts residuals from a baseline, a weighted average of simple predictions with
    weights for each cell: above all the smoothed mean of a linear-Gaussian model of all series, and
    interpolation and kriging for stations that this model does not know. Where the model is
    certain, residuals are small. In series without any observation they are scaled down, as much as
    is learnt.
    """

    data_parallel = True
    explainable = True

    shrinkage: Tensor
    """Share of its difference from the smoothed mean that is kept after training, (m,)."""

    def __init__(self, config: CdsaNetworkConfig, sizes: Sizes, n_calendar_features: int) -> None:
        super().__init__()
        n_variables = sizes.measurements
        self.kriging = KrigingLayer(n_variables, use_similarity=False)
        self.anomaly_kriging = KrigingLayer(n_variables, use_similarity=True)
        self.baseline_logits = nn.Parameter(torch.tensor(BASELINE_INIT).repeat(n_variables, 1))
        self.residual_scale = nn.Parameter(torch.full((n_variables,), RESIDUAL_INIT))
        self.register_buffer("shrinkage", torch.ones(n_variables))
        self.embed = nn.Linear(len(FEATURES) + n_calendar_features, config.d_model)
        self.variable_embedding = nn.Parameter(torch.randn(n_variables, config.d_model) * 0.3)
        shape = (sizes.locations, n_variables, config.d_model)
        self.series_embedding = nn.Parameter(torch.zeros(shape))
        self.blocks = nn.ModuleList(Block(config, sizes) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.d_model)
        self.baseline_gate = nn.Linear(config.d_model, len(BASELINE_INIT))
        self.head = feed_forward(config.d_model, config.d_model, 1 + len(QUANTILES))
        last = cast(nn.Linear, self.head[-1])
        with torch.no_grad():  # starts from the baseline, with narrow quantiles
            last.weight.mul_(0.3)
            last.weight[[0, 1 + MEDIAN]] = 0.0
            last.bias.fill_(INITIAL_STEP)
            last.bias[[0, 1 + MEDIAN]] = 0.0
            self.baseline_gate.weight.mul_(0.1)
            self.baseline_gate.bias.zero_()

    def forward(self, values: Tensor, observed: Tensor, context: WindowContext) -> Tensor:
        x, answers = self._embed(values, observed, context)
        low_precision = (
            self.training
            and x.dtype == torch.float32
            and x.shape[-1] >= MIN_LOW_PRECISION
            and has_fast_bfloat16(x.device)
        )
        with torch.autocast(x.device.type, torch.bfloat16, enabled=low_precision):
            for block in self.blocks:
                x = block(x, observed, context)
        weights, residual = self._decode(x.to(values.dtype), answers, context)
        return residual + (weights * answers.values).sum(-1, keepdim=True)

    def maps(self, values: Tensor, observed: Tensor, context: WindowContext) -> list[AttentionMaps]:
        """The maps of every layer, without the weights of keys."""
        x, _ = self._embed(values, observed, context)
        return [trace.maps for trace in self._trace(x, observed, context)[1]]

    def contributions(
        self, values: Tensor, observed: Tensor, context: WindowContext, cell: tuple[int, int, int]
    ) -> Tensor:
        """The prediction is a baseline plus a residual. The baseline is linear in the observations,
        so its gradient attributes it; what the smoothed mean is made of comes with the context.
        Attention rollout attributes the residual; the share of unobserved cells is passed on by the
        gradient of their baselines. Both count by their size."""
        values = torch.where(observed, values, 0.0).requires_grad_()
        with torch.enable_grad():
            x, answers = self._embed(values, observed, context)
            with torch.no_grad():
                x, traces = self._trace(x, observed, context)
            weights, residual = self._decode(x, answers, context)
            baseline = (weights * answers.values).sum(-1)
            target = one_hot_cell(baseline, cell)
            with torch.no_grad():
                share = rollout(traces, target)
                unobserved = share * ~observed
            gradient = torch.autograd.grad((baseline * target).sum(), values, retain_graph=True)[0]
            passed_on = torch.autograd.grad((baseline * unobserved).sum(), values)[0].abs()
        with torch.no_grad():
            by_baseline = normalise_to(gradient.abs(), (gradient * values).abs().sum())
            if context.smoothed_from is not None:
                size = (weights * answers.values)[(0, *cell, -1)].abs()
                by_baseline = by_baseline + normalise_to(context.smoothed_from * observed, size)
            baseline_size, residual_size = by_baseline.sum(), residual[(0, *cell, 0)].abs()
            weight = baseline_size / (baseline_size + residual_size).clamp(min=1e-12)
            by_residual = share * observed + normalise_to(passed_on, unobserved.sum())
            by_baseline, by_residual = normalise_to(by_baseline), normalise_to(by_residual)
            return normalise_to(weight * by_baseline + (1 - weight) * by_residual)

    def _embed(
        self, values: Tensor, observed: Tensor, context: WindowContext
    ) -> tuple[Tensor, BaselineAnswers]:
        """Cells as vectors (b, t, l, m, c), and the baselines."""
        values = torch.where(observed, values, 0.0)  # hidden values cannot leak
        record = context.record
        if record is None:
            n_features = len(RECORD_FEATURES)
            record = values.new_full((n_features,), torch.nan).expand(*values.shape, n_features)
        *smoothed, far_line, before, after, same_hour, has_same_hour = record.unbind(-1)
        line = interpolate(values, observed).across(far_line, before, after)
        has_climatology = ~context.climatology.isnan()
        climatology = torch.where(has_climatology, context.climatology, 0.0)
        is_smoothed = ~smoothed[0].isnan()
        mean, std, residual, anomaly, log_spread = (feature.nan_to_num() for feature in smoothed)
        variance = context.step_variance * line.bridge_variance
        kriging = self.kriging(line.line, line.has_observation, variance, context)
        in_both = line.has_observation & has_climatology
        anomalies = self.anomaly_kriging(line.line - climatology, in_both, variance, context)
        answers = [line.line, kriging, anomalies + climatology, mean]
        features = [values, observed, line.line, line.proximity_before, line.proximity_after]
        features += [line.bridge_variance.log1p()]
        features += [climatology, has_climatology, kriging, answers[2]]
        features += [mean, is_smoothed, std, (std + LOG_OFFSET).log()]
        features += [residual, anomaly, log_spread, anomaly + residual * log_spread.exp()]
        features += [same_hour.nan_to_num(), has_same_hour.nan_to_num()]
        calendar = context.calendar.unflatten(1, (-1, 1, 1)).expand(*values.shape, -1)
        stacked = torch.stack([feature.to(values.dtype) for feature in features], dim=-1)
        x = self.embed(torch.cat([stacked, calendar], dim=-1))
        everywhere = torch.ones_like(is_smoothed)
        available = [line.has_observation, everywhere, has_climatology, is_smoothed]
        return x + self._identity(context), BaselineAnswers(
            values=torch.stack(answers, dim=-1),
            available=torch.stack(available, dim=-1),
            scale=torch.where(is_smoothed, std + MIN_SCALE, 1.0),
            unobserved=~(line.has_observation | has_climatology | is_smoothed),
        )

    def _identity(self, context: WindowContext) -> Tensor:
        """What is learnt of each measurement and, at stations that were trained on, of each series;
        (b or 1, 1, l, m, c)."""
        of_variable, ids = self.variable_embedding[context.variable_ids], context.station_ids
        if ids is None:
            return of_variable
        ids = ids if ids.ndim == 2 else ids.unsqueeze(0)
        of_series = self.series_embedding[ids.clamp(min=0)][:, :, context.variable_ids]
        known = (ids >= 0).unflatten(1, (-1, 1, 1))
        identity: Tensor = (of_variable + of_series * known).unsqueeze(1)
        return identity

    def _decode(
        self, x: Tensor, answers: BaselineAnswers, context: WindowContext
    ) -> tuple[Tensor, Tensor]:
        """The weights of the baselines (b, t, l, m, 4) and the residuals of the prediction and its
        quantiles, (b, t, l, m, 1 + q)."""
        x, ids = self.norm(x), context.variable_ids
        point, raw = self.head(x).split([1, len(QUANTILES)], dim=-1)
        quantiles = monotone_quantiles(raw)
        weights = answers.weights(self.baseline_logits[ids] + self.baseline_gate(x))
        median = quantiles[..., MEDIAN : MEDIAN + 1]
        share = torch.where(answers.unobserved, self.residual_scale[ids].sigmoid(), 1.0)[..., None]
        if not self.training:  # towards the smoothed mean, the last of the baselines
            kept = torch.where(answers.available[..., -1], self.shrinkage[ids], 1.0)[..., None]
            smoothed = F.one_hot(torch.tensor(SMOOTHED, device=x.device), SMOOTHED + 1)
            weights = kept * weights + (1 - kept) * smoothed
            share = share * kept
        residual = torch.cat([share * point, quantiles - (1 - share) * median], dim=-1)
        return weights, residual * answers.scale.unsqueeze(-1)

    def _trace(
        self, x: Tensor, observed: Tensor, context: WindowContext
    ) -> tuple[Tensor, list[LayerTrace]]:
        """The output of the last block, and the trace of each."""
        traces = []
        for block in self.blocks:
            traces.append(cast(Block, block).trace(x, observed, context))
            x = block(x, observed, context)
        return x, traces
