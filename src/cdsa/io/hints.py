"""Hints about what a cube may contain that its file does not say."""

import re
from collections.abc import Iterator

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import has_coordinates
from cdsa.core.times import infer_step, step_option

MISSING_CODES = (-9999.0, -999.0, -999.9, -99.0, 9999.0, 99999.0, 999999.0, -32767.0, -2147483647.0)
"""Numbers that loggers write for a missing value; reported when met, never dropped unasked."""


MAX_DEGREES = 180
"""Of a coordinate."""


def missing_timestamps(steps: int, position: NDArray[np.int64]) -> Iterator[str]:
    """A remark on steps that no stamp stands for."""
    absent = int((np.bincount(position, minlength=steps) == 0).sum())
    if absent:
        yield f"{absent:,} of {steps:,} time stamps were absent and became gaps"


def likely_missing_codes(cube: xr.DataArray) -> Iterator[str]:
    """Remarks on numbers that probably stand for a missing value."""
    for number, name in enumerate(cube["measurement"].to_numpy()):
        values = cube.to_numpy()[:, :, number]
        for code in MISSING_CODES:
            count = int((values == code).sum())
            if count:
                yield (
                    f"{name} is {code:g} in {count:,} cells; if that means missing, give "
                    f"--missing {code:g}"
                )


def staggered_stations(cube: xr.DataArray) -> Iterator[str]:
    """A remark on stations that report at different times, each less often than there are steps."""
    there = cube.notnull().any("measurement").to_numpy()
    apart = [np.diff(np.flatnonzero(own)) for own in there.T if own.sum() > 2]
    if len(apart) < 2 or there.any(axis=1).mean() < there.mean(axis=0).max() * 1.5:
        return
    usual = int(min(np.median(own) for own in apart))
    if usual > 1:
        step = infer_step(cube["time"].to_numpy())
        own = step_option(step * usual)
        yield (
            f"no station reports more often than every {own}, but they do at different times, so "
            f"most steps are gaps; to bring them together, give --step {own}"
        )


def likely_coordinates(cube: xr.DataArray) -> Iterator[str]:
    """Remarks on measurements that never change at a station, as only coordinates do not."""
    if has_coordinates(cube) or cube.sizes["location"] < 2 or cube.sizes["time"] < 3:
        return
    for number, name in enumerate(cube["measurement"].to_numpy()):
        values = cube.to_numpy()[:, :, number]
        known = np.isfinite(values).any(axis=0)
        if known.sum() < 2:
            continue
        low, high = (f(values[:, known], axis=0) for f in (np.nanmin, np.nanmax))
        if (low == high).all() and len(np.unique(low)) > 1 and np.abs(low).max() <= MAX_DEGREES:
            yield (
                f"{name} never changes at a station; if it is a coordinate, give --lat {name} or "
                f"--lon {name}, and if it is no measurement, name the others with --measurements"
            )


DIRECTION_NAMES = re.compile(
    r"(^|[^a-z])dir|direction|bearing|heading|richtung|wind_?dir|^w_?d(ir)?([^a-z]|$)|^dd$"
)
"""Names of what is likely to be a direction, in small letters."""


def likely_directions(cube: xr.DataArray) -> Iterator[str]:
    """Remarks on measurements that look like directions and are not marked as such."""
    for number, name in enumerate(cube["measurement"].to_numpy()):
        values = cube.to_numpy()[:, :, number]
        known = values[np.isfinite(values) & ~np.isin(values, MISSING_CODES)]
        named = DIRECTION_NAMES.search(str(name).lower())
        likely = named and len(known) and known.min() >= 0 and 180 < known.max() <= 360
        if likely and not cube["is_direction"].to_numpy()[number]:
            yield f"{name} looks like a direction in degrees; if it is one, give --direction {name}"
