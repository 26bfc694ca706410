"""Parts that a page is made of: sections, tables and pictures, as HTML."""

import base64
import html
import io
from collections.abc import Sequence

from matplotlib.figure import Figure

from cdsa.plots.figures import legible

DOTS = 110
"""Per inch, of pictures in a report."""


def section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{html.escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Sequence[int] | range = (),
    escaped: bool = False,
) -> str:
    def line(cells: Sequence[str], tag: str, *, plain: bool) -> str:
        return "".join(
            f"<{tag}{' class=n' if number in numbers else ''}>"
            f"{cell if plain else html.escape(cell)}</{tag}>"
            for number, cell in enumerate(cells)
        )

    body = "\n".join(f"<tr>{line(row, 'td', plain=escaped)}</tr>" for row in rows)
    return (
        f"<div class=wide><table><thead><tr>{line(head, 'th', plain=False)}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def picture(figure: Figure, words: str, *, narrow: bool = False) -> str:
    file = io.BytesIO()
    with legible(figure):
        figure.savefig(
            file, format="png", dpi=DOTS, bbox_inches="tight", metadata={"Software": None}
        )
    data = base64.b64encode(file.getvalue()).decode()
    kind = " class=narrow" if narrow else ""
    told = html.escape(words, quote=True)
    return (
        f'<figure{kind}><img alt="{told}" src="data:image/png;base64,{data}">'
        f"<figcaption>{html.escape(words)}</figcaption></figure>"
    )
