"""Draw docs/pictures/growth.png from results/: how each manner grows when an axis doubles.

python scripts/draw_growth.py
"""

from pathlib import Path

from cdsa.core.records import read_results
from cdsa.plots.figures import new_figure, save_figure
from cdsa.plots.scores import COSTS, plot_growth

ROOT = Path(__file__).parents[1]


def main() -> None:
    """The newest run, a panel for each cost."""
    told = read_results(ROOT / "results" / "attention.jsonl")
    told = [one for one in told if one["what"] == "growth"]
    newest = max(str(one["when"]) for one in told)
    records = [one for one in told if one["when"] == newest]
    figure = new_figure(10, 3.8, columns=len(COSTS), sharey=True)
    for ax, cost in zip(figure.axes, COSTS, strict=True):
        plot_growth(records, ax, cost=cost, legend=False)
        ax.label_outer()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=4, loc="outside lower center")
    save_figure(figure, ROOT / "docs" / "pictures" / "growth.png", overwrite=True)


if __name__ == "__main__":
    main()
