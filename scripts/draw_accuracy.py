"""Draw docs/pictures/accuracy.png from results/: error on KDD-2015 PM2.5 by minutes of training.

python scripts/draw_accuracy.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

from cdsa.results import read_results

ROOT = Path(__file__).parents[1]
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
PUBLISHED = {"BRITS, published": 11.56, "the paper's CDSA": 10.67, "CSDI": 9.60, "PriSTI": 9.03}
TEST = {"data": "kdd2015-pm25", "cells": "test-months", "protocol": "out-of-sample"}


def main() -> None:
    """One line per network, levels for what was published and for the straight line."""
    records = pd.DataFrame(read_results(ROOT / "results" / "paper.jsonl"))
    for column, value in TEST.items():
        records = records[records[column] == value]
    records = records[~records["quick"].astype(bool) & records["loss"].isna()]
    records = records.sort_values("when").drop_duplicates(
        ["method", "minutes", "seed"], keep="last"
    )
    fig, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    trained = records[records["minutes"].notna()]
    for colour, (method, own) in zip(COLOURS, trained.groupby("method"), strict=False):
        by = own.groupby("minutes")["mae"].mean()
        ax.plot(by.index, by.to_numpy(), "o-", color=colour, label=method)
    line = records.loc[records["method"] == "linear", "mae"].iloc[-1]
    for name, level in {"straight line": line, **PUBLISHED}.items():
        ax.axhline(level, color="#999999", linewidth=0.8, linestyle=":")
        ax.text(0.99, level, name, transform=ax.get_yaxis_transform(), ha="right", va="bottom",
                fontsize=8, color="#555555")  # fmt: skip
    ax.set_xscale("log")
    ticks = sorted(trained["minutes"].unique())
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xlabel("minutes of training")
    ax.set_ylabel("MAE on the removed cells (ug/m3)")
    ax.set_yscale("log")
    levels = [9, 10, 12, 15, 20, 30, 40]
    ax.set_yticks(levels, [str(level) for level in levels])
    ax.legend(frameon=False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.minorticks_off()
    ax.set_xlim(right=2.2 * max(ticks))  # room for the names of levels
    fig.savefig(ROOT / "docs" / "pictures" / "accuracy.png", dpi=110)


if __name__ == "__main__":
    main()
