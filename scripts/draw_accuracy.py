"""Draw docs/pictures/accuracy.png from results/: error on KDD-2015 PM2.5 by minutes of training.

python scripts/draw_accuracy.py
"""

from pathlib import Path

import pandas as pd

from cdsa.core.records import read_results
from cdsa.plots import plot_accuracy
from cdsa.plots.figures import new_figure, save_figure

ROOT = Path(__file__).parents[1]
PUBLISHED = {"BRITS, published": 11.56, "the paper's CDSA": 10.67, "CSDI": 9.60, "PriSTI": 9.03}
TEST = {"data": "kdd2015-pm25", "cells": "test-months", "protocol": "out-of-sample"}


def main() -> None:
    """One line per network, and horizontal levels for published errors and linear interpolation."""
    records = pd.DataFrame(read_results(ROOT / "results" / "paper.jsonl"))
    for column, value in TEST.items():
        records = records[records[column] == value]
    records = records[~records["quick"].astype(bool) & records["loss"].isna()]
    records = records.sort_values("when").drop_duplicates(
        ["method", "minutes", "seed"], keep="last"
    )
    linear = float(records.loc[records["method"] == "linear", "mae"].iloc[-1])
    trained = records[records["minutes"].notna()]
    figure = new_figure(7.5, 4.2)
    plot_accuracy(
        trained.to_dict("records"),
        figure.axes[0],
        levels={"linear": linear, **PUBLISHED},
        unit="ug/m3",
    )
    save_figure(figure, ROOT / "docs" / "pictures" / "accuracy.png", overwrite=True)


if __name__ == "__main__":
    main()
