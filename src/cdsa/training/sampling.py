"""Training windows for a network that predicts the residual of a smoother.

Cells are masked before the smoother runs, so it sees exactly what the network may see. A smoother
is slow and looks beyond a window, so it runs on chunks of several windows at a time; training
windows are drawn from these until it runs again, elsewhere and with other cells masked. For a
forecast a chunk is a window: its horizon is masked, and the smoother sees what comes before it.

Letters: b chunk or window, t time, l location, m measurement.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cdsa.nn.context import WindowContext
from cdsa.training.masking import (
    CONTEXT_GAPS,
    IMPUTATION,
    Masking,
    Task,
    drop_stations,
    forget_stations,
    make_generator,
    mask_cells,
)
from cdsa.training.windows import Window, Windows

Integers = NDArray[np.int64]

Smoother = Callable[[Integers, Tensor, int, Integers | None], Tensor]
"""Steps (b, t) of chunks, the cells that it may see (b, t, l, m), the number of a time fold outside
which its parameters were fitted, and how many steps around a chunk (b,) the line must not see
either, or all if not given -> `RECORD_FEATURES` (b, t, l, m, 10)."""

MARGIN = 24
"""Steps at either end of a chunk that the smoother sees but no training window contains."""

CHUNKS = 16
"""Chunks that are smoothed at a time."""

WINDOWS_PER_CHUNK = 8
"""Training windows from a chunk, if they have all of its series."""

WHOLE_STATIONS = 1 / 3
"""Share of the chunks in which all measurements of a station are masked together."""

MAX_GAP_SHARE = 0.25
"""Gaps that are masked at the edge of a chunk go on outside of it, for any number of steps up to
this share of the record, short or long with equal odds."""

DROP_EVERY = 4
"""Whole stations are dropped from every fourth set of chunks, beginning with the first."""

MAX_MEASUREMENTS, MIN_STATIONS, MAX_SERIES = 6, 6, 24
"""Measurements, stations and series of a training window: of larger cubes it has some of them."""

MANY_STATIONS, SERIES_OF_MANY = 48, 240
"""Stations above which a training window has so many series: maps that were trained on a few
stations spread over all of them when the network fills."""

MANY_WINDOWS = 16
"""Windows from which on a chunk has the length of two, and not of one."""

POOL = 8
"""Sets of chunks that the windows of a step are drawn from, the newest ones: windows of the same
few chunks in step after step would be too much alike."""

SET, DRAW = 3, 5  # purpose of a random source, besides those of the loop


def training_sizes(n_stations: int, n_measurements: int) -> tuple[int, int]:
    """Stations and measurements of a training window."""
    measurements = min(n_measurements, MAX_MEASUREMENTS)
    max_series = SERIES_OF_MANY if n_stations > MANY_STATIONS else MAX_SERIES
    return min(n_stations, max(MIN_STATIONS, max_series // measurements)), measurements


def near_stations(context: WindowContext, count: int, rng: torch.Generator) -> Tensor:
    """So many stations, drawn from the nearest ones of a random station, by similarity where there
    are no coordinates: from just as many, from all, or from any number in between. What helps to
    fill a station is mostly near it, and few of the stations of a large network are."""
    similarity = context.station_similarity
    similarity = similarity if similarity.ndim == 2 else similarity.mean(dim=0)  # (l, k)
    apart = -similarity if context.distance is None else context.distance
    centre = int(torch.randint(len(apart), (1,), generator=rng))
    row = apart[centre].clone()
    row[centre] = -torch.inf
    exponent = float(torch.rand(1, generator=rng))
    n_near = max(count, round(count * (len(row) / count) ** exponent))
    nearest = row.argsort(stable=True)[:n_near].cpu()
    return nearest[torch.randperm(len(nearest), generator=rng)[:count]].sort().values


def chunk_length(n_steps: int, window: int) -> int:
    """Steps of a chunk without its margins."""
    return min(n_steps, window * (2 if n_steps >= MANY_WINDOWS * window else 1))


@dataclass(frozen=True, eq=False)
class Masked:
    """Windows of which some cells are masked."""

    window: Window
    visible: Tensor
    """Cells that the network gets, (b, t, l, m)."""

    target: Tensor
    """Masked cells that it has to predict."""


class Chunks(NamedTuple):
    """Some chunks of the training cube, smoothed without the masked cells."""

    first: Tensor
    """First step of each, (b,)."""

    margin: Tensor
    """Steps before the first one of a training window, (b,)."""

    masked: Tensor
    """(b, t, l, m)."""

    dropped: Tensor
    """Stations of which only the coordinates are known, (b, l)."""

    smoothed: Tensor
    """(b, t, l, m, 10)."""


@dataclass(eq=False)
class SmoothedWindows:
    """Draws masked windows for the steps of a training; what a step gets depends on its number and
    the seed alone."""

    windows: Windows
    smooth: Smoother
    fold: Integers
    """Number of the time fold of each step, (t,)."""

    batch_size: int
    masking: Masking
    max_mask_ratio: float
    seed: int
    task: Task = IMPUTATION

    def __post_init__(self) -> None:
        n_steps, self.window = len(self.fold), self.windows.steps.shape[1]
        forecasts = self.task.horizon > 0
        self.length = self.window if forecasts else chunk_length(n_steps, self.window)
        self.margin = 0 if forecasts else MARGIN
        shape = self.windows.values.shape[1:]
        groups = self.task.mask_groups
        self.groups = torch.arange(shape[1]) if groups is None else groups.cpu()
        self.sizes = training_sizes(*shape)
        per_chunk = math.ceil(shape.numel() / math.prod(self.sizes))
        per_chunk *= 1 if forecasts else WINDOWS_PER_CHUNK
        self.steps_per_set = max(1, CHUNKS * per_chunk // self.batch_size)
        self._sets: dict[int, Chunks] = {}

    @cached_property
    def starts(self) -> dict[int, Integers]:
        """Where chunks start, without their margins, by the fold that they lie in; of the fold of
        their first step if none lies in one."""
        first = self.windows.steps[:, 0].cpu().numpy()
        first = np.unique(np.minimum(first, len(self.fold) - self.length))
        fold, last_fold = self.fold[first], self.fold[first + self.length - 1]
        inside = fold == last_fold
        inside = inside if inside.any() else np.ones_like(inside)
        return {int(n): first[inside & (fold == n)] for n in np.unique(fold[inside])}

    def draw(self, step: int) -> Masked:
        """The windows of a step of the training."""
        newest, rng = self._newest_sets(step), make_generator(self.seed, DRAW, step)
        numbers = torch.randint(len(newest) * CHUNKS, (self.batch_size,), generator=rng).tolist()
        chunks = Chunks(
            *(
                torch.stack([newest[n // CHUNKS][field][n % CHUNKS] for n in numbers])
                for field in range(len(Chunks._fields))
            )
        )
        offset = torch.randint(self.length - self.window + 1, (self.batch_size,), generator=rng)
        inside = (chunks.margin + offset).unsqueeze(1) + torch.arange(self.window)
        window = self.windows.at(chunks.first.unsqueeze(1) + inside)
        cells = torch.arange(self.batch_size).unsqueeze(1), inside
        assert window.context is not None
        context = window.context._replace(record=chunks.smoothed[cells])
        context = context.without_stations(chunks.dropped)
        window = replace(window, context=forget_stations(context, self.batch_size, rng))
        masked = chunks.masked[cells]
        target = masked & self.task.future(masked) if self.task.horizon else masked
        return self._some_series(Masked(window, window.observed & ~masked, target), rng)

    def _newest_sets(self, step: int) -> list[Chunks]:
        """The newest sets of chunks at a step of the training."""
        last, known = step // self.steps_per_set, self._sets
        numbers = range(max(0, last + 1 - POOL), last + 1)
        if list(known) != list(numbers):
            self._sets = {n: known.get(n) or self._smooth_chunks(n) for n in numbers}
        return list(self._sets.values())

    def _smooth_chunks(self, number: int) -> Chunks:
        """The chunks of a set, from one time fold."""
        rng = make_generator(self.seed, SET, number)
        fold = list(self.starts)[number % len(self.starts)]
        starts, n_steps = self.starts[fold], len(self.fold)
        length = min(n_steps, self.length + 2 * self.margin)
        everywhere = np.concatenate(list(self.starts.values()))  # but where nothing was measured
        first, others = (
            candidates[torch.randint(len(candidates), (CHUNKS,), generator=rng).numpy()]
            for candidates in (starts, everywhere)
        )
        chunk, other = (np.clip(x - self.margin, 0, n_steps - length) for x in (first, others))
        steps, other_steps = (x[:, None] + np.arange(length) for x in (chunk, other))
        observed = self.windows.observed[steps]
        other_observed = self.windows.observed[other_steps]
        masked = self._mask(observed, other_observed, rng)
        dropped, hidden_around = torch.zeros_like(observed[:, 0, :, 0]), None
        if self.task.horizon:
            with_gaps = torch.rand((CHUNKS, 1, 1, 1), generator=rng) < CONTEXT_GAPS
            masked = (masked & with_gaps.to(masked.device)) | self.task.future(observed)
        else:
            dropped = drop_stations(observed, rng, float(number % DROP_EVERY == 0))
            masked = masked | dropped.unflatten(1, (1, -1, 1))
            longest = math.log(max(1, n_steps * MAX_GAP_SHARE))
            exponent = torch.rand(CHUNKS, generator=rng).double().numpy() * longest
            hidden_around = np.exp(exponent).astype(np.int64) - 1
        masked = masked & observed
        return Chunks(
            first=torch.as_tensor(chunk),
            margin=torch.as_tensor(first - chunk),
            masked=masked,
            dropped=dropped,
            smoothed=self.smooth(steps, observed & ~masked, fold, hidden_around).to(masked.device),
        )

    def _mask(self, observed: Tensor, other_observed: Tensor, rng: torch.Generator) -> Tensor:
        by_series, by_station = (
            mask_cells(observed, self.masking, self.max_mask_ratio, rng, groups, other_observed)
            for groups in (self.groups, torch.zeros_like(self.groups))
        )
        whole = torch.rand((len(observed), 1, 1, 1), generator=rng) < WHOLE_STATIONS
        return torch.where(whole.to(observed.device), by_station, by_series)

    def _some_series(self, batch: Masked, rng: torch.Generator) -> Masked:
        """The same for some stations near each other and a random part of the measurements, if
        there are many."""
        n_stations, n_measurements = batch.target.shape[2:]
        stations, measurements = self.sizes
        if (stations, measurements) == (n_stations, n_measurements):
            return batch
        assert batch.window.context is not None
        rows = near_stations(batch.window.context, stations, rng)
        shuffled = torch.randperm(int(self.groups.max()) + 1, generator=rng)
        columns = torch.isin(self.groups, shuffled[:measurements]).nonzero().squeeze(1)
        visible, target = (x[:, :, rows][..., columns] for x in (batch.visible, batch.target))
        return Masked(batch.window.select_series(rows, columns), visible, target)
