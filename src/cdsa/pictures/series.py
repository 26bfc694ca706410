"""A station's series: what was measured, what was filled, and how sure that is."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from cdsa.core.cube import angle_flags, unit_of
from cdsa.core.gaps import run_lengths
from cdsa.core.text import interval_of
from cdsa.pictures.figures import BLACK, BLUE, RED, plain, plainer, time_axis

LONE = 3
"""Values with a gap on both sides get a dot, which a line would not show."""
MOST_DOTS = 600


def draw_series(
    result: xr.Dataset,
    ax: Axes,
    *,
    location: str,
    measurement: str,
    truth: xr.DataArray | None = None,
    level: float | None = None,
) -> Axes:
    """One series of what `cdsa.fill` gives: measured values as a line, filled ones in a colour of
    their own with the band of their interval, whose `level` the legend tells, and hidden `truth`
    as dots."""
    one = result.sel(location=location, measurement=measurement)
    times, value = one["time"].to_numpy(), one["value"].to_numpy().astype(float)
    measured = (one["source"] == "observed").to_numpy()
    filled = ~measured & np.isfinite(value)
    ax.plot(times, np.where(measured, value, np.nan), color=BLACK, linewidth=1, label="measured")
    alone = measured & (run_lengths(measured[:, None, None])[:, 0, 0] < LONE)
    if alone.sum() <= MOST_DOTS:
        ax.plot(times[alone], value[alone], ".", color=BLACK, markersize=2.5)
    if "lower" in one and np.isfinite(one["lower"].to_numpy()[filled]).any():
        low, high = one["lower"].to_numpy(), one["upper"].to_numpy()
        name = interval_of(level)
        turns = bool(angle_flags(result["value"].sel(measurement=[measurement]))[0])
        for part in _stretches(filled, joined=False):
            lone = part.stop - part.start == 1  # an area of one moment has no width
            for floor, top in _pieces(low[part], high[part], turns=turns):
                at = times[part]
                if lone or turns:
                    ax.vlines(at, floor, top, color=RED, alpha=0.35, linewidth=1.5, label=name)
                else:
                    ax.fill_between(at, floor, top, color=RED, alpha=0.25, linewidth=0, label=name)
                name = ""
    name = "filled"
    for part in _stretches(filled, joined=True):
        ax.plot(times[part], value[part], color=RED, linewidth=1.3, label=name)
        name = ""
    if truth is not None:
        hidden = truth.sel(location=location, measurement=measurement)
        told = hidden.sel(time=one["time"]).to_numpy()
        shown = filled & np.isfinite(told)
        ax.plot(times[shown], told[shown], ".", color=BLUE, markersize=3.5, label="hidden truth")
    unit = unit_of(result["value"])[measurement] if "unit" in result["value"].coords else ""
    ax.set_ylabel(plain(f"{measurement} ({unit})" if unit else measurement))
    ax.set_title(plain(location), loc="left", fontsize=10)
    ax.margins(x=0.01)
    time_axis(ax)
    ax.legend(frameon=False, fontsize=8, ncols=4, loc="upper right", borderaxespad=0)
    low_end, high_end = ax.get_ylim()
    ax.set_ylim(low_end, high_end + 0.12 * (high_end - low_end))  # room for the legend
    return plainer(ax)


def _pieces(
    low: NDArray[np.float64], high: NDArray[np.float64], *, turns: bool
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Lower and upper ends to draw between; an interval of directions that goes over north,
    clockwise from lower to upper, comes in two pieces."""
    if not turns:
        return [(low, high)]
    over = low > high
    return [
        (low, np.where(over, 360.0, high)),
        (np.where(over, 0.0, np.nan), np.where(over, high, np.nan)),
    ]


def _stretches(inside: NDArray[np.bool_], *, joined: bool) -> list[slice]:
    """Stretches of steps; `joined` ones reach to the step before and behind, so that lines meet."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]])))
    reach = int(joined)
    return [
        slice(max(0, int(first) - reach), min(len(inside), int(last) + reach))
        for first, last in zip(edges[::2], edges[1::2], strict=True)
    ]
