"""Pictures: one function each, `draw_...(data, ax) -> ax`, for print and for colour-blind readers.

They draw into axes that are given, and touch nothing else; `figures.py` makes axes for them. They
need the extra 'plot' (matplotlib).
"""

from cdsa.pictures.accuracy import draw_accuracy
from cdsa.pictures.attention import draw_attended, draw_axis_map, draw_time_measurement
from cdsa.pictures.errors import draw_errors
from cdsa.pictures.gaps import draw_gaps
from cdsa.pictures.growth import draw_growth
from cdsa.pictures.places import draw_places
from cdsa.pictures.series import draw_series

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
