"""A cube while it is being made: cells given twice, what is known of it, what to remark on."""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.circular import on_circle
from cdsa.core.cube import describe, has_places
from cdsa.core.times import infer_step, short_step
from cdsa.sources.options import ReadOptions

CODES = (-9999.0, -999.0, -999.9, -99.0, 9999.0, 99999.0, 999999.0, -32767.0, -2147483647.0)
"""Numbers that loggers write for a missing value; reported when met, never dropped unasked."""
MOST_DEGREES = 180
"""Of a coordinate."""


def join(
    values: NDArray[np.float64],
    cells: tuple[NDArray[np.int64], ...],
    numbers: NDArray[np.float64],
    how: str,
    angle: NDArray[np.bool_],
) -> None:
    """Put numbers into their cells of `values`, those of one cell joined to their first or mean;
    the mean of directions is taken on the circle."""
    keys = np.ravel_multi_index(cells, values.shape)
    turned = np.deg2rad(numbers)
    parts = pd.DataFrame(
        {"n": numbers, "sin": np.sin(turned), "cos": np.cos(turned), "angle": angle}
    )
    groups = parts.groupby(keys)
    if how == "first":
        joined = groups["n"].first()
    else:
        means = groups.mean()
        circle = on_circle(np.rad2deg(np.arctan2(means["sin"], means["cos"])).to_numpy())
        plain = (means["angle"] == 0) | (groups.size() == 1)
        joined = means["n"].where(plain, circle)
    values.ravel()[joined.index.to_numpy()] = joined.to_numpy()


def described(
    cube: xr.DataArray,
    options: ReadOptions,
    units: Mapping[str, str],
    angles: Sequence[str] = (),
) -> xr.DataArray:
    """The cube with what its source says about its measurements, and the user, who has the last
    word."""
    return describe(
        cube,
        units={**units, **dict(options.units)},
        angles=[*angles, *options.angles],
        bounds={name: (low, high) for name, low, high in options.bounds},
    )


def absent_stamps(steps: int, position: NDArray[np.int64]) -> Iterator[str]:
    """A remark on steps that no stamp stands for."""
    absent = int((np.bincount(position, minlength=steps) == 0).sum())
    if absent:
        yield f"{absent:,} of {steps:,} time stamps were absent and became gaps"


def likely_codes(cube: xr.DataArray) -> Iterator[str]:
    """Remarks on numbers that probably stand for a missing value."""
    for number, name in enumerate(cube["measurement"].to_numpy()):
        values = cube.to_numpy()[:, :, number]
        for code in CODES:
            count = int((values == code).sum())
            if count:
                yield (
                    f"{name} is {code:g} in {count:,} cells; if that means missing, give "
                    f"--missing {code:g}"
                )


def out_of_step(cube: xr.DataArray) -> Iterator[str]:
    """A remark on stations that report at different times, each less often than there are steps."""
    there = cube.notnull().any("measurement").to_numpy()
    apart = [np.diff(np.flatnonzero(own)) for own in there.T if own.sum() > 2]
    if len(apart) < 2 or there.any(axis=1).mean() < there.mean(axis=0).max() * 1.5:
        return
    usual = int(min(np.median(own) for own in apart))
    if usual > 1:
        step = infer_step(cube["time"].to_numpy())
        own = short_step(step * usual)
        yield (
            f"no station reports more often than every {own}, but they do at different times, so "
            f"most steps are gaps; to bring them together, give --step {own}"
        )


def likely_places(cube: xr.DataArray) -> Iterator[str]:
    """Remarks on measurements that never change at a station, as only coordinates do not."""
    if has_places(cube) or cube.sizes["location"] < 2 or cube.sizes["time"] < 3:
        return
    for number, name in enumerate(cube["measurement"].to_numpy()):
        values = cube.to_numpy()[:, :, number]
        known = np.isfinite(values).any(axis=0)
        if known.sum() < 2:
            continue
        low, high = (f(values[:, known], axis=0) for f in (np.nanmin, np.nanmax))
        if (low == high).all() and len(np.unique(low)) > 1 and np.abs(low).max() <= MOST_DEGREES:
            yield (
                f"{name} never changes at a station; if it is a coordinate, give --lat {name} or "
                f"--lon {name}, and if it is no measurement, name the others with --measurements"
            )


DIRECTIONS = re.compile(
    r"(^|[^a-z])dir|direction|bearing|heading|richtung|wind_?dir|^w_?d(ir)?([^a-z]|$)|^dd$"
)
"""Names of what is likely to be a direction, in small letters."""


def likely_angles(cube: xr.DataArray) -> Iterator[str]:
    """Remarks on measurements that look like directions and are not marked as such."""
    for number, name in enumerate(cube["measurement"].to_numpy()):
        values = cube.to_numpy()[:, :, number]
        known = values[np.isfinite(values) & ~np.isin(values, CODES)]
        named = DIRECTIONS.search(str(name).lower())
        likely = named and len(known) and known.min() >= 0 and 180 < known.max() <= 360
        if likely and not cube["angle"].to_numpy()[number]:
            yield f"{name} looks like a direction in degrees; if it is one, give --angle {name}"
