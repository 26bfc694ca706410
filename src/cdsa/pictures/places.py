"""Where the stations are, and how well each is known. No map server is asked for anything."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from cdsa.core.cube import fillable, has_places
from cdsa.errors import ConfigError
from cdsa.pictures.figures import BLACK, GREY, plain, plainer

MOST_NAMES = 45
SMALL, LARGE = 35.0, 260.0
"""Areas of the smallest and the largest dot, in square points."""


class Degrees(MaxNLocator):
    """Round degrees, no more of them than there is room for their digits."""

    def __call__(self) -> Sequence[float]:
        assert self.axis is not None
        room = self.axis.get_tick_space() // 2  # counted for labels of half the length
        self.set_params(nbins=min(6, max(1, room)))
        return super().__call__()


def draw_places(
    cube: xr.DataArray, ax: Axes, *, errors: Mapping[str, float] | None = None, unit: str = ""
) -> Axes:
    """Stations at their coordinates, the darker the more is missing and, with `errors` by station,
    the larger the greater its error."""
    if not has_places(cube):
        raise ConfigError(
            "a map needs coordinates, but these stations have none. Give them in columns lat and "
            "lon or with --locations"
        )
    lat, lon = cube["lat"].to_numpy(), cube["lon"].to_numpy()
    names = [str(name) for name in cube["location"].to_numpy()]
    kinds = fillable(cube)
    missing = cube.isel(measurement=kinds if kinds.any() else slice(None)).isnull()
    share = 100 * missing.mean(("time", "measurement")).to_numpy()
    sizes = np.full(len(names), 90.0)
    if errors:
        known = np.array([errors.get(name, np.nan) for name in names])
        most = np.nanmax(known) if np.isfinite(known).any() else 1.0
        sizes = np.nan_to_num(SMALL + (LARGE - SMALL) * known / (most or 1.0), nan=SMALL)
        for part in (0.25, 0.5, 1.0):  # what sizes mean
            ax.scatter(
                [], [], s=SMALL + (LARGE - SMALL) * part, color="white", edgecolor=GREY,
                label=f"{part * most:.2g}",
            )  # fmt: skip
        what = f"mean absolute error\n({plain(unit)})" if unit else "mean absolute error"
        ax.legend(
            title=what, frameon=False, fontsize=7, title_fontsize=7, alignment="left", ncols=3,
            loc="lower left", bbox_to_anchor=(0, 1.02), borderaxespad=0, borderpad=0,
            handletextpad=0.5, columnspacing=0.8,
        )  # fmt: skip
    dots = ax.scatter(
        lon, lat, s=sizes, c=share, cmap="cividis_r", vmin=0, vmax=max(1.0, float(share.max())),
        edgecolor=BLACK, linewidth=0.6, zorder=3,
    )  # fmt: skip
    if len(names) <= MOST_NAMES:
        for name, x, y, size in zip(names, lon, lat, sizes, strict=True):
            ax.annotate(
                plain(name), (x, y), xytext=(0, 2 + np.sqrt(size) / 2), textcoords="offset points",
                ha="center", va="bottom", fontsize=7, color=BLACK, zorder=4,
            )  # fmt: skip
    middle = np.deg2rad(np.mean(lat))
    ax.set_aspect(1 / max(0.05, float(np.cos(middle))), adjustable="datalim")
    ax.margins(0.12)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(Degrees(steps=[1, 2, 5, 10]))
    ax.ticklabel_format(useOffset=False)
    ax.tick_params(labelsize=8)
    ax.grid(color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel("longitude")
    ax.set_ylabel("latitude")
    assert ax.figure is not None
    bar = ax.figure.colorbar(dots, ax=ax, shrink=0.6, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8)
    bar.set_label("% missing")
    return plainer(ax)
