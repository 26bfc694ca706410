"""The HTML page of a report: contents of the file, gaps, filled values and expected errors.

The page is self-contained: images, data, styles and scripts are in the file, and a policy in its
head forbids it to load anything else.
"""

import base64
import html
import io
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from numbers import Integral

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from cdsa.core.config import to_dict
from cdsa.core.cube import LEFT_OPEN, has_coordinates, units_of
from cdsa.core.metrics import LEVELS
from cdsa.core.records import now
from cdsa.core.summary import CubeSummary, summarise_cube
from cdsa.core.text import format_interval, format_number
from cdsa.plots import plot_errors, plot_gaps, plot_map
from cdsa.plots.figures import new_figure, write_figure
from cdsa.report.content import ReportContent, cells_to_check
from cdsa.report.series import pack_series
from cdsa.workflows.pipeline import FillResult
from cdsa.workflows.score import Score
from cdsa.workflows.select import Selection

DPI = 110
DIGITS = 4

SCORED_INTERVAL = format_interval(max(LEVELS))
"""The interval that is scored on hidden cells."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

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


def render_report(filled: FillResult, name: str, command: str) -> str:
    """The report of the fill of a file, as one HTML page."""
    return render(
        ReportContent(
            name=name,
            cube=filled.source.cube,
            n_sites=filled.n_sites,
            messages=(*filled.source.notes, *filled.source.warnings, *filled.messages),
            result=filled.dataset,
            selection=filled.selection,
            command=command,
            clock=filled.source.content.clock,
        )
    )


def render(content: ReportContent) -> str:
    summary, suspects = summarise_cube(content.stations), cells_to_check(content)
    series = pack_series(content.result, list(suspects["series"]), content.clock)
    sections = [
        _header(content, summary),
        _contents(summary),
        _messages(content),
        _missing(content),
        _filled(content),
        _expected_error(content),
        _timeline(series, content.interval),
        _cells_to_check(content, suspects),
        _settings(content),
    ]
    return PAGE.format(
        policy=POLICY,
        title=html.escape(f"{content.name}, filled"),
        style=_read_asset("style.css"),
        body="\n".join(sections),
        data=json.dumps(series, separators=(",", ":")).replace("<", "\\u003c"),
        script=_read_asset("chart.js") + _read_asset("timeline.js"),
    )


def _header(content: ReportContent, summary: CubeSummary) -> str:
    n_stations = len(summary.locations)
    is_filled = (content.result["source"] == "filled").transpose(*content.cube.dims).to_numpy()
    n_filled, n_at_sites = (
        int(is_filled[:, :n_stations].sum()),
        int(is_filled[:, n_stations:].sum()),
    )
    facts = [
        (f"{summary.n_steps:,}", f"steps of {summary.step}"),
        (f"{n_stations:,}", _plural("station", n_stations)),
        (f"{len(summary.measurements):,}", _plural("measurement", len(summary.measurements))),
        (f"{n_filled:,}", f"cells filled, {n_filled / content.stations.size:.1%} of all"),
        (content.selection.label, "(method)"),
    ]
    if content.n_sites:
        text = f"{_plural('site', content.n_sites)} without a sensor, {n_at_sites:,} cells"
        facts.insert(4, (f"{content.n_sites:,}", text))
    boxes = "".join(f"<div><b>{html.escape(a)}</b>{html.escape(b)}</div>" for a, b in facts)
    times = content.cube["time"].to_numpy()
    span = html.escape(f"{content.format_time(times[0])} to {content.format_time(times[-1])}")
    return (
        f"<h1>{html.escape(content.name)}, filled</h1>\n<p class=soft>{span}</p>\n"
        f"<div class=facts>{boxes}</div>"
    )


def _contents(summary: CubeSummary) -> str:
    rows = [
        [
            *(row.Index, row.unit, row.bounds, row.decimals),
            *(row.missing, f"{row.share:.1%}", row.gaps, row.longest),
        ]
        for row in summary.measurements.itertuples()
    ]
    head = ["measurement", "unit", "bounds", "decimals", "missing", "share", "gaps"]
    head.append("longest gap (steps)")
    note = (
        "<p class=soft>Filled values and intervals are within the bounds and have the decimals of "
        "the measured ones; both are inferred from these unless they were given.</p>"
    )
    return section("Contents of the file", table(head, rows, numeric=range(3, 8)), note)


def _messages(content: ReportContent) -> str:
    """How the file was read, and what may be wrong with it or with the result."""
    if not content.messages:
        return ""
    items = "".join(f"<li>{html.escape(message)}</li>" for message in content.messages)
    return section("Notes and warnings", f"<ul>{items}</ul>")


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _missing(content: ReportContent) -> str:
    n_rows = min(40, max(4, content.stations.sizes["location"]))
    figure = new_figure(9, 1.2 + 0.22 * n_rows)
    plot_gaps(content.stations, figure.axes[0])
    images = [image(figure, "Missing values by station and time; darker is more.")]
    if has_coordinates(content.cube):
        errors, unit, expected = None, "", content.selection.expected
        if expected is not None:
            errors, unit = expected.table("location")["mae"].to_dict(), expected.unit
        figure = new_figure(7, 5)
        plot_map(content.stations, figure.axes[0], errors=errors, unit=unit)
        caption = "Stations, with their share of missing values"
        caption += " and their error." if errors else "."
        images.append(image(figure, caption, narrow=True))
    return section("Missing values", *images)


def _filled(content: ReportContent) -> str:
    selection, source = content.selection, content.result["source"]
    labels = (("observed",), ("filled",), LEFT_OPEN, ("unfillable",))
    counts = [source.isin(group).sum(("time", "location")).to_numpy() for group in labels]
    rows = [
        [name, *numbers, selection.describe(str(name))]
        for name, *numbers in zip(source["measurement"].to_numpy(), *counts, strict=True)
    ]
    head = ["measurement", "measured", "filled", "left open", "unfillable", "method"]
    messages = [f"<p>{html.escape(message)}</p>" for message in selection.reasons]
    blocks = [*messages, table(head, rows, numeric=(1, 2, 3, 4))]
    if selection.blend:
        names = selection.blend.candidates
        frame = selection.blend.to_frame()
        alone = (frame.groupby(level="measurement").transform("min") == 1).any(axis=1)
        frame = frame[~alone]
        weights = [[*row, *(f"{w:g}" for w in values)] for row, *values in frame.itertuples()]
        note = "<p class=soft>Where methods are combined, a value is their weighted mean.</p>"
        head = ["measurement", "gap length (steps)", *names]
        blocks += [note, table(head, weights, numeric=range(2, 2 + len(names)))]
    return section("Filled values", *blocks)


def _expected_error(content: ReportContent) -> str:
    title, selection = "Expected error", content.selection
    score = selection.expected
    if score is None:
        if not selection.validation_errors:
            nothing = "<p>No cells were hidden to measure an error.</p>"
            return section(title, nothing, *_error_at_sites(selection))
        rows = [
            [error["measurement"], error.get("mae"), error.get("unit", ""), error.get("cells", 0)]
            for error in selection.validation_errors
        ]
        head = ["measurement", "mean absolute error", "unit", "cells"]
        note = "<p class=soft>On cells that were held out from the training of the network.</p>"
        errors = table(head, rows, numeric=(1, 3))
        return section(title, note, errors, *_error_at_sites(selection))
    note = (
        f"<p class=soft>On {score.hidden:,} measured cells that were hidden from every method, in "
        f"gaps of up to {score.longest:,} steps.</p>"
    )
    if content.interval not in ("", SCORED_INTERVAL):
        note += (
            f"<p class=soft>Coverage was measured for the {SCORED_INTERVAL}; the series below show "
            f"the {content.interval}.</p>"
        )
    figure = new_figure(6.5, 3.6)
    combined = [score] if selection.blend or not selection.scores else []
    plot_errors([*selection.scores, *combined], figure.axes[0])
    return section(
        title,
        note,
        _error_table(score, "measurement"),
        _error_table(score, "gap"),
        image(figure, "Errors by gap length.", narrow=True),
        *_error_at_sites(selection),
    )


def _error_at_sites(selection: Selection) -> list[str]:
    """The error where whole stations were hidden, if sites without a sensor were filled."""
    score = selection.expected_at_sites
    if score is None:
        return []
    note = (
        f"<p class=soft>At sites without a sensor, filled by {html.escape(score.method)}: on "
        f"{score.hidden:,} values of whole stations that were hidden.</p>"
    )
    return [note, _error_table(score, "measurement")]


def _error_table(score: Score, key: str) -> str:
    rows = []
    for name, row in score.table(key).iterrows():
        unit = score.units.get(str(name), "") if key == "measurement" else score.unit
        coverage = f"{row['coverage']:.0%}" if np.isfinite(row["coverage"]) else "-"
        rows.append([name, row["mae"], row["rmse"], unit, coverage, int(row["cells"])])
    head = [
        "measurement" if key == "measurement" else "gap length (steps)",
        *("mean absolute error", "root mean square", "unit", f"in {SCORED_INTERVAL}", "cells"),
    ]
    return table(head, rows, numeric=(1, 2, 4, 5))


def _timeline(series: Mapping[str, object], interval: str) -> str:
    left_out = ""
    if series["left_out"]:
        left_out = (
            f"<p class=soft>{series['left_out']:,} series with fewer filled values are left out to "
            "keep the page small.</p>"
        )
    keys = '<span class=key>measured</span> &nbsp; <span class="key filled">filled</span>'
    if interval:
        keys += f' &nbsp; <span class="key band">{html.escape(interval)}</span>'
    return section(
        "Series",
        left_out,
        "<div class=bar><label>Station <select id=station></select></label>"
        "<label>Measurement <select id=measurement></select></label>"
        '<button id=zoom-in type=button aria-label="zoom in">+</button>'
        '<button id=zoom-out type=button aria-label="zoom out">−</button>'
        "<button id=zoom-reset type=button>all</button></div>",
        '<canvas id=timeline tabindex=0 role=img aria-label="timeline; the arrow keys move from '
        'step to step, page up and down pan, plus and minus zoom, 0 shows all"></canvas>',
        "<p id=readout class=soft aria-live=polite></p>",
        f"<p class=soft>{keys}</p>",
    )


def _cells_to_check(content: ReportContent, suspects: pd.DataFrame) -> str:
    title = "Cells to check"
    if suspects.empty:
        return section(title, "<p>Nothing was filled.</p>")
    units = units_of(content.cube)
    rows = []
    for row in suspects.itertuples():
        bounded = np.isfinite(row.lower)
        interval = f"{_format(row.lower)} to {_format(row.upper)}" if bounded else "-"
        button = Html(
            f'<button type=button data-step="{row.step}" '
            f'data-location="{html.escape(row.location)}" '
            f'data-measurement="{html.escape(row.measurement)}">show</button>'
        )
        cells = [content.format_time(row.time), row.location, row.measurement, row.value, interval]
        rows.append([*cells, units[row.measurement], row.gap, button])
    head = ["time", "station", "measurement", "filled with", content.interval or "interval", "unit"]
    head += ["gap (steps)", ""]
    order = "widest intervals of each measurement" if content.interval else "longest gaps"
    return section(
        title,
        f"<p class=soft>One cell of each of {len(rows)} gaps: those with the {order}.</p>",
        table(head, rows, numeric=(3, 6)),
    )


def _settings(content: ReportContent) -> str:
    method = content.selection.filler.primary.settings
    settings = "" if method is None else to_dict(method)
    text = json.dumps(settings, indent=1, ensure_ascii=False, default=str)
    return section(
        "Settings",
        f"<p class=soft>cdsa {version('cdsa')}, {now()}</p>",
        f"<pre>{html.escape(content.command)}</pre>" if content.command else "",
        f"<pre>{html.escape(text)}</pre>" if settings else "",
    )


def section(title: str, *blocks: str) -> str:
    return f"<section>\n<h2>{html.escape(title)}</h2>\n" + "\n".join(blocks) + "\n</section>"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, numeric: Sequence[int]) -> str:
    def line(cells: Sequence[object], tag: str) -> str:
        classes = (" class=n" if column in numeric else "" for column in range(len(cells)))
        pairs = zip(classes, map(_format, cells), strict=True)
        return "<tr>" + "".join(f"<{tag}{name}>{text}</{tag}>" for name, text in pairs) + "</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return (
        f"<div class=wide><table><thead>{line(head, 'th')}</thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def image(figure: Figure, caption: str, *, narrow: bool = False) -> str:
    file = io.BytesIO()
    write_figure(figure, file, ".png", DPI)
    data = base64.b64encode(file.getvalue()).decode()
    return (
        f"<figure{' class=narrow' if narrow else ''}>"
        f'<img alt="{html.escape(caption)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


class Html(str):
    """Text that is HTML already."""


def _format(cell: object) -> str:
    match cell:
        case Html():
            return cell
        case Integral():
            return f"{cell:,}"
        case float() | None:
            return format_number(cell, DIGITS)
    return html.escape(str(cell))


def _read_asset(name: str) -> str:
    return (files("cdsa") / "report" / name).read_text(encoding="utf-8")
