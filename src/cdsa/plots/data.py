"""Plots of a table: gaps, stations on a map, series."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.dates import date2num
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from cdsa.core.cube import fillable, has_coordinates, is_direction, units_of
from cdsa.core.gaps import run_lengths
from cdsa.core.summary import missing_over_time
from cdsa.core.text import format_interval
from cdsa.errors import ConfigError
from cdsa.plots.figures import (
    BLACK,
    BLUE,
    GREY,
    RED,
    SHADES,
    escape,
    format_time_axis,
    hide_spines,
)

COLUMNS = 300
"""Stretches of time that are told apart."""


MAX_GAP_LABELS = 40


DARKEST = 5
"""Percent missing that are the darkest shade where nothing misses more."""


def plot_gaps(cube: xr.DataArray, ax: Axes, *, dim: str = "location") -> Axes:
    """A row for each station, or measurement, and time to the right: the darker, the more of it is
    missing, up to the largest share there is."""
    missing = 100 * missing_over_time(cube, dim, COLUMNS)
    times = cube["time"].to_numpy()
    step = times[1] - times[0] if len(times) > 1 else np.timedelta64(1, "h")
    low, high = date2num(times[0]), date2num(times[-1] + step)
    names = [escape(name) for name in cube[dim].to_numpy()]
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
    format_time_axis(ax)
    every = -(-len(names) // MAX_GAP_LABELS)
    ax.set_yticks(range(0, len(names), every), names[::every])
    if len(names) > 12:
        ax.tick_params(axis="y", labelsize=7)
    if len(names) <= MAX_GAP_LABELS:  # of more, lines between them would hide them
        for edge in range(1, len(names)):
            ax.axhline(edge - 0.5, color="white", linewidth=0.5)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, axis="y")
    assert ax.figure is not None
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.03, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label("% missing")
    return ax


MAX_MAP_LABELS = 45


SMALL, LARGE = 35.0, 260.0
"""Areas of the smallest and the largest dot, in square points."""


class Degrees(MaxNLocator):
    """Round degrees, no more of them than there is room for their digits."""

    def __call__(self) -> Sequence[float]:
        assert self.axis is not None
        room = self.axis.get_tick_space() // 2  # counted for labels of half the length
        self.set_params(nbins=min(6, max(1, room)))
        return super().__call__()


def plot_map(
    cube: xr.DataArray, ax: Axes, *, errors: Mapping[str, float] | None = None, unit: str = ""
) -> Axes:
    """Stations at their coordinates, the darker the more is missing and, with `errors` by station,
    the larger the greater its error."""
    if not has_coordinates(cube):
        raise ConfigError(
            "a map needs coordinates, but these stations have none. Give them in columns lat and "
            "lon or with --locations"
        )
    lat, lon = cube["lat"].to_numpy(), cube["lon"].to_numpy()
    names = [str(name) for name in cube["location"].to_numpy()]
    kinds = fillable(cube)
    missing = cube.isel(measurement=kinds if kinds.any() else slice(None)).isnull()
    share = 100 * missing.mean(("time", "measurement")).to_numpy()
    sizes = np.full(len(names), 90.0)
    if errors:
        known = np.array([errors.get(name, np.nan) for name in names])
        most = np.nanmax(known) if np.isfinite(known).any() else 1.0
        sizes = np.nan_to_num(SMALL + (LARGE - SMALL) * known / (most or 1.0), nan=SMALL)
        for part in (0.25, 0.5, 1.0):  # what sizes mean
            ax.scatter(
                [], [], s=SMALL + (LARGE - SMALL) * part, color="white", edgecolor=GREY,
                label=f"{part * most:.2g}",
            )  # fmt: skip
        what = f"mean absolute error\n({escape(unit)})" if unit else "mean absolute error"
        ax.legend(
            title=what, frameon=False, fontsize=7, title_fontsize=7, alignment="left", ncols=3,
            loc="lower left", bbox_to_anchor=(0, 1.02), borderaxespad=0, borderpad=0,
            handletextpad=0.5, columnspacing=0.8,
        )  # fmt: skip
    dots = ax.scatter(
        lon, lat, s=sizes, c=share, cmap="cividis_r", vmin=0, vmax=max(1.0, float(share.max())),
        edgecolor=BLACK, linewidth=0.6, zorder=3,
    )  # fmt: skip
    if len(names) <= MAX_MAP_LABELS:
        for name, x, y, size in zip(names, lon, lat, sizes, strict=True):
            ax.annotate(
                escape(name), (x, y), xytext=(0, 2 + np.sqrt(size) / 2), textcoords="offset points",
                ha="center", va="bottom", fontsize=7, color=BLACK, zorder=4,
            )  # fmt: skip
    middle = np.deg2rad(np.mean(lat))
    ax.set_aspect(1 / max(0.05, float(np.cos(middle))), adjustable="datalim")
    ax.margins(0.12)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(Degrees(steps=[1, 2, 5, 10]))
    ax.ticklabel_format(useOffset=False)
    ax.tick_params(labelsize=8)
    ax.grid(color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel("longitude")
    ax.set_ylabel("latitude")
    assert ax.figure is not None
    bar = ax.figure.colorbar(dots, ax=ax, shrink=0.6, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8)
    bar.set_label("% missing")
    return hide_spines(ax)


LONE = 3
"""Values with a gap on both sides get a dot, which a line would not show."""


MOST_DOTS = 600


def plot_series(
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
        name = format_interval(level)
        turns = bool(is_direction(result["value"].sel(measurement=[measurement]))[0])
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
    unit = units_of(result["value"])[measurement]
    ax.set_ylabel(escape(f"{measurement} ({unit})" if unit else measurement))
    ax.set_title(escape(location), loc="left", fontsize=10)
    ax.margins(x=0.01)
    format_time_axis(ax)
    ax.legend(frameon=False, fontsize=8, ncols=4, loc="upper right", borderaxespad=0)
    low_end, high_end = ax.get_ylim()
    ax.set_ylim(low_end, high_end + 0.12 * (high_end - low_end))  # room for the legend
    return hide_spines(ax)


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
