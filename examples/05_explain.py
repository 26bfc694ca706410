"""Where does a filled value come from? Train a network, fill, and explain one value.

python examples/05_explain.py
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cdsa
from cdsa.plots import plot_attended_series, plot_time_measurement

cube = cdsa.open_demo().isel(time=slice(0, 2000))
model = cdsa.train(cube, minutes=0.5)

gap = np.argwhere(cube.sel(measurement="pressure").isnull().to_numpy())[5]
time, location = cube["time"].to_numpy()[gap[0]], str(cube["location"].to_numpy()[gap[1]])
explanation = cdsa.explain(cube, model, time, location, "pressure")
print(f"pressure at {location}, {time}: filled with {explanation.value:.1f}")
print({group: f"{share:.0%}" for group, share in explanation.by_group().items()})
for contribution in explanation.top(5):
    print(f"{contribution.share:6.1%}  {contribution.value:8.1f}  {contribution.cell}")

folder = Path("examples-out")
folder.mkdir(exist_ok=True)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 3.6), width_ratios=[1, 1.6], layout="constrained"
)
plot_time_measurement(explanation, left)
plot_attended_series(explanation, right)
figure.savefig(folder / "explanation.png", dpi=150)
print("wrote", folder / "explanation.png")
