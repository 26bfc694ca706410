"""Any network as a method: its settings, and the filler that a fit returns.

How it is fitted is in `fit.py`; how a trained network predicts, in `predictor.py`.
"""

import logging
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core import defaults
from cdsa.core.circular import base_names
from cdsa.core.cube import fillable
from cdsa.core.domain import Domain
from cdsa.core.gaps import LONG_GAP
from cdsa.core.geo import Edge
from cdsa.core.prepare import Cube, PreparedCube, prepare
from cdsa.core.records import Value
from cdsa.core.splits import time_mask
from cdsa.core.text import format_count
from cdsa.errors import ConfigError, unknown
from cdsa.methods.base import Bounds, Filler, Method
from cdsa.methods.calibration import quantile_pair
from cdsa.methods.engine.explain import explain
from cdsa.methods.engine.fit import fit_network
from cdsa.methods.engine.predictor import Predictor, refuse_too_many_stations
from cdsa.methods.engine.signature import DataSignature
from cdsa.methods.engine.validation import gap_classes
from cdsa.methods.explanation import Explanation, find_cell
from cdsa.methods.wrapper import Finaliser, means_of
from cdsa.nn.types import NetworkConfig
from cdsa.training.callbacks import RunContext
from cdsa.training.loop import TrainConfig

logger = logging.getLogger("cdsa")

FEW_STEPS = 100
"""Steps of a training limited by minutes below which its network has hardly learnt."""

SITES_AT_ONCE = 200
"""Sites without a sensor that are filled together."""

CELLS_IN_A_BLOCK = 400_000
"""Cells of a long cube that are filled together."""


@dataclass(frozen=True, kw_only=True)
class Neural(Method):
    """A network, the length of its windows, and how it is trained."""

    trains: ClassVar[bool] = True
    MIN_WINDOW: ClassVar[int] = 1
    PRESETS: ClassVar[dict[str, Any]] = {}
    """Settings by name."""

    depends_on_other_sites: ClassVar[bool] = False
    """Whether a prediction at one site depends on which other sites are predicted."""

    supports_known: ClassVar[bool] = True
    """Whether it uses values known in advance, if it uses the context of its cells."""

    model: NetworkConfig
    train: TrainConfig = field(default_factory=TrainConfig)
    window: int = 36
    """Time steps of a window; of a forecaster, those before the horizon."""

    stride: int | None = None
    """Steps from one training window to the next, a quarter of a window if not given."""

    horizon: int = 0
    """Steps to forecast; 0 for a network that fills."""

    known_covariates: tuple[str, ...] = ()
    """Measurements that are known in advance when a forecast is made."""

    seed: int = 0
    """Of the first weights, the order of windows and the masks in training."""

    def __post_init__(self) -> None:
        for name, minimum in (("window", self.MIN_WINDOW), ("horizon", 0), ("seed", 0)):
            if getattr(self, name) < minimum:
                raise ConfigError(
                    f"{name} must be at least {minimum}, but found {getattr(self, name)}"
                )
        # a window of 0 is chosen later
        length = self.window + self.horizon if self.window else math.inf
        if self.stride is not None and not 1 <= self.stride <= length:
            most = f"the {length} steps of a window" if self.window else "the steps of a window"
            raise ConfigError(f"stride lies between 1 and {most}, but found {self.stride}")

    @property
    def inductive(self) -> bool:
        return self.model.inductive

    @property
    def size(self) -> str:
        """The size in words, if it is chosen by the data."""
        return ""

    @property
    def minutes(self) -> float | None:
        return self.train.minutes

    @property
    def budget(self) -> str:
        train = self.train
        limits = [f"{train.minutes:g} minutes (--minutes)"] if train.minutes else []
        limits += [f"{train.max_epochs:,} epochs (--epochs)"] if train.max_epochs < math.inf else []
        return " or ".join(limits) + self.size

    def fit(self, cube: Cube, run: RunContext | None = None) -> "NeuralFiller":
        data, run = prepare(cube), run or RunContext()
        method = self.resolve(data, run)
        context, horizon = method._lengths(data.cube.sizes["time"])
        enough = data.cube.size > 0 and fillable(data.cube).any() and context + horizon > 1
        if method.horizon:
            enough = enough and min(context, horizon) > 0
        return NeuralFiller(
            *means_of(data),
            method=method,
            network=fit_network(method, data, context, horizon, run) if enough else None,
            signature=DataSignature.of(data.cube),
        )

    def with_preset(self, name: str) -> Self:
        if name not in self.PRESETS:
            raise ConfigError(unknown("preset", name, self.PRESETS))
        preset: Self = self.PRESETS[name]
        return preset

    def with_horizon(self, steps: int, *, keep_longer: bool = False) -> Self:
        if keep_longer and self.horizon >= steps:
            return self
        return self._with_horizon(steps)

    def _with_horizon(self, steps: int) -> Self:
        """The same for so many steps, with at least as many before them."""
        return replace(self, horizon=steps, window=max(steps, self.window))

    def with_known_covariates(self, names: Sequence[str]) -> Self:
        if not (self.model.uses_context and self.supports_known):
            return super().with_known_covariates(names)
        return replace(self, known_covariates=tuple(names))

    def with_budget(self, minutes: float | None = None, epochs: int | None = None) -> Self:
        return replace(self, train=replace(self.train, minutes=minutes, epochs=epochs))

    def with_time_limit(self, max_minutes: float | None, cube: Cube) -> Self:
        if max_minutes is None:
            return self
        minutes = min(self.resolve(cube).train.minutes or defaults.MINUTES, max_minutes)
        return replace(self, train=replace(self.train, minutes=minutes))

    def with_seed(self, seed: int) -> Self:
        return replace(self, seed=seed)

    def edges_for(self, names: NDArray[np.str_]) -> tuple[Edge, ...]:
        """The edges of the graph, if one was given; refused if they connect none of these
        stations."""
        return ()

    def _lengths(self, n_steps: int) -> tuple[int, int]:
        """Steps of a window before and in the horizon; in proportion if there are too few."""
        length = self.window + self.horizon
        if n_steps >= length:
            return self.window, self.horizon
        logger.warning("windows of %d steps are longer than the %d of the table", length, n_steps)
        return n_steps * self.window // length, n_steps * self.horizon // length


@dataclass(frozen=True, eq=False)
class NeuralFiller(Finaliser, Filler):
    """A trained network as a filler."""

    gives_intervals: ClassVar[bool] = True

    method: Neural
    network: Predictor | None
    """None if there was too little data to train on; then gaps get means."""

    signature: DataSignature

    def __repr__(self) -> str:
        measurements, stations = self.signature.measurements, self.signature.locations
        trained_on = f"{', '.join(measurements)} at {format_count(len(stations), 'station')}"
        return f"<{type(self).__name__} {self.method.label}: trained on {trained_on}>"

    def fill(self, cube: Cube) -> xr.DataArray:
        """The cube filled; data of another kind are refused. Stations that it was not trained on
        get means, unless the network is inductive."""
        return self.fill_intervals(cube, ())[0]

    def fill_intervals(
        self, cube: Cube, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[Bounds]]:
        """The cube filled and bounds for each level; NaN where the network does not know.

        A long cube is filled in blocks, so that memory beyond the cube itself stays constant. Many
        sites without a sensor are filled in groups: a prediction at one does not depend on others.
        """
        data = self._prepare(cube)
        cube = data.cube
        if self.network is None:
            unknown = xr.full_like(cube, np.nan)
            prediction = xr.full_like(data.components, np.nan)
            return self.finalise(data, prediction), [(unknown, unknown)] * len(levels)
        network = self.network.adapt_to(data.components)
        unobserved = network.unobserved(cube)
        if network.inductive:
            refuse_too_many_stations(int((~unobserved).sum()))
        groups: list[slice | NDArray[np.int64]] = [slice(None)]
        if unobserved.sum() > SITES_AT_ONCE and not self.method.depends_on_other_sites:
            stations, sites = np.flatnonzero(~unobserved), np.flatnonzero(unobserved)
            starts = range(0, len(sites), SITES_AT_ONCE)
            groups = [np.append(stations, sites[first : first + SITES_AT_ONCE]) for first in starts]
        outputs = [np.empty(cube.shape, dtype=cube.dtype) for _ in range(1 + 2 * len(levels))]
        smoothed = network.smooth(data.components)
        for group in groups:
            members = data.isel(location=group)
            if len(groups) > 1:
                network = self.network.adapt_to(members.components)
            for seen, inner, at in blocks(members.cube, network):
                network.refuse_implausible(members.components.isel(time=at))
                block = self._fill_block(network, members.isel(time=seen), levels, smoothed)
                for output, values in zip(outputs, block, strict=True):
                    output[at, group] = values.to_numpy()[inner]
        filled, *bounds = (cube.copy(data=output) for output in outputs)
        return filled, list(zip(bounds[::2], bounds[1::2], strict=True))

    def _prepare(self, cube: Cube) -> PreparedCube:
        data = prepare(cube)
        self.signature.check(data.cube, stations=False, measurements=False)
        return data

    def _fill_block(
        self,
        network: Predictor,
        data: PreparedCube,
        levels: Sequence[float],
        smoothed: xr.DataArray | None,
    ) -> list[xr.DataArray]:
        """The cube filled, then the lower and upper bound of each level."""
        cube = data.cube
        calibration, fresh = network.calibration, network.out_of_sample(cube)
        if calibration is None or not levels:
            point = network.predict(data.components, (), smoothed).isel(quantile=0)
            filled = self.finalise(data, point)
            return [filled, *[xr.full_like(cube, np.nan)] * (2 * len(levels))]
        nominal = [*levels, *map(calibration.level_out_of_sample, levels if fresh.any() else ())]
        quantiles = [quantile for level in nominal for quantile in quantile_pair(level)]
        prediction = network.predict(data.components, quantiles, smoothed)
        point, *predicted = (prediction.isel(quantile=q) for q in range(1 + len(quantiles)))
        filled = self.finalise(data, point)
        gaps = gap_classes(cube, network.horizon, network.unobserved(cube))
        bounds = [
            bound
            for level, lower, upper in zip(nominal, predicted[::2], predicted[1::2], strict=True)
            for bound in calibration.bounds(level, filled, (point, lower, upper), gaps, data.domain)
        ]
        if fresh.any():
            in_sample, out_of_sample = bounds[: 2 * len(levels)], bounds[2 * len(levels) :]
            bounds = [
                new.where(time_mask(fresh, cube), old).transpose(*cube.dims)
                for old, new in zip(in_sample, out_of_sample, strict=True)
            ]
        return [filled, *bounds]

    def forecast_from(
        self, cube: Cube, origins: NDArray[np.int64], *, context: int, horizon: int
    ) -> list[xr.DataArray]:
        """All windows go through the network at once, if it was trained for these lengths."""
        if (self.context_length, self.horizon) != (context, horizon):
            return super().forecast_from(cube, origins, context=context, horizon=horizon)
        data = self._prepare(cube)
        if self.network is None or not self.network.horizon:
            raise ConfigError("this network was not trained to forecast. Train a forecaster")
        before = slice(0, max(1, int(origins.min(initial=1))))
        network = self.network.adapt_to(data.components.isel(time=before))
        domain = Domain.of(data.cube.isel(time=before))
        forecasts = []
        for step, prediction in enumerate(network.forecast_from(data.components, origins)):
            at_step = data.isel(time=origins + step)
            empty = at_step.mask(xr.ones_like(at_step.cube, dtype=bool))
            empty = replace(empty, domain=domain)
            point = prediction.isel(quantile=0).assign_coords(time=empty.cube["time"])
            forecasts.append(self.finalise(empty, point.reindex_like(empty.components)))
        return forecasts

    def explain(self, cube: Cube, time: object, location: str, measurement: str) -> Explanation:
        data = self._prepare(cube)
        position = find_cell(data.cube, time, location, measurement)
        if self.network is None:
            raise ConfigError("there was too little data to train on: every value is a mean")
        return explain(self, self.network.adapt_to(data.components), data, position)

    @property
    def explainable(self) -> bool:
        return self.network is not None and self.network.model.explainable

    def new_stations(self, cube: xr.DataArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        network = self.network
        if network is None or network.context_builder is None or not network.inductive:
            return super().new_stations(cube)
        measured = cube.notnull().any(("time", "measurement")).to_numpy()
        new: NDArray[np.bool_] = ~network.context_builder.is_known(cube) & measured
        components = prepare(cube, checked=True).components
        return new, network.adapt_to(components).unobserved(cube)

    def adapt_to(self, cube: Cube) -> Self:
        components = prepare(cube).components
        return replace(self, network=self.network and self.network.adapt_to(components))

    @property
    def trained(self) -> bool:
        return self.network is not None

    @property
    def inductive(self) -> bool:
        return self.network is not None and self.network.inductive

    @property
    def context_length(self) -> int:
        return self.network.context_length if self.network else 1

    @property
    def horizon(self) -> int:
        return self.network.horizon if self.network else 0

    @property
    def validation_errors(self) -> tuple[dict[str, Value], ...]:
        errors, order = self.network.errors if self.network else (), self.signature.measurements
        return tuple(sorted(errors, key=lambda error: order.index(str(error["measurement"]))))

    def check(self, cube: xr.DataArray) -> None:
        self.signature.check(cube, stations=not self.inductive)

    @property
    def known_covariates(self) -> tuple[str, ...]:
        return self.method.known_covariates

    @property
    def settings(self) -> Neural:
        return self.method

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.network is None:
            return ("there is too little data to train a network; gaps get means",)
        length = self.method.window + self.method.horizon
        if self.network.window < length:
            return (
                f"windows of {length} steps were shortened to the {self.network.window} that the "
                "table allows",
            )
        state, epochs = self.network.train_state, self.method.train.epochs
        if state.step < FEW_STEPS and epochs is None:
            return (
                f"the network trained for {state.step} steps only: the machine was slow or busy. "
                "Give it more time with --minutes, or use --method kalman",
            )
        return ()


def blocks(cube: xr.DataArray, network: Predictor) -> Iterator[tuple[slice, slice, slice]]:
    """Steps of a cube that are filled together: those that are seen, which of them are predicted,
    and where these stand in the cube.

    The result is the same as if all steps were filled at once: windows begin at the same steps, and
    every block sees a window, and the longest class of gaps, beyond what it predicts.
    """
    n_steps, stride = cube.sizes["time"], network.stride
    known = set(base_names(network.measurements)) & set(cube["measurement"].to_numpy())
    complete = known >= set(cube["measurement"].to_numpy()[fillable(cube)])
    margin = stride * -(-max(2 * stride, LONG_GAP) // stride)
    core = stride * max(1, CELLS_IN_A_BLOCK // (stride * cube[0].size))
    if network.horizon or not complete:  # means stand in for measurements it does not know
        core = n_steps
    for first in range(0, n_steps, core):
        last = min(n_steps, first + core)
        low, high = max(0, first - margin), min(n_steps, last + margin)
        yield slice(low, high), slice(first - low, last - low), slice(first, last)


@dataclass(frozen=True, kw_only=True)
class OnGraph(Neural):
    depends_on_other_sites: ClassVar[bool] = True

    edges: tuple[Edge, ...] = ()
    """(source, target, weight) of each edge; self-loops have a weight of one unless given. Without
    edges, the graph is made from distances."""

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = Counter((source, target) for source, target, _ in self.edges)
        for (source, target), number in counts.items():
            if number > 1:
                raise ConfigError(
                    f"an edge of a graph is given once, but {source} -> {target} is given {number} "
                    "times. Keep one of them, or give their sum"
                )
        for source, target, weight in self.edges:
            if not 0 < weight < np.inf:
                raise ConfigError(
                    f"the weights of a graph are greater than 0, but found {weight:g} for "
                    f"{source} -> {target}. Leave out pairs that are not connected"
                )

    def with_graph(self, edges: Sequence[Edge]) -> Self:
        return replace(self, edges=tuple(edges))

    def edges_for(self, names: NDArray[np.str_]) -> tuple[Edge, ...]:
        """All edges; refused if they connect none of these stations."""
        stations = set(map(str, names))
        inside = [e for e in self.edges if e[0] != e[1] and {e[0], e[1]} <= stations]
        if self.edges and len(names) > 1 and not inside:
            source, target, _ = self.edges[0]
            some = ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
            raise ConfigError(
                f"a graph connects stations of the table ({some}), but none of its edges does, "
                f"such as {source} -> {target}"
            )
        return self.edges
