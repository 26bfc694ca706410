"""When and where is it missing?"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.dates import date2num

from cdsa.core.summary import missing_over_time
from cdsa.pictures.figures import SHADES, plain, time_axis

COLUMNS = 300
"""Stretches of time that are told apart."""
MOST_NAMES = 40
DARKEST = 5
"""Percent missing that are the darkest shade where nothing misses more."""


def draw_gaps(cube: xr.DataArray, ax: Axes, *, axis: str = "location") -> Axes:
    """A row for each station, or measurement, and time to the right: the darker, the more of it is
    missing, up to the largest share there is."""
    missing = 100 * missing_over_time(cube, axis, COLUMNS)
    times = cube["time"].to_numpy()
    step = times[1] - times[0] if len(times) > 1 else np.timedelta64(1, "h")
    low, high = date2num(times[0]), date2num(times[-1] + step)
    names = [plain(name) for name in cube[axis].to_numpy()]
    image = ax.imshow(
        missing,
        aspect="auto",
        interpolation="nearest",
        cmap=SHADES,
        vmin=0,
        vmax=max(DARKEST, float(missing.max())),
        extent=(low, high, len(names) - 0.5, -0.5),
    )
    ax.xaxis_date()
    time_axis(ax)
    every = -(-len(names) // MOST_NAMES)
    ax.set_yticks(range(0, len(names), every), names[::every])
    if len(names) > 12:
        ax.tick_params(axis="y", labelsize=7)
    if len(names) <= MOST_NAMES:  # of more, lines between them would hide them
        for edge in range(1, len(names)):
            ax.axhline(edge - 0.5, color="white", linewidth=0.5)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, axis="y")
    assert ax.figure is not None
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.03, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label("% missing")
    return ax
