"""ST-MVL: four views of a gap, from near and far in space and in time, blended for every station.

Yi, Zheng, Zhang & Li, "ST-MVL: filling missing values in geo-sensory time series data", IJCAI 2016.
The two global views rest on distance alone: inverse-distance weighting over stations (a power of 4)
and exponential smoothing over the station's own values (0.85, to both sides). The two local ones
rest on who was alike lately: stations that ran together in a window of seven moments, and moments
of that window at which the network looked alike. A station's own least squares blend them.

Different from the paper and its authors' code: where a block of gaps leaves a local view nothing to
look at, a cell is what the stations around say or, where none reports, the smoothed series. There
it begins with the mean of the two, and the views look at what was guessed; on KDD-2015's PM2.5,
where two of five hidden cells are such ones, that made it worse. The least squares are learnt from
every cell that all views see, there from those of moments and windows of which half was measured;
they work on values scaled by the measurement's mean and spread, with a little ridge towards the
plain mean of the views, for stations with few such cells; one without any gets the mean of all
blends. The smoothing looks at a whole series, not at a part of it. Likeness is one over the root of
the mean squared difference of what both measured, and largest, not zero, where they do not differ;
the moment that is asked for is left out of what stations are compared by, and the station that is
asked for out of what moments are, so that a value is learnt from as it would be guessed.
Measurements are filled one by one.

Letters: t time, l and k stations, v view.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.geo import great_circle
from cdsa.errors import ConfigError
from cdsa.methods.baselines.idw import inverse_distances
from cdsa.methods.wrapper import GuardedFiller, Guess, guarded, refuse_nowhere

Floats = NDArray[np.float64]


VIEWS = 4


PLAIN_MEAN = np.append(np.full(VIEWS, 1 / VIEWS), 0.0)
"""Shares of the views, and a constant."""


RIDGE = 10.0
"""Cells that the plain mean of the views counts for."""


ALIKE = 1e-6
"""Squared difference below which two are as alike as can be, in variances."""


PAIRS_AT_ONCE = 5_000_000


@dataclass(frozen=True, kw_only=True)
class StMvl:
    """Four views of a gap, blended for every station."""

    power: float = 4.0
    """A station at twice the distance counts one over two to this power."""

    smoothing: float = 0.85
    """How much of the weight of a station's own values the nearest one has."""

    window: int = 7
    """Moments in which stations, and moments, are compared."""

    def __post_init__(self) -> None:
        if not 0 < self.smoothing < 1 or self.window < 3 or self.power <= 0:
            raise ConfigError(
                "smoothing lies between 0 and 1, window is at least 3 and power greater than 0, "
                f"but found {self.smoothing:g}, {self.window} and {self.power:g}"
            )

    @property
    def label(self) -> str:
        """The name in tables."""
        return "st-mvl"

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        refuse_nowhere(cube, "st-mvl")
        return guarded(cube, self._learn)

    def _learn(self, plain: xr.DataArray) -> Guess:
        names, values = plain["location"].to_numpy(), plain.to_numpy().astype(np.float64)
        apart = great_circle(plain["lat"].to_numpy(), plain["lon"].to_numpy())
        learnt: dict[str, Learnt] = {}
        for m, kind in enumerate(plain["measurement"].to_numpy()):
            middle, spread = _middle(values[:, :, m])
            scaled = (values[:, :, m] - middle) / spread
            views = self.views(scaled, apart)
            found = [blended(views[:, l], scaled[:, l]) for l in range(len(names))]  # noqa: E741
            own = {
                str(n): blend for n, blend in zip(names, found, strict=True) if blend is not None
            }
            learnt[str(kind)] = Learnt(middle, spread, own)

        def guess(cube: xr.DataArray) -> xr.DataArray:
            refuse_nowhere(cube, "st-mvl")
            told = xr.full_like(cube, np.nan)
            apart = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
            for m, kind in enumerate(cube["measurement"].to_numpy()):
                if str(kind) in learnt:
                    by = learnt[str(kind)]
                    scaled = (cube.to_numpy()[:, :, m].astype(np.float64) - by.middle) / by.spread
                    views = self.views(scaled, apart)
                    blends = np.stack([by.blend(str(name)) for name in cube["location"].to_numpy()])
                    blend = np.einsum("tlv, lv -> tl", with_constant(views), blends)
                    # in a block, where a view sees nothing
                    simple = np.where(np.isnan(views[..., 0]), views[..., 1], views[..., 0])
                    told[:, :, m] = by.spread * np.where(np.isnan(blend), simple, blend) + by.middle
            return told

        return guess

    def views(self, scaled: Floats, apart: Floats) -> Floats:
        """What the four views say of every cell from all cells but itself, (t, l, v); NaN where one
        sees nothing."""
        return np.stack(
            [
                nearby(scaled, apart, self.power),
                smooth(scaled, self.smoothing),
                alike_stations(scaled, self.window),
                alike_moments(scaled, self.window),
            ],
            axis=-1,
        )


@dataclass(frozen=True, eq=False)
class Learnt:
    """What was learnt of a measurement: how it is scaled, and how stations blend their views."""

    middle: float
    spread: float
    own: dict[str, Floats]

    def blend(self, name: str) -> Floats:
        """Of the station of this name, or the mean of all, or of the views if there are none."""
        if name in self.own or not self.own:
            return self.own.get(name, PLAIN_MEAN)
        mean: Floats = np.mean(list(self.own.values()), axis=0)
        return mean


def nearby(values: Floats, apart: Floats, power: float) -> Floats:
    """Inverse-distance weighting over the other stations, (t, l)."""
    weight, known = inverse_distances(apart, power), np.isfinite(values)
    return _ratio(np.nan_to_num(values) @ weight.T, known @ weight.T)


def smooth(values: Floats, share: float) -> Floats:
    """Exponential smoothing over the other moments of a station, to both sides, (t, l)."""
    sides = [_behind(values, 1 - share), [part[::-1] for part in _behind(values[::-1], 1 - share)]]
    nearest = np.minimum(*(since for _, _, since in sides))
    nearest = np.where(np.isfinite(nearest), nearest, 0.0)
    # beside the nearest value, for far from all of them nothing would be left of any weight
    faded = [(1 - share) ** (since - nearest) for _, _, since in sides]
    total, weight = (
        np.sum([side[part] * fades for side, fades in zip(sides, faded, strict=True)], axis=0)
        for part in (0, 1)
    )
    return _ratio(total, weight)


def _behind(values: Floats, stays: float) -> list[Floats]:
    """Of what a station said before each moment: the sum, each value counting the less the longer
    before the last one it was, the sum of the weights, and how many moments ago the last one was,
    endless if there was none; all (t, l)."""
    found = [np.zeros_like(values), np.zeros_like(values), np.full_like(values, np.inf)]
    total, weight, since = (part[0].copy() for part in found)
    for t, now in enumerate(values):
        for part, one in zip(found, (total, weight, since), strict=True):
            part[t] = one
        known, faded = np.isfinite(now), stays**since
        total = np.where(known, np.nan_to_num(now) + faded * total, total)
        weight = np.where(known, 1 + faded * weight, weight)
        since = np.where(known, 1.0, since + 1)
    return found


def alike_stations(whole: Floats, window: int) -> Floats:
    """What other stations say, those that ran together lately counting more, (t, l)."""
    steps, stations = whole.shape
    known, plain = np.isfinite(whole), np.nan_to_num(whole)
    told = np.full_like(plain, np.nan)
    half, at_once = window // 2, max(1, PAIRS_AT_ONCE // stations**2)
    own = np.eye(stations, dtype=bool)
    for first in range(0, steps, at_once):
        low, high = max(0, first - half), min(steps, first + at_once + half)
        part, there = plain[low:high], known[low:high]
        both = there[:, :, None] & there[:, None]
        off = np.where(both, (part[:, :, None] - part[:, None]) ** 2, 0.0)
        here = slice(first - low, min(steps, first + at_once) - low)
        # all of the window but the moment itself, which is asked for
        summed, count = (_moving(x, half)[here] - x[here] for x in (off, both.astype(np.float64)))
        likeness = np.where(own, 0.0, _likeness(summed, count) * there[here][:, None])
        told[first : first + at_once] = _ratio(
            np.einsum("tlk, tk -> tl", likeness, part[here]), likeness.sum(axis=2)
        )
    return told


def alike_moments(whole: Floats, window: int) -> Floats:
    """What a station says at moments of the window, those at which the other stations looked alike
    counting more, (t, l)."""
    known, plain = np.isfinite(whole), np.nan_to_num(whole)
    total, weight = np.zeros_like(plain), np.zeros_like(plain)
    steps = len(plain)
    for lag in range(1, min(window // 2, steps - 1) + 1):
        for here, there in (
            (slice(lag, None), slice(0, steps - lag)),
            (slice(0, steps - lag), slice(lag, None)),
        ):
            both = known[here] & known[there]
            off = np.where(both, (plain[here] - plain[there]) ** 2, 0.0)
            # of all stations but the one that is asked for
            summed = off.sum(axis=1, keepdims=True) - off
            count = both.sum(axis=1, keepdims=True) - both.astype(np.float64)
            likeness = _likeness(summed, count) * known[there]
            total[here] += likeness * plain[there]
            weight[here] += likeness
    return _ratio(total, weight)


def blended(views: Floats, series: Floats) -> Floats | None:
    """How much of each view (t, v), and of a constant, gives a station's own scaled values (t,)
    back best, (v + 1,); None if there is no value that all views see."""
    used = np.isfinite(series) & np.isfinite(views).all(axis=1)
    if not used.any():
        return None
    x, y = with_constant(views[used]), series[used]
    tied = RIDGE * np.eye(VIEWS + 1)
    found: Floats = np.linalg.solve(x.T @ x + tied, x.T @ y + tied @ PLAIN_MEAN)
    return found


def with_constant(views: Floats) -> Floats:
    """The views and a constant behind them."""
    return np.concatenate([views, np.ones_like(views[..., :1])], axis=-1)


def _likeness(summed: Floats, count: Floats) -> Floats:
    """One over the root of the mean squared difference; zero where there is nothing to compare."""
    mean = np.divide(summed, count, out=np.zeros_like(summed), where=count > 0.5)
    return np.where(count > 0.5, 1 / np.sqrt(np.maximum(mean, ALIKE)), 0.0)


def _moving(x: Floats, half: int) -> Floats:
    """Sums over `half` steps to either side, along the first axis."""
    whole = np.cumsum(np.concatenate([np.zeros_like(x[:1]), x]), axis=0)
    number = np.arange(len(x))
    high, low = np.minimum(number + half + 1, len(x)), np.maximum(number - half, 0)
    summed: Floats = whole[high] - whole[low]
    return summed


def _ratio(total: Floats, weight: Floats) -> Floats:
    """NaN where nothing has weight."""
    return np.divide(total, weight, out=np.full_like(total, np.nan), where=weight > 0)


def _middle(values: Floats) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    return float(known.mean()), float(known.std()) or 1.0
