"""Plots of scores: errors by gap length, accuracy over time, cost over size."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from cdsa.core.gaps import GAP_CLASSES
from cdsa.core.records import Value
from cdsa.plots.figures import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    RED,
    escape,
    hide_spines,
)
from cdsa.workflows.score import Score

MARKS = "os^Dv<>P"


DASHES = ("-", "--", ":")
"""Colours and marks come again after eight methods, with lines of another kind."""


FEW = 6
"""Methods whose names find room among their lines."""


def plot_errors(scores: Sequence[Score], ax: Axes) -> Axes:
    """Mean absolute error by class of gap length, a line for each method, of cells that were hidden
    from all of them. With several measurements, in their standard deviations."""
    order = [str(name) for name, _ in GAP_CLASSES]
    shown: list[str] = []
    for number, scored in enumerate(scores):
        figures = scored.table("gap")
        there = [name for name in order if name in figures.index]
        shown = there if len(there) > len(shown) else shown
        at = [order.index(name) for name in there]
        ax.plot(
            at,
            [float(figures.loc[name, "mae"]) for name in there],
            marker=MARKS[number % len(MARKS)],
            color=COLOURS[number % len(COLOURS)],
            linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
            markerfacecolor=None if number < len(COLOURS) else "white",
            linewidth=1.4,
            markersize=5,
            label=escape(scored.method),
        )
    at = [order.index(name) for name in shown]
    ax.set_xticks(at, shown)
    ax.set_xlabel("steps of the gap")
    unit = scores[0].unit if scores else ""
    ax.set_ylabel(f"mean absolute error ({escape(unit)})" if unit else "mean absolute error")
    ax.set_ylim(bottom=0)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    if len(scores) <= FEW:
        ax.legend(frameon=False, fontsize=8)
    else:
        ax.legend(
            frameon=False, fontsize=8, handlelength=3, loc="upper left", bbox_to_anchor=(1.0, 1.0)
        )
    return hide_spines(ax)


TICKS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
"""Of each power of ten."""


def plot_accuracy(
    records: Sequence[Mapping[str, Value]],
    ax: Axes,
    *,
    levels: Mapping[str, float] | None = None,
    unit: str = "",
) -> Axes:
    """Mean absolute error by minutes of training, a line for each method, averaged over seeds; and
    `levels` of what does not learn for minutes, by name."""
    found: dict[str, dict[float, list[float]]] = {}
    for one in records:
        by = found.setdefault(str(one["method"]), {})
        by.setdefault(float(one["minutes"] or 0), []).append(float(one["mae"] or 0))
    for number, (method, by) in enumerate(sorted(found.items())):
        minutes = sorted(by)
        ax.plot(
            minutes,
            [float(np.mean(by[one])) for one in minutes],
            marker=MARKS[number % len(MARKS)],
            color=COLOURS[number % len(COLOURS)],
            linewidth=1.4,
            markersize=5,
            label=escape(method),
        )
    for name, level in (levels or {}).items():
        ax.axhline(level, color=GREY, linewidth=0.8, linestyle=":")
        ax.annotate(
            escape(name), (1, level), xycoords=ax.get_yaxis_transform(), ha="right", va="bottom",
            fontsize=7, color=BLACK,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    shown = sorted({minutes for by in found.values() for minutes in by})
    ax.set_xticks(shown, [f"{minutes:g}" for minutes in shown])
    low, high = ax.get_ylim()
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [tick * 10.0**ten for ten in tens for tick in TICKS if low <= tick * 10.0**ten <= high]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    if levels and shown:
        ax.set_xlim(right=2.2 * shown[-1])  # room for the names of levels
    ax.set_xlabel("minutes of training")
    ax.set_ylabel(f"mean absolute error ({escape(unit)})" if unit else "mean absolute error")
    ax.legend(frameon=False, fontsize=8)
    return hide_spines(ax)


MANNERS = {"independent": COLOURS[-1], "joint": RED, "decomposed": BLUE, "shared": GREEN}


AXES = ("time", "location", "measurement")


COSTS: dict[str, tuple[str, str]] = {
    "operations": ("flops", ""),
    "time of a training step": ("seconds", ""),
    "memory": ("mib", "mib_before"),
}
"""What is compared: the column of a record, less another."""


WIDE = 0.2
"""Of a bar and the gap beside it; the axes are one apart."""


def plot_growth(
    records: Sequence[Mapping[str, Value]],
    ax: Axes,
    *,
    cost: str = "operations",
    legend: bool = True,
) -> Axes:
    """Bars for each axis, one of each manner: how many times the cost is that with the axis
    doubled. The records are those of one run of `benchmarks/attention.py growth`."""
    at = {(str(one["manner"]), str(one["doubled"])): one for one in records}
    for number, (manner, colour) in enumerate(MANNERS.items()):
        first = (number - (len(MANNERS) - 1) / 2) * WIDE
        ax.bar(
            [place + first for place in range(len(AXES))],
            [_cost(at[manner, axis], cost) / _cost(at[manner, ""], cost) for axis in AXES],
            width=0.9 * WIDE,
            color=colour,
            label=manner,
        )
    for height in (2, 4):  # as the axis grows, and as its square does
        ax.axhline(height, color=BLACK, linewidth=0.5, linestyle=":")
    ax.set_title(cost)
    ax.set_xticks(range(len(AXES)), [f"{axis}\ndoubled" for axis in AXES])
    sizes = str(at["joint", ""]["sizes"]).replace("x", " x ")
    ax.set_ylabel(f"times that of {sizes}")
    if legend:
        ax.legend(frameon=False, fontsize=8)
    return hide_spines(ax)


def _cost(record: Mapping[str, Value], cost: str) -> float:
    column, less = COSTS[cost]
    return float(record[column] or 0) - float(record[less] or 0 if less else 0)
