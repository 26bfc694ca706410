"""The paper's networks as methods, with presets.

Ma, Shou, Zareian, Mansour, Vetro, Chang: "CDSA: Cross-Dimensional Self-Attention for Multivariate,
Geo-tagged Time Series Imputation", 2019. Of its settings only those of NYC-Traffic are known; the
others were in a supplement that is lost. What is ours is said where it stands.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from cdsa.core.config import override
from cdsa.errors import ConfigError, unknown
from cdsa.method.neural import Neural
from cdsa.models.cdsa import CdsaConfig
from cdsa.nn.types import MANNERS, AxisConfig, Manner, refuse_nothing_ahead
from cdsa.training.loop import TrainConfig

AUTHORS_TRAINING = TrainConfig(
    epochs=100,
    batch=19,
    rate=1e-3,
    schedule="steps",
    clip=5.0,
    loss="rmse",
    learn_from="visible",
    patience=0,
)
"""As in the authors' code: all visible cells are asked for; what is hidden is never trained on."""

CELLS = CdsaConfig(
    manner="shared",
    channels=16,
    heads=4,
    d=8,
    v=8,
    feed_forward=32,
    normalise="cell",
    hide_own_step=False,
    tell_observed=True,
    positions=True,
    time=AxisConfig(d=8, v=16, layers=4, feed_forward=64),
    location=AxisConfig(d=8, v=16, layers=4, feed_forward=64),
    measurement=AxisConfig(d=8, v=16, layers=4, feed_forward=64),
)
GENERAL: dict[Manner, CdsaConfig] = {
    "shared": CELLS,
    # its time goes with the heads and hardly with their width
    "joint": replace(CELLS, manner="joint", heads=2, d=16, v=16),
    "decomposed": replace(CELLS, manner="decomposed", bare_last=False),
    "independent": replace(CELLS, manner="independent", bare_last=False),
}
"""For a user's own table: the paper's equations and depth with several channels per cell, which are
told what was measured and where they stand. The authors' single channel learns slowly."""

RATES: dict[Manner, float] = {
    "shared": 1e-3,
    "joint": 1e-3,
    "decomposed": 3e-4,
    "independent": 3e-4,
}
"""Learning rates for these: what is projected from whole slices wants shorter steps. (Both chosen
on the demo data.)"""


def training(manner: Manner) -> TrainConfig:
    """How those are trained."""
    return TrainConfig(minutes=5, batch=8, rate=RATES[manner])


SMALL = replace(
    GENERAL["decomposed"],
    layers=2,
    channels=4,
    heads=2,
    d=4,
    v=2,
    feed_forward=8,
    time=AxisConfig(d=4, v=4, layers=1, feed_forward=8),
    location=AxisConfig(d=4, v=4, layers=1, feed_forward=8),
    measurement=AxisConfig(d=4, v=4, layers=1, feed_forward=8),
)


@dataclass(frozen=True, kw_only=True)
class CdsaPaper(Neural):
    """The paper's encoder, which fills."""

    name: ClassVar[str] = "cdsa-paper"

    model: CdsaConfig = GENERAL["decomposed"]
    train: TrainConfig = field(default_factory=lambda: training("decomposed"))
    steps: int = 24

    @property
    def label(self) -> str:
        """The name, and the manner if it is not the paper's choice."""
        manner = self.model.manner
        return self.name if manner == "decomposed" else f"{self.name}:{manner}"

    def by_preset(self, name: str) -> "CdsaPaper":
        """The settings of this name, for the same task."""
        return preset(name, forecast=self.horizon > 0)

    def in_manner(self, manner: str) -> Self:
        """The same in another manner; the general preset has widths and a rate for each."""
        if manner not in MANNERS:
            raise ConfigError(unknown("manner", manner, MANNERS))
        changed = override(self, [f"model.manner={manner}"])
        before, after = self.model.manner, changed.model.manner
        if replace(self.model, layers=CELLS.layers) != GENERAL[before]:
            return changed
        rate = RATES[after] if self.train.rate == RATES[before] else self.train.rate
        return replace(
            changed,
            model=replace(GENERAL[after], layers=self.model.layers),
            train=replace(self.train, rate=rate),
        )


@dataclass(frozen=True, kw_only=True)
class CdsaPaperForecast(CdsaPaper):
    """The paper's encoder-decoder, which foresees."""

    name: ClassVar[str] = "cdsa-paper-forecast"

    model: CdsaConfig = field(default_factory=lambda: replace(GENERAL["decomposed"], layers=9))
    steps: int = 24
    horizon: int = 12
    stride: int | None = 1

    def foreseeing(self, steps: int) -> Self:
        """The same for so many steps ahead; the shared manner needs as many to look back on."""
        made = super().foreseeing(steps)
        return replace(made, horizon=made.steps) if self.model.manner == "shared" else made

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_nothing_ahead(self.horizon)


FILLERS: dict[str, CdsaPaper] = {
    "paper": CdsaPaper(),
    "paper-nyc": CdsaPaper(model=CdsaConfig(), train=AUTHORS_TRAINING, steps=432, stride=2),
    "paper-kdd2015": CdsaPaper(model=CdsaConfig(), train=AUTHORS_TRAINING, steps=36),
    "paper-kdd2018": CdsaPaper(model=CdsaConfig(), train=AUTHORS_TRAINING, steps=48),
    "small": CdsaPaper(
        model=SMALL, train=TrainConfig(epochs=2, batch=4, validate_every=5), steps=12, stride=6
    ),
}
FORECASTERS: dict[str, CdsaPaperForecast] = {
    "paper": CdsaPaperForecast(),
    "paper-metr-la": CdsaPaperForecast(
        model=CdsaConfig(
            layers=9,
            time=AxisConfig(d=6, layers=9),
            location=AxisConfig(d=14, layers=9),
            measurement=AxisConfig(d=6, layers=9),
        ),
        train=AUTHORS_TRAINING,
        steps=12,
        horizon=12,
    ),
    "small": CdsaPaperForecast(
        model=SMALL,
        train=TrainConfig(epochs=2, batch=4, validate_every=5),
        steps=6,
        horizon=6,
        stride=3,
    ),
}


def preset(name: str, *, forecast: bool = False) -> CdsaPaper:
    """The settings of this name."""
    known: dict[str, CdsaPaper] = {**FORECASTERS} if forecast else {**FILLERS}
    if name not in known:
        raise ConfigError(unknown("preset", name, known))
    return known[name]
