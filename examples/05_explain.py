"""Where does a filled value come from? The network's own maps say.

python examples/05_explain.py
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

import cdsa
from cdsa.methods.neural.cdsa import Cdsa, default_training
from cdsa.plots import plot_attended_series, plot_time_measurement
from cdsa.plots.figures import new_figure, save_figure

cube = cdsa.open_demo().isel(time=slice(0, 2000))
filler = Cdsa(train=replace(default_training(), minutes=0.5)).fit(cube)

gap = np.argwhere(cube.sel(measurement="pressure").isnull().to_numpy())[5]
reasons = filler.explain(
    cube, cube["time"].values[gap[0]], str(cube["location"].values[gap[1]]), "pressure"
)
print(reasons.cell, "filled with", reasons.value)
print({name: f"{share:.0%}" for name, share in reasons.by_group().items()})
for reason in reasons.top(5):
    print(f"{reason.share:6.1%}  {reason.value:8.1f}  {reason.cell}")

folder = Path("examples-out")
folder.mkdir(exist_ok=True)
figure = new_figure(11, 3.6, columns=2, width_ratios=[1, 1.6])
plot_time_measurement(reasons, figure.axes[0])
plot_attended_series(reasons, figure.axes[1])
save_figure(figure, folder / "reasons.png", overwrite=True)
