"""What a network looked at to fill a cell: its maps, and the paper's figure of them."""

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
    from cdsa.methods.engine.explain import Reasons


MOST_LABELS = 24


WIDE = 12
"""Steps to either side of the cell that are shown."""


BOXES, LEAST = 6, 0.002
"""Moments that are boxed and joined by arrows, and the share below which none is."""


def plot_attention_map(table: xr.DataArray, ax: Axes, *, row: object = None) -> Axes:
    """Who looks at whom along one axis; the row of what was asked for is framed, of a direction
    those of its two components."""
    axis = str(table.dims[0])
    looks = table[axis].to_numpy()
    names = _names(looks, axis)
    ax.imshow(table.to_numpy(), cmap=SHADES, aspect="equal", interpolation="nearest", vmin=0)
    every = -(-len(names) // MOST_LABELS)
    at = range(0, len(names), every)
    ax.set_yticks(at, names[::every], fontsize=7)
    ax.set_xticks(at, names[::every], fontsize=7, rotation=90)
    ax.set_title(axis, fontsize=10)
    ax.set_xlabel("looked at", fontsize=8)
    asked = looks == row if axis == "time" else base_names(looks) == row
    for there in np.flatnonzero(asked):
        ax.add_patch(
            Rectangle((-0.5, there - 0.5), len(names), 1, fill=False, edgecolor=PINK, linewidth=1.5)
        )
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return ax


def plot_time_measurement(reasons: "Reasons", ax: Axes, *, around: int = WIDE) -> Axes:
    """Shares by time and measurement at the station itself, or, if all of it comes from elsewhere,
    over all stations; the cells with the largest are boxed."""
    shares = _near(reasons, around)
    kinds = [str(name) for name in shares["measurement"].to_numpy()]
    own = shares.sel(location=reasons.cell.location)
    table = own if float(own.sum()) > 0 else shares.sum("location")
    ax.imshow(table.to_numpy().T, cmap=SHADES, aspect="auto", interpolation="nearest", vmin=0)
    times = table["time"].to_numpy()
    every = max(1, len(times) // 4)
    ax.set_xticks(range(0, len(times), every), _names(times, "time")[::every], fontsize=7)
    ax.set_yticks(range(len(kinds)), [escape(kind) for kind in kinds], fontsize=8)
    flat = table.to_numpy().ravel()
    order = np.argsort(-flat)[:BOXES]
    order = order[flat[order] > LEAST]
    for t, m in zip(*np.unravel_index(order, table.shape), strict=True):
        ax.add_patch(Rectangle((t - 0.5, m - 0.5), 1, 1, fill=False, edgecolor=BLUE, linewidth=1.5))
    at = int(np.flatnonzero(times == reasons.cell.time)[0])
    ax.plot(at, kinds.index(reasons.cell.measurement), "o", color=PINK, markersize=6)
    ax.set_title("share by time and measurement", fontsize=10, loc="left")
    ax.spines[:].set_visible(False)
    return ax


def plot_attended_series(
    reasons: "Reasons", ax: Axes, *, other: str | None = None, around: int = WIDE
) -> Axes:
    """Two series, one above the other: that of the cell and an `other` measurement of the station
    or, if none is given, the series with most share of all others. What was looked at most is boxed
    and joined to the cell, a dot, by arrows, the wider the more."""
    cell, shares, values = reasons.cell, _near(reasons, around), _near_values(reasons, around)
    second = _second(shares, reasons, other)
    lines = [(cell.location, cell.measurement), second]
    times, where = values["time"].to_numpy(), {}
    for number, (location, measurement) in enumerate(lines):
        series = values.sel(location=location, measurement=measurement).to_numpy().astype(float)
        whole = reasons.values.sel(location=location, measurement=measurement).to_numpy()
        known = whole[np.isfinite(whole)] if np.isfinite(whole).any() else np.array([reasons.value])
        middle, spread = known.mean(), known.std() or 1.0
        height = 1.6 - 3.2 * number
        scaled = (series - middle) / (2 * spread) + height
        ax.plot(times, scaled, ".-", color=COLOURS[number], linewidth=1.2, markersize=4)
        ax.annotate(
            escape(measurement if location == cell.location else f"{measurement}, {location}"),
            (times[0], height + 1.1), fontsize=8, color=COLOURS[number],
        )  # fmt: skip
        where[location, measurement] = scaled
        if number == 0:
            target = (reasons.value - middle) / (2 * spread) + height
    step = (times[1] - times[0]) if len(times) > 1 else np.timedelta64(1, "h")
    half = float(date2num(times[0] + step) - date2num(times[0])) / 2
    at = float(date2num(cell.time))
    ax.plot(cell.time, target, "o", color=PINK, markersize=8, zorder=5)
    told = [
        (float(shares.sel(location=place, measurement=kind)[t]), t, (place, kind))
        for place, kind in lines
        for t in range(len(times))
    ]
    told = sorted(told, reverse=True)[:BOXES]
    most = max((share for share, *_ in told), default=0.0) or 1.0
    for share, t, line in told:
        height = where[line][t]
        if share <= LEAST or not np.isfinite(height):
            continue
        x = float(date2num(times[t]))
        ax.add_patch(
            Rectangle((x - half, height - 0.22), 2 * half, 0.44, fill=False, edgecolor=GREY)
        )
        ax.annotate(
            "", xy=(at, target), xytext=(x, height),
            arrowprops={"arrowstyle": "->", "color": GREY, "alpha": 0.9,
                        "linewidth": 0.6 + 2.4 * share / most, "shrinkA": 8, "shrinkB": 6,
                        "connectionstyle": "arc3,rad=0.2"},
        )  # fmt: skip
    told_as = f"{cell.measurement} at {cell.location}, {_names(np.array([cell.time]), 'time')[0]}"
    ax.set_title(escape(f"{told_as}: {reasons.value:.4g}"), fontsize=10, loc="left")
    ax.set_yticks([])
    ax.set_ylim(-3.2, 3.2)
    ax.set_xlim(times[0] - step, times[-1] + step)
    format_time_axis(ax)
    ax.spines["left"].set_visible(False)
    return hide_spines(ax)


def _near(reasons: "Reasons", around: int) -> xr.DataArray:
    return reasons.shares.isel(time=_steps(reasons, around))


def _near_values(reasons: "Reasons", around: int) -> xr.DataArray:
    return reasons.values.isel(time=_steps(reasons, around))


def _steps(reasons: "Reasons", around: int) -> slice:
    at = int(np.flatnonzero(reasons.shares["time"].to_numpy() == reasons.cell.time)[0])
    return slice(max(0, at - around), at + around + 1)


def _second(shares: xr.DataArray, reasons: "Reasons", other: str | None) -> tuple[str, str]:
    """The series beside that of the cell."""
    cell = reasons.cell
    if other is not None:
        return cell.location, other
    total = shares.sum("time")
    others = [
        (str(place), str(kind))
        for place in shares["location"].to_numpy()
        for kind in shares["measurement"].to_numpy()
        if (place, kind) != (cell.location, cell.measurement)
    ]
    own = (cell.location, cell.measurement)
    return max(
        others, key=lambda one: float(total.sel(location=one[0], measurement=one[1])), default=own
    )


def _names(labels: np.ndarray, axis: str) -> list[str]:
    if axis == "time":
        day = len(set(labels.astype("datetime64[D]"))) > 1
        form = DateFormatter("%d %H:%M" if day else "%H:%M")
        return [form.format_data(date2num(label)) for label in labels]
    return [escape(name).replace("\0", ", ") for name in labels]  # directions are two components
