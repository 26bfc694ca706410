"""Strategies for hiding observed cells of a cube, to score a method; `training/masking.py` masks
cells of the windows that a network trains on.

A strategy is a frozen dataclass. Called with a cube and a random generator, it returns a boolean
cube that is True where a cell is hidden. Only observed cells are hidden, and at least one stays
visible per measurement. Missing rates ignore measurements that were never observed.

Examples
--------
>>> import numpy as np
>>> import cdsa
>>> hide = cdsa.masks.Bursts(share=0.1)  # or cdsa.masks.parse_hide("bursts:+0.1")
>>> demo = cdsa.open_demo()[:100]
>>> hidden = hide(demo, np.random.default_rng(0))
>>> round(int(hidden.sum()) / int(demo.notnull().sum()), 2)
0.1
>>> score = cdsa.score(demo, "linear", hide)
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import fillable, has_coordinates
from cdsa.core.gaps import gap_lengths, gap_starts, run_lengths
from cdsa.errors import ConfigError, suggest

Bools = NDArray[np.bool_]

PAPER_GAP_MEAN, PAPER_GAP_STD = 6.35, 9.81
"""Mean and standard deviation of the natural gap lengths in the paper, in steps."""

MIN_GAPS = 10
"""Natural gaps below which their lengths and times are not representative."""

MAX_SHIFTS = 100
"""Shifts of the natural gaps that `LikeData` tries."""


HideStrategy = Callable[[xr.DataArray, np.random.Generator], xr.DataArray]
"""Chooses cells to hide: cube and generator in, boolean cube out."""


@dataclass(frozen=True, kw_only=True)
class Amount:
    """How much to hide: up to a final missing rate, or a share of the observed cells."""

    rate: float | None = None
    """Final share of missing cells, natural gaps included."""

    share: float | None = None
    """Share of the observed cells to hide."""

    def __post_init__(self) -> None:
        amounts = [amount for amount in (self.rate, self.share) if amount is not None]
        if len(amounts) != 1:
            raise ConfigError(
                "give either the final rate or the share to hide, not both or neither"
            )
        if not 0 < amounts[0] < 1:
            raise ConfigError(f"a rate or share must be between 0 and 1, but found {amounts[0]}")

    def n_cells(self, cube: xr.DataArray) -> int:
        """The number of observed cells to hide."""
        values = cube.to_numpy()[:, :, fillable(cube)]
        n_observed = int(np.isfinite(values).sum())
        if self.share is not None:
            return round(self.share * n_observed)
        assert self.rate is not None
        n_hidden = n_observed - round((1 - self.rate) * values.size)
        if n_hidden <= 0:
            missing = 1 - n_observed / max(values.size, 1)
            raise ConfigError(
                f"the final missing rate must exceed the current one, but {missing:.1%} is already "
                f"missing and the requested rate is {self.rate:.1%}. To hide a share of the "
                f"observed cells, put a plus before it, as in bursts:+{self.rate:g}"
            )
        return n_hidden


@dataclass(frozen=True, kw_only=True)
class AtRandom(Amount):
    """Single cells, chosen uniformly."""

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        chosen = rng.permutation(np.flatnonzero(cube.notnull()))[: self.n_cells(cube)]
        hidden = np.zeros(cube.size, dtype=bool)
        hidden[chosen] = True
        return _as_mask(hidden.reshape(cube.shape), cube)


@dataclass(frozen=True, kw_only=True)
class Bursts(Amount):
    """Gaps in single series: the paper's Burst Loss.

    Along each series a gap may start at every step; the walk continues after its end. Gap lengths
    are drawn from the natural gaps of two or more steps. With fewer than ten of those they are
    drawn as in the paper: integers from a normal distribution, where a draw below one is no gap.
    The start probability is tuned until enough cells are hidden; then some gaps are shortened to
    hit the number exactly.
    """

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        observed = cube.notnull().to_numpy()
        n_hidden = self.n_cells(cube)
        walk = _RenewalWalk(observed.shape, natural_gap_lengths(cube), rng)
        low, high = 0.0, 1.0  # a probability of one covers every step
        for _ in range(30):
            probability = (low + high) / 2
            enough = (walk.covered(probability) & observed).sum() >= n_hidden
            low, high = (low, probability) if enough else (probability, high)
        return _as_mask(_trim(walk.covered(high) & observed, n_hidden, rng), cube)


class _RenewalWalk:
    """Gaps along every series: geometric waits and random lengths.

    The randomness is drawn once, so that the same walk can be evaluated at another probability.
    """

    def __init__(
        self, shape: tuple[int, ...], natural: NDArray[np.int64], rng: np.random.Generator
    ) -> None:
        self.shape = shape
        n_steps, n_series = shape[0], int(np.prod(shape[1:]))
        batches: list[NDArray[np.int64]] = []
        total = np.zeros(n_series, dtype=np.int64)
        while total.min() < n_steps:  # enough to cover every series without a wait
            lengths = _draw_lengths(64 * n_series, natural, rng).reshape(64, n_series)
            batches.append(np.minimum(lengths, max(1, n_steps // 4)))
            total += batches[-1].sum(axis=0)
        self.lengths = np.concatenate(batches)
        self.uniform = rng.random(self.lengths.shape)

    def covered(self, probability: float) -> Bools:
        """Cells inside a gap if one starts with this probability at every step."""
        n_steps, n_series = self.shape[0], self.uniform.shape[1]
        with np.errstate(divide="ignore"):
            waits = np.log1p(-self.uniform) / np.log1p(-min(probability, 1 - 1e-12))
        waits = np.minimum(waits, n_steps).astype(np.int64)
        starts = np.cumsum(waits, axis=0) + np.cumsum(self.lengths, axis=0) - self.lengths
        stops = np.minimum(starts + self.lengths, n_steps)
        edges = np.zeros((n_steps + 1, n_series), dtype=np.int64)
        inside = starts < n_steps
        column = np.broadcast_to(np.arange(n_series), starts.shape)
        np.add.at(edges, (starts[inside], column[inside]), 1)
        np.add.at(edges, (stops[inside], column[inside]), -1)
        return (np.cumsum(edges, axis=0)[:n_steps] > 0).reshape(self.shape)


def _draw_lengths(
    n_gaps: int, natural: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Gap lengths, drawn from the natural ones or, if those are too few, as in the paper."""
    if len(natural) >= MIN_GAPS:
        return rng.choice(natural, n_gaps)
    lengths = np.empty(0, dtype=np.int64)
    while len(lengths) < n_gaps:
        drawn = rng.normal(PAPER_GAP_MEAN, PAPER_GAP_STD, size=2 * n_gaps).astype(np.int64)
        lengths = np.concatenate([lengths, drawn[drawn >= 1]])
    return lengths[:n_gaps]


def natural_gap_lengths(cube: xr.DataArray) -> NDArray[np.int64]:
    """Lengths of the natural gaps of two or more steps, up to a quarter of the record: a station
    with a longer one was absent rather than interrupted."""
    lengths = gap_lengths(cube.isnull().to_numpy()[:, :, fillable(cube)])
    return lengths[(lengths >= 2) & (lengths <= max(2, cube.sizes["time"] // 4))]


def _trim(hidden: Bools, n_hidden: int, rng: np.random.Generator) -> Bools:
    """Only `n_hidden` of the hidden cells; the others are cut off the ends of random gaps."""
    excess = int(hidden.sum()) - n_hidden
    if excess <= 0:
        return hidden
    by_series = np.moveaxis(hidden, 0, -1)
    gap = np.cumsum(np.moveaxis(gap_starts(hidden), 0, -1)).reshape(-1)
    cells = np.flatnonzero(by_series)
    rank = rng.permutation(int(gap[-1]) + 1)[gap[cells]]
    dropped = cells[np.lexsort((-cells, rank))][:excess]
    flat = by_series.reshape(-1).copy()
    flat[dropped] = False
    return np.moveaxis(flat.reshape(by_series.shape), -1, 0)


@dataclass(frozen=True, kw_only=True)
class LikeData(Amount):
    """The natural gaps of the data at other times; cells that drop out together are hidden
    together, be it all measurements of a station or the whole network.

    The gaps are shifted along time by a random number of steps, and drop-outs are copied in random
    order until enough cells are hidden, with further shifts if they are few. So the neighbourhood
    of a hidden cell resembles that of a natural gap even in a nearly empty table. Data with hardly
    any gaps are hidden in bursts, and bursts make up the rest if the gaps are too few.
    """

    longest: int | None = None
    """Maximum length in steps of the gaps to copy."""

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        observed, n_steps = cube.notnull().to_numpy(), cube.sizes["time"]
        missing = natural_gap_mask(cube, self.longest).to_numpy()
        if gap_starts(missing).sum() < MIN_GAPS:
            return Bursts(rate=self.rate, share=self.share)(cube, rng)
        hidden, remaining = np.zeros(cube.shape, dtype=bool), self.n_cells(cube)
        number = drop_outs(missing)
        for _ in range(MAX_SHIFTS):
            shifted = np.roll(number, int(rng.integers(1, n_steps)), axis=0)
            chosen = _take(np.where(observed & ~hidden, shifted, 0), remaining, rng)
            hidden |= chosen
            remaining -= int(chosen.sum())
            if not remaining:
                break
        else:
            visible = cube.where(~_as_mask(hidden, cube))
            share = remaining / max(1, int(visible.notnull().sum()))
            hidden |= Bursts(share=share)(visible, rng).to_numpy()
        return _as_mask(hidden, cube)


def natural_gap_mask(cube: xr.DataArray, longest: int | None = None) -> xr.DataArray:
    """True for missing cells in gaps of at most a quarter of the record, or of `longest` steps."""
    lengths, n_steps = run_lengths(cube.isnull().to_numpy()), cube.sizes["time"]
    is_natural = (lengths > 0) & (lengths <= min(n_steps // 4, longest or n_steps))
    return xr.DataArray(is_natural, cube.coords, cube.dims)


def drop_outs(missing: Bools) -> NDArray[np.int64]:
    """The number of the drop-out that each missing cell (t, l, m) belongs to, from one; 0 where
    nothing is missing.

    While much more is missing than usual, all of it is one drop-out: first of the whole network,
    then of the measurements of one station. The other gaps are those of single series.
    """
    number, count, rest = np.zeros(missing.shape, dtype=np.int64), 0, missing
    for axes in ((1, 2), (2,)):
        share = missing.mean(axis=axes, keepdims=True)
        median = np.median(share, axis=0, keepdims=True)
        down = share > (1 + median) / 2  # more than half way from the median to everything
        number += np.where(rest & down, _number_runs(down, count), 0)
        count += int(gap_starts(down).sum())
        rest = rest & ~down
    return number + np.where(rest, _number_runs(rest, count), 0)


def _number_runs(runs: Bools, count: int) -> NDArray[np.int64]:
    """The numbers of runs along axis 0, from `count + 1`."""
    starts = np.moveaxis(gap_starts(runs), 0, -1)
    return count + np.moveaxis(np.cumsum(starts).reshape(starts.shape), -1, 0)


def _take(number: NDArray[np.int64], n_cells: int, rng: np.random.Generator) -> Bools:
    """True for `n_cells` numbered cells: all of one number after the other, in random order; the
    last one is shortened."""
    sizes = np.bincount(number.reshape(-1))
    sizes[0] = 0
    order = rng.permutation(len(sizes))
    total = np.cumsum(sizes[order])
    n_complete = int(np.searchsorted(total, n_cells, side="right"))
    chosen = np.isin(number, order[:n_complete]) & (number > 0)
    if n_complete < len(order):
        remaining = n_cells - (int(total[n_complete - 1]) if n_complete else 0)
        chosen = chosen | _trim(number == order[n_complete], remaining, rng)
    return chosen


@dataclass(frozen=True, kw_only=True)
class Blocks(Amount):
    """All measurements of several neighbouring stations for a stretch of time."""

    steps: int = 24
    """Length of a block in time steps."""

    stations: int = 3
    """Stations in a block: the nearest ones, or random ones without coordinates."""

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        remaining = self.n_cells(cube)
        observed = cube.notnull().to_numpy()
        hidden = np.zeros(cube.shape, dtype=bool)
        n_steps = min(self.steps, cube.sizes["time"])
        while remaining > 0:
            start = int(rng.integers(1 - n_steps, cube.sizes["time"]))
            steps = np.arange(max(start, 0), min(start + n_steps, cube.sizes["time"]))
            block = np.ix_(steps, _neighbours(cube, self.stations, rng))
            new = observed[block] & ~hidden[block]
            new &= np.cumsum(new).reshape(new.shape) <= remaining  # the last block ends early
            hidden[block] |= new
            remaining -= int(new.sum())
        return _as_mask(hidden, cube)


def _neighbours(cube: xr.DataArray, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random station and those nearest to it; random stations without coordinates."""
    n_stations = cube.sizes["location"]
    if not has_coordinates(cube):
        return rng.permutation(n_stations)[:count]
    lat, lon = np.deg2rad(cube["lat"].to_numpy()), np.deg2rad(cube["lon"].to_numpy())
    point = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
    distance = ((point - point[int(rng.integers(n_stations))]) ** 2).sum(-1)
    return np.argsort(distance, kind="stable")[:count]


@dataclass(frozen=True, kw_only=True)
class Stations:
    """All observations of a few stations."""

    count: int

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        stations = np.flatnonzero(cube.notnull().any(("time", "measurement")).to_numpy())
        if not 0 < self.count < len(stations):
            raise ConfigError(
                f"at least one station must be hidden and one must stay, but {self.count} of "
                f"{len(stations)} were to be hidden"
            )
        hidden = np.zeros(cube.shape, dtype=bool)
        hidden[:, rng.choice(stations, self.count, replace=False)] = True
        return _as_mask(hidden, cube)


@dataclass(frozen=True, kw_only=True)
class LastSteps:
    """The last steps of all series, as a forecast has to predict them."""

    count: int

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        if not 0 < self.count < cube.sizes["time"]:
            raise ConfigError(
                f"between 1 and {cube.sizes['time'] - 1} last steps can be hidden here, but "
                f"{self.count} were requested"
            )
        hidden = np.zeros(cube.shape, dtype=bool)
        hidden[-self.count :] = True
        return _as_mask(hidden, cube)


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenMask:
    """The cells that are True in a boolean cube."""

    hidden: xr.DataArray

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        if self.hidden.dtype != bool or set(self.hidden.dims) != set(cube.dims):
            raise ConfigError(
                f"a mask is a boolean cube with dimensions {cube.dims}, but found "
                f"{self.hidden.dtype} with {self.hidden.dims}"
            )
        aligned = self.hidden.reindex_like(cube, fill_value=False).transpose(*cube.dims)
        return _as_mask(aligned.to_numpy(), cube)


def _as_mask(hidden: Bools, cube: xr.DataArray) -> xr.DataArray:
    """The mask of observed cells with the cube's labels; one observation of each measurement stays
    visible."""
    observed = cube.notnull().to_numpy()
    hidden = hidden & observed
    for m in np.flatnonzero(fillable(cube)):
        if not (observed & ~hidden)[:, :, m].any():
            first = np.argwhere(observed[:, :, m])[0]
            hidden[(*first, m)] = False
    return xr.DataArray(hidden, dims=cube.dims, coords=cube.coords, name="hidden")


STRATEGIES: dict[str, Callable[..., HideStrategy]] = {
    "like-data": LikeData,
    "random": AtRandom,
    "bursts": Bursts,
    "blocks": Blocks,
    "stations": Stations,
    "last": LastSteps,
}


def parse_hide(text: str) -> HideStrategy:
    """A strategy from text: 'random:0.2' (final missing rate), 'like-data:+0.1' (share of the
    observed cells), 'bursts:0.2', 'blocks:0.2', 'stations:2', 'last:12'."""
    name, _, amount = text.partition(":")
    if name == "own":
        raise ConfigError(f"'own' is called 'like-data' now: --hide like-data:{amount or '0.2'}")
    if name not in STRATEGIES:
        ways = suggest(name, STRATEGIES)
        raise ConfigError(f"unknown way of hiding '{name}'{ways}, as in bursts:0.2 or last:12")
    counted = "count" in signature(STRATEGIES[name]).parameters
    try:
        if counted:
            return STRATEGIES[name](count=int(amount))
        value = float(amount)
    except ValueError as bad:
        example = f"{name}:2" if counted else f"{name}:0.2"
        raise ConfigError(f"--hide needs an amount, as in {example}, but found '{text}'") from bad
    return STRATEGIES[name](**{"share" if amount.startswith("+") else "rate": value})
