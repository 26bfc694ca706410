"""Pictures: one function each, `draw_...(data, ax) -> ax`, for print and for colour-blind readers.

They draw into axes that are given, and touch nothing else; `figures.py` makes axes for them. They
need the extra 'plot' (matplotlib).
"""

from cdsa.plots.attention import draw_attended, draw_axis_map, draw_time_measurement
from cdsa.plots.data import draw_gaps, draw_places, draw_series
from cdsa.plots.scores import draw_accuracy, draw_errors, draw_growth

__all__ = [
    "draw_accuracy",
    "draw_attended",
    "draw_axis_map",
    "draw_errors",
    "draw_gaps",
    "draw_growth",
    "draw_places",
    "draw_series",
    "draw_time_measurement",
]
