"""What is said of a data set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import xarray as xr

Files = Mapping[str, Sequence[Path]]
"""The files of a form: its pattern -> the paths found, an optional one that is absent left out."""


WORDS = {"time": "time steps", "location": "stations", "measurement": "measurements"}


TOLERANCE = 0.0005
"""Published shares are rounded: so much more or less is the same."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """A cube and what comes with it."""

    cube: xr.DataArray
    beside: Mapping[str, xr.DataArray] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Form:
    """Files that a data set can be read from."""

    name: str
    files: tuple[str, ...]
    """Names that must be there; * stands for anything, capitals do not matter."""

    load: Callable[[Files], Loaded]
    optional: tuple[str, ...] = ()
    differs: str = ""
    """How this is another thing than the data set proper; a stand-in says so here."""

    own: bool = False
    """Whether these are a user's own data, which need not be like the published ones."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """A stable public address."""

    url: str
    files: tuple[str, ...]
    """What it brings: the file, or members of a zip archive by their last names."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a data set must come to."""

    steps: int
    stations: int
    measurements: int
    missing: float
    """Share of cells missing, as published."""

    beside: Mapping[str, int] = field(default_factory=dict)
    """Number of cells of what comes with it."""

    def remarks(self, loaded: Loaded) -> list[str]:
        """In which ways what was read is something else."""
        cube = loaded.cube
        wanted = zip(WORDS.items(), (self.steps, self.stations, self.measurements), strict=True)
        told = [
            f"{cube.sizes[axis]:,} {word}, not {count:,}"
            for (axis, word), count in wanted
            if cube.sizes[axis] != count
        ]
        missing = float(cube.isnull().mean())
        if abs(missing - self.missing) > TOLERANCE:
            told.append(f"{missing:.2%} missing, not {self.missing:.2%}")
        counts = {name: int(loaded.beside[name].sum()) for name in self.beside}
        return told + [
            f"{counts[name]:,} cells {name}, not {wanted:,}"
            for name, wanted in self.beside.items()
            if counts[name] != wanted
        ]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A public data set."""

    name: str
    title: str
    origin: str
    """Who published it, and with what."""

    licence: str
    by_hand: str
    """What to download where, and under which name to keep it."""

    missing_codes: str
    """What stands for a missing value in the publisher's files."""

    facts: Facts
    forms: tuple[Form, ...]
    addresses: tuple[Address, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    """What comes with the cube, in words."""
