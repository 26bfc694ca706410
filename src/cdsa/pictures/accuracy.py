"""How the error falls with the time that a network may learn for."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from cdsa.core.records import Value
from cdsa.pictures.errors import MARKS
from cdsa.pictures.figures import BLACK, COLOURS, GREY, plain, plainer

TICKS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
"""Of each power of ten."""


def draw_accuracy(
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
            label=plain(method),
        )
    for name, level in (levels or {}).items():
        ax.axhline(level, color=GREY, linewidth=0.8, linestyle=":")
        ax.annotate(
            plain(name), (1, level), xycoords=ax.get_yaxis_transform(), ha="right", va="bottom",
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
    ax.set_ylabel(f"mean absolute error ({plain(unit)})" if unit else "mean absolute error")
    ax.legend(frameon=False, fontsize=8)
    return plainer(ax)
