"""A trained network with all that stands between it and a user's cube.

It knows the measurements it was trained on by name and, unless it fits any, the stations too. The
guess for others is left open, to the means that stand behind every method (`guard.py`).
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor, nn

from cdsa.core.circular import base_names, to_components
from cdsa.core.cube import DIMS
from cdsa.core.records import Value
from cdsa.core.scaler import Scaler
from cdsa.errors import ConfigError, unknown
from cdsa.methods.calibration import Calibration
from cdsa.methods.engine.context import ContextBuilder
from cdsa.nn.graph import Edge
from cdsa.nn.quantile_head import interpolate_quantiles, split_point_quantiles
from cdsa.training.loop import predict as reply_of
from cdsa.training.state import TrainState
from cdsa.training.windows import Window, Windows, cut, stitch

logger = logging.getLogger("cdsa")


MAX_CELLS_PER_BATCH = 100_000
"""Of windows that go through the network together, as long as there are a few stations."""


FEW_STATIONS = 50


MAX_ABS_SCALED = 1e6
"""Standard deviations from the mean that no measurement is."""


MAX_STATIONS = 2_000


DEVICES = ("auto", "cpu", "cuda", "mps")


def warn_isolated_stations(edges: Sequence[Edge], names: NDArray[np.str_]) -> None:
    """Say which of these stations a graph that was given has no edge for."""
    ends = [end for source, target, _ in edges if source != target for end in (source, target)]
    lonely = names[~np.isin(names, ends)]
    if len(lonely):
        some = ", ".join(lonely[:3]) + (f" and {len(lonely) - 3} more" if len(lonely) > 3 else "")
        logger.warning("the graph has no edge with %s: no other station tells of it", some)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained network, from plain numbers to plain numbers."""

    model: nn.Module
    scaler: Scaler
    locations: NDArray[np.str_]
    measurements: NDArray[np.str_]
    """Names in the network's own order; a direction is two components."""

    context_length: int
    """Steps of a window; of a forecaster those looked back on."""

    horizon: int
    """Steps that are foreseen; 0 for a network that fills."""

    device: torch.device
    train_state: TrainState
    """Where its training ended."""

    errors: tuple[dict[str, Value], ...] = ()
    """Errors on the validation cells, one record per measurement."""

    context_builder: ContextBuilder | None = None
    """What places a cube, for a network that is told where and when its cells are."""

    inductive: bool = False
    """Whether it serves any stations, which it is placed for; others know those they were trained
    on, in their order."""

    known_covariates: tuple[str, ...] = ()
    """Measurements that are known in advance when it foresees."""

    calibration: Calibration | None = None
    """What makes its intervals honest; None if there was too little to learn that from."""

    @property
    def n_threads(self) -> int:
        """Threads that it computes with on a CPU."""
        return torch.get_num_threads()

    @property
    def n_parameters(self) -> int:
        """Numbers that were learnt."""
        return sum(part.numel() for part in self.model.parameters() if part.requires_grad)

    @property
    def window(self) -> int:
        """Steps of a window."""
        return self.context_length + self.horizon

    def adapt_to(self, cube: xr.DataArray) -> "Predictor":
        """The same network for the stations of this cube."""
        if self.context_builder is None or not self.inductive:
            return self
        if not self.context_builder.needs_values(cube):
            cube = cube.isel(time=slice(0, 1))
        own = self.align(to_components(cube))
        scaled = self.scaler.select(own).normalise(own)
        frame = self.context_builder.adapt_to(scaled, self._variable_ids(own))
        if frame.edges:
            strange = np.setdiff1d(frame.locations, self.locations)
            warn_isolated_stations(frame.edges, strange)
        elif frame.distance_scale is None and not frame.measured.all():
            logger.warning(
                "the network was trained without coordinates, so places without a sensor are all "
                "the same to it: %s",
                ", ".join(frame.locations[~frame.measured][:3]),
            )
        elif frame.distance_scale is not None and not np.isfinite(frame.coordinates).all():
            logger.warning(
                "the network was trained with coordinates, but there are stations here that it "
                "does not know and that have none: it fills without distances, and is less exact"
            )
        return replace(self, context_builder=frame)

    def predict(self, cube: xr.DataArray, levels: Sequence[float] = ()) -> list[xr.DataArray]:
        """The guess for every cell the network knows of, NaN elsewhere, and its quantiles at these
        levels. The network must be placed for the cube."""
        told = self.predict_quantiles(cube, levels)
        return [told.isel(quantile=q) for q in range(1 + len(levels))]

    def predict_quantiles(self, cube: xr.DataArray, levels: Sequence[float]) -> xr.DataArray:
        """The same as one cube with the axis `quantile` behind the others, the guess first. Windows
        overlap and stream through the network; only their results are kept."""
        own = self.align(cube)
        if not own.sizes["measurement"]:
            return xr.full_like(cube, np.nan).expand_dims({"quantile": 1 + len(levels)}, axis=-1)
        told = stitch(self._predict_windows(own, levels), own, tapered=True)
        told = told if levels else told.expand_dims("quantile", axis=-1)
        axes = {name: cube[name].to_numpy() for name in ("location", "measurement")}
        return self.scaler.select(own).denormalise(told).reindex(axes)

    @torch.no_grad()
    def forecast_from(
        self, cube: xr.DataArray, origins: NDArray[np.int64], levels: Sequence[float] = ()
    ) -> list[list[xr.DataArray]]:
        """What each of these steps and those behind it will be, told from the steps before: for
        every step ahead a cube over all origins with the guess, and one for each quantile; in the
        order of the network's own axes. The network must be placed for the cube."""
        own = self.align(cube)
        windows = self._cut_windows(own, origins - self.context_length, self.window)
        known = np.isin(base_names(own["measurement"].to_numpy()), self.known_covariates)
        windows = replace(
            windows,
            until=torch.as_tensor(origins, device=self.device),
            known=torch.as_tensor(known, device=self.device),
        )
        batches = (
            self.predict_window(window, levels)
            for window in windows.batches(self._batch_size(windows))
        )
        told = torch.cat([guess[:, self.context_length :].cpu() for guess in batches]).double()
        told = told if levels else told.unsqueeze(-1)  # (origins, steps ahead, l, m, 1 + q)
        axes = {name: own[name].to_numpy() for name in ("location", "measurement")}
        scaler = self.scaler.select(own)
        return [
            [
                scaler.denormalise(xr.DataArray(part.numpy(), dims=DIMS, coords=axes))
                for part in told[:, h].unbind(-1)
            ]
            for h in range(self.horizon)
        ]

    def align(self, cube: xr.DataArray) -> xr.DataArray:
        """The cube as the network wants it: of the stations it was trained on, or of any."""
        if not self.inductive:
            return cube.reindex(location=self.locations, measurement=self.measurements)
        there = cube["measurement"].to_numpy()
        known = cube.sel(measurement=[name for name in self.measurements if name in there])
        return known.sortby("location")  # so that the order in a file changes no bit of an answer

    def without_stations(self, names: NDArray[np.str_]) -> "Predictor":
        """The same with nothing known of the stations of these names."""
        if self.context_builder is None or not self.inductive or not len(names):
            return self
        return replace(self, context_builder=self.context_builder.without_stations(names))

    def unobserved(self, cube: xr.DataArray) -> NDArray[np.bool_]:
        """Stations of a cube that the network was placed for of which nothing is known but where
        they are, (l,)."""
        if self.context_builder is None or not self.inductive:
            return np.zeros(cube.sizes["location"], dtype=bool)
        measured = self.context_builder.locations[self.context_builder.measured]
        silent: NDArray[np.bool_] = ~cube["location"].isin(measured).to_numpy()
        return silent

    def refuse_absurd(self, cube: xr.DataArray) -> None:
        """Refuse values that are so far from all that was learnt from that nothing can be told."""
        own = self.align(to_components(cube))
        far = np.abs(self.scaler.select(own).normalise(own).to_numpy()) > MAX_ABS_SCALED
        if far.any():
            t, l, m = np.argwhere(far)[0]  # noqa: E741
            raise ConfigError(
                f"the network knows {own['measurement'].to_numpy()[m]} about "
                f"{float(self.scaler.select(own).mean[m]):.4g}, but at "
                f"{own['location'].to_numpy()[l]}, {own['time'].to_numpy()[t]} it is "
                f"{float(own[t, l, m]):.4g}. Take such values out, or convert the unit"
            )

    def out_of_sample(self, cube: xr.DataArray) -> NDArray[np.bool_]:
        """Steps of a cube that lie in no time that was learnt from, (t,); a forecaster's do, and it
        was examined on such."""
        if self.context_builder is None or self.horizon:
            return np.zeros(cube.sizes["time"], dtype=bool)
        return self.context_builder.out_of_sample(cube["time"].to_numpy())

    def _variable_ids(self, own: xr.DataArray) -> NDArray[np.int64]:
        """The numbers that the cube's measurements have among the network's."""
        return np.flatnonzero(np.isin(self.measurements, own["measurement"].to_numpy()))

    def _cut_windows(self, own: xr.DataArray, starts: NDArray[np.int64], length: int) -> Windows:
        """Windows that start at these steps, which may lie before the first."""
        scaled = self.scaler.select(own).normalise(own)
        where = (
            None
            if self.context_builder is None
            else self.context_builder.build(scaled, self._variable_ids(own))
        )
        steps = starts[:, None] + np.arange(length)
        there = (steps >= 0) & (steps < own.sizes["time"])
        windows = cut(scaled, 1, 1, context=where)
        return replace(windows, steps=torch.as_tensor(np.where(there, steps, -1))).to(self.device)

    def _batch_size(self, windows: Windows) -> int:
        """Windows that fit into memory together."""
        cells = windows.steps.shape[1] * windows.values[0].numel()
        if self.inductive:  # every cell is weighed against all stations
            cells *= max(1, windows.values.shape[1] // FEW_STATIONS)
        return max(1, MAX_CELLS_PER_BATCH // cells)

    def predict_window(self, window: Window, levels: Sequence[float]) -> Tensor:
        """The guess (b, t, l, m); with levels, it and those quantiles (b, t, l, m, 1 + q)."""
        self.model.eval()
        guess, quantiles = split_point_quantiles(reply_of(self.model, window, window.observed))
        if not levels:
            return guess
        if quantiles is None:  # its own interval is a standard deviation, for calibration to scale
            side = torch.tensor([float(np.sign(level - 0.5)) for level in levels])
            return guess.unsqueeze(-1) + torch.cat([torch.zeros(1), side]).to(guess)
        between = interpolate_quantiles(quantiles, torch.tensor(levels))
        return torch.cat([guess.unsqueeze(-1), between], dim=-1)

    def windows(self, own: xr.DataArray) -> Windows:
        """The windows that a cube is filled by, which is as the network wants it."""
        there = own.sizes["time"]
        # a network that fits any size needs no empty steps behind a short cube
        short = self.inductive and not self.horizon
        length = min(self.window, there) if short else self.window
        return self._cut_windows(own, self._window_starts(there, length), length)

    @torch.no_grad()
    def _predict_windows(
        self, own: xr.DataArray, levels: Sequence[float]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Answers and the steps they are for."""
        answered = slice(self.context_length if self.horizon else 0, None)
        windows = self.windows(own)
        for window in windows.batches(self._batch_size(windows)):
            yield self.predict_window(window, levels)[:, answered], window.steps[:, answered]

    def _window_starts(self, there: int, length: int) -> NDArray[np.int64]:
        """First steps of the windows that cover a cube. A filler's overlap by half; a forecaster's
        last window ends with the cube, and horizons touch, so there may be steps before the first.
        """
        last = there - length
        if self.horizon:
            before = -last if last < 0 else -last % self.horizon
            return np.arange(-before, last + 1, self.horizon)
        last = max(0, last)
        return np.append(np.arange(0, last, self.stride), last)

    @property
    def stride(self) -> int:
        """Steps from one window to the next when it fills."""
        return -(-self.window // 2)


def refuse_too_many_stations(stations: int) -> None:
    """Refuse more stations than a network that fits any can look at."""
    if stations > MAX_STATIONS:
        raise ConfigError(
            f"every station looks at every other, so {MAX_STATIONS:,} of them can report, but "
            f"{stations:,} do. Fill them region by region"
        )


def pick_device(name: str) -> torch.device:
    """The device of this name; 'auto' takes the fastest that is there."""
    if name not in DEVICES:
        raise ConfigError(unknown("device", name, DEVICES))
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.mps.is_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if there[kind]))
    if not there[name]:
        found = ", ".join(kind for kind, is_there in there.items() if is_there)
        raise ConfigError(f"there is no device '{name}' here; there is: {found}")
    return torch.device(name)
