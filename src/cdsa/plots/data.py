"""Plots of a table: gaps, stations on a map, series."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.dates import date2num
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from cdsa.core.cube import fillable, has_coordinates, is_direction, units_of
from cdsa.core.gaps import run_lengths
from cdsa.core.splits import segments
from cdsa.core.summary import missing_over_time
from cdsa.core.text import format_interval
from cdsa.errors import ConfigError
from cdsa.plots.figures import (
    BLACK,
    BLUE,
    GREY,
    RED,
    SHADES,
    error_label,
    escape,
    format_time_axis,
    hide_spines,
)

N_TIME_BINS = 300
MAX_GAP_LABELS, MAX_MAP_LABELS = 40, 45

MIN_DARKEST = 5
"""Percent missing of the darkest shade where nothing misses more."""

MIN_AREA, MAX_AREA = 35.0, 260.0
"""Areas of the smallest and the largest dot on a map, in square points."""

SHORT_RUN = 3
"""Runs of fewer observations get dots, since a line would hardly show them."""

MAX_DOTS = 600


def plot_gaps(cube: xr.DataArray, ax: Axes, *, dim: str = "location") -> Axes:
    """Share of missing values over time, one row per station or measurement; darker is more."""
    missing = 100 * missing_over_time(cube, dim, N_TIME_BINS)
    times = cube["time"].to_numpy()
    step = times[1] - times[0] if len(times) > 1 else np.timedelta64(1, "h")
    names = [escape(name) for name in cube[dim].to_numpy()]
    image = ax.imshow(
        missing,
        aspect="auto",
        interpolation="nearest",
        cmap=SHADES,
        vmin=0,
        vmax=max(MIN_DARKEST, float(missing.max())),
        extent=(date2num(times[0]), date2num(times[-1] + step), len(names) - 0.5, -0.5),
    )
    ax.xaxis_date()
    format_time_axis(ax)
    every = -(-len(names) // MAX_GAP_LABELS)
    ax.set_yticks(range(0, len(names), every), names[::every])
    if len(names) > 12:
        ax.tick_params(axis="y", labelsize=7)
    if len(names) <= MAX_GAP_LABELS:  # lines between more rows would hide them
        for edge in range(1, len(names)):
            ax.axhline(edge - 0.5, color="white", linewidth=0.5)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, axis="y")
    assert ax.figure is not None
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.03, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label("% missing")
    return ax


class DegreeLocator(MaxNLocator):
    """Round degrees, no more than there is room for their labels."""

    def __call__(self) -> Sequence[float]:
        assert self.axis is not None
        room = self.axis.get_tick_space() // 2  # matplotlib assumes labels of half the length
        self.set_params(nbins=min(6, max(1, room)))
        return super().__call__()


def plot_map(
    cube: xr.DataArray, ax: Axes, *, errors: Mapping[str, float] | None = None, unit: str = ""
) -> Axes:
    """Stations at their coordinates; darker dots miss more values and, with `errors` by station,
    larger dots have larger errors."""
    if not has_coordinates(cube):
        raise ConfigError(
            "a map needs coordinates, but these stations have none. Give them in columns lat and "
            "lon or with --locations"
        )
    lat, lon = cube["lat"].to_numpy(), cube["lon"].to_numpy()
    names = [str(name) for name in cube["location"].to_numpy()]
    measured = fillable(cube)
    missing = cube.isel(measurement=measured if measured.any() else slice(None)).isnull()
    share = 100 * missing.mean(("time", "measurement")).to_numpy()
    areas = np.full(len(names), 90.0)
    if errors:
        known = np.array([errors.get(name, np.nan) for name in names])
        largest = np.nanmax(known) if np.isfinite(known).any() else 1.0
        areas = np.nan_to_num(
            MIN_AREA + (MAX_AREA - MIN_AREA) * known / (largest or 1.0), nan=MIN_AREA
        )
        for fraction in (0.25, 0.5, 1.0):  # legend of the areas
            ax.scatter(
                [], [], s=MIN_AREA + (MAX_AREA - MIN_AREA) * fraction, color="white",
                edgecolor=GREY, label=f"{fraction * largest:.2g}",
            )  # fmt: skip
        ax.legend(
            title=error_label(unit).replace(" (", "\n(", 1), frameon=False, fontsize=7,
            title_fontsize=7, alignment="left", ncols=3, loc="lower left",
            bbox_to_anchor=(0, 1.02), borderaxespad=0, borderpad=0, handletextpad=0.5,
            columnspacing=0.8,
        )  # fmt: skip
    dots = ax.scatter(
        lon, lat, s=areas, c=share, cmap="cividis_r", vmin=0, vmax=max(1.0, float(share.max())),
        edgecolor=BLACK, linewidth=0.6, zorder=3,
    )  # fmt: skip
    if len(names) <= MAX_MAP_LABELS:
        for name, x, y, area in zip(names, lon, lat, areas, strict=True):
            ax.annotate(
                escape(name), (x, y), xytext=(0, 2 + np.sqrt(area) / 2),
                textcoords="offset points", ha="center", va="bottom", fontsize=7, color=BLACK,
                zorder=4,
            )  # fmt: skip
    middle = np.deg2rad(np.mean(lat))
    ax.set_aspect(1 / max(0.05, float(np.cos(middle))), adjustable="datalim")
    ax.margins(0.12)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(DegreeLocator(steps=[1, 2, 5, 10]))
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


def plot_series(
    result: xr.Dataset,
    ax: Axes,
    *,
    location: str,
    measurement: str,
    truth: xr.DataArray | None = None,
    level: float | None = None,
) -> Axes:
    """One series of a result of `cdsa.fill`: measured values, filled values with their interval of
    this `level`, and hidden `truth` as dots."""
    series = result.sel(location=location, measurement=measurement)
    times, value = series["time"].to_numpy(), series["value"].to_numpy().astype(float)
    observed = (series["source"] == "observed").to_numpy()
    filled = ~observed & np.isfinite(value)
    ax.plot(times, np.where(observed, value, np.nan), color=BLACK, linewidth=1, label="measured")
    isolated = observed & (run_lengths(observed) < SHORT_RUN)
    if isolated.sum() <= MAX_DOTS:
        ax.plot(times[isolated], value[isolated], ".", color=BLACK, markersize=2.5)
    gaps = segments(filled)
    if "lower" in series and np.isfinite(series["lower"].to_numpy()[filled]).any():
        low, high = series["lower"].to_numpy(), series["upper"].to_numpy()
        label = format_interval(level)
        direction = bool(is_direction(result["value"].sel(measurement=[measurement]))[0])
        for gap in gaps:
            single = gap.stop - gap.start == 1  # an area over one step has no width
            draw: Callable[..., object] = partial(ax.fill_between, alpha=0.25, linewidth=0)
            if single or direction:
                draw = partial(ax.vlines, alpha=0.35, linewidth=1.5)
            for lower, upper in _bands(low[gap], high[gap], direction=direction):
                draw(times[gap], lower, upper, color=RED, label=label)
                label = ""
    label = "filled"
    for gap in gaps:
        line = slice(max(0, gap.start - 1), gap.stop + 1)  # joined to the values on either side
        ax.plot(times[line], value[line], color=RED, linewidth=1.3, label=label)
        label = ""
    if truth is not None:
        hidden = truth.sel(location=location, measurement=measurement)
        actual = hidden.sel(time=series["time"]).where(filled).dropna("time")
        ax.plot(actual["time"], actual, ".", color=BLUE, markersize=3.5, label="hidden truth")
    unit = units_of(result["value"])[measurement]
    ax.set_ylabel(escape(f"{measurement} ({unit})" if unit else measurement))
    ax.set_title(escape(location), loc="left", fontsize=10)
    ax.margins(x=0.01)
    format_time_axis(ax)
    ax.legend(frameon=False, fontsize=8, ncols=4, loc="upper right", borderaxespad=0)
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top + 0.12 * (top - bottom))  # room for the legend
    return hide_spines(ax)


def _bands(
    low: NDArray[np.float64], high: NDArray[np.float64], *, direction: bool
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Lower and upper bounds to draw; the interval of a direction that crosses north, clockwise
    from lower to upper, has two bands."""
    if not direction:
        return [(low, high)]
    crosses = low > high
    return [
        (low, np.where(crosses, 360.0, high)),
        (np.where(crosses, 0.0, np.nan), np.where(crosses, high, np.nan)),
    ]
