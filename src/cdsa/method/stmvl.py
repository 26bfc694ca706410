"""ST-MVL: four views of a gap, from near and far in space and in time, blended for every station.

Yi, Zheng, Zhang & Li, "ST-MVL: filling missing values in geo-sensory time series data", IJCAI 2016.
The two global views rest on distance alone: inverse-distance weighting over stations (a power of 4)
and exponential smoothing over the station's own values (0.85, to both sides). The two local ones
rest on who was alike lately: stations that ran together in a window of seven moments, and moments
of that window at which the network looked alike. A station's own least squares blend them.

Where a block of gaps leaves the local views nothing to look at, a cell is what the paper begins
with there: what the stations around say, or where none reports, the smoothed series. Different from
it: it is not the mean of the two where both speak, and it stays that, for the least squares know
only cells with something near, and on KDD-2015's PM2.5, where two of five hidden cells are such
ones, views of what was guessed made it worse; the least squares have a little ridge towards the
plain mean, for stations with few values; a station that was not learnt from gets the mean of all
blends. The smoothing looks at a whole series, not at a part of it. Likeness is one over the root of
the mean squared difference of what both measured; the moment that is asked for is left out of what
stations are compared by, and the station that is asked for out of what moments are, so that a value
is learnt from as it would be guessed. Measurements are filled one by one.

Letters: t time, l and k stations, v view.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.distances import great_circle
from cdsa.errors import ConfigError
from cdsa.method.guard import GuardedFiller, Guess, guarded, refuse_nowhere

Floats = NDArray[np.float64]
VIEWS = 4
RIDGE = 10.0
"""Cells that the plain mean of the views counts for."""
ALIKE = 1e-6
"""Squared difference below which two are as alike as can be, in variances."""
PAIRS_AT_ONCE = 5_000_000
LEAST_KM = 1e-3  # two sensors on one mast


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
        blends: dict[str, dict[str, Floats]] = {}
        for m, kind in enumerate(plain["measurement"].to_numpy()):
            views, lost = self.views(values[:, :, m], apart)
            series = np.where(lost, np.nan, values[:, :, m])
            found = [blended(views[:, l], series[:, l]) for l in range(len(names))]  # noqa: E741
            blends[str(kind)] = {str(name): found[n] for n, name in enumerate(names)}

        def guess(cube: xr.DataArray) -> xr.DataArray:
            refuse_nowhere(cube, "st-mvl")
            told = xr.full_like(cube, np.nan)
            apart = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
            for m, kind in enumerate(cube["measurement"].to_numpy()):
                own = blends.get(str(kind))
                if own is None:
                    continue
                common: Floats = np.mean(list(own.values()), axis=0)
                weights = [own.get(str(name), common) for name in cube["location"].to_numpy()]
                views, lost = self.views(cube.to_numpy()[:, :, m].astype(np.float64), apart)
                blend = np.einsum("tlv, lv -> tl", views, np.stack(weights))
                told[:, :, m] = np.where(lost, views[..., 0], blend)
            return told

        return guess

    def views(self, values: Floats, apart: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """What the four views and a constant say of every cell from all cells but itself, (t, l,
        v), NaN where none sees anything; and where not all four see something near, (t, l)."""
        middle, spread = _middle(values)
        scaled = (values - middle) / spread
        far, slow = nearby(scaled, apart, self.power), smooth(scaled, self.smoothing)
        local = [alike_stations(scaled, self.window), alike_moments(scaled, self.window)]
        lost = np.isnan(far) | np.isnan(local[0]) | np.isnan(local[1])
        views = np.stack([far, slow, *local], axis=-1)
        # a view that sees nothing says what the others say
        count = np.isfinite(views).sum(axis=-1, keepdims=True)
        mean = np.divide(
            np.nansum(views, axis=-1, keepdims=True),
            count,
            out=np.full_like(views[..., :1], np.nan),
            where=count > 0,
        )
        views = np.where(np.isfinite(views), views, mean) * spread + middle
        return np.concatenate([views, np.ones_like(views[..., :1])], axis=-1), lost


def nearby(values: Floats, apart: Floats, power: float) -> Floats:
    """Inverse-distance weighting over the other stations, (t, l)."""
    weight = np.maximum(apart, LEAST_KM) ** -power
    np.fill_diagonal(weight, 0.0)
    known = np.isfinite(values)
    return _ratio(np.nan_to_num(values) @ weight.T, known @ weight.T)


def smooth(values: Floats, share: float) -> Floats:
    """Exponential smoothing over the other moments of a station, to both sides, (t, l)."""
    known, plain = np.isfinite(values).astype(np.float64), np.nan_to_num(values)
    total, weight = np.zeros_like(plain), np.zeros_like(plain)
    for steps in (range(len(plain)), range(len(plain) - 1, -1, -1)):
        told, there = np.zeros(plain.shape[1]), np.zeros(plain.shape[1])
        for t in steps:
            total[t] += told
            weight[t] += there
            told, there = plain[t] + (1 - share) * told, known[t] + (1 - share) * there
    return _ratio(total, weight)


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


def blended(views: Floats, series: Floats) -> Floats:
    """How much of each view, and of a constant, gives a station's own values back best, (v,)."""
    plain_mean = np.append(np.full(VIEWS, 1 / VIEWS), 0.0)
    used = np.isfinite(series) & np.isfinite(views).all(axis=1)
    if not used.any():
        return plain_mean
    x, y = views[used], series[used]
    scale = max(float((x[:, :VIEWS] ** 2).mean()), 1e-12)
    tied = RIDGE * scale * np.eye(VIEWS + 1)
    left, right = x.T @ x + tied, x.T @ y + tied @ plain_mean
    found: Floats = np.linalg.solve(left, right)
    return found


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
