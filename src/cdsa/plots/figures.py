"""Colours, axes to plot into, and files that appear complete or not at all.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish; shades run from
light to dark in one direction, so that they can be read in print.
"""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text

from cdsa.core.atomic import check_file, staged
from cdsa.errors import OutputError

BLACK, GREY, BLUE, RED = "#222222", "#888888", "#0072B2", "#D55E00"
GREEN, PINK = "#009E73", "#CC79A7"
COLOURS = (BLUE, RED, GREEN, PINK, "#E69F00", "#56B4E9", BLACK, "#999999")
SHADES = "Blues"

DPI = 150
FORMATS = {".png": "Software", ".svg": "Date", ".pdf": "CreationDate"}
"""File types, and what is left out of them so that the same figure gives the same file."""


FALLBACK_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Microsoft YaHei", "SimHei", "Malgun Gothic"),
    *("PingFang SC", "Hiragino Sans GB", "Heiti TC", "Apple SD Gothic Neo", "Arial Unicode MS"),
)
"""Fonts for names in scripts that the default font lacks; systems have different ones."""


def new_figure(width: float, height: float, *, columns: int = 1, **options: Any) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.subplots(1, columns, **options)
    return figure


def hide_spines(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def format_time_axis(ax: Axes) -> None:
    """Dates along the bottom, no more than can be read."""
    locator = AutoDateLocator(minticks=3, maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def escape(name: object) -> str:
    """A name in which dollars do not start a formula."""
    return str(name).replace("$", r"\$")


def error_label(unit: str) -> str:
    return f"mean absolute error ({escape(unit)})" if unit else "mean absolute error"


@contextlib.contextmanager
def font_fallback(figure: Figure) -> Iterator[None]:
    """Use installed fallback fonts while a figure is written, without warnings about glyphs that
    none of them has."""
    installed = set(fontManager.get_font_names())
    fallbacks = [font for font in FALLBACK_FONTS if font in installed]
    for text in figure.findobj(Text):
        text.set_fontfamily([*text.get_fontfamily(), *fallbacks])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def check_figure_path(path: Path, *, overwrite: bool) -> None:
    if path.suffix.lower() not in FORMATS:
        raise OutputError(f"a figure is saved as {', '.join(FORMATS)}, but found '{path.name}'")
    check_file(path, overwrite=overwrite)


def save_figure(figure: Figure, path: Path, *, overwrite: bool = False) -> None:
    check_figure_path(path, overwrite=overwrite)
    with staged([path], overwrite=overwrite) as (temp_file,):
        write_figure(figure, temp_file, path.suffix.lower(), DPI)


def write_figure(figure: Figure, file: Path | IO[bytes], suffix: str, dpi: int) -> None:
    """Write a figure with all its texts, and nothing that differs from time to time."""
    metadata: dict[Any, Any] = {FORMATS[suffix]: None}
    with rc_context({"svg.hashsalt": "cdsa"}), font_fallback(figure):
        figure.savefig(file, dpi=dpi, format=suffix[1:], bbox_inches="tight", metadata=metadata)
