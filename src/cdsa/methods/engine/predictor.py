"""A trained network that predicts cubes: align, scale, cut into windows, predict, stitch, unscale.

Directions are components here. A predictor knows the measurements it was trained on by name and,
unless inductive, the stations too. It leaves others NaN, to the means that every method falls back
on (`wrapper.py`).
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from cdsa.core.backbone import Backbone
from cdsa.core.circular import base_names
from cdsa.core.cube import DIMS
from cdsa.core.geo import Edge
from cdsa.core.records import Value
from cdsa.core.scaler import Scaler
from cdsa.errors import ConfigError, unknown
from cdsa.methods.calibration import Calibration
from cdsa.methods.engine.backbone import smooth_cube, smooth_windows, to_tensor
from cdsa.methods.engine.context import ContextBuilder
from cdsa.nn.quantile_head import interpolate_quantiles, split_point_quantiles
from cdsa.nn.types import Network
from cdsa.training.masking import Task
from cdsa.training.parallel import data_parallel
from cdsa.training.state import TrainState
from cdsa.training.windows import Window, Windows, cut_at, stitch

logger = logging.getLogger("cdsa")

MAX_CELLS_PER_BATCH = 100_000
"""Cells of the windows that go through the network together, for few stations."""

FEW_STATIONS = 50

MAX_ABS_SCALED = 1e6
"""Standard deviations from the mean that no measurement reaches."""

ORIGINS_AT_ONCE = 256
"""Forecasts whose windows are in memory together."""

MAX_STATIONS = 2_000
"""Reporting stations that an inductive network can attend to."""

DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained network with its scaler and context; directions are two components."""

    model: Network
    scaler: Scaler
    locations: NDArray[np.str_]
    measurements: NDArray[np.str_]
    """Names in the order of the network."""

    context_length: int
    """Steps of a window before the horizon."""

    horizon: int
    """Steps that are forecast; 0 for a network that fills."""

    device: torch.device
    train_state: TrainState
    errors: tuple[dict[str, Value], ...] = ()
    """Validation errors, one record per measurement."""

    context_builder: ContextBuilder | None = None
    """For a network that uses context."""

    inductive: bool = False
    """Whether it predicts for any stations, after `adapt_to`, not only for those it was trained
    on in their order."""

    known_covariates: tuple[str, ...] = ()
    """Measurements that are known in advance of a forecast."""

    calibration: Calibration | None = None
    """Of its prediction intervals; None if there were too few validation cells."""

    backbone: Backbone | None = None
    """For a network that predicts its residual."""

    forgotten: tuple[str, ...] = ()
    """Stations that the backbone knows but must not: only coordinates, or others of the name."""

    def __post_init__(self) -> None:
        self.model.eval()

    @property
    def n_threads(self) -> int:
        return torch.get_num_threads()

    @property
    def n_parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    @property
    def window(self) -> int:
        return self.context_length + self.horizon

    @property
    def stride(self) -> int:
        """Steps between the windows of a fill."""
        return -(-self.window // 2)

    def adapt_to(self, components: xr.DataArray) -> "Predictor":
        """The predictor for the stations of this cube."""
        if self.context_builder is None or not self.inductive:
            return self
        if not self.context_builder.needs_values(components):
            components = components.isel(time=slice(0, 1))
        scaled = self._scale(self.align(components))
        builder = self.context_builder.adapt_to(scaled, self._variable_ids(scaled))
        if builder.edges:
            new = np.setdiff1d(builder.locations, self.locations)
            warn_isolated_stations(builder.edges, new)
        elif builder.distance_scale is None and not builder.measured.all():
            logger.warning(
                "the network was trained without coordinates, so it cannot distinguish unmonitored "
                "sites: %s",
                ", ".join(builder.locations[~builder.measured][:3]),
            )
        elif builder.distance_scale is not None and not np.isfinite(builder.coordinates).all():
            logger.warning(
                "the network was trained with coordinates, but some stations here are new to it "
                "and have none: it fills without distances, which is less accurate"
            )
        new = scaled["location"].to_numpy()[~self.context_builder.is_known(scaled)]
        return replace(self, context_builder=builder, forgotten=(*self.forgotten, *map(str, new)))

    def without_stations(self, names: NDArray[np.str_]) -> "Predictor":
        """The predictor with nothing known of these stations but their coordinates."""
        if self.context_builder is None or not self.inductive or not len(names):
            return self
        builder = self.context_builder.without_stations(names)
        return replace(self, context_builder=builder, forgotten=(*self.forgotten, *map(str, names)))

    def align(self, components: xr.DataArray) -> xr.DataArray:
        """The cube with the measurements of the network in their order, and with its stations or,
        if it is inductive, the cube's own in the order of their names."""
        if not self.inductive:
            return components.reindex(location=self.locations, measurement=self.measurements)
        present = components["measurement"].to_numpy()
        known = components.sel(measurement=[name for name in self.measurements if name in present])
        return known.sortby("location")  # the order in a file changes no bit of a prediction

    def predict(
        self,
        components: xr.DataArray,
        levels: Sequence[float] = (),
        smoothed: xr.DataArray | None = None,
    ) -> xr.DataArray:
        """The prediction of every cell and its quantiles at these levels along a last axis
        `quantile`; NaN for unknown series. The predictor must be adapted to the cube. Windows
        overlap and stream through the network. What the backbone makes of a longer cube can be
        given as `smoothed`."""
        aligned = self.align(components)
        if not aligned.sizes["measurement"]:
            unknown = xr.full_like(components, np.nan)
            return unknown.expand_dims({"quantile": 1 + len(levels)}, axis=-1)
        prediction = stitch(self._predict_windows(aligned, levels, smoothed), aligned, tapered=True)
        axes = {name: components[name].to_numpy() for name in ("location", "measurement")}
        return self.scaler.select(aligned).denormalise(prediction).reindex(axes)

    @torch.no_grad()
    def forecast_from(
        self, components: xr.DataArray, origins: NDArray[np.int64], levels: Sequence[float] = ()
    ) -> list[xr.DataArray]:
        """Forecasts of the horizon from each of these steps, given the steps before it: for every
        step of the horizon a cube over all origins with the measurements and stations of the
        network and a last axis `quantile`, the point prediction first. The predictor must be
        adapted to the cube."""
        aligned = self.align(components)
        known = np.isin(base_names(aligned["measurement"].to_numpy()), self.known_covariates)
        task, predictions = Task(horizon=self.horizon, known=torch.as_tensor(known)), []
        for start in range(0, len(origins), ORIGINS_AT_ONCE):
            starts = origins[start : start + ORIGINS_AT_ONCE] - self.context_length
            windows = self._windows_at(aligned, starts, self.window, hidden_horizon=self.horizon)
            for batch in windows.batches(self._batch_size(windows)):
                visible = batch.observed & ~task.future(batch.observed)
                seen = replace(batch, values=batch.values.where(visible, 0.0), observed=visible)
                prediction = self._predict_batch(seen, levels)
                predictions.append(prediction[:, self.context_length :].cpu())
        forecast = torch.cat(predictions).double()  # (origins, horizon, l, m, 1 + q)
        axes = {name: aligned[name].to_numpy() for name in ("location", "measurement")}
        scaler, dims = self.scaler.select(aligned), (*DIMS, "quantile")
        return [
            scaler.denormalise(xr.DataArray(step.numpy(), dims=dims, coords=axes))
            for step in forecast.unbind(1)
        ]

    def windows(self, aligned: xr.DataArray, smoothed: xr.DataArray | None = None) -> Windows:
        """The windows that predict an aligned cube. Those of a fill overlap by half. Those of a
        forecast have adjacent horizons and the last one ends with the cube, so the first may start
        before it."""
        n_steps, length = aligned.sizes["time"], self.window
        if self.horizon:
            last = n_steps - length
            before = -last if last < 0 else -last % self.horizon
            starts = np.arange(-before, last + 1, self.horizon)
        else:
            if self.inductive:  # needs no padding at the end of a short cube
                length = min(length, n_steps)
            last = max(0, n_steps - length)
            starts = np.append(np.arange(0, last, self.stride), last)
        return self._windows_at(aligned, starts, length, smoothed)

    def unobserved(self, cube: xr.DataArray) -> NDArray[np.bool_]:
        """Stations of a cube of which only the coordinates are known, (l,)."""
        if self.context_builder is None or not self.inductive:
            return np.zeros(cube.sizes["location"], dtype=bool)
        measured = self.context_builder.locations[self.context_builder.measured]
        unobserved: NDArray[np.bool_] = ~cube["location"].isin(measured).to_numpy()
        return unobserved

    def out_of_sample(self, cube: xr.DataArray) -> NDArray[np.bool_]:
        """Steps of a cube outside the training data, (t,). None of a forecaster's, which was
        validated on such steps."""
        if self.context_builder is None or self.horizon:
            return np.zeros(cube.sizes["time"], dtype=bool)
        return self.context_builder.out_of_sample(cube["time"].to_numpy())

    def refuse_implausible(self, components: xr.DataArray) -> None:
        """Refuse values far outside the range of the training data."""
        aligned = self.align(components)
        scaler = self.scaler.select(aligned)
        outside = np.abs(scaler.normalise(aligned).to_numpy()) > MAX_ABS_SCALED
        if outside.any():
            t, l, m = np.argwhere(outside)[0]  # noqa: E741
            raise ConfigError(
                f"the network was trained on {aligned['measurement'].to_numpy()[m]} around "
                f"{float(scaler.mean[m]):.4g}, but at {aligned['location'].to_numpy()[l]}, "
                f"{aligned['time'].to_numpy()[t]} it is {float(aligned[t, l, m]):.4g}. Remove such "
                "values, or convert the unit"
            )

    @torch.no_grad()
    def _predict_windows(
        self, aligned: xr.DataArray, levels: Sequence[float], smoothed: xr.DataArray | None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Predictions of batches of windows and the steps they are for."""
        predicted = slice(self.context_length if self.horizon else 0, None)
        windows = self.windows(aligned, smoothed)
        for batch in windows.batches(self._batch_size(windows)):
            yield self._predict_batch(batch, levels)[:, predicted], batch.steps[:, predicted]

    def _predict_batch(self, batch: Window, levels: Sequence[float]) -> Tensor:
        """The prediction and its quantiles at these levels, (b, t, l, m, 1 + q)."""
        point, quantiles = split_point_quantiles(
            data_parallel(self.model, batch.values, batch.observed, batch.context)
        )
        if not levels:
            return point.unsqueeze(-1)
        if quantiles is None:  # an interval of a standard deviation, for calibration to scale
            side = torch.tensor([float(np.sign(level - 0.5)) for level in levels])
            return point.unsqueeze(-1) + torch.cat([torch.zeros(1), side]).to(point)
        at_levels = interpolate_quantiles(quantiles, torch.tensor(levels))
        return torch.cat([point.unsqueeze(-1), at_levels], dim=-1)

    def smooth(self, components: xr.DataArray, steps: slice = slice(None)) -> xr.DataArray | None:
        """What the record says of some steps of a cube, for a network that fills with the residual
        of the backbone, which sees these steps; for a forecast, it depends on the window."""
        if self.backbone is None or self.horizon:
            return None
        aligned = self.align(components)
        smoothed = smooth_cube(self.backbone, aligned, self.scaler, steps)
        return smoothed.where(~smoothed["location"].isin(list(self.forgotten)))

    def _windows_at(
        self,
        aligned: xr.DataArray,
        starts: NDArray[np.int64],
        length: int,
        smoothed: xr.DataArray | None = None,
        hidden_horizon: int = 0,
    ) -> Windows:
        """Windows that start at these steps, which may lie before the first. The backbone does not
        see so many of their last steps."""
        scaled, context = self._scale(aligned), None
        if self.context_builder is not None:
            context = self.context_builder.build(scaled, self._variable_ids(scaled))
            smoothed = self.smooth(aligned) if smoothed is None else smoothed
            if smoothed is not None:
                axes = {name: aligned[name].to_numpy() for name in DIMS}
                context = replace(context, record=to_tensor(smoothed.sel(axes)))
        windows = cut_at(scaled, starts, length, context)
        if self.backbone is not None and self.horizon:
            of_windows = smooth_windows(
                self.backbone,
                aligned,
                self.scaler,
                windows.steps.numpy(),
                hidden_horizon,
                self.known_covariates,
            )
            forgotten = aligned["location"].isin(list(self.forgotten)).to_numpy()
            of_windows[:, :, torch.as_tensor(forgotten)] = torch.nan
            windows = replace(windows, smoothed=of_windows)
        return windows.to(self.device)

    def _batch_size(self, windows: Windows) -> int:
        """Windows that fit into memory together."""
        n_cells = windows.steps.shape[1] * windows.values[0].numel()
        if self.inductive:  # every cell attends to all stations
            n_cells *= max(1, windows.values.shape[1] // FEW_STATIONS)
        return max(1, MAX_CELLS_PER_BATCH // n_cells)

    def _scale(self, aligned: xr.DataArray) -> xr.DataArray:
        return self.scaler.select(aligned).normalise(aligned)

    def _variable_ids(self, aligned: xr.DataArray) -> NDArray[np.int64]:
        """Positions of the cube's measurements among the network's."""
        return np.flatnonzero(np.isin(self.measurements, aligned["measurement"].to_numpy()))


def warn_isolated_stations(edges: Sequence[Edge], names: NDArray[np.str_]) -> None:
    """Warn of the stations for which a graph given by the user has no edge."""
    joined = [end for source, target, _ in edges if source != target for end in (source, target)]
    isolated = names[~np.isin(names, joined)]
    if len(isolated):
        more = f" and {len(isolated) - 3} more" if len(isolated) > 3 else ""
        logger.warning(
            "the graph has no edge with %s, so no other station helps to predict it",
            ", ".join(isolated[:3]) + more,
        )


def refuse_too_many_stations(n_stations: int) -> None:
    if n_stations > MAX_STATIONS:
        raise ConfigError(
            f"every station attends to every other, so at most {MAX_STATIONS:,} may report, but "
            f"{n_stations:,} do. Fill them region by region"
        )


def pick_device(name: str) -> torch.device:
    """The device of this name; 'auto' is the fastest available."""
    if name not in DEVICES:
        raise ConfigError(unknown("device", name, DEVICES))
    available = {"cuda": torch.cuda.is_available(), "mps": torch.mps.is_available(), "cpu": True}
    names = [device for device, is_available in available.items() if is_available]
    if name != "auto" and name not in names:
        raise ConfigError(f"there is no device '{name}' here; available: {', '.join(names)}")
    return torch.device(names[0] if name == "auto" else name)
