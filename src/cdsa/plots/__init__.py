"""Plots: one function each, `plot_...(data, ax) -> ax`, readable in print and by the colour-blind.

They plot into the given axes and change nothing else; `cdsa.plots.figures` creates axes and saves
figures. They need the extra 'plot' (matplotlib).
"""

from cdsa.plots.attention import plot_attended_series, plot_attention_map, plot_time_measurement
from cdsa.plots.data import plot_gaps, plot_map, plot_series
from cdsa.plots.scores import plot_accuracy, plot_errors, plot_growth

__all__ = [
    "plot_accuracy",
    "plot_attended_series",
    "plot_attention_map",
    "plot_errors",
    "plot_gaps",
    "plot_growth",
    "plot_map",
    "plot_series",
    "plot_time_measurement",
]
