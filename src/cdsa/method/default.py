"""The method users get by default: `cdsa`.

What is not set is chosen from the data when it learns: how long windows are, how many of them make
a step of training, how long to train and how large a network fits into that time.
"""

import contextlib
import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
import xarray as xr

from cdsa.core.config import from_plain
from cdsa.errors import ConfigError, unknown
from cdsa.method.network import refuse_too_many
from cdsa.method.neural import Neural, NeuralFiller
from cdsa.models.geographic import GeographicConfig
from cdsa.training.checkpoint import TRAINING
from cdsa.training.loop import TrainConfig
from cdsa.training.state import settings_of

WINDOW = 48
"""Steps of a window: two days of hours."""
SHORTEST_WINDOW = 8
CELLS_OF_A_WINDOW = 30_000
"""Windows of more cells than that are shortened."""
CELLS_OF_A_STEP = 10_000
"""A step of training takes windows of so many cells or a few more."""
MOST_WINDOWS = 64
"""Of a step of training."""
STARTS = 50_000
"""Windows to learn from start at every step of the table, or at so many of them."""

MINUTES = ((30_000, 0.5), (300_000, 1.25), (math.inf, 3.0))
"""Up to so many measured cells: minutes of training."""
SIZES = (
    (1.5, GeographicConfig(channels=32, layers=4, feed_forward=64)),
    (30.0, GeographicConfig(layers=4)),
    (math.inf, GeographicConfig()),
)
"""Up to so many minutes: the network that learns best in them."""
TO_CHOOSE = GeographicConfig()


def training() -> TrainConfig:
    """How it learns."""
    return TrainConfig(
        batch=0,
        rate=2e-3,
        second_moment=0.98,
        clip=1.0,
        average=0.99,
        hide="natural",
        learn_from="both",
        validate_every=100,
        patience=0,
    )


@dataclass(frozen=True, kw_only=True)
class Cdsa(Neural):
    """Cross-dimensional attention that knows places, times and gaps."""

    name: ClassVar[str] = "cdsa"
    SMALLEST_WINDOW: ClassVar[int] = 0

    model: GeographicConfig = TO_CHOOSE
    train: TrainConfig = field(default_factory=training)
    steps: int = 0
    """Time steps of a window, of a forecaster those looked back on; 0 chooses by the data."""

    stride: int | None = None
    """Steps from one training window to the next; chosen by the data if not given."""

    fitted: bool = True
    """Whether the size of the network is chosen by the time there is, unless it is set otherwise;
    if not, `model` is taken as it is."""

    @property
    def size(self) -> str:
        """What was chosen, in words."""
        length = f"{self.steps} + {self.horizon}" if self.horizon else f"{self.steps}"
        model = self.model
        return f": windows of {length} steps, {model.layers} layers of {model.channels} channels"

    def by_preset(self, name: str) -> "Cdsa":
        """The settings of this name, for the same task."""
        if name not in PRESETS:
            raise ConfigError(unknown("preset", name, PRESETS))
        return replace(PRESETS[name], horizon=self.horizon, run=self.run, known=self.known)

    def foreseeing(self, steps: int) -> Self:
        """The same for so many steps ahead."""
        return replace(self, horizon=steps)

    def fit(self, cube: xr.DataArray) -> NeuralFiller:
        """Learn from the measured cells of `cube`."""
        return super(Cdsa, self.settled(cube)).fit(cube)

    def settled(self, cube: xr.DataArray) -> Self:
        """The same with all that was left open chosen by the data."""
        there, series = cube.sizes["time"], max(1, int(np.prod(cube.shape[1:])))
        refuse_too_many(int(cube.notnull().any(("time", "measurement")).sum()))
        steps = self.steps
        if not steps:
            fitting = max(SHORTEST_WINDOW, CELLS_OF_A_WINDOW // series - self.horizon)
            steps = max(1, min(max(WINDOW, self.horizon), fitting, there - self.horizon))
        length = steps + self.horizon
        train, model = self.train, self.model
        if train.minutes is None and train.epochs is None:
            cells = int(cube.notnull().sum())
            train = replace(train, minutes=next(m for most, m in MINUTES if cells <= most))
        if not train.batch:
            batch = math.ceil(CELLS_OF_A_STEP / (length * series))
            train = replace(train, batch=min(batch, MOST_WINDOWS))
        if self.fitted and model is TO_CHOOSE:  # what is set, be it to the same, is another one
            minutes = train.minutes or math.inf
            model = next(sizes for most, sizes in SIZES if minutes <= most)
        before = self.run.folder and settings_of(self.run.folder / TRAINING)
        if before and self.fitted and model is not self.model:  # with more time than it had before
            with contextlib.suppress(ConfigError):  # another method's: refused as another training
                model = from_plain(GeographicConfig, before["model"])
        stride = self.stride or min(length, max(1, there // STARTS))
        return replace(self, steps=steps, stride=stride, train=train, model=model, fitted=False)


PRESETS = {
    "small": Cdsa(
        model=GeographicConfig(channels=8, heads=2, layers=2, feed_forward=16),
        train=replace(training(), epochs=2, batch=4, validate_every=5),
        steps=12,
        stride=6,
        fitted=False,
    ),
}
