"""What is said of a data set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import xarray as xr

Files = Mapping[str, Sequence[Path]]
"""The files of a form: its pattern -> the paths found, an optional one that is absent left out."""


AXIS_NAMES = {"time": "time steps", "location": "stations", "measurement": "measurements"}


TOLERANCE = 0.0005
"""Published shares are rounded: so much more or less is the same."""


@dataclass(frozen=True, eq=False)
class LoadedDataset:
    """A cube and what comes with it."""

    cube: xr.DataArray
    extras: Mapping[str, xr.DataArray] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """Files that a data set can be read from."""

    name: str
    files: tuple[str, ...]
    """Names that must be there; * stands for anything, capitals do not matter."""

    load: Callable[[Files], LoadedDataset]
    optional: tuple[str, ...] = ()
    difference: str = ""
    """How this is another thing than the data set proper; a stand-in says so here."""

    user_data: bool = False
    """Whether these are a user's own data, which need not be like the published ones."""


@dataclass(frozen=True, kw_only=True)
class Download:
    """A stable public address."""

    url: str
    files: tuple[str, ...]
    """What it brings: the file, or members of a zip archive by their last names."""


@dataclass(frozen=True, kw_only=True)
class ExpectedShape:
    """What a data set must come to."""

    steps: int
    stations: int
    measurements: int
    missing: float
    """Share of cells missing, as published."""

    extras: Mapping[str, int] = field(default_factory=dict)
    """Number of cells of what comes with it."""

    def differences(self, loaded: LoadedDataset) -> list[str]:
        """In which ways what was read is something else."""
        cube = loaded.cube
        wanted = zip(
            AXIS_NAMES.items(), (self.steps, self.stations, self.measurements), strict=True
        )
        told = [
            f"{cube.sizes[axis]:,} {word}, not {count:,}"
            for (axis, word), count in wanted
            if cube.sizes[axis] != count
        ]
        missing = float(cube.isnull().mean())
        if abs(missing - self.missing) > TOLERANCE:
            told.append(f"{missing:.2%} missing, not {self.missing:.2%}")
        counts = {name: int(loaded.extras[name].sum()) for name in self.extras}
        return told + [
            f"{counts[name]:,} cells {name}, not {wanted:,}"
            for name, wanted in self.extras.items()
            if counts[name] != wanted
        ]


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """A public data set."""

    name: str
    title: str
    origin: str
    """Who published it, and with what."""

    licence: str
    manual_steps: str
    """What to download where, and under which name to keep it."""

    missing_codes: str
    """What stands for a missing value in the publisher's files."""

    expected: ExpectedShape
    file_sets: tuple[FileSet, ...]
    downloads: tuple[Download, ...] = ()
    extras: Mapping[str, str] = field(default_factory=dict)
    """What comes with the cube, in words."""
