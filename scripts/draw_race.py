"""Draw docs/pictures/race.png from results/: error over CPU seconds, beside published errors.

python scripts/draw_race.py
"""

from results import ROOT, load

from cdsa.plots import plot_accuracy
from cdsa.plots.figures import new_figure, save_figure

PUBLISHED = {"BRITS, published": 11.56, "the paper's CDSA": 10.67, "CSDI": 9.60, "PriSTI": 9.03}
PANELS = {
    "pm25": ("KDD-2015 PM2.5, test months", "ug/m3", PUBLISHED),
    "beijing": ("Beijing, 12 stations x 11, bursts", "standard deviations", {}),
}
HIGHEST = 4
"""Errors above this many times the lowest are not drawn: the first epochs."""


def main() -> None:
    """One panel per table, one line per method."""
    records = load("race")
    records = records.drop_duplicates(["track", "method", "seed", "cpu_seconds"], keep="last")
    figure = new_figure(10, 4.2, columns=len(PANELS))
    for ax, (track, (title, unit, levels)) in zip(figure.axes, PANELS.items(), strict=True):
        drawn = records[records["track"] == track]
        drawn = drawn[drawn["mae"] < HIGHEST * drawn["mae"].min()]
        plot_accuracy(drawn.to_dict("records"), ax, by="cpu_seconds", levels=levels, unit=unit)
        ax.set_title(title)
    save_figure(figure, ROOT / "docs" / "pictures" / "race.png", overwrite=True)


if __name__ == "__main__":
    main()
