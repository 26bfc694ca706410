"""The default method: what it chooses by the data, and how its network is trained."""

import contextlib
import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from cdsa.core.config import from_dict
from cdsa.core.prepare import Cube, prepare
from cdsa.errors import ConfigError
from cdsa.methods.engine.estimator import Neural
from cdsa.methods.engine.predictor import refuse_too_many_stations
from cdsa.methods.neural.cdsa_network import CdsaNetworkConfig
from cdsa.training.callbacks import RunContext
from cdsa.training.checkpoint import TRAINING
from cdsa.training.loop import TrainConfig
from cdsa.training.sampling import training_sizes
from cdsa.training.state import saved_settings

WINDOW, MIN_WINDOW = 48, 8
"""Steps of a window: two days of hours, and its minimum."""

MAX_CELLS_PER_WINDOW = 30_000
"""Windows of more cells are shortened."""

CELLS_PER_BATCH, MAX_BATCH_SIZE = 10_000, 64
"""A batch has about this many cells, and at most this many windows."""

MAX_WINDOW_STARTS = 50_000
"""Training windows start at every step of the table, or at about this many of them."""

MINUTES = ((30_000, 0.5), (300_000, 1.25), (math.inf, 3.0))
"""Minutes of training, up to so many measured cells."""

MODEL_SIZES = (
    (4.0, CdsaNetworkConfig(d_model=32, n_layers=3, d_ff=64)),
    (30.0, CdsaNetworkConfig(n_layers=4)),
    (math.inf, CdsaNetworkConfig()),
)
"""The most accurate network, up to so many minutes of training."""

AUTO_MODEL = CdsaNetworkConfig()
"""The default, by identity: any other configuration was set by the user."""


DEFAULT_TRAINING = TrainConfig(
    batch_size=0,
    optimiser="muon",
    lr=2e-3,
    beta2=0.98,
    grad_clip=1.0,
    ema_decay=0.99,
    masking="like_data",
    loss_on="hidden",
    validate_every=100,
    patience=0,
)


@dataclass(frozen=True, kw_only=True)
class Cdsa(Neural):
    """Cross-dimensional attention with coordinates, calendar and climatology as context.

    The default network. It learns what to add to a mix of linear interpolation and kriging, and
    predicts quantiles. Queries and keys belong to cells, so the same weights serve any number of
    stations and time steps.

    Parameters
    ----------
    model
        Sizes of the network.
    train
        How it is trained: budget, learning rate, masking, validation.
    window
        Time steps of a window; 0 chooses by the data.
    stride
        Steps from one training window to the next; None chooses by the data.
    horizon
        Steps to forecast; 0 for a network that fills.
    known_covariates
        Measurements whose future values are known when a forecast is made.
    seed
        Seed of the first weights, the order of windows and the cells that are masked.
    auto_size
        Whether the size is chosen by the minutes of training, unless `model` is set.

    References
    ----------
    Ma, J., Shou, Z., Zareian, A., Mansour, H., Vetro, A., & Chang, S.-F. (2019). CDSA:
    Cross-dimensional self-attention for multivariate, geo-tagged time series imputation.
    arXiv:1905.09904.

    Examples
    --------
    >>> import cdsa
    >>> demo = cdsa.open_demo()[:100]
    >>> method = cdsa.Cdsa().with_preset("small")
    >>> result = cdsa.fill(demo, method)
    >>> result.attrs["method"], int(result["value"].isnull().sum())
    ('cdsa', 0)
    """

    name: ClassVar[str] = "cdsa"
    MIN_WINDOW: ClassVar[int] = 0

    model: CdsaNetworkConfig = AUTO_MODEL
    train: TrainConfig = DEFAULT_TRAINING
    window: int = 0
    """Time steps of a window, for a forecaster those before the horizon; 0 chooses by the data."""

    stride: int | None = None
    """Steps from one training window to the next; chosen by the data if not given."""

    auto_size: bool = True
    """Whether the size of the network is chosen by the minutes of training, unless `model` is set;
    if not, `model` is used as it is."""

    @property
    def size(self) -> str:
        """The chosen sizes in words."""
        length = f"{self.window} + {self.horizon}" if self.horizon else f"{self.window}"
        model = self.model
        return f": windows of {length} steps, {model.n_layers} layers of {model.d_model} channels"

    def with_preset(self, name: str) -> Self:
        return replace(
            super().with_preset(name), horizon=self.horizon, known_covariates=self.known_covariates
        )

    def _with_horizon(self, steps: int) -> Self:
        return replace(self, horizon=steps)

    def resolve(self, cube: Cube, run: RunContext | None = None) -> Self:
        cube = prepare(cube).cube
        refuse_too_many_stations(int(cube.notnull().any(("time", "measurement")).sum()))
        n_steps, n_series = cube.sizes["time"], max(1, int(np.prod(cube.shape[1:])))
        window, train = self.window, self.train
        if not window:
            affordable = max(MIN_WINDOW, MAX_CELLS_PER_WINDOW // n_series - self.horizon)
            window = min(max(WINDOW, self.horizon), affordable, n_steps - self.horizon)
            window = max(1, window)
        length = window + self.horizon
        if train.minutes is None and train.epochs is None:
            n_cells = int(cube.notnull().sum())
            train = replace(train, minutes=next(m for limit, m in MINUTES if n_cells <= limit))
        if not train.batch_size:
            n_drawn = math.prod(training_sizes(*cube.shape[1:]))
            batch_size = math.ceil(CELLS_PER_BATCH / (length * n_drawn))
            train = replace(train, batch_size=min(batch_size, MAX_BATCH_SIZE))
        return replace(
            self,
            window=window,
            stride=self.stride or min(length, max(1, n_steps // MAX_WINDOW_STARTS)),
            train=train,
            model=self._choose_model(train.minutes or math.inf, run),
            auto_size=False,
        )

    def _choose_model(self, minutes: float, run: RunContext | None) -> CdsaNetworkConfig:
        """The network for so many minutes; a training that is resumed keeps its own."""
        if not self.auto_size or self.model is not AUTO_MODEL:
            return self.model
        saved = saved_settings(run.folder / TRAINING) if run and run.folder else None
        if saved:
            with contextlib.suppress(ConfigError):  # of another method: refused when it is resumed
                return from_dict(CdsaNetworkConfig, saved["model"])
        return next(model for limit, model in MODEL_SIZES if minutes <= limit)


Cdsa.PRESETS = {
    "small": Cdsa(
        model=CdsaNetworkConfig(d_model=8, n_heads=2, n_layers=2, d_ff=16),
        train=DEFAULT_TRAINING.few_steps(),
        window=12,
        stride=6,
        auto_size=False,
    ),
}
