"""The data a network was trained on, and whether other data fit it."""

from dataclasses import dataclass

import xarray as xr

from cdsa.core.cube import has_coordinates, is_direction, units_of
from cdsa.core.times import format_step, infer_step
from cdsa.errors import ConfigError


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
            zip(cube["lat"].values, cube["lon"].values, strict=True)
            if has_coordinates(cube)
            else ()
        )
        return cls(
            locations=tuple(str(name) for name in cube["location"].to_numpy()),
            places=tuple((float(lat), float(lon)) for lat, lon in placed) or None,
            measurements=tuple(str(name) for name in cube["measurement"].to_numpy()),
            units=tuple(units_of(cube).values()),
            angles=tuple(bool(angle) for angle in is_direction(cube)),
            step=format_step(infer_step(times)) if len(times) > 1 else "-",
            first=str(times[0]),
            last=str(times[-1]),
        )

    def refuse(
        self, cube: xr.DataArray, *, stations: bool = True, measurements: bool = True
    ) -> None:
        """Say why a network trained on these axes does not fit a cube, if it does not; stations and
        measurements that it was not trained for are a reason, unless said otherwise."""
        other = Axes.of(cube)
        if other.step != self.step and "-" not in (other.step, self.step):
            raise ConfigError(
                f"the network was trained on steps of {self.step}, but here they are {other.step}. "
                "Train one on data like these"
            )
        for kind, mine, theirs, matters in (
            ("measurement", self.measurements, other.measurements, measurements),
            ("station", self.locations, other.locations, stations),
        ):
            strange = [name for name in theirs if name not in mine]
            if strange and matters:
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
                    f"here it is {words[angle]}. Say so alike with --direction {name}"
                )


def _some(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
