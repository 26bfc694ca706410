"""Any network as a method: hide, scale, cut, train; then scale, cut, guess, stitch, undo.

The flow from a cube to a filled one, top to bottom; the second half is `network.py`.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import nn

from cdsa.config import to_plain
from cdsa.cube import check_cube, fillable
from cdsa.errors import ConfigError, unknown
from cdsa.gaps import LONGEST
from cdsa.method.exam import (
    EXAM_WINDOWS,
    Exam,
    choose_exam,
    evenly,
    gap_classes,
    on_time,
)
from cdsa.method.frame import Frame
from cdsa.method.guard import (
    Guard,
    bare,
    base_names,
    to_components,
)
from cdsa.method.intervals import Ends, ends_of
from cdsa.method.network import Axes, Network, pick_device, refuse_too_many
from cdsa.method.reasons import Reasons, explain, find_cell
from cdsa.models.axes import Sizes
from cdsa.results import Value
from cdsa.scale import Scaler
from cdsa.train.checkpoint import TRAINING
from cdsa.train.hiding import Task
from cdsa.train.loop import TrainConfig, train
from cdsa.train.run import Run
from cdsa.train.state import Store
from cdsa.windows import Windows, cut

logger = logging.getLogger("cdsa")
PLACES_AT_ONCE = 200
"""Places without a sensor that are filled together."""
CELLS_IN_A_BLOCK = 400_000
"""Cells of a long cube that are filled together."""


class ModelConfig(Protocol):
    """Settings of a network that can build it."""

    situated: ClassVar[bool]
    """Whether the network is told where and when its cells are, and so fits any stations."""

    def build(self, sizes: Sizes, horizon: int, clocks: int) -> nn.Module:
        """The network for windows of these sizes; with a horizon, one that foresees. `clocks`
        numbers tell the time of a step."""
        ...


@dataclass(frozen=True, kw_only=True)
class Neural:
    """A network, how long its windows are, and how it is trained."""

    name: ClassVar[str]
    """The name it is registered under."""

    SMALLEST_WINDOW: ClassVar[int] = 1
    PRESETS: ClassVar[dict[str, Any]] = {}
    """Settings by name."""

    KNOWING: ClassVar[bool] = True
    """Whether it makes use of what is known in advance, if it is told where and when it is."""

    model: ModelConfig
    train: TrainConfig = field(default_factory=TrainConfig)
    steps: int = 36
    """Time steps of a window; of a forecaster, those looked back on."""

    stride: int | None = None
    """Steps from one training window to the next, a quarter of a window if not given."""

    horizon: int = 0
    """Steps ahead that are foreseen; 0 for a network that fills."""

    known: tuple[str, ...] = ()
    """Measurements that are known in advance when a forecast is made."""

    seed: int = 0
    """Of the first weights, the order of windows and what is hidden in training."""

    run: Run = field(default_factory=Run, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, smallest in (("steps", self.SMALLEST_WINDOW), ("horizon", 0), ("seed", 0)):
            found = getattr(self, name)
            if found < smallest:
                raise ConfigError(f"{name} must be at least {smallest}, but found {found}")
        length = self.steps + self.horizon
        if self.stride is not None and self.steps and not 1 <= self.stride <= length:
            raise ConfigError(
                f"stride lies between 1 and the {length} steps of a window, but found {self.stride}"
            )

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
        network = _learn(self, own, past, ahead) if enough else None
        means = bare(to_components(cube))
        return NeuralFiller(
            station_means=means.mean("time"),
            means=means.mean(("time", "location")),
            method=self,
            network=network,
            axes=Axes.of(cube),
        )

    def foreseeing(self, steps: int) -> Self:
        """The same for so many steps ahead, looking back on at least as many."""
        return replace(self, horizon=steps, steps=max(steps, self.steps))

    def knowing(self, names: Sequence[str]) -> Self:
        """The same with these measurements known in advance."""
        if not (self.model.situated and self.KNOWING):
            raise ConfigError(
                f"'{self.name}' makes no use of what is known in advance (--known). Use cdsa"
            )
        return replace(self, known=tuple(names))

    def links(self, names: NDArray[np.str_]) -> NDArray[np.float64] | None:
        """How much each station (l) hears of another (k), where a graph was given."""
        return None

    def _lengths(self, there: int) -> tuple[int, int]:
        """Steps of a window before and in the horizon; in proportion if there are too few."""
        wanted = self.steps + self.horizon
        if there >= wanted:
            return self.steps, self.horizon
        logger.warning("windows of %d steps are longer than the %d there are", wanted, there)
        return there * self.steps // wanted, there * self.horizon // wanted


@dataclass(frozen=True, eq=False)
class NeuralFiller(Guard):
    """A network that fills, and where it comes from."""

    method: Neural
    network: Network | None
    """None if there was not enough to learn from; then means are all there is."""

    axes: Axes

    def fill(self, cube: xr.DataArray) -> xr.DataArray:
        """The cube filled; data of another kind are refused. Stations that it was not trained on
        get means, unless the network fits any."""
        return self.fill_between(cube, ())[0]

    def fill_between(
        self, cube: xr.DataArray, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[Ends]]:
        """The cube filled, and lower and upper ends that hold a hidden value with the probability
        of each level; NaN where the network does not know.

        A long cube is filled in blocks, so that memory beside it and what comes out stays the same.
        """
        self.axes.refuse(cube, stations=False, measurements=False)
        check_cube(cube)
        if self.network is None:
            nothing = xr.full_like(cube, np.nan)
            return self.kept(cube, to_components(nothing)), [(nothing, nothing) for _ in levels]
        network = self.network.placed(cube)
        silent = network.never_measured(cube)
        if network.frame is not None:
            refuse_too_many(int((~silent).sum()))
        if silent.sum() > PLACES_AT_ONCE:
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
    ) -> tuple[xr.DataArray, list[Ends]]:
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
        network: Network,
        cube: xr.DataArray,
        levels: Sequence[float],
        silent: NDArray[np.bool_],
    ) -> list[xr.DataArray]:
        """The cube filled, then lower and upper end of each level; `silent` stations (l,) were
        never measured."""
        calibration, fresh = network.calibration, network.fresh(cube)
        if calibration is None or not levels:
            filled = self.kept(cube, network.answer(to_components(cube))[0])
            return [filled, *[xr.full_like(cube, np.nan)] * (2 * len(levels))]
        shares = [*levels, *map(calibration.at_new_times, levels if fresh.any() else ())]
        wanted = [end for share in shares for end in ends_of(share)]
        guess, *told = network.answer(to_components(cube), wanted)
        filled, gaps = self.kept(cube, guess), gap_classes(cube, network.ahead, silent)
        ends = [
            end
            for share, lower, upper in zip(shares, told[::2], told[1::2], strict=True)
            for end in calibration.interval(share, filled, (guess, lower, upper), gaps)
        ]
        if fresh.any():
            usual, wider = ends[: 2 * len(levels)], ends[2 * len(levels) :]
            ends = [
                new.where(on_time(fresh, cube), old).transpose(*cube.dims)
                for old, new in zip(usual, wider, strict=True)
            ]
        return [filled, *ends]

    def foresee(self, cube: xr.DataArray, origins: NDArray[np.int64]) -> list[xr.DataArray]:
        """What each origin and the steps behind it will be, told from the steps before it: one cube
        per step ahead, with a time for every origin. All windows go through the network at once."""
        self.axes.refuse(cube, stations=False, measurements=False)
        if self.network is None or not self.network.ahead:
            raise ConfigError("this network has not learnt to foresee. Train a forecaster")
        before = cube.isel(time=slice(0, max(1, int(origins.min(initial=1)))))
        told = self.network.placed(before).foresee(to_components(cube), origins)
        cubes = []
        for ahead, (guess,) in enumerate(told):
            nothing = xr.full_like(cube.isel(time=origins + ahead), np.nan)
            guess = guess.assign_coords(time=nothing["time"])
            plain = to_components(nothing)
            cubes.append(self.kept(nothing, guess.reindex_like(plain)))
        return cubes

    def explain(self, cube: xr.DataArray, time: object, location: str, measurement: str) -> Reasons:
        """Where the value that this cell of the cube is filled with comes from."""
        self.axes.refuse(cube, stations=False, measurements=False)
        cell = find_cell(cube, time, location, measurement)
        if self.network is None:
            raise ConfigError("there was too little to learn from: every value is a mean")
        return explain(self, self.network.placed(cube), cube, cell)

    def acquainted(self, cube: xr.DataArray) -> Self:
        """The same, with all that can be known of the stations of this cube."""
        return replace(self, network=self.network and self.network.placed(cube))

    @property
    def looks_back(self) -> int:
        """Steps before the first one foreseen that matter to it."""
        return self.network.past if self.network else 1

    @property
    def foresees(self) -> int:
        """Steps ahead that it can foresee; none if it fills, or had too little to learn from."""
        return self.network.ahead if self.network else 0

    @property
    def errors(self) -> tuple[dict[str, Value], ...]:
        """Errors on the cells it was examined on, one record per measurement."""
        return self.network.errors if self.network else ()


def blocks(cube: xr.DataArray, network: Network) -> Iterator[tuple[slice, slice, slice]]:
    """Steps of a cube to be filled together: those that are seen, which of them are told, and where
    these stand. What is told is the same as if all were filled at once: windows begin at the same
    steps, and every block sees a window, and the longest class of gaps, beyond what it tells."""
    there, stride = cube.sizes["time"], network.stride
    known = np.isin(base_names(network.measurements), cube["measurement"].to_numpy())
    found = set(base_names(network.measurements)[known])
    whole = found >= set(cube["measurement"].to_numpy()[fillable(cube)])
    margin = stride * -(-max(2 * stride, LONGEST) // stride)
    core = stride * max(1, CELLS_IN_A_BLOCK // (stride * cube[0].size))
    if network.ahead or not whole:  # means stand in for what a network does not know
        core = there
    for first in range(0, there, core):
        last = min(there, first + core)
        low, high = max(0, first - margin), min(there, last + margin)
        yield slice(low, high), slice(first - low, last - low), slice(first, last)


def _learn(method: Neural, own: xr.DataArray, past: int, ahead: int) -> Network:
    """Hide what to validate on, scale what is left, cut it into windows, train."""
    length, run, device = past + ahead, method.run, pick_device(method.run.device)
    exam_steps, hidden = choose_exam(own, length, ahead, method.train, method.seed)
    plain = to_components(own)
    names = plain["measurement"].to_numpy()
    asked = hidden.sel(measurement=base_names(names)).assign_coords(measurement=names)
    # a forecaster is examined on a time of its own, a filler on cells hidden in the same time
    learnt_steps = ~exam_steps if ahead else np.ones_like(exam_steps)
    visible = plain.where(~asked & on_time(learnt_steps, plain))
    scaler = Scaler.learn(visible)
    scaled, seen = scaler.normalise(plain), scaler.normalise(visible)
    frame = where = exam_where = None
    if method.model.situated:
        links = method.links(plain["location"].to_numpy())
        frame, kinds = Frame.learn(seen, length, links), np.arange(len(names))
        where = frame.where(seen, kinds, learning=True)
        exam_where = frame.where(seen, kinds, learning=not ahead)  # nothing of its time was learnt
    stride = min(length, method.stride or max(1, length // 4))
    windows = _with_something(
        cut(bare(scaled.where(~asked)), length, stride, part=learnt_steps, where=where),
        ahead or length,
    )
    exam = cut(
        bare(scaled), length, ahead or length, asked=asked, part=exam_steps, where=exam_where
    )
    exam = _spaced(_with_something(exam, ahead) if ahead else _asking(exam), EXAM_WINDOWS)
    sizes = Sizes(length, plain.sizes["location"], len(names))
    model = build(method, sizes, ahead, frame.clocks if frame else 0)
    task = task_of(method, names, ahead)
    run.start(method)
    place = train(
        model.to(device),
        windows.to(device),
        exam.to(device),
        method.train,
        seed=method.seed,
        task=task,
        store=_store(method, own),
        watch=run.watch,
        stop=run.stop,
    )
    network = Network(
        model=model,
        scaler=scaler,
        locations=plain["location"].to_numpy(),
        measurements=names,
        past=past,
        ahead=ahead,
        device=device,
        place=place,
        frame=frame,
        known=method.known if ahead else (),
    )
    errors, calibration = Exam(network, own, hidden, exam_steps).result(method.seed)
    return replace(network, errors=errors, calibration=calibration)


def _store(method: Neural, own: xr.DataArray) -> Store | None:
    """Where the run is written down, if it is."""
    folder = method.run.folder
    if folder is None:
        return None
    settings = json.dumps(to_plain(method))
    return Store(folder / TRAINING, fingerprint(method, own), settings)


def task_of(method: Neural, names: NDArray[np.str_], ahead: int) -> Task:
    """What the network is to learn."""
    bases = base_names(names)
    strange = [name for name in method.known if name not in bases]
    if strange:
        raise ConfigError(unknown("measurement known in advance", strange[0], sorted(set(bases))))
    return Task(
        ahead=ahead,
        known=torch.as_tensor(np.isin(bases, method.known)) if ahead and method.known else None,
        together=torch.as_tensor(np.unique(bases, return_inverse=True)[1]),
    )


def _with_something(windows: Windows, last: int) -> Windows:
    """Those windows with a measured cell in their `last` steps."""
    there = windows.observed.flatten(1).any(dim=1)
    return windows.keep(there[windows.steps[:, -last:]].any(dim=1))


def _asking(windows: Windows) -> Windows:
    """Those windows with a cell that is asked for."""
    return windows.keep(windows.asked.flatten(1).any(dim=1)[windows.steps].any(dim=1))


def _spaced(windows: Windows, most: int) -> Windows:
    """At most so many windows, over all the time."""
    return windows.keep(torch.as_tensor(evenly(len(windows), most)))


def build(method: Neural, sizes: Sizes, ahead: int, clocks: int) -> nn.Module:
    """The network with its first weights, which depend on the seed only."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(method.seed)  # the world's generators stay as they are
        return method.model.build(sizes, ahead, clocks)


def fingerprint(method: Neural, cube: xr.DataArray) -> str:
    """Of what a training is about, settings and data; its minutes may be changed on the way."""
    cube = to_components(cube)
    timeless = replace(method, train=replace(method.train, minutes=None))
    digest = hashlib.sha256(json.dumps(to_plain(timeless), sort_keys=True).encode())
    digest.update(cube.to_numpy().tobytes())
    for axis in cube.dims:
        digest.update("\0".join(map(str, cube[axis].to_numpy())).encode())
    return digest.hexdigest()
