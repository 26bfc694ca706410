"""Ways of hiding measured cells, to score a method or to train one.

Each way is a frozen dataclass; called with a cube and a generator it returns a boolean cube, True
where a cell is to be hidden. Only measured cells are hidden, and of every measurement at least one
stays. Rates count the cells of measurements that were measured at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import fillable, has_coordinates
from cdsa.core.gaps import gap_lengths, gap_starts, run_lengths
from cdsa.errors import ConfigError, unknown

Bools = NDArray[np.bool_]


PAPER_GAP_MEAN, PAPER_GAP_STD = 6.35, 9.81
"""Mean and standard deviation of the paper's natural gaps, for data with too few of their own."""


MIN_GAPS = 10


MAX_SHIFTS = 100
"""How often own gaps are moved at the most."""


class HideStrategy(Protocol):
    """A way of hiding: cube and generator in, boolean cube out, True where hidden."""

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray: ...


@dataclass(frozen=True, kw_only=True)
class Amount:
    """How much to hide: up to a final missing rate, or a share of what is there."""

    rate: float | None = None
    """Share of cells missing in the end, natural gaps included."""

    share: float | None = None
    """Share of the measured cells to hide."""

    def __post_init__(self) -> None:
        if (self.rate is None) == (self.share is None):
            raise ConfigError(
                "give either the final rate or the share to hide, not both or neither"
            )
        given = self.rate if self.share is None else self.share
        if given is None or not 0 < given < 1:
            raise ConfigError(f"a rate or share lies between 0 and 1, but found {given}")

    def n_cells(self, cube: xr.DataArray) -> int:
        """The number of measured cells to hide."""
        there = cube.to_numpy()[:, :, fillable(cube)]
        measured = int(np.isfinite(there).sum())
        if self.share is not None:
            return round(self.share * measured)
        assert self.rate is not None
        natural = 1 - measured / max(there.size, 1)
        wanted = measured - round((1 - self.rate) * there.size)
        if wanted <= 0:
            raise ConfigError(
                f"the final missing rate must exceed what is missing already, but {natural:.1%} is "
                f"missing and {self.rate:.1%} was asked for. To hide a share of what is there, put "
                f"a plus before it, as in bursts:+{self.rate:g}"
            )
        return wanted


@dataclass(frozen=True, kw_only=True)
class AtRandom(Amount):
    """Single cells anywhere."""

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        measured = cube.notnull().to_numpy()
        chosen = rng.permutation(np.flatnonzero(measured))[: self.n_cells(cube)]
        hidden = np.zeros(cube.size, dtype=bool)
        hidden[chosen] = True
        return _as_cube(hidden.reshape(cube.shape), cube)


@dataclass(frozen=True, kw_only=True)
class Bursts(Amount):
    """Gaps in time, series by series: the paper's Burst Loss.

    Each series is walked along time; at every step a gap may start, and the walk goes on behind it.
    Gaps are as long as the data's own of two steps and more. Data with fewer than ten of those get
    lengths as in the paper: whole numbers from a normal distribution, draws below one being no gap.
    The chance of a start is tuned until the wanted number of cells is hidden, and the last few gaps
    are shortened so that it is hit exactly.
    """

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        measured = cube.notnull().to_numpy()
        wanted = self.n_cells(cube)
        walk = _Walk(measured.shape, natural_gap_lengths(cube), rng)
        low, high = 0.0, 1.0  # a chance of one leaves no step uncovered
        for _ in range(30):
            chance = (low + high) / 2
            enough = (walk.covered(chance) & measured).sum() >= wanted
            low, high = (low, chance) if enough else (chance, high)
        return _as_cube(_trim(walk.covered(high) & measured, wanted, rng), cube)


class _Walk:
    """Renewal walks along time: geometric waits and normal lengths, drawn once, so that the same
    walk can be looked at with another chance of a start."""

    def __init__(
        self, shape: tuple[int, ...], natural: NDArray[np.int64], rng: np.random.Generator
    ) -> None:
        self.shape = shape
        steps, series = shape[0], int(np.prod(shape[1:]))
        rounds: list[NDArray[np.int64]] = []
        total = np.zeros(series, dtype=np.int64)
        while total.min() < steps:  # enough to cover every series without a wait
            drawn = _lengths(64 * series, natural, rng).reshape(64, series)
            rounds.append(np.minimum(drawn, max(1, steps // 4)))
            total += rounds[-1].sum(axis=0)
        self.lengths = np.concatenate(rounds)
        self.luck = rng.random(self.lengths.shape)

    def covered(self, chance: float) -> Bools:
        """Cells inside a gap if one starts with this chance at every step."""
        steps, series = self.shape[0], self.luck.shape[1]
        with np.errstate(divide="ignore"):
            waits = np.log1p(-self.luck) / np.log1p(-min(chance, 1 - 1e-12))
        waits = np.minimum(waits, steps).astype(np.int64)
        starts = np.cumsum(waits, axis=0) + np.cumsum(self.lengths, axis=0) - self.lengths
        ends = np.minimum(starts + self.lengths, steps)
        edges = np.zeros((steps + 1, series), dtype=np.int64)
        inside = starts < steps
        column = np.broadcast_to(np.arange(series), starts.shape)
        np.add.at(edges, (starts[inside], column[inside]), 1)
        np.add.at(edges, (ends[inside], column[inside]), -1)
        return (np.cumsum(edges, axis=0)[:steps] > 0).reshape(self.shape)


def _lengths(count: int, natural: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """So many lengths of gaps: drawn from the natural ones, or the paper's if those are too few."""
    if len(natural) >= MIN_GAPS:
        return rng.choice(natural, count)
    lengths = np.empty(0, dtype=np.int64)
    while len(lengths) < count:
        drawn = rng.normal(PAPER_GAP_MEAN, PAPER_GAP_STD, size=2 * count).astype(np.int64)
        lengths = np.concatenate([lengths, drawn[drawn >= 1]])
    return lengths[:count]


def natural_gap_lengths(cube: xr.DataArray) -> NDArray[np.int64]:
    """Lengths of the data's own gaps of two steps and more; those that take up more than a quarter
    of the time are a station that was not there rather than one that dropped out."""
    missing = cube.isnull().to_numpy()[:, :, fillable(cube)]
    lengths = gap_lengths(missing)
    return lengths[(lengths >= 2) & (lengths <= max(2, cube.sizes["time"] // 4))]


def _trim(hidden: Bools, wanted: int, rng: np.random.Generator) -> Bools:
    """Fewer hidden cells, taken off the ends of gaps in random order."""
    excess = int(hidden.sum()) - wanted
    if excess <= 0:
        return hidden
    number = np.cumsum(np.moveaxis(gap_starts(hidden), 0, -1)).reshape(-1)  # gaps, series by series
    cells = np.flatnonzero(np.moveaxis(hidden, 0, -1))
    turn = rng.permutation(int(number[-1]) + 1)[number[cells]]
    dropped = cells[np.lexsort((-cells, turn))][:excess]
    flat = np.moveaxis(hidden, 0, -1).reshape(-1).copy()
    flat[dropped] = False
    return np.moveaxis(flat.reshape(*hidden.shape[1:], hidden.shape[0]), -1, 0)


@dataclass(frozen=True, kw_only=True)
class LikeData(Amount):
    """The data's own gaps, at other times: what drops out together is hidden together, be it all
    that a station measures or the whole network.

    The gaps are moved along time by a random number of steps, so that they fall on what was
    measured, and taken over one drop-out after the other, in random order, until enough cells are
    hidden; if they are few, several times. So even in a table that is nearly empty, what is left
    around a hidden cell is about what is there around any other gap. Data with hardly any gap of
    their own are hidden in bursts, and so is what the few that they have do not come to.
    """

    longest: int | None = None
    """Steps of the longest gaps that are taken over, if those are shorter still."""

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        measured, steps = cube.notnull().to_numpy(), cube.sizes["time"]
        missing = natural_gap_mask(cube, self.longest).to_numpy()
        if gap_starts(missing).sum() < MIN_GAPS:
            return Bursts(rate=self.rate, share=self.share)(cube, rng)
        hidden, left = np.zeros(cube.shape, dtype=bool), self.n_cells(cube)
        number = drop_outs(missing)
        for _ in range(MAX_SHIFTS):
            moved = np.roll(number, int(rng.integers(1, steps)), axis=0)
            taken = _take(np.where(measured & ~hidden, moved, 0), left, rng)
            hidden |= taken
            left -= int(taken.sum())
            if not left:
                break
        if left:  # the gaps are too few to be moved about
            seen = cube.where(~_as_cube(hidden.copy(), cube))
            share = left / max(1, int(seen.notnull().sum()))
            hidden |= Bursts(share=share)(seen, rng).to_numpy()
        return _as_cube(hidden, cube)


def natural_gap_mask(cube: xr.DataArray, longest: int | None = None) -> xr.DataArray:
    """True where a cell is missing, in gaps of at most a quarter of the time, or of the `longest`
    there shall be: what is missing for longer was not there rather than dropped out."""
    runs, steps = run_lengths(cube.isnull().to_numpy()), cube.sizes["time"]
    return _as_cube((runs > 0) & (runs <= min(steps // 4, longest or steps)), cube)


def drop_outs(missing: Bools) -> NDArray[np.int64]:
    """The number of the drop-out that each missing cell (t, l, m) belongs to, from one on; 0 where
    nothing is missing.

    As long as much more is missing than usual, that is one drop-out: first of the whole network,
    then of what one station measures. What is left are gaps of single series.
    """
    number, count, left = np.zeros(missing.shape, dtype=np.int64), 0, missing
    for axes in ((1, 2), (2,)):
        share = missing.mean(axis=axes, keepdims=True)
        usual = np.median(share, axis=0, keepdims=True)
        down = share > (1 + usual) / 2  # more than half of the way from what is usual to everything
        number += np.where(left & down, _numbered(down, count), 0)
        count += int(gap_starts(down).sum())
        left = left & ~down
    return number + np.where(left, _numbered(left, count), 0)


def _numbered(runs: Bools, count: int) -> NDArray[np.int64]:
    """The numbers of runs along axis 0, from behind `count` on."""
    starts = np.moveaxis(gap_starts(runs), 0, -1)
    return count + np.moveaxis(np.cumsum(starts).reshape(starts.shape), -1, 0)


def _take(number: NDArray[np.int64], wanted: int, rng: np.random.Generator) -> Bools:
    """True for so many numbered cells: those of one number after the other, in random order; the
    last ones are shortened."""
    sizes = np.bincount(number.reshape(-1))
    sizes[0] = 0
    order = rng.permutation(len(sizes))
    until = np.cumsum(sizes[order])
    whole = np.zeros(len(sizes), dtype=bool)
    fitting = int(np.searchsorted(until, wanted, side="right"))
    whole[order[:fitting]] = True
    whole[0] = False
    taken = whole[number]
    if fitting < len(order):
        left = wanted - (int(until[fitting - 1]) if fitting else 0)
        taken = taken | _trim(number == order[fitting], left, rng)
    return taken


@dataclass(frozen=True, kw_only=True)
class Blocks(Amount):
    """A stretch of time at several neighbouring stations at once, all measurements."""

    steps: int = 24
    """Length of a block in time steps."""

    stations: int = 3
    """Stations of a block: the nearest ones, or any if there are no coordinates."""

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        left = self.n_cells(cube)
        measured = cube.notnull().to_numpy()
        hidden = np.zeros(cube.shape, dtype=bool)
        steps = min(self.steps, cube.sizes["time"])
        while left > 0:
            start = int(rng.integers(1 - steps, cube.sizes["time"]))
            when = np.arange(max(start, 0), min(start + steps, cube.sizes["time"]))
            block = np.ix_(when, _neighbours(cube, self.stations, rng))
            fresh = measured[block] & ~hidden[block]
            fresh &= np.cumsum(fresh).reshape(fresh.shape) <= left  # the last block ends early
            hidden[block] |= fresh
            left -= int(fresh.sum())
        return _as_cube(hidden, cube)


def _neighbours(cube: xr.DataArray, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A station and those nearest to it; any stations without coordinates."""
    stations = cube.sizes["location"]
    if not has_coordinates(cube):
        return rng.permutation(stations)[:count]
    lat, lon = np.deg2rad(cube["lat"].to_numpy()), np.deg2rad(cube["lon"].to_numpy())
    point = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
    away = ((point - point[int(rng.integers(stations))]) ** 2).sum(-1)
    return np.argsort(away, kind="stable")[:count]


@dataclass(frozen=True, kw_only=True)
class Stations:
    """Everything that a few stations measured."""

    count: int

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        there = np.flatnonzero(cube.notnull().any(("time", "measurement")).to_numpy())
        if not 0 < self.count < len(there):
            raise ConfigError(
                f"at least one station must be hidden and one must stay, but {self.count} of "
                f"{len(there)} were to be hidden"
            )
        hidden = np.zeros(cube.shape, dtype=bool)
        hidden[:, rng.choice(there, self.count, replace=False)] = True
        return _as_cube(hidden & cube.notnull().to_numpy(), cube)


@dataclass(frozen=True, kw_only=True)
class LastSteps:
    """The last steps of all series: what a forecast has to tell."""

    count: int

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        if not 0 < self.count < cube.sizes["time"]:
            raise ConfigError(
                f"between 1 and {cube.sizes['time'] - 1} last steps can be hidden here, but "
                f"{self.count} were asked for"
            )
        hidden = np.zeros(cube.shape, dtype=bool)
        hidden[-self.count :] = True
        return _as_cube(hidden & cube.notnull().to_numpy(), cube)


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenMask:
    """Exactly these cells, as a boolean cube."""

    hidden: xr.DataArray

    def __call__(self, cube: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
        if self.hidden.dtype != bool or set(self.hidden.dims) != set(cube.dims):
            raise ConfigError(
                f"a mask is a boolean cube with axes {cube.dims}, but found {self.hidden.dtype} "
                f"with {self.hidden.dims}"
            )
        aligned = self.hidden.reindex_like(cube, fill_value=False).transpose(*cube.dims)
        return _as_cube(aligned.to_numpy() & cube.notnull().to_numpy(), cube)


def _as_cube(hidden: Bools, cube: xr.DataArray) -> xr.DataArray:
    """The mask with the cube's labels; one cell of a measurement that would vanish is kept."""
    measured = cube.notnull().to_numpy()
    for number in np.flatnonzero(fillable(cube)):
        if not (measured & ~hidden)[:, :, number].any():
            first = np.argwhere(measured[:, :, number])[0]
            hidden[(*first, number)] = False
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
    """A hiding strategy from text: 'random:0.2' (final missing rate), 'like-data:+0.1' (share of
    the observed cells), 'bursts:0.2', 'blocks:0.2', 'stations:2', 'last:12'."""
    kind, _, amount = text.partition(":")
    if kind == "own":
        raise ConfigError(f"'own' is called 'like-data' now: --hide like-data:{amount or '0.2'}")
    if kind not in STRATEGIES:
        raise ConfigError(
            unknown("way of hiding", kind, STRATEGIES) + ", as in bursts:0.2 or last:12"
        )
    try:
        number = float(amount)
        if kind in ("stations", "last"):
            return STRATEGIES[kind](count=int(amount))
    except ValueError as bad:
        example = f"{kind}:2" if kind in ("stations", "last") else f"{kind}:0.2"
        raise ConfigError(f"--hide wants an amount, as in {example}, but found '{text}'") from bad
    return STRATEGIES[kind](**{"share" if amount.startswith("+") else "rate": number})
