"""Colours, axes to draw into, and files that appear whole or not at all.

Colours are those of Okabe and Ito, told apart by colour-blind readers too; shades run from light to
dark in one direction, so that they can be read in print.
"""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text

from cdsa.core.atomic import check_file, staged
from cdsa.errors import OutputError

BLACK, ORANGE, SKY, GREEN = "#222222", "#E69F00", "#56B4E9", "#009E73"


YELLOW, BLUE, RED, PINK = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"


COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK, "#999999")


GREY = "#888888"


SHADES = "Blues"


FORMATS = (".png", ".svg", ".pdf")


SAME_NAMES: dict[Any, Any] = {"svg.hashsalt": "cdsa"}
"""Parts of an SVG are called the same each time."""


DOTS = 150
"""Per inch, of a PNG."""


OTHER_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Microsoft YaHei", "SimHei", "Malgun Gothic"),
    *("PingFang SC", "Hiragino Sans GB", "Heiti TC", "Apple SD Gothic Neo", "Arial Unicode MS"),
)
"""For names in scripts that the usual font has no letters for; which are there, systems differ."""


def new_figure(width: float, height: float, *, columns: int = 1, **more: Any) -> Figure:
    """A figure of this size in inches, with so many axes side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.subplots(1, columns, **more)
    return figure


def hide_spines(ax: Axes) -> Axes:
    """Axes with lines on two sides only."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def format_time_axis(ax: Axes) -> None:
    """Dates along the bottom, no more of them than can be read."""
    locator = AutoDateLocator(minticks=3, maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def escape(name: object) -> str:
    """A name as it stands in a table: a dollar in it begins no formula."""
    return str(name).replace("$", r"\$")


@contextlib.contextmanager
def font_fallback(figure: Figure) -> Iterator[None]:
    """While a figure is written: names of every script in a font that has it, and not a word of
    letters that no font here has."""
    known = set(fontManager.get_font_names())
    others = [font for font in OTHER_FONTS if font in known]
    for text in figure.findobj(Text):
        text.set_fontfamily([*text.get_fontfamily(), *others])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def check_figure_path(path: Path, *, overwrite: bool) -> None:
    """Refuse what could not be written, before any work is done for it."""
    if path.suffix.lower() not in FORMATS:
        raise OutputError(f"a picture is written as {', '.join(FORMATS)}, but found '{path.name}'")
    check_file(path, overwrite=overwrite)


def save_figure(figure: Figure, path: Path, *, overwrite: bool = False) -> None:
    """Write a picture, in the format that its name ends with."""
    check_figure_path(path, overwrite=overwrite)
    with (
        staged([path], overwrite=overwrite) as (part,),
        rc_context(SAME_NAMES),
        font_fallback(figure),
    ):
        figure.savefig(
            part,
            dpi=DOTS,
            format=path.suffix[1:].lower(),
            bbox_inches="tight",  # long names are not cut off
            metadata=_plain(path),
        )


def _plain(path: Path) -> dict[str, Any]:
    """No date and no name of a program in the file: the same picture is the same file."""
    key = {".png": "Software", ".svg": "Date", ".pdf": "CreationDate"}[path.suffix.lower()]
    return {key: None}
