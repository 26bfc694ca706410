"""A state space model of all series at once, whose Kalman smoother fills gaps and forecasts.

Letters: t time, b chunks of time, l location, m measurement.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.backbone import Backbone, choose_transformations
from cdsa.core.circular import EAST, NORTH, from_components, wrap_degrees
from cdsa.core.cube import DIMS, has_coordinates, is_direction
from cdsa.core.geo import great_circle
from cdsa.core.prepare import Cube, PreparedCube, prepare
from cdsa.core.sites import SiteKriging
from cdsa.core.standardise import from_log, to_log
from cdsa.errors import ConfigError
from cdsa.methods.base import Bounds, Filler, Method
from cdsa.methods.wrapper import Finaliser, means_of
from cdsa.training.callbacks import RunContext


@dataclass(frozen=True, eq=False)
class KalmanFiller(Finaliser, Filler):
    """Fills with smoothed means; intervals from smoothed variances."""

    gives_intervals: ClassVar[bool] = True

    backbone: Backbone

    def fill(self, cube: Cube) -> xr.DataArray:
        return self.fill_intervals(cube, ())[0]

    def fill_intervals(
        self, cube: Cube, levels: Sequence[float]
    ) -> tuple[xr.DataArray, list[Bounds]]:
        data = prepare(cube)
        widths = [NormalDist().inv_cdf((1 + level) / 2) for level in levels]
        quantiles = [0.0, *(sign * width for width in widths for sign in (-1, 1))]
        aligned = self.backbone.align(data.components)
        values, times = aligned.to_numpy()[:, None], aligned["time"].to_numpy()[:, None]
        mean, std, _ = self.backbone.predict(values, times)
        predictions = [
            aligned.copy(data=self.backbone.values(mean + quantile * std, times)[:, 0])
            .reindex_like(data.components)
            .transpose(*DIMS)
            for quantile in quantiles
        ]
        point, *sides = self._with_sites(data.components, predictions, quantiles)
        bounds = [
            self._bounds(data, point, lower, upper)
            for lower, upper in zip(sides[::2], sides[1::2], strict=True)
        ]
        return self.finalise(data, point), bounds

    def _with_sites(
        self, components: xr.DataArray, predictions: list[xr.DataArray], quantiles: Sequence[float]
    ) -> list[xr.DataArray]:
        """The predictions, with those of stations without a model kriged from the others, after a
        logarithm where there is one. The difference to their own values is interpolated."""
        without = predictions[0].isnull().all(("time", "measurement")).to_numpy()
        if not without.any() or without.all() or not has_coordinates(components):
            return predictions
        offset = self.backbone.log_offsets(components["measurement"].to_numpy())
        kilometres = great_circle(*(components[name].to_numpy() for name in ("lat", "lon")))
        apart, to_sites = kilometres[np.ix_(~without, ~without)], kilometres[without][:, ~without]
        measured = to_log(components.to_numpy(), offset)
        fields = [to_log(prediction.to_numpy(), offset) for prediction in predictions]
        complete = np.where(np.isfinite(measured), measured, fields[0])
        for m in range(components.sizes["measurement"]):
            field = complete[:, ~without, m]
            has_model = np.isfinite(field).all(axis=0)
            if has_model.sum() < 2:
                continue
            between = apart[np.ix_(has_model, has_model)]
            kriging = SiteKriging.fit(field[:, has_model], between)
            sites = field[:, has_model] @ kriging.weights(between, to_sites[:, has_model]).T
            difference = pd.DataFrame(measured[:, without, m] - sites)
            sites += difference.interpolate(limit_direction="both").fillna(0.0).to_numpy()
            for quantile, values in zip(quantiles, fields, strict=True):
                values[:, without, m] = sites + quantile * kriging.error
        return [components.copy(data=from_log(values, offset)) for values in fields]

    @staticmethod
    def _bounds(
        data: PreparedCube, point: xr.DataArray, lower: xr.DataArray, upper: xr.DataArray
    ) -> Bounds:
        """Bounds in the units of the cube. Those of a direction are as far from it as the bounds of
        its components, across it, are seen from the centre."""
        filled, low, high = (
            from_components(side, data.cube).to_numpy() for side in (point, lower, upper)
        )
        for m in np.flatnonzero(is_direction(data.cube)):
            name = data.cube["measurement"].to_numpy()[m]
            names = [f"{name}{EAST}", f"{name}{NORTH}"]
            east, north = np.moveaxis(point.sel(measurement=names).to_numpy(), -1, 0)
            widths = (upper - point).sel(measurement=names).to_numpy()
            radius = np.maximum(np.hypot(east, north), 1e-9)
            across = np.hypot(widths[..., 0] * north, widths[..., 1] * east) / radius
            turn = np.minimum(np.rad2deg(across / radius), 180.0)
            low[..., m] = wrap_degrees(filled[..., m] - turn)
            high[..., m] = wrap_degrees(filled[..., m] + turn)
        low, high = data.domain.fit_bounds(low, high)
        return data.cube.copy(data=low), data.cube.copy(data=high)


@dataclass(frozen=True, kw_only=True)
class Kalman(Method):
    """A linear-Gaussian state space model of all series, fitted by EM; gaps are filled by its
    Kalman smoother.

    Each series is related to every other one at the same step and at the step before. The exact
    smoothed variances give the prediction intervals, and a forecast decays to the climatology.

    Notes
    -----
    Values are transformed first: a logarithm of measurements that are never negative and skewed,
    and a daily cycle, each unless hidden cells are predicted better without it. EM starts from the
    covariance of one moment with A = rho I, and its first iteration takes every step for itself.
    Covariances between series are shrunk as far as those of one half of the table do not hold in
    the other.
    The noise r is a small share of what the other series leave unexplained and is not updated.
    Above 250 series, stations are modelled in regions. Stations that it was not fitted on are
    kriged, step by step, from the filled series of the others; without coordinates they get means.

    References
    ----------
    Shumway, R. H., & Stoffer, D. S. (1982). An approach to time series smoothing and forecasting
    using the EM algorithm. Journal of Time Series Analysis 3(4).

    Durbin, J., & Koopman, S. J. (2012). Time series analysis by state space methods. Oxford
    University Press.
    """

    name: ClassVar[str] = "kalman"

    n_iterations: int | None = None
    """Iterations of EM: 0 keeps the start, with one coefficient of auto-regression for all; chosen
    by the number of series if not given."""

    def __post_init__(self) -> None:
        if self.n_iterations is not None and self.n_iterations < 0:
            raise ConfigError(f"n_iterations must not be negative, but found {self.n_iterations}")

    def fit(self, cube: Cube, run: RunContext | None = None) -> KalmanFiller:
        data = prepare(cube)
        components = data.components.sortby(["location", "measurement"])
        transformations = choose_transformations(components)
        backbone = Backbone.fit(components, transformations, self.n_iterations)
        return KalmanFiller(*means_of(data), backbone)
