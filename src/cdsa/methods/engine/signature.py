"""The signature of the data a network was trained on, and the check that other data match it."""

from collections.abc import Sequence
from dataclasses import dataclass

import xarray as xr

from cdsa.core.cube import has_coordinates, is_direction, units_of
from cdsa.core.times import format_step, infer_step
from cdsa.errors import ConfigError

MAX_NAMES = 8
"""Names listed in a message."""


@dataclass(frozen=True, kw_only=True)
class DataSignature:
    """Stations, measurements and time axis of a training cube, in the user's names."""

    locations: tuple[str, ...]
    coordinates: tuple[tuple[float, float], ...] | None
    measurements: tuple[str, ...]
    units: tuple[str, ...]
    directions: tuple[bool, ...]
    """Whether each measurement is a direction in degrees."""

    step: str
    first: str
    last: str

    @classmethod
    def of(cls, cube: xr.DataArray) -> "DataSignature":
        times = cube["time"].to_numpy()
        coordinates = None
        if has_coordinates(cube):
            pairs = zip(cube["lat"].values, cube["lon"].values, strict=True)
            coordinates = tuple((float(lat), float(lon)) for lat, lon in pairs) or None
        return cls(
            locations=tuple(str(name) for name in cube["location"].to_numpy()),
            coordinates=coordinates,
            measurements=tuple(str(name) for name in cube["measurement"].to_numpy()),
            units=tuple(units_of(cube).values()),
            directions=tuple(bool(flag) for flag in is_direction(cube)),
            step=format_step(infer_step(times)) if len(times) > 1 else "-",
            first=str(times[0]),
            last=str(times[-1]),
        )

    def check(
        self, cube: xr.DataArray, *, stations: bool = True, measurements: bool = True
    ) -> None:
        """Refuse a cube whose time step, units or directions differ, or that has unknown stations
        and measurements where these are checked."""
        other = DataSignature.of(cube)
        if other.step != self.step and "-" not in (other.step, self.step):
            raise ConfigError(
                f"the network was trained on steps of {self.step}, but these data have steps of "
                f"{other.step}. Train one on data like these"
            )
        if measurements:
            _refuse_unknown(
                "measurements",
                self.measurements,
                other.measurements,
                "Train one on these data, or leave others out with --measurements",
            )
        if stations:
            _refuse_unknown("stations", self.locations, other.locations, "Train one on these data")
        for name, unit, direction in zip(
            other.measurements, other.units, other.directions, strict=True
        ):
            if name not in self.measurements:
                continue
            index = self.measurements.index(name)
            if unit and self.units[index] and unit != self.units[index]:
                raise ConfigError(
                    f"the network was trained on '{name}' in {self.units[index]}, but here it is "
                    f"in {unit}. Convert it"
                )
            if direction != self.directions[index]:
                was, now = ("was not", "is") if direction else ("was", "is not")
                raise ConfigError(
                    f"when the network was trained, '{name}' {was} a direction in degrees, but "
                    f"here it {now}. Declare it in both with --direction {name}"
                )


def _refuse_unknown(kind: str, trained: Sequence[str], names: Sequence[str], advice: str) -> None:
    unknown = [name for name in names if name not in trained]
    if unknown:
        raise ConfigError(
            f"the network was trained for the {kind} {_listed(trained)}, and does not know "
            f"{_listed(unknown)}. {advice}"
        )


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
