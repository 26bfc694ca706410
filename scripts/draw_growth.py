"""Draw docs/pictures/growth.png from results/: the cost of each manner when an axis doubles.

python scripts/draw_growth.py
"""

from results import ROOT, load_latest

from cdsa.plots.figures import new_figure, save_figure
from cdsa.plots.scores import COSTS, plot_growth


def main() -> None:
    """The last run, one panel per cost."""
    records = load_latest("attention", "growth").to_dict("records")
    figure = new_figure(10, 3.8, columns=len(COSTS), sharey=True)
    for ax, cost in zip(figure.axes, COSTS, strict=True):
        plot_growth(records, ax, cost=cost, legend=False)
        ax.label_outer()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=4, loc="outside lower center")
    save_figure(figure, ROOT / "docs" / "pictures" / "growth.png", overwrite=True)


if __name__ == "__main__":
    main()
