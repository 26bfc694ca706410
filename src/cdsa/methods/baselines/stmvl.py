"""ST-MVL: four views of a gap, from space and time, global and local, blended per station.

Letters: t time, l and k stations, v view.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.geo import great_circle
from cdsa.errors import ConfigError
from cdsa.methods.baselines.idw import inverse_distance_weights
from cdsa.methods.wrapper import Baseline, PredictFn, refuse_no_coordinates

Floats = NDArray[np.float64]

N_VIEWS = 4

EQUAL_WEIGHTS = np.append(np.full(N_VIEWS, 1 / N_VIEWS), 0.0)
"""The plain mean of the views, without an intercept."""

RIDGE = 10.0
"""Cells that the plain mean of the views counts for."""

MIN_MSE = 1e-6
"""Mean squared difference, in variances, below which similarity grows no more."""

MAX_PAIRS = 5_000_000
"""Pairs of stations, over time steps, compared at once."""


@dataclass(frozen=True, kw_only=True)
class StMvl(Baseline):
    """Spatio-temporal multi-view-based learning (ST-MVL).

    Two global views rest on distance alone: inverse-distance weighting over stations, and
    exponential smoothing over the station's own values, to both sides. Two local views rest on
    similarity in a window of time steps: of stations whose values agreed, and of steps at which the
    network looked alike. Least squares blend the four, station by station.

    Notes
    -----
    Deviations from the paper and its authors' code:

    Where a block of gaps leaves a local view nothing to look at, a cell is filled by the global
    spatial view or, where no station reports, by the temporal one. The paper starts from the mean
    of the two and lets the views look at it; on KDD-2015's PM2.5, where two of five hidden
    cells are of this kind, that was worse.

    The least squares are fitted on every cell that all views see; the paper's only on steps and
    windows of which half was measured. They work on standardised values, with a small ridge towards
    the plain mean of the views for stations with few such cells; a station without any gets the
    mean of all blends.

    The smoothing covers the whole series. Similarity is one over the root mean
    squared difference of what both measured, and largest, not zero, where they do not differ. The
    step of a cell is left out when its stations are compared, and the station of a cell when its
    steps are, so that training sees what prediction sees. Measurements are filled one by one.

    References
    ----------
    Yi, X., Zheng, Y., Zhang, J., & Li, T. (2016). ST-MVL: Filling missing values in geo-sensory
    time series data. IJCAI.
    """

    name: ClassVar[str] = "st-mvl"

    power: float = 4.0
    """Weights of stations are the distance to the power of minus this."""

    smoothing: float = 0.85
    """Smoothing factor: weights of a station's own values fall by 1 minus this per step."""

    window: int = 7
    """Time steps in which stations, and steps, are compared."""

    def __post_init__(self) -> None:
        if not 0 < self.smoothing < 1 or self.window < 3 or self.power <= 0:
            raise ConfigError(
                "smoothing must lie between 0 and 1, window be at least 3 and power greater than "
                f"0, but found {self.smoothing:g}, {self.window} and {self.power:g}"
            )

    def _fit(self, components: xr.DataArray) -> PredictFn:
        refuse_no_coordinates(components, "st-mvl")
        values, stations = components.to_numpy(), components["location"].to_numpy()
        distance = great_circle(components["lat"].to_numpy(), components["lon"].to_numpy())
        blends: dict[str, Blend] = {}
        for m, name in enumerate(components["measurement"].to_numpy()):
            mean, std = _mean_and_std(values[:, :, m])
            scaled = (values[:, :, m] - mean) / std
            views = self.views(scaled, distance)
            fitted = (fit_weights(views[:, k], scaled[:, k]) for k in range(len(stations)))
            weights = {str(k): w for k, w in zip(stations, fitted, strict=True) if w is not None}
            blends[str(name)] = Blend(mean, std, weights)

        def predict(cube: xr.DataArray) -> xr.DataArray:
            refuse_no_coordinates(cube, "st-mvl")
            prediction = xr.full_like(cube, np.nan)
            distance = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
            for m, name in enumerate(cube["measurement"].to_numpy()):
                if (blend := blends.get(str(name))) is not None:
                    scaled = (cube.to_numpy()[:, :, m] - blend.mean) / blend.std
                    blended = blend.apply(self.views(scaled, distance), cube["location"].to_numpy())
                    prediction[:, :, m] = blend.std * blended + blend.mean
            return prediction

        return predict

    def views(self, scaled: Floats, distance: Floats) -> Floats:
        """The four predictions of every cell from all cells but itself, (t, l, v); NaN where a view
        sees nothing."""
        views = (
            global_spatial_view(scaled, distance, self.power),
            global_temporal_view(scaled, self.smoothing),
            local_spatial_view(scaled, self.window),
            local_temporal_view(scaled, self.window),
        )
        return np.stack(views, axis=-1)


@dataclass(frozen=True, eq=False)
class Blend:
    """How a measurement is scaled, and how its stations weight the views."""

    mean: float
    std: float
    weights: dict[str, Floats]
    """Of the views and an intercept, (v + 1,), by station."""

    def apply(self, views: Floats, stations: NDArray[np.str_]) -> Floats:
        """The blended views (t, l); where a local view sees nothing, the first global one that
        does."""
        mean: Floats = np.mean(list(self.weights.values()) or [EQUAL_WEIGHTS], axis=0)
        weights = np.stack([self.weights.get(str(station), mean) for station in stations])
        blended = np.einsum("tlv, lv -> tl", with_intercept(views), weights)
        simple = np.where(np.isnan(views[..., 0]), views[..., 1], views[..., 0])
        return np.where(np.isnan(blended), simple, blended)


def global_spatial_view(values: Floats, distance: Floats, power: float) -> Floats:
    """Inverse-distance weighting over the other stations, (t, l)."""
    weight, observed = inverse_distance_weights(distance, power), np.isfinite(values)
    return _ratio(np.nan_to_num(values) @ weight.T, observed @ weight.T)


def global_temporal_view(values: Floats, smoothing: float) -> Floats:
    """Exponential smoothing over the other steps of a station, to both sides, (t, l)."""
    decay = 1 - smoothing
    sides = [_smooth_past(values, decay), [x[::-1] for x in _smooth_past(values[::-1], decay)]]
    nearest = np.minimum(*(since for _, _, since in sides))
    nearest = np.where(np.isfinite(nearest), nearest, 0.0)
    # relative to the nearest value: far from all values, every weight would underflow
    scales = [decay ** (since - nearest) for _, _, since in sides]
    total, weight = (
        np.sum([side[number] * scale for side, scale in zip(sides, scales, strict=True)], axis=0)
        for number in (0, 1)
    )
    return _ratio(total, weight)


def _smooth_past(values: Floats, decay: float) -> list[Floats]:
    """For every step the weighted sum of the values before it, the sum of their weights, and the
    steps since the last one (infinite if there is none), all (t, l). Weights are relative to that
    of the last value."""
    sums = [np.zeros_like(values), np.zeros_like(values), np.full_like(values, np.inf)]
    total, weight, since = (array[0].copy() for array in sums)
    for t, row in enumerate(values):
        for array, state in zip(sums, (total, weight, since), strict=True):
            array[t] = state
        observed, decayed = np.isfinite(row), decay**since
        total = np.where(observed, np.nan_to_num(row) + decayed * total, total)
        weight = np.where(observed, 1 + decayed * weight, weight)
        since = np.where(observed, 1.0, since + 1)
    return sums


def local_spatial_view(scaled: Floats, window: int) -> Floats:
    """The other stations at the step, weighted by their similarity in the window, (t, l)."""
    n_steps, n_stations = scaled.shape
    observed, values = np.isfinite(scaled), np.nan_to_num(scaled)
    prediction = np.full_like(values, np.nan)
    half, n_at_once = window // 2, max(1, MAX_PAIRS // n_stations**2)
    itself = np.eye(n_stations, dtype=bool)
    for first in range(0, n_steps, n_at_once):
        low, high = max(0, first - half), min(n_steps, first + n_at_once + half)
        x, known = values[low:high], observed[low:high]
        both = known[:, :, None] & known[:, None]
        squares = np.where(both, (x[:, :, None] - x[:, None]) ** 2, 0.0)
        chunk = slice(first - low, min(n_steps, first + n_at_once) - low)
        # the window without the step itself
        total, count = (
            _moving_sum(pairs, half)[chunk] - pairs[chunk]
            for pairs in (squares, both.astype(np.float64))
        )
        similarity = np.where(itself, 0.0, _similarity(total, count) * known[chunk][:, None])
        prediction[first : first + n_at_once] = _ratio(
            np.einsum("tlk, tk -> tl", similarity, x[chunk]), similarity.sum(axis=2)
        )
    return prediction


def local_temporal_view(scaled: Floats, window: int) -> Floats:
    """The other steps of the window, weighted by the similarity of the other stations, (t, l)."""
    observed, values = np.isfinite(scaled), np.nan_to_num(scaled)
    total, weight = np.zeros_like(values), np.zeros_like(values)
    n_steps = len(values)
    for lag in range(1, min(window // 2, n_steps - 1) + 1):
        late, early = slice(lag, None), slice(0, n_steps - lag)
        for step, other in ((late, early), (early, late)):
            both = observed[step] & observed[other]
            squares = np.where(both, (values[step] - values[other]) ** 2, 0.0)
            # all stations but the one to be predicted
            sums = squares.sum(axis=1, keepdims=True) - squares
            count = both.sum(axis=1, keepdims=True) - both.astype(np.float64)
            similarity = _similarity(sums, count) * observed[other]
            total[step] += similarity * values[other]
            weight[step] += similarity
    return _ratio(total, weight)


def fit_weights(views: Floats, series: Floats) -> Floats | None:
    """Weights of the views (t, v) and an intercept that reproduce a station's values (t,) best,
    (v + 1,); None if all views see none of them."""
    used = np.isfinite(series) & np.isfinite(views).all(axis=1)
    if not used.any():
        return None
    x, y = with_intercept(views[used]), series[used]
    penalty = RIDGE * np.eye(N_VIEWS + 1)
    weights: Floats = np.linalg.solve(x.T @ x + penalty, x.T @ y + penalty @ EQUAL_WEIGHTS)
    return weights


def with_intercept(views: Floats) -> Floats:
    """The views, followed by ones."""
    return np.concatenate([views, np.ones_like(views[..., :1])], axis=-1)


def _similarity(squares: Floats, count: Floats) -> Floats:
    """One over the root mean squared difference; zero where nothing is compared."""
    mean = np.divide(squares, count, out=np.zeros_like(squares), where=count > 0.5)
    return np.where(count > 0.5, 1 / np.sqrt(np.maximum(mean, MIN_MSE)), 0.0)


def _moving_sum(x: Floats, half: int) -> Floats:
    """Sums over `half` steps to either side, along the first axis."""
    cumulative = np.cumsum(np.concatenate([np.zeros_like(x[:1]), x]), axis=0)
    step = np.arange(len(x))
    high, low = np.minimum(step + half + 1, len(x)), np.maximum(step - half, 0)
    sums: Floats = cumulative[high] - cumulative[low]
    return sums


def _ratio(total: Floats, weight: Floats) -> Floats:
    """NaN where nothing has weight."""
    return np.divide(total, weight, out=np.full_like(total, np.nan), where=weight > 0)


def _mean_and_std(values: Floats) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    return float(known.mean()), float(known.std()) or 1.0
