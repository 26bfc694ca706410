"""Any network as a method: its settings, and what it has become when it has learnt.

How it learns is `learning.py`; how a trained one answers, `network.py`.
"""

import logging
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from torch import nn

from cdsa.core.circular import base_names, to_components
from cdsa.core.cube import check_cube, fillable
from cdsa.core.gaps import LONG_GAP
from cdsa.core.records import Value
from cdsa.core.splits import time_mask
from cdsa.errors import ConfigError, unknown
from cdsa.methods.calibration import Bounds, quantile_pair
from cdsa.methods.engine.explain import Explainable, Explanation, explain, find_cell
from cdsa.methods.engine.fit import fit_network
from cdsa.methods.engine.predictor import Predictor, refuse_too_many_stations
from cdsa.methods.engine.signature import DataSignature
from cdsa.methods.engine.validation import gap_classes
from cdsa.methods.wrapper import Guard, bare
from cdsa.nn.graph import Edge
from cdsa.nn.types import Sizes
from cdsa.training.callbacks import RunContext
from cdsa.training.loop import TrainConfig

logger = logging.getLogger("cdsa")


PLACES_AT_ONCE = 200
"""Places without a sensor that are filled together."""


CELLS_IN_A_BLOCK = 400_000
"""Cells of a long cube that are filled together."""


class ModelConfig(Protocol):
    """Settings of a network that can build it."""

    uses_context: ClassVar[bool]
    """Whether the network is told where and when its cells are."""

    inductive: ClassVar[bool]
    """Whether its weights serve any stations, not only those it was trained on; one that does is
    told where and when they are."""

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> nn.Module:
        """The network for windows of these sizes; with a horizon, a forecaster."""
        ...


@dataclass(frozen=True, kw_only=True)
class Neural:
    """A network, how long its windows are, and how it is trained."""

    name: ClassVar[str]
    """The name it is registered under."""

    SMALLEST_WINDOW: ClassVar[int] = 1
    PRESETS: ClassVar[dict[str, Any]] = {}
    """Settings by name."""

    JOINED: ClassVar[bool] = False
    """Whether what it says of a place depends on which others are asked for."""

    KNOWING: ClassVar[bool] = True
    """Whether it makes use of what is known in advance, if it is told where and when it is."""

    model: ModelConfig
    train: TrainConfig = field(default_factory=TrainConfig)
    window: int = 36
    """Time steps of a window; of a forecaster, those looked back on."""

    stride: int | None = None
    """Steps from one training window to the next, a quarter of a window if not given."""

    horizon: int = 0
    """Steps ahead that are foreseen; 0 for a network that fills."""

    known_covariates: tuple[str, ...] = ()
    """Measurements that are known in advance when a forecast is made."""

    seed: int = 0
    """Of the first weights, the order of windows and what is hidden in training."""

    run: RunContext = field(default_factory=RunContext, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, smallest in (("window", self.SMALLEST_WINDOW), ("horizon", 0), ("seed", 0)):
            found = getattr(self, name)
            if found < smallest:
                raise ConfigError(f"{name} must be at least {smallest}, but found {found}")
        length = (
            self.window + self.horizon if self.window else math.inf
        )  # or it is yet to be chosen
        if self.stride is not None and not 1 <= self.stride <= length:
            most = f"the {length} steps of a window" if self.window else "the steps of a window"
            raise ConfigError(f"stride lies between 1 and {most}, but found {self.stride}")

    @property
    def label(self) -> str:
        """The name in tables."""
        return self.name

    def by_preset(self, name: str) -> Self:
        """The settings of this name, for the same run."""
        if name not in self.PRESETS:
            raise ConfigError(unknown("preset", name, self.PRESETS))
        found: Self = replace(self.PRESETS[name], run=self.run)
        return found

    def fit(self, cube: xr.DataArray) -> "NeuralFiller":
        """Learn from the measured cells of `cube`."""
        check_cube(cube)
        # the order of stations and measurements is a matter of the file, not of the network
        own = cube.isel(measurement=fillable(cube)).sortby("location").sortby("measurement")
        past, ahead = self._lengths(cube.sizes["time"])
        enough = own.size > 0 and past + ahead > 1 and (not self.horizon or min(past, ahead) > 0)
        network = fit_network(self, own, past, ahead) if enough else None
        means = bare(to_components(cube))
        return NeuralFiller(
            station_means=means.mean("time"),
            means=means.mean(("time", "location")),
            method=replace(
                self, run=RunContext()
            ),  # who accompanied it has no part in what was learnt
            network=network,
            signature=DataSignature.of(cube),
        )

    def foreseeing(self, steps: int) -> Self:
        """The same for so many steps ahead, looking back on at least as many."""
        return replace(self, horizon=steps, window=max(steps, self.window))

    def knowing(self, names: Sequence[str]) -> Self:
        """The same with these measurements known in advance."""
        if not (self.model.uses_context and self.KNOWING):
            raise ConfigError(
                f"'{self.name}' makes no use of what is known in advance (--known). Use cdsa"
            )
        return replace(self, known_covariates=tuple(names))

    def edges_for(self, names: NDArray[np.str_]) -> tuple[Edge, ...]:
        """All edges of the graph, where one was given; refused if they join none of these
        stations."""
        return ()

    def _lengths(self, there: int) -> tuple[int, int]:
        """Steps of a window before and in the horizon; in proportion if there are too few."""
        wanted = self.window + self.horizon
        if there >= wanted:
            return self.window, self.horizon
        logger.warning("windows of %d steps are longer than the %d there are", wanted, there)
        return there * self.window // wanted, there * self.horizon // wanted


@dataclass(frozen=True, eq=False)
class NeuralFiller(Guard):
    """A network that fills, and where it comes from."""

    method: Neural
    network: Predictor | None
    """None if there was not enough to learn from; then means are all there is."""

    signature: DataSignature

    def fill(self, cube: xr.DataArray) -> xr.DataArray:
        """The cube filled; data of another kind are refused. Stations that it was not trained on
        get means, unless the network fits any."""
        return self.fill_between(cube, ())[0]

    def fill_between(
        self, cube: xr.DataArray, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[Bounds]]:
        """The cube filled, and lower and upper ends that hold a hidden value with the probability
        of each level; NaN where the network does not know.

        A long cube is filled in blocks, so that memory beside it and what comes out stays the same.
        """
        self.signature.check(cube, stations=False, measurements=False)
        check_cube(cube)
        if self.network is None:
            nothing = xr.full_like(cube, np.nan)
            return self.kept(cube, to_components(nothing)), [(nothing, nothing) for _ in levels]
        network = self.network.adapt_to(cube)
        silent = network.unobserved(cube)
        if network.inductive:
            refuse_too_many_stations(int((~silent).sum()))
        if silent.sum() > PLACES_AT_ONCE and not self.method.JOINED:
            return self._in_groups(cube, levels, silent)
        parts = [np.empty(cube.shape, dtype=cube.dtype) for _ in range(1 + 2 * len(levels))]
        for seen, inner, at in blocks(cube, network):
            network.refuse_absurd(cube.isel(time=at))
            told = self._between(network, cube.isel(time=seen), levels, silent)
            for whole, part in zip(parts, told, strict=True):
                whole[at] = part.to_numpy()[inner]
        filled, *ends = (cube.copy(data=part) for part in parts)
        return filled, list(zip(ends[::2], ends[1::2], strict=True))

    def _in_groups(
        self, cube: xr.DataArray, levels: Sequence[float], silent: NDArray[np.bool_]
    ) -> tuple[xr.DataArray, list[Bounds]]:
        """The same, some of the places without a sensor at a time: what is said of a place does not
        depend on which others are asked for."""
        stations, places = np.flatnonzero(~silent), np.flatnonzero(silent)
        filled = cube.copy()
        ends = [(cube.copy(), cube.copy()) for _ in levels]
        for first in range(0, len(places), PLACES_AT_ONCE):
            group = places[first : first + PLACES_AT_ONCE]
            told = np.concatenate([stations, group])
            own, others = self.fill_between(cube.isel(location=told), levels)
            filled[:, told] = own.to_numpy()
            for (low, high), (lower, upper) in zip(ends, others, strict=True):
                low[:, told], high[:, told] = lower.to_numpy(), upper.to_numpy()
        return filled, ends

    def _between(
        self,
        network: Predictor,
        cube: xr.DataArray,
        levels: Sequence[float],
        silent: NDArray[np.bool_],
    ) -> list[xr.DataArray]:
        """The cube filled, then lower and upper end of each level; `silent` stations (l,) were
        never measured."""
        calibration, fresh = network.calibration, network.out_of_sample(cube)
        if calibration is None or not levels:
            filled = self.kept(cube, network.predict(to_components(cube))[0])
            return [filled, *[xr.full_like(cube, np.nan)] * (2 * len(levels))]
        shares = [*levels, *map(calibration.level_out_of_sample, levels if fresh.any() else ())]
        wanted = [end for share in shares for end in quantile_pair(share)]
        guess, *told = network.predict(to_components(cube), wanted)
        filled, gaps = self.kept(cube, guess), gap_classes(cube, network.horizon, silent)
        ends = [
            end
            for share, lower, upper in zip(shares, told[::2], told[1::2], strict=True)
            for end in calibration.bounds(share, filled, (guess, lower, upper), gaps)
        ]
        if fresh.any():
            usual, wider = ends[: 2 * len(levels)], ends[2 * len(levels) :]
            ends = [
                new.where(time_mask(fresh, cube), old).transpose(*cube.dims)
                for old, new in zip(usual, wider, strict=True)
            ]
        return [filled, *ends]

    def foresee(self, cube: xr.DataArray, origins: NDArray[np.int64]) -> list[xr.DataArray]:
        """What each origin and the steps behind it will be, told from the steps before it: one cube
        per step ahead, with a time for every origin. All windows go through the network at once."""
        self.signature.check(cube, stations=False, measurements=False)
        if self.network is None or not self.network.horizon:
            raise ConfigError("this network has not learnt to foresee. Train a forecaster")
        before = cube.isel(time=slice(0, max(1, int(origins.min(initial=1)))))
        told = self.network.adapt_to(before).forecast_from(to_components(cube), origins)
        cubes = []
        for ahead, (guess,) in enumerate(told):
            nothing = xr.full_like(cube.isel(time=origins + ahead), np.nan)
            guess = guess.assign_coords(time=nothing["time"])
            plain = to_components(nothing)
            cubes.append(self.kept(nothing, guess.reindex_like(plain)))
        return cubes

    def explain(
        self,
        cube: xr.DataArray,
        cell: object,
        location: str | None = None,
        measurement: str | None = None,
    ) -> Explanation:
        """Where the value that a cell of the cube is filled with comes from. The cell is a `Cell`,
        or a tuple of its time, location and measurement; these may be given one by one too."""
        self.signature.check(cube, stations=False, measurements=False)
        place = find_cell(cube, cell, location, measurement)
        if self.network is None:
            raise ConfigError("there was too little to learn from: every value is a mean")
        return explain(self, self.network.adapt_to(cube), cube, place)

    @property
    def explains(self) -> bool:
        """Whether it can say where its values come from."""
        return self.network is not None and isinstance(self.network.model, Explainable)

    def acquainted(self, cube: xr.DataArray) -> Self:
        """The same, with all that can be known of the stations of this cube."""
        return replace(self, network=self.network and self.network.adapt_to(cube))

    @property
    def looks_back(self) -> int:
        """Steps before the first one foreseen that matter to it."""
        return self.network.context_length if self.network else 1

    @property
    def foresees(self) -> int:
        """Steps ahead that it can foresee; none if it fills, or had too little to learn from."""
        return self.network.horizon if self.network else 0

    @property
    def errors(self) -> tuple[dict[str, Value], ...]:
        """Errors on the cells it was examined on, one record per measurement."""
        return self.network.errors if self.network else ()


def blocks(cube: xr.DataArray, network: Predictor) -> Iterator[tuple[slice, slice, slice]]:
    """Steps of a cube to be filled together: those that are seen, which of them are told, and where
    these stand. What is told is the same as if all were filled at once: windows begin at the same
    steps, and every block sees a window, and the longest class of gaps, beyond what it tells."""
    there, stride = cube.sizes["time"], network.stride
    known = np.isin(base_names(network.measurements), cube["measurement"].to_numpy())
    found = set(base_names(network.measurements)[known])
    whole = found >= set(cube["measurement"].to_numpy()[fillable(cube)])
    margin = stride * -(-max(2 * stride, LONG_GAP) // stride)
    core = stride * max(1, CELLS_IN_A_BLOCK // (stride * cube[0].size))
    if network.horizon or not whole:  # means stand in for what a network does not know
        core = there
    for first in range(0, there, core):
        last = min(there, first + core)
        low, high = max(0, first - margin), min(there, last + margin)
        yield slice(low, high), slice(first - low, last - low), slice(first, last)


@dataclass(frozen=True, kw_only=True)
class OnGraph(Neural):
    """A network that looks along the graph of the stations."""

    JOINED: ClassVar[bool] = True

    edges: tuple[Edge, ...] = ()
    """Who is heard of by whom and how much, as (from, to, weight); a station hears itself with a
    weight of one if it is not among them. Without any, distances make the graph."""

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = Counter((source, target) for source, target, _ in self.edges)
        for (source, target), number in counts.items():
            if number > 1:
                raise ConfigError(
                    f"an edge of a graph is given once, but {source} -> {target} is there {number} "
                    "times. Keep one of them, or give their sum"
                )
        for source, target, weight in self.edges:
            if not 0 < weight < np.inf:
                raise ConfigError(
                    f"the weights of a graph are greater than 0, but found {weight:g} for "
                    f"{source} -> {target}. Leave out what is not joined"
                )

    def on_graph(self, edges: Sequence[Edge]) -> Self:
        """The same on this graph."""
        return replace(self, edges=tuple(edges))

    def edges_for(self, names: NDArray[np.str_]) -> tuple[Edge, ...]:
        """All edges that were given; refused if they join none of these stations."""
        there = set(map(str, names))
        joined = [e for e in self.edges if e[0] != e[1] and e[0] in there and e[1] in there]
        if self.edges and len(names) > 1 and not joined:
            source, target, _ = self.edges[0]
            some = ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
            raise ConfigError(
                f"a graph joins stations of the table ({some}), but none of the edges does, such "
                f"as {source} -> {target}"
            )
        return self.edges
