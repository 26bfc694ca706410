"""Draw docs/pictures/growth.png from results/: how each manner grows when an axis doubles.

python scripts/draw_growth.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

from cdsa.results import read_results

ROOT = Path(__file__).parents[1]
MANNERS = ("independent", "joint", "decomposed", "shared")
COLOURS = ("#999999", "#D55E00", "#0072B2", "#009E73")  # told apart by colour-blind readers too
AXES = ("time", "location", "measurement")


def main() -> None:
    records = pd.DataFrame(read_results(ROOT / "results" / "attention.jsonl"))
    records = records[records["what"] == "growth"]
    records = records[records["when"] == records["when"].max()].set_index(["manner", "doubled"])
    records["memory"] = records["mib"] - records["mib_before"]
    base = str(records.loc[("joint", ""), "sizes"]).replace("x", " x ")
    fig, panels = plt.subplots(1, 3, figsize=(10, 3.8), sharey=True, layout="constrained")
    whats = (("flops", "operations"), ("seconds", "time of a training step"), ("memory", "memory"))
    for panel, (column, title) in zip(panels, whats, strict=True):
        for number, (manner, colour) in enumerate(zip(MANNERS, COLOURS, strict=True)):
            at = [place + (number - 1.5) * 0.2 for place in range(3)]
            times = [
                records.loc[(manner, axis), column] / records.loc[(manner, ""), column]
                for axis in AXES
            ]
            panel.bar(at, times, width=0.18, color=colour, label=manner)
        panel.set_title(title)
        panel.set_xticks(range(3), [f"{axis}\ndoubled" for axis in AXES])
        for height in (2, 4):
            panel.axhline(height, color="black", linewidth=0.5, linestyle=":")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(f"times that of {base}")
    handles, labels = panels[0].get_legend_handles_labels()
    fig.legend(handles, labels, frameon=False, ncols=4, loc="outside lower center")
    target = ROOT / "docs" / "pictures" / "growth.png"
    target.parent.mkdir(exist_ok=True)
    fig.savefig(target, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
