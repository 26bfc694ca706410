"""Draw docs/pictures/filled.png: a filled series of the demo with its hidden values, and a map.

    python scripts/draw_readme.py [--minutes N]

A tenth of the cells is hidden in bursts; the default network is trained on the rest.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from cdsa.core.gaps import run_lengths
from cdsa.datasets.nyc_weather import open_demo
from cdsa.methods.registry import build_method
from cdsa.plots.data import plot_map, plot_series
from cdsa.workflows.fill import fill_with
from cdsa.workflows.score import hidden_cells, try_method, within

ROOT = Path(__file__).parents[1]
STATION, MEASUREMENT, DAYS = "JFK", "temp", 5


def main() -> None:
    """Hide, fit, fill, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.25)
    minutes = parser.parse_args().minutes
    cube = open_demo()
    hidden = hidden_cells(cube, "bursts:+0.1", seed=0)
    trial = try_method(within(build_method("cdsa"), minutes), cube, hidden)
    result = fill_with(trial.filler, trial.visible)
    hidden_steps = hidden.sel(location=STATION, measurement=MEASUREMENT).to_numpy()
    middle = int(np.argmax(run_lengths(hidden_steps[:, None, None])[:, 0, 0]))
    times = cube["time"].to_numpy()
    span = slice(max(0, middle - 12 * DAYS), middle + 12 * DAYS)
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.4), width_ratios=(2.4, 1), layout="constrained"
    )
    plot_series(
        result.isel(time=span), left, location=STATION, measurement=MEASUREMENT,
        truth=cube.where(hidden).isel(time=span), level=0.9,
    )  # fmt: skip
    plot_map(trial.visible, right)
    fig.savefig(ROOT / "docs" / "pictures" / "filled.png", dpi=110)
    print(f"{times[middle]}: {STATION}, {MEASUREMENT}")


if __name__ == "__main__":
    main()
