"""Hints about what a source may contain without saying so."""

import re
import shlex
from collections.abc import Iterator

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import has_coordinates
from cdsa.core.text import format_count
from cdsa.core.times import infer_step, step_option

MISSING_CODES = (-9999.0, -999.0, -999.9, -99.0, 9999.0, 99999.0, 999999.0, -32767.0, -2147483647.0)
"""Numbers that loggers write for a missing value; reported, but never dropped unasked."""

DIRECTION_NAMES = re.compile(
    r"(^|[^a-z])dir|direction|bearing|heading|richtung|wind_?dir|^w_?d(ir)?([^a-z]|$)|^dd$"
)
"""Lower-case names of likely directions."""

MAX_COORDINATE = 180  # degrees


def missing_timestamps(n_steps: int, step_index: NDArray[np.int64]) -> Iterator[str]:
    """A note on steps without a timestamp."""
    if n_missing := n_steps - len(np.unique(step_index)):
        yield f"{n_missing:,} of {n_steps:,} time steps had no timestamp and became gaps"


def likely_missing_codes(cube: xr.DataArray) -> Iterator[str]:
    """Warnings about numbers that probably mean missing."""
    for name, values in _series(cube):
        for code in MISSING_CODES:
            if n_cells := int((values == code).sum()):
                yield (
                    f"{name} is {code:g} in {format_count(n_cells, 'cell')}; if that means "
                    f"missing, give --missing {code:g}"
                )


def likely_directions(cube: xr.DataArray) -> Iterator[str]:
    """Warnings about measurements that look like directions and are not marked as such."""
    for (name, values), marked in zip(_series(cube), cube["is_direction"].to_numpy(), strict=True):
        known = values[np.isfinite(values) & ~np.isin(values, MISSING_CODES)]
        in_range = len(known) and known.min() >= 0 and 180 < known.max() <= 360
        if in_range and not marked and DIRECTION_NAMES.search(name.lower()):
            yield (
                f"{name} looks like a direction in degrees; if it is one, give "
                f"--direction {shlex.quote(name)}"
            )


def likely_coordinates(cube: xr.DataArray) -> Iterator[str]:
    """Warnings about measurements that are constant at each station, as coordinates are."""
    if has_coordinates(cube) or cube.sizes["location"] < 2 or cube.sizes["time"] < 3:
        return
    for name, values in _series(cube):
        known = np.isfinite(values).any(axis=0)
        if known.sum() < 2:
            continue
        low, high = (f(values[:, known], axis=0) for f in (np.nanmin, np.nanmax))
        if (low == high).all() and len(np.unique(low)) > 1 and np.abs(low).max() <= MAX_COORDINATE:
            column = shlex.quote(name)
            yield (
                f"{name} never changes at a station; if it is a coordinate, give --lat {column} or "
                f"--lon {column}, and if it is not a measurement, name the others with "
                "--measurements"
            )


def staggered_stations(cube: xr.DataArray) -> Iterator[str]:
    """A warning about stations that report at different times, each less often than every step."""
    observed = cube.notnull().any("measurement").to_numpy()  # (time, location)
    distances = [np.diff(np.flatnonzero(steps)) for steps in observed.T if steps.sum() > 2]
    if len(distances) < 2 or observed.any(axis=1).mean() < observed.mean(axis=0).max() * 1.5:
        return
    n_steps = int(min(np.median(steps) for steps in distances))
    if n_steps > 1:
        step = step_option(infer_step(cube["time"].to_numpy()) * n_steps)
        yield (
            f"no station reports more often than every {step}, but they do so at different times, "
            f"so most steps are gaps; to align the stations, give --step {step}"
        )


def _series(cube: xr.DataArray) -> Iterator[tuple[str, NDArray[np.floating]]]:
    """Each measurement with its values, (time, location)."""
    for number, name in enumerate(cube["measurement"].to_numpy()):
        yield str(name), cube.to_numpy()[:, :, number]
