"""Draw docs/pictures/filled.png: a filled series of the demo with its hidden values, and the cells
that one of the filled values comes from.

    python scripts/draw_readme.py [--minutes N]

A tenth of the cells is hidden in bursts; the default network is trained on the rest.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import cdsa
from cdsa.core.gaps import run_lengths
from cdsa.plots import plot_attended_series, plot_series

ROOT = Path(__file__).parents[1]
STATION, MEASUREMENT, DAYS = "JFK", "temp", 5


def main() -> None:
    """Hide, train, fill, explain, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    minutes = parser.parse_args().minutes
    cube = cdsa.open_demo()
    hidden = cdsa.masks.parse_hide("bursts:+0.1")(cube, np.random.default_rng(0))
    visible = cube.where(~hidden)
    model = cdsa.train(visible, minutes=minutes)
    result = cdsa.fill(visible, model)

    hidden_steps = hidden.sel(location=STATION, measurement=MEASUREMENT).to_numpy()
    middle = int(np.argmax(run_lengths(hidden_steps[:, None, None])[:, 0, 0]))
    middle += int(hidden_steps[middle:].argmin()) // 2
    time = cube["time"].to_numpy()[middle]
    span = slice(max(0, middle - 12 * DAYS), middle + 12 * DAYS)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 3.8), width_ratios=(1.3, 1), layout="constrained"
    )
    plot_series(
        result.isel(time=span), left, location=STATION, measurement=MEASUREMENT,
        truth=cube.where(hidden).isel(time=span), level=0.9,
    )  # fmt: skip
    plot_attended_series(cdsa.explain(visible, model, time, STATION, MEASUREMENT), right)
    figure.savefig(ROOT / "docs" / "pictures" / "filled.png", dpi=110)
    print(f"{time}: {STATION}, {MEASUREMENT}")


if __name__ == "__main__":
    main()
