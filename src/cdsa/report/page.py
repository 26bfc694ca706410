"""One page that tells a fill from end to end: what was there, what was done, how good it is.

It needs nothing but itself: pictures, data, styles and the script of the time line are in the file,
and a policy in its head forbids it to load anything else.
"""

import base64
import html
import io
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from cdsa.core.atomic import write_texts
from cdsa.core.cube import has_coordinates, units_of
from cdsa.core.metrics import LEVELS
from cdsa.core.records import Value, now
from cdsa.core.summary import CubeSummary, summarise_cube
from cdsa.core.text import format_interval, format_number
from cdsa.plots import plot_errors, plot_gaps, plot_map
from cdsa.plots.figures import font_fallback, new_figure
from cdsa.report.content import ReportContent, cells_to_check
from cdsa.report.series import pack_series
from cdsa.workflows.score import Score

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
    with font_fallback(figure):
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


DIGITS = 4
"""Of a figure."""


MEASURED = format_interval(max(LEVELS))
"""The interval that is measured on hidden cells."""


POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def write_report(story: ReportContent, path: Path, *, overwrite: bool = False) -> None:
    """Write the report; it appears whole or not at all."""
    write_texts({path: render(story)}, overwrite=overwrite)


def render(story: ReportContent) -> str:
    """The page."""
    looked, worst = summarise_cube(story.cube), cells_to_check(story)
    wanted = [] if worst.empty else list(worst["series"])
    packed = pack_series(story.result, wanted, story.clock)
    parts = [
        _head(story, looked),
        _contents(story, looked),
        _missing(story),
        _filled(story),
        _expected(story),
        _timeline(packed, story.interval),
        _worst(story, worst),
        _settings(story),
    ]
    data = json.dumps(packed, separators=(",", ":")).replace("<", "\\u003c")
    return PAGE.format(
        policy=POLICY,
        title=html.escape(f"{story.name}, filled"),
        style=_resource("style.css"),
        body="\n".join(parts),
        data=data,
        script=_resource("chart.js") + _resource("timeline.js"),
    )


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
<script type="application/json" id="series-data">{data}</script>
<script>
{script}</script>
</body>
</html>
"""


def _head(story: ReportContent, looked: CubeSummary) -> str:
    gaps = int((story.result["source"] == "filled").sum())
    cells = story.cube.size
    facts = [
        (f"{looked.n_steps:,}", f"steps of {looked.step}"),
        (f"{len(looked.locations):,}", "stations"),
        (f"{len(looked.measurements):,}", "measurements"),
        (f"{gaps:,}", f"cells filled, {gaps / cells:.1%} of all"),
        (story.method, "method"),
    ]
    boxes = "".join(f"<div><b>{html.escape(a)}</b>{html.escape(b)}</div>" for a, b in facts)
    times = story.cube["time"].to_numpy()
    span = html.escape(f"{story.format_time(times[0])} to {story.format_time(times[-1])}")
    return (
        f"<h1>{html.escape(story.name)}, filled</h1>\n<p class=soft>{span}</p>\n"
        f"<div class=facts>{boxes}</div>"
    )


def _contents(story: ReportContent, looked: CubeSummary) -> str:
    rows = [
        [
            str(name),
            str(row["unit"]),
            f"{int(row['missing']):,}",
            f"{row['share']:.1%}",
            f"{int(row['gaps']):,}",
            f"{int(row['longest']):,}",
        ]
        for name, row in looked.measurements.iterrows()
    ]
    head = ["measurement", "unit", "missing", "share", "gaps", "longest gap (steps)"]
    return section("What was in the file", table(head, rows, numbers=range(2, 6)))


def _missing(story: ReportContent) -> str:
    stations = min(40, max(4, story.cube.sizes["location"]))
    figure = new_figure(9, 1.2 + 0.22 * stations)
    plot_gaps(story.cube, figure.axes[0])
    shown = [picture(figure, "When and where it is missing: the darker, the more of it.")]
    if has_coordinates(story.cube):
        errors, unit = None, ""
        if story.expected is not None:
            found = story.expected.table("location")["mae"]
            errors = {str(name): float(error) for name, error in found.items()}
            unit = story.expected.unit
        figure = new_figure(7, 5)
        plot_map(story.cube, figure.axes[0], errors=errors, unit=unit)
        words = "The stations, what each is missing, and its error."
        shown.append(picture(figure, words, narrow=True))
    return section("What was missing", *shown)


def _filled(story: ReportContent) -> str:
    source = story.result["source"]
    rows = []
    for name in story.cube["measurement"].to_numpy():
        one = source.sel(measurement=name)
        kinds = ("observed", "filled", "unfillable")
        counts = [f"{int((one == kind).sum()):,}" for kind in kinds]
        rows.append([str(name), *counts, story.parts.get(str(name), story.method)])
    head = ["measurement", "measured", "filled", "cannot be filled", "by"]
    words = [f"<p>{html.escape(line)}</p>" for line in story.messages]
    return section("What was filled, and by what", *words, table(head, rows, numbers=(1, 2, 3)))


def _expected(story: ReportContent) -> str:
    own = story.expected
    if own is None:
        if not story.errors:
            return section(
                "What error to expect", "<p>No cells were hidden to measure an error on.</p>"
            )
        rows = [
            [str(one["measurement"]), _number(one.get("mae")), str(one.get("unit", "")),
             f"{one.get('cells', 0):,}"]
            for one in story.errors
        ]  # fmt: skip
        head = ["measurement", "mean absolute error", "unit", "cells"]
        note = "<p class=soft>On cells that were kept from the network while it learnt.</p>"
        return section("What error to expect", note, table(head, rows, numbers=(1, 3)))
    note = (
        f"<p class=soft>On {own.hidden:,} measured cells that were hidden from every method, in "
        f"gaps of up to {own.longest:,} steps.</p>"
    )
    if story.interval not in ("", MEASURED):
        note += (
            f"<p class=soft>How often intervals hold was measured for the {MEASURED}; below, the "
            f"{story.interval} is shown.</p>"
        )
    shown = [note, _by(own, "measurement"), _by(own, "gap")]
    figure = new_figure(6.5, 3.6)
    plot_errors(story.scores or [own], figure.axes[0])
    shown.append(picture(figure, "Errors by the length of the gap.", narrow=True))
    return section("What error to expect", *shown)


def _by(own: Score, key: str) -> str:
    rows = []
    for name, row in own.table(key).iterrows():
        unit = own.units.get(str(name), "") if key == "measurement" else own.unit
        inside = f"{row['coverage']:.0%}" if np.isfinite(row["coverage"]) else "-"
        figures = [_number(row["mae"]), _number(row["rmse"]), unit, inside]
        rows.append([str(name), *figures, f"{int(row['cells']):,}"])
    head = [
        "measurement" if key == "measurement" else "steps of the gap",
        *("mean absolute error", "root mean square", "unit", f"in {MEASURED}", "cells"),
    ]
    return table(head, rows, numbers=(1, 2, 4, 5))


def _timeline(packed: Mapping[str, object], interval: str) -> str:
    left_out = (
        f"<p class=soft>{packed['left_out']:,} series with less to look at are left out, to keep "
        "the page small.</p>"
        if packed["left_out"]
        else ""
    )
    keys = '<span class=key>measured</span> &nbsp; <span class="key filled">filled</span>'
    if interval:
        keys += f' &nbsp; <span class="key band">{html.escape(interval)}</span>'
    return section(
        "Every series",
        left_out,
        "<div class=bar><label>Station <select id=station></select></label>"
        "<label>Measurement <select id=measurement></select></label>"
        '<button id=nearer type=button aria-label="zoom in">+</button>'
        '<button id=further type=button aria-label="zoom out">−</button>'
        "<button id=whole type=button>all</button></div>",
        '<canvas id=timeline tabindex=0 role=img aria-label="time line; arrows go from step to '
        'step, page up and down move it, plus and minus zoom, 0 shows all"></canvas>',
        "<p id=here class=soft aria-live=polite></p>",
        f"<p class=soft>{keys}</p>",
    )


def _worst(story: ReportContent, worst: pd.DataFrame) -> str:
    if worst.empty:
        return section("Cells to check by hand", "<p>Nothing was filled.</p>")
    units = units_of(story.cube)
    rows = []
    for row in worst.itertuples():
        interval = (
            f"{_number(row.lower)} to {_number(row.upper)}" if np.isfinite(row.lower) else "-"
        )
        button = (
            f'<button type=button data-step="{row.step}" '
            f'data-location="{html.escape(row.location, quote=True)}" '
            f'data-measurement="{html.escape(row.measurement, quote=True)}">show</button>'
        )
        cells = [story.format_time(row.time), row.location, row.measurement, _number(row.value)]
        cells += [interval, units[row.measurement], f"{row.gap:,}"]
        rows.append([*(html.escape(cell) for cell in cells), button])
    head = ["time", "station", "measurement", "filled with", story.interval or "interval", "unit"]
    head += ["gap (steps)", ""]
    why = "the widest intervals, some of every measurement" if story.interval else "the most steps"
    return section(
        "Cells to check by hand",
        f"<p class=soft>One cell of each of {len(rows)} gaps with {why}.</p>",
        table(head, rows, numbers=(3, 6), escaped=True),
    )


def _settings(story: ReportContent) -> str:
    settings = json.dumps(story.settings, indent=1, ensure_ascii=False, default=str)
    words = f"cdsa {version('cdsa')}, {now()}"
    command = f"<pre>{html.escape(story.command)}</pre>" if story.command else ""
    own = f"<pre>{html.escape(settings)}</pre>" if story.settings else ""
    return section("Settings", f"<p class=soft>{html.escape(words)}</p>", command, own)


def _number(value: Value) -> str:
    return format_number(value, DIGITS) if isinstance(value, int | float) else format_number(None)


def _resource(name: str) -> str:
    return (files("cdsa") / "report" / name).read_text(encoding="utf-8")
