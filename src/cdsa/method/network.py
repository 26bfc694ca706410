"""A trained network with all that stands between it and a user's cube.

It knows the stations and measurements it was trained on by name. The guess for any other is left
open, to the means that stand behind every method (`guard.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor, nn

from cdsa.cube import AXES, angle_flags, has_places, unit_of
from cdsa.errors import ConfigError, unknown
from cdsa.results import Value
from cdsa.scale import Scaler
from cdsa.times import describe_step, infer_step
from cdsa.train.state import Place
from cdsa.windows import Windows, cut, stitch

CELLS_AT_ONCE = 400_000
DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network, from plain numbers to plain numbers."""

    model: nn.Module
    scaler: Scaler
    locations: NDArray[np.str_]
    measurements: NDArray[np.str_]
    """Names in the network's own order; a direction is two components."""

    past: int
    """Steps of a window; of a forecaster those looked back on."""

    ahead: int
    """Steps that are foreseen; 0 for a network that fills."""

    device: torch.device
    place: Place
    """Where its training ended."""

    errors: tuple[dict[str, Value], ...] = ()
    """Errors on the validation cells, one record per measurement."""

    @property
    def threads(self) -> int:
        """Threads that it computes with on a CPU."""
        return torch.get_num_threads()

    def guess(self, cube: xr.DataArray) -> xr.DataArray:
        """The network's answer for every cell it knows of, NaN elsewhere."""
        known = cube.reindex(location=self.locations, measurement=self.measurements)
        scaled = self.scaler.normalise(known)
        length, there = self.past + self.ahead, cube.sizes["time"]
        before = 0
        if self.ahead:  # so that the last window ends with the cube, and horizons never overlap
            before = length - there if there < length else (length - there) % self.ahead
        windows = cut(_after_empty_steps(scaled, before), length, self.ahead or -(-length // 2))
        told = stitch(self._pieces(windows.to(self.device), before), scaled)
        return self.scaler.denormalise(told).reindex(
            location=cube["location"].to_numpy(), measurement=cube["measurement"].to_numpy()
        )

    @torch.no_grad()
    def foresee(self, cube: xr.DataArray, origins: NDArray[np.int64]) -> list[xr.DataArray]:
        """What each of these steps and those behind it will be, told from the steps before: a cube
        over all origins for every step ahead, in the order of the network's own axes."""
        scaled = self.scaler.normalise(
            cube.reindex(location=self.locations, measurement=self.measurements)
        )
        steps = origins[:, None] + np.arange(-self.past, self.ahead)
        there = (steps >= 0) & (steps < cube.sizes["time"]) & (steps < origins[:, None])
        whole = cut(scaled, 1, 1)
        windows = replace(whole, steps=torch.as_tensor(np.where(there, steps, -1)))
        self.model.eval()
        told = torch.cat(
            [
                self.model(window.values, window.observed)[:, self.past :].cpu()
                for window in windows.to(self.device).batches(self._at_once(windows))
            ]
        ).double()
        axes = {"location": self.locations, "measurement": self.measurements}
        return [
            self.scaler.denormalise(xr.DataArray(told[:, h].numpy(), dims=AXES, coords=axes))
            for h in range(self.ahead)
        ]

    def _at_once(self, windows: Windows) -> int:
        """Windows that fit into memory together."""
        return max(1, CELLS_AT_ONCE // (windows.steps.shape[1] * windows.values[0].numel()))

    @torch.no_grad()
    def _pieces(self, windows: Windows, before: int) -> Iterator[tuple[Tensor, Tensor]]:
        self.model.eval()
        answered = slice(self.past if self.ahead else 0, None)
        for window in windows.batches(self._at_once(windows)):
            guess = self.model(window.values, window.observed)
            steps = torch.where(window.steps < before, -1, window.steps - before)
            yield guess[:, answered], steps[:, answered]


def _after_empty_steps(cube: xr.DataArray, count: int) -> xr.DataArray:
    """The cube behind so many empty steps: a forecaster wants all that it looks back on. A network
    has no use for their dates."""
    if not count:
        return cube
    empty = np.full((count, *cube.shape[1:]), np.nan, dtype=cube.dtype)
    return xr.DataArray(np.concatenate([empty, cube.to_numpy()]), dims=cube.dims)


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


@dataclass(frozen=True, kw_only=True)
class Axes:
    """What a network was trained on, in the user's words."""

    locations: tuple[str, ...]
    places: tuple[tuple[float, float], ...] | None
    """Latitude and longitude of each location."""

    measurements: tuple[str, ...]
    units: tuple[str, ...]
    angles: tuple[bool, ...]
    step: str
    first: str
    last: str

    @classmethod
    def of(cls, cube: xr.DataArray) -> "Axes":
        """The axes of a cube."""
        times = cube["time"].to_numpy()
        placed = (
            zip(cube["lat"].values, cube["lon"].values, strict=True) if has_places(cube) else ()
        )
        return cls(
            locations=tuple(str(name) for name in cube["location"].to_numpy()),
            places=tuple((float(lat), float(lon)) for lat, lon in placed) or None,
            measurements=tuple(str(name) for name in cube["measurement"].to_numpy()),
            units=tuple(unit_of(cube).values()),
            angles=tuple(bool(angle) for angle in angle_flags(cube)),
            step=describe_step(infer_step(times)) if len(times) > 1 else "-",
            first=str(times[0]),
            last=str(times[-1]),
        )

    def refuse(self, cube: xr.DataArray, *, strangers: bool = True) -> None:
        """Say why a network trained on these axes does not fit a cube, if it does not; with
        `strangers`, stations and measurements it was not trained for are a reason."""
        other = Axes.of(cube)
        if other.step != self.step and "-" not in (other.step, self.step):
            raise ConfigError(
                f"the network was trained on steps of {self.step}, but here they are {other.step}. "
                "Train one on data like these"
            )
        for kind, mine, theirs in (
            ("measurement", self.measurements, other.measurements),
            ("station", self.locations, other.locations),
        ):
            strange = [name for name in theirs if name not in mine]
            if strange and strangers:
                raise ConfigError(
                    f"the network was trained for the {kind}s {_some(mine)}, and knows nothing of "
                    f"{_some(strange)}. Train one on these data"
                    + (", or leave others out with --measurements" if kind == "measurement" else "")
                )
        for name, unit, angle in zip(other.measurements, other.units, other.angles, strict=True):
            if name not in self.measurements:
                continue
            number = self.measurements.index(name)
            if unit and self.units[number] and unit != self.units[number]:
                raise ConfigError(
                    f"the network was trained on '{name}' in {self.units[number]}, but here it is "
                    f"in {unit}. Convert it"
                )
            if angle != self.angles[number]:
                words = ("no direction", "a direction in degrees")
                raise ConfigError(
                    f"when the network was trained, '{name}' was {words[self.angles[number]]}, but "
                    f"here it is {words[angle]}. Say so alike with --angle {name}"
                )


def _some(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
