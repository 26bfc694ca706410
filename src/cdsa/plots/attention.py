"""Plots of an explanation: attention maps, and the paper's figure of the attended cells."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter, date2num
from matplotlib.patches import Rectangle

from cdsa.core.circular import base_names
from cdsa.plots.figures import (
    BLUE,
    COLOURS,
    GREY,
    PINK,
    SHADES,
    escape,
    format_time_axis,
    hide_spines,
)

if TYPE_CHECKING:
    from cdsa.methods.explanation import Explanation

MAX_LABELS = 24

RADIUS = 12
N_BOXES, MIN_SHARE = 6, 0.002
"""Attended cells that are boxed and connected by arrows, and the share that they need."""


def plot_attention_map(table: xr.DataArray, ax: Axes, *, row: object = None) -> Axes:
    """The attention map of one axis, with a frame around the row of this label; a direction has
    the rows of its two components."""
    axis = str(table.dims[0])
    labels = table[axis].to_numpy()
    names = _format_labels(labels, axis)
    ax.imshow(table.to_numpy(), cmap=SHADES, aspect="equal", interpolation="nearest", vmin=0)
    every = -(-len(names) // MAX_LABELS)
    ticks = range(0, len(names), every)
    ax.set_yticks(ticks, names[::every], fontsize=7)
    ax.set_xticks(ticks, names[::every], fontsize=7, rotation=90)
    ax.set_title(axis, fontsize=10)
    ax.set_xlabel("attended to", fontsize=8)
    for y in np.flatnonzero((labels if axis == "time" else base_names(labels)) == row):
        ax.add_patch(
            Rectangle((-0.5, y - 0.5), len(names), 1, fill=False, edgecolor=PINK, linewidth=1.5)
        )
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return ax


def plot_time_measurement(explanation: "Explanation", ax: Axes, *, radius: int = RADIUS) -> Axes:
    """Shares by time and measurement at the station of the cell or, if they are all zero, over all
    stations; the largest ones are boxed."""
    shares = explanation.shares.isel(time=_window(explanation, radius))
    measurements = [str(name) for name in shares["measurement"].to_numpy()]
    at_station = shares.sel(location=explanation.cell.location)
    table = at_station if float(at_station.sum()) > 0 else shares.sum("location")
    ax.imshow(table.to_numpy().T, cmap=SHADES, aspect="auto", interpolation="nearest", vmin=0)
    times = table["time"].to_numpy()
    every = max(1, len(times) // 4)
    ax.set_xticks(range(0, len(times), every), _format_labels(times, "time")[::every], fontsize=7)
    ax.set_yticks(range(len(measurements)), [escape(name) for name in measurements], fontsize=8)
    flat = table.to_numpy().ravel()
    order = np.argsort(-flat)[:N_BOXES]
    order = order[flat[order] > MIN_SHARE]
    for t, m in zip(*np.unravel_index(order, table.shape), strict=True):
        ax.add_patch(Rectangle((t - 0.5, m - 0.5), 1, 1, fill=False, edgecolor=BLUE, linewidth=1.5))
    x = int(np.flatnonzero(times == explanation.cell.time)[0])
    ax.plot(x, measurements.index(explanation.cell.measurement), "o", color=PINK, markersize=6)
    ax.set_title("share by time and measurement", fontsize=10, loc="left")
    ax.spines[:].set_visible(False)
    return ax


def plot_attended_series(
    explanation: "Explanation", ax: Axes, *, other: str | None = None, radius: int = RADIUS
) -> Axes:
    """The series of the cell above a second one: the `other` measurement of the station or, by
    default, the series with the largest share.

    The most attended cells are boxed and connected to the explained cell, a dot, by arrows; their
    width is the share.
    """
    cell, window = explanation.cell, _window(explanation, radius)
    shares, values = explanation.shares.isel(time=window), explanation.values.isel(time=window)
    own_series = (cell.location, cell.measurement)
    others = shares.sum("time").to_series().drop(own_series)
    most_attended = own_series if others.empty else others.idxmax()
    lines = [own_series, (cell.location, other) if other else most_attended]
    times, heights = values["time"].to_numpy(), {}
    for i, (location, measurement) in enumerate(lines):
        colour, middle = COLOURS[i], 1.6 - 3.2 * i
        series = values.sel(location=location, measurement=measurement).to_numpy().astype(float)
        all_values = explanation.values.sel(location=location, measurement=measurement).to_numpy()
        observed = all_values[np.isfinite(all_values)]
        if not observed.size:
            observed = np.array([explanation.value])
        mean, std = observed.mean(), observed.std() or 1.0
        scaled = (series - mean) / (2 * std) + middle
        ax.plot(times, scaled, ".-", color=colour, linewidth=1.2, markersize=4)
        name = measurement if location == cell.location else f"{measurement}, {location}"
        ax.annotate(escape(name), (times[0], middle + 1.1), fontsize=8, color=colour)
        heights[location, measurement] = scaled
        if i == 0:
            cell_height = (explanation.value - mean) / (2 * std) + middle
    step = (times[1] - times[0]) if len(times) > 1 else np.timedelta64(1, "h")
    half = float(date2num(times[0] + step) - date2num(times[0])) / 2
    cell_x = float(date2num(cell.time))
    ax.plot(cell.time, cell_height, "o", color=PINK, markersize=8, zorder=5)
    attended = [
        (share, t, line)
        for line in lines
        for t, share in enumerate(shares.sel(location=line[0], measurement=line[1]).values.tolist())
    ]
    attended = sorted(attended, reverse=True)[:N_BOXES]
    largest = attended[0][0] or 1.0
    for share, t, line in attended:
        height = heights[line][t]
        if share <= MIN_SHARE or not np.isfinite(height):
            continue
        x = float(date2num(times[t]))
        ax.add_patch(
            Rectangle((x - half, height - 0.22), 2 * half, 0.44, fill=False, edgecolor=GREY)
        )
        ax.annotate(
            "", xy=(cell_x, cell_height), xytext=(x, height),
            arrowprops={"arrowstyle": "->", "color": GREY, "alpha": 0.9,
                        "linewidth": 0.6 + 2.4 * share / largest, "shrinkA": 8, "shrinkB": 6,
                        "connectionstyle": "arc3,rad=0.2"},
        )  # fmt: skip
    (time,) = _format_labels(np.array([cell.time]), "time")
    title = f"{cell.measurement} at {cell.location}, {time}: {explanation.value:.4g}"
    ax.set_title(escape(title), fontsize=10, loc="left")
    ax.set_yticks([])
    ax.set_ylim(-3.2, 3.2)
    ax.set_xlim(times[0] - step, times[-1] + step)
    format_time_axis(ax)
    ax.spines["left"].set_visible(False)
    return hide_spines(ax)


def _window(explanation: "Explanation", radius: int) -> slice:
    times = explanation.shares["time"].to_numpy()
    t = int(np.flatnonzero(times == explanation.cell.time)[0])
    return slice(max(0, t - radius), t + radius + 1)


def _format_labels(labels: np.ndarray, axis: str) -> list[str]:
    if axis == "time":
        several_days = len(set(labels.astype("datetime64[D]"))) > 1
        formatter = DateFormatter("%d %H:%M" if several_days else "%H:%M")
        return [formatter.format_data(date2num(label)) for label in labels]
    return [escape(name).replace("\0", ", ") for name in labels]  # components of directions
