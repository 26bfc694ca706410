"""How much more each manner of attention costs when an axis doubles."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from cdsa.core.records import Value
from cdsa.pictures.figures import BLACK, BLUE, COLOURS, GREEN, RED, plainer

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


def draw_growth(
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
    return plainer(ax)


def _cost(record: Mapping[str, Value], cost: str) -> float:
    column, less = COSTS[cost]
    return float(record[column] or 0) - float(record[less] or 0 if less else 0)
