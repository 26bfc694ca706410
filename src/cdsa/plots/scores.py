"""Plots of scores: errors by gap length, accuracy over training time, cost over size."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from cdsa.core.cube import DIMS
from cdsa.core.gaps import GAP_CLASSES
from cdsa.core.records import Value
from cdsa.plots.figures import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    RED,
    error_label,
    escape,
    hide_spines,
)
from cdsa.workflows.score import Score

Records = Sequence[Mapping[str, Value]]

MARKERS = "os^Dv<>P"
LINE_STYLES = ("-", "--", ":")

MAX_INSIDE_LEGEND = 6
"""Methods whose legend fits among their lines."""

LOG_TICKS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
"""Ticks of each power of ten."""

MAX_TICKS, MAX_MARKERS = 12, 12
"""Costs that are all labelled, and markers along a line."""

MANNER_COLOURS = {"independent": COLOURS[-1], "joint": RED, "decomposed": BLUE, "shared": GREEN}
BAR_WIDTH = 0.2

COSTS: dict[str, tuple[str, str]] = {
    "operations": ("flops", ""),
    "time of a training step": ("seconds", ""),
    "memory": ("mib", "mib_before"),
}
"""Costs to compare: a column of a record, minus another."""


def plot_errors(scores: Sequence[Score], ax: Axes) -> Axes:
    """Mean absolute error by gap length, one line per method, all scored on the same hidden cells.
    With several measurements, errors are in standard deviations."""
    classes = [name for name, _ in GAP_CLASSES]
    longest: list[str] = []
    for i, score in enumerate(scores):
        table = score.table("gap")
        scored = [name for name in classes if name in table.index]
        longest = scored if len(scored) > len(longest) else longest
        ax.plot(
            [classes.index(name) for name in scored],
            [float(table.loc[name, "mae"]) for name in scored],
            label=escape(score.method),
            **_style(i),
        )
    ax.set_xticks([classes.index(name) for name in longest], longest)
    ax.set_xlabel("gap length (steps)")
    ax.set_ylabel(error_label(scores[0].unit if scores else ""))
    ax.set_ylim(bottom=0)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    beside: dict[str, Any] = {"handlelength": 3, "loc": "upper left", "bbox_to_anchor": (1, 1)}
    ax.legend(frameon=False, fontsize=8, **(beside if len(scores) > MAX_INSIDE_LEGEND else {}))
    return hide_spines(ax)


def _style(i: int) -> dict[str, Any]:
    """The look of the i-th method; colours and markers repeat after eight, on other lines."""
    return {
        "marker": MARKERS[i % len(MARKERS)],
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": LINE_STYLES[i // len(COLOURS) % len(LINE_STYLES)],
        "markerfacecolor": None if i < len(COLOURS) else "white",
        "linewidth": 1.4,
        "markersize": 5,
    }


def plot_accuracy(
    records: Records,
    ax: Axes,
    *,
    by: str = "minutes",
    levels: Mapping[str, float] | None = None,
    unit: str = "",
) -> Axes:
    """Mean absolute error by minutes of training, or by `cpu_seconds`, one line per method,
    averaged over seeds; methods without training are horizontal lines at their `levels`."""
    errors = pd.DataFrame(records).pivot_table("mae", index=by, columns="method", sort=False)
    errors = errors.sort_index()
    for i, (method, line) in enumerate(errors.items()):
        line = line.dropna()
        ax.plot(line, label=escape(method), markevery=len(line) // MAX_MARKERS + 1, **_style(i))
    for name, level in (levels or {}).items():
        ax.axhline(level, color=GREY, linewidth=0.8, linestyle=":")
        ax.annotate(
            escape(name), (1, level), xycoords=ax.get_yaxis_transform(), ha="right", va="bottom",
            fontsize=7, color=BLACK,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    x_ticks = errors.index.to_list()
    if levels and x_ticks:
        ax.set_xlim(right=2.2 * x_ticks[-1])  # room for the names of levels
    if len(x_ticks) > MAX_TICKS:
        x_ticks = _log_ticks(*ax.get_xlim(), steps=(1, 3))
    y_ticks = _log_ticks(*ax.get_ylim(), steps=LOG_TICKS)
    ax.set_xticks(x_ticks, [f"{x:g}" for x in x_ticks])
    ax.set_yticks(y_ticks, [f"{y:g}" for y in y_ticks])
    ax.minorticks_off()
    ax.set_xlabel({"minutes": "minutes of training", "cpu_seconds": "CPU seconds"}.get(by, by))
    ax.set_ylabel(error_label(unit))
    ax.legend(frameon=False, fontsize=8)
    return hide_spines(ax)


def _log_ticks(low: float, high: float, *, steps: Sequence[float]) -> list[float]:
    """These steps of each power of ten from low to high."""
    powers = [10.0**n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    return [tick * power for power in powers for tick in steps if low <= tick * power <= high]


def plot_growth(
    records: Records, ax: Axes, *, cost: str = "operations", legend: bool = True
) -> Axes:
    """How the cost of each manner grows when an axis is doubled, as bars.

    The records are those of one run of `benchmarks/attention.py growth`.
    """
    table = pd.DataFrame(records).set_index(["manner", "doubled"])
    column, baseline = COSTS[cost]
    costs = table[column] - (table[baseline] if baseline else 0)
    for i, (manner, colour) in enumerate(MANNER_COLOURS.items()):
        offset = (i - (len(MANNER_COLOURS) - 1) / 2) * BAR_WIDTH
        growth = costs[manner][list(DIMS)] / costs[manner, ""]
        x = np.arange(len(DIMS)) + offset
        ax.bar(x, growth, width=0.9 * BAR_WIDTH, color=colour, label=manner)
    for height in (2, 4):  # linear and quadratic growth
        ax.axhline(height, color=BLACK, linewidth=0.5, linestyle=":")
    ax.set_title(cost)
    ax.set_xticks(range(len(DIMS)), [f"{axis}\ndoubled" for axis in DIMS])
    sizes = str(table.loc[("joint", ""), "sizes"]).replace("x", " x ")
    ax.set_ylabel(f"times that of {sizes}")
    if legend:
        ax.legend(frameon=False, fontsize=8)
    return hide_spines(ax)
