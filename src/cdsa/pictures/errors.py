"""How the error grows with the length of a gap, method by method."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from cdsa.core.gaps import CLASSES
from cdsa.pictures.figures import COLOURS, plain, plainer
from cdsa.workflows.score import Score

MARKS = "os^Dv<>P"
DASHES = ("-", "--", ":")
"""Colours and marks come again after eight methods, with lines of another kind."""
FEW = 6
"""Methods whose names find room among their lines."""


def draw_errors(scores: Sequence[Score], ax: Axes) -> Axes:
    """Mean absolute error by class of gap length, a line for each method, of cells that were hidden
    from all of them. With several measurements, in their standard deviations."""
    order = [str(name) for name, _ in CLASSES]
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
            label=plain(scored.method),
        )
    at = [order.index(name) for name in shown]
    ax.set_xticks(at, shown)
    ax.set_xlabel("steps of the gap")
    unit = scores[0].unit if scores else ""
    ax.set_ylabel(f"mean absolute error ({plain(unit)})" if unit else "mean absolute error")
    ax.set_ylim(bottom=0)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    if len(scores) <= FEW:
        ax.legend(frameon=False, fontsize=8)
    else:
        ax.legend(
            frameon=False, fontsize=8, handlelength=3, loc="upper left", bbox_to_anchor=(1.0, 1.0)
        )
    return plainer(ax)
