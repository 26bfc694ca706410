"""The specification of a public dataset."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import xarray as xr

Files = Mapping[str, Sequence[Path]]
"""File pattern -> the paths that match it; optional patterns without a match are left out."""

AXIS_NAMES = ("time steps", "stations", "measurements")
TOLERANCE = 0.0005
"""Tolerance of missing rates, which are published as rounded percentages."""


Loaded = tuple[xr.DataArray, dict[str, xr.DataArray]]
"""A cube and the extra arrays that come with it."""


@dataclass(frozen=True, kw_only=True)
class FileSet:
    name: str
    files: tuple[str, ...]
    """Patterns of required files; * matches anything, case is ignored."""

    load: Callable[[Files], Loaded]
    optional: tuple[str, ...] = ()
    difference: str = ""
    """How the data differ from the published dataset; empty if they are the same."""

    user_data: bool = False
    """Whether the files hold data of the user, which need not match the published dataset."""


@dataclass(frozen=True, kw_only=True)
class Download:
    url: str
    files: tuple[str, ...]
    """The name to save the file under, or the base names of members of a zip archive."""


@dataclass(frozen=True, kw_only=True)
class ExpectedShape:
    """Size and missing rate of a dataset, as published."""

    steps: int
    stations: int
    measurements: int
    missing: float
    extras: Mapping[str, int] = field(default_factory=dict)
    """Number of cells of each extra."""

    def differences(self, cube: xr.DataArray, extras: Mapping[str, xr.DataArray]) -> list[str]:
        expected = (self.steps, self.stations, self.measurements)
        texts = [
            f"{size:,} {name}, not {expected_size:,}"
            for size, name, expected_size in zip(cube.shape, AXIS_NAMES, expected, strict=True)
            if size != expected_size
        ]
        missing = float(cube.isnull().mean())
        if abs(missing - self.missing) > TOLERANCE:
            texts.append(f"{missing:.2%} missing, not {self.missing:.2%}")
        for name, size in self.extras.items():
            n_cells = int(extras[name].sum())
            if n_cells != size:
                texts.append(f"{n_cells:,} cells {name}, not {size:,}")
        return texts


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    name: str
    title: str
    origin: str
    licence: str
    manual_steps: str
    """What to download where, and under which name to save it."""

    missing_codes: str
    """What means missing in the publisher's files."""

    expected: ExpectedShape
    file_sets: tuple[FileSet, ...]
    """In order of preference, those of the publisher first."""

    downloads: tuple[Download, ...] = ()
    extras: Mapping[str, str] = field(default_factory=dict)
    """Extra -> its description."""
