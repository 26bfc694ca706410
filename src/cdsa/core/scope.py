"""Which missing cells of a cube are filled, and which are left open.

A station has a lifetime, from its first to its last value. Outside of it nothing went missing, and
neither did a measurement that a station never had. A station without any value is a site without a
sensor: it is in the cube to be filled.

Letters: t time, l location, m measurement.
"""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import LEFT_OPEN
from cdsa.core.gaps import run_lengths
from cdsa.core.times import infer_step, parse_step
from cdsa.errors import ConfigError, TableError

Codes = NDArray[np.int8]

TOO_LONG, OUTSIDE, NEVER = range(1, 1 + len(LEFT_OPEN))
"""Positions in `LEFT_OPEN`, from one."""


def left_open(cube: xr.DataArray, *, extend: bool = False, max_steps: int | None = None) -> Codes:
    """For each cell (t, l, m) zero if it is filled where it is missing, or why it is not: one plus
    the position of the word in `LEFT_OPEN`. With `extend`, all but gaps of more than `max_steps`
    are filled."""
    measured = cube.notnull().to_numpy()
    codes = np.zeros(measured.shape, dtype=np.int8)
    if max_steps is not None:
        codes[run_lengths(~measured) > max_steps] = TOO_LONG
    if not extend:
        alive: NDArray[np.bool_] = np.any(measured, axis=2)  # (t, l)
        begun = np.logical_or.accumulate(alive, axis=0)
        not_ended = np.logical_or.accumulate(alive[::-1], axis=0)[::-1]
        codes[~(begun & not_ended)] = OUTSIDE
        never = ~np.any(measured, axis=0) & np.any(measured, axis=(0, 1))
        codes[:, never] = NEVER
    sites: NDArray[np.bool_] = ~np.any(measured, axis=(0, 2))
    codes[:, sites] = 0
    codes[measured] = 0
    return codes


def steps_in(duration: str, cube: xr.DataArray) -> int:
    """The whole time steps of a cube in a duration such as '6h'."""
    times = cube["time"].to_numpy()
    try:
        span = parse_step(duration)
    except TableError as reason:
        raise ConfigError(
            f"the longest gap to fill is a duration such as 6h or 2d, but found '{duration}'"
        ) from reason
    if len(times) < 2:
        return 1
    step = infer_step(times)
    if isinstance(span, int) != isinstance(step, int):
        raise ConfigError(
            f"the time step is {'months' if isinstance(step, int) else step}, so the longest gap "
            f"to fill is given in the same unit, but found '{duration}'"
        )
    n_steps = int(span // step)
    if n_steps < 1:
        raise ConfigError(
            f"the longest gap to fill has at least one time step ({step}), but found '{duration}'"
        )
    return n_steps
