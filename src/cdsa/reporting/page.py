"""One page that tells a fill from end to end: what was there, what was done, how good it is.

It needs nothing but itself: pictures, data, styles and the script of the time line are in the file,
and a policy in its head forbids it to load anything else.
"""

import base64
import html
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from cdsa.choosing import Chosen, main_part
from cdsa.config import to_plain
from cdsa.cube import angle_flags, has_places, unit_of
from cdsa.gaps import gap_starts, run_lengths
from cdsa.inspection import Inspection, inspect_cube
from cdsa.metrics import spreads
from cdsa.pictures import draw_errors, draw_gaps, draw_places
from cdsa.pictures.figures import new_figure
from cdsa.reporting.timeline import packed_series
from cdsa.results import Value, now
from cdsa.scoring import Score
from cdsa.sources.files import Source
from cdsa.sources.write import staged_text
from cdsa.times import Clock

WORST = 15
DOTS = 110
"""Per inch, of pictures in a report."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, kw_only=True, eq=False)
class Story:
    """All that a report tells."""

    name: str
    """Of the file that was filled."""

    cube: xr.DataArray
    """As it was read."""

    result: xr.Dataset
    """As it was filled."""

    method: str
    parts: Mapping[str, str] = field(default_factory=dict)
    """Measurements that were filled by another method, and its name."""

    expected: Score | None = None
    """How what filled did on hidden cells."""

    scores: Sequence[Score] = ()
    """How all methods did that were tried on the same cells."""

    errors: Sequence[Mapping[str, Value]] = ()
    """Errors of a network's own exam, where no cells were hidden for it."""

    told: Sequence[str] = ()
    """What was said of the choice."""

    settings: Mapping[str, object] = field(default_factory=dict)
    command: str = ""
    clock: Clock = field(default_factory=Clock)
    """How the file writes its times."""

    @property
    def zone(self) -> str:
        """The zone that times inside are in; none if the file has none."""
        return "" if self.clock.zone is None or self.clock.wall else "UTC"

    def stamp(self, time: np.datetime64) -> str:
        """A time as the file writes it."""
        return self.clock.write(np.array([time], dtype="datetime64[ns]"))[0]


def write_report(story: Story, path: Path, *, overwrite: bool = False) -> None:
    """Write the report; it appears whole or not at all."""
    staged_text({path: render(story)}, overwrite=overwrite)


def story_of(
    source: Source, result: xr.Dataset, choice: Chosen, *, name: str, command: str
) -> Story:
    """What is to be told of a fill that was planned and carried out."""
    made = getattr(main_part(choice.filler), "method", None)
    return Story(
        name=name,
        cube=source.cube,
        result=result,
        clock=source.content.clock,
        method=choice.best,
        parts=choice.parts,
        expected=choice.expected,
        scores=choice.scores,
        errors=choice.errors,
        told=choice.told,
        settings={} if made is None else to_plain(made),
        command=command,
    )


def render(story: Story) -> str:
    """The page."""
    looked, worst = inspect_cube(story.cube), worst_cells(story)
    wanted = [] if worst.empty else list(worst["series"])
    packed = packed_series(story.result, wanted, zone=story.zone)
    parts = [
        _head(story, looked),
        _contents(story, looked),
        _missing(story),
        _filled(story),
        _expected(story),
        _timeline(packed),
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


def _head(story: Story, looked: Inspection) -> str:
    gaps = int((story.result["source"] == "filled").sum())
    cells = story.cube.size
    facts = [
        (f"{looked.steps:,}", f"steps of {looked.step}"),
        (f"{len(looked.locations):,}", "stations"),
        (f"{len(looked.measurements):,}", "measurements"),
        (f"{gaps:,}", f"cells filled, {gaps / cells:.1%} of all"),
        (story.method, "method"),
    ]
    boxes = "".join(f"<div><b>{html.escape(a)}</b>{html.escape(b)}</div>" for a, b in facts)
    times = story.cube["time"].to_numpy()
    span = html.escape(f"{story.stamp(times[0])} to {story.stamp(times[-1])}")
    return (
        f"<h1>{html.escape(story.name)}, filled</h1>\n<p class=soft>{span}</p>\n"
        f"<div class=facts>{boxes}</div>"
    )


def _contents(story: Story, looked: Inspection) -> str:
    table = looked.measurements
    rows = [
        [
            str(name),
            str(row["unit"]),
            f"{int(row['missing']):,}",
            f"{row['share']:.1%}",
            f"{int(row['gaps']):,}",
            f"{int(row['longest']):,}",
        ]
        for name, row in table.iterrows()
    ]
    head = ["measurement", "unit", "missing", "share", "gaps", "longest gap (steps)"]
    return _section("What was in the file", _table(head, rows, numbers=range(2, 6)))


def _missing(story: Story) -> str:
    stations = min(40, max(4, story.cube.sizes["location"]))
    figure = new_figure(9, 1.2 + 0.22 * stations)
    draw_gaps(story.cube, figure.axes[0])
    shown = [_picture(figure, "When and where it is missing: the darker, the more of it.")]
    if has_places(story.cube):
        errors, unit = None, ""
        if story.expected is not None:
            table = story.expected.table("location")
            errors = {str(name): float(table.loc[name, "mae"]) for name in table.index}
            unit = story.expected.unit
        figure = new_figure(7, 5)
        draw_places(story.cube, figure.axes[0], errors=errors, unit=unit)
        words = "The stations, what each is missing, and its error."
        shown.append(_picture(figure, words, narrow=True))
    return _section("What was missing", *shown)


def _filled(story: Story) -> str:
    source = story.result["source"]
    rows = []
    for name in story.cube["measurement"].to_numpy():
        one = source.sel(measurement=name)
        kinds = ("observed", "filled", "unfillable")
        counts = [f"{int((one == kind).sum()):,}" for kind in kinds]
        rows.append([str(name), *counts, story.parts.get(str(name), story.method)])
    head = ["measurement", "measured", "filled", "cannot be filled", "by"]
    words = [f"<p>{html.escape(line)}</p>" for line in story.told]
    return _section("What was filled, and by what", *words, _table(head, rows, numbers=(1, 2, 3)))


def _expected(story: Story) -> str:
    own = story.expected
    if own is None:
        if not story.errors:
            return _section(
                "What error to expect", "<p>No cells were hidden to measure an error on.</p>"
            )
        rows = [
            [str(one["measurement"]), _number(one.get("mae")), str(one.get("unit", "")),
             f"{one.get('cells', 0):,}"]
            for one in story.errors
        ]  # fmt: skip
        head = ["measurement", "mean absolute error", "unit", "cells"]
        note = "<p class=soft>On cells that were kept from the network while it learnt.</p>"
        return _section("What error to expect", note, _table(head, rows, numbers=(1, 3)))
    note = (
        f"<p class=soft>On {own.hidden:,} measured cells that were hidden from every method, in "
        f"gaps of up to {own.longest:,} steps.</p>"
    )
    shown = [note, _by(own, "measurement"), _by(own, "gap")]
    figure = new_figure(6.5, 3.6)
    draw_errors(story.scores or [own], figure.axes[0])
    shown.append(_picture(figure, "Errors by the length of the gap.", narrow=True))
    return _section("What error to expect", *shown)


def _by(own: Score, key: str) -> str:
    table = own.table(key)
    rows = []
    for name, row in table.iterrows():
        unit = own.units.get(str(name), "") if key == "measurement" else own.unit
        inside = f"{row['coverage']:.0%}" if np.isfinite(row["coverage"]) else "-"
        figures = [_number(row["mae"]), _number(row["rmse"]), unit, inside]
        rows.append([str(name), *figures, f"{int(row['cells']):,}"])
    head = [
        "measurement" if key == "measurement" else "steps of the gap",
        *("mean absolute error", "root mean square", "unit", "in 90% interval", "cells"),
    ]
    return _table(head, rows, numbers=(1, 2, 4, 5))


def _timeline(packed: Mapping[str, object]) -> str:
    left_out = (
        f"<p class=soft>{packed['left_out']:,} series with less to look at are left out, to keep "
        "the page small.</p>"
        if packed["left_out"]
        else ""
    )
    return _section(
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
        "<p class=soft><span class=key>measured</span> &nbsp; "
        '<span class="key filled">filled</span> &nbsp; <span class="key band">interval</span></p>',
    )


def worst_cells(story: Story) -> pd.DataFrame:
    """Filled cells to check by hand, one of each gap: those with the widest intervals for their
    measurement or, where there are none, in the longest gaps."""
    result, cube = story.result, story.cube
    filled = (result["source"] == "filled").to_numpy()
    missing = cube.isnull().to_numpy()
    runs = run_lengths(missing)
    doubt = runs.astype(np.float64)
    if has_intervals(result):
        width = (result["upper"] - result["lower"]).to_numpy()
        turned = np.where(width >= 360, 360.0, width % 360)  # a direction's runs clockwise
        doubt = np.where(angle_flags(cube), turned, width) / spreads(cube)
    number = np.arange(len(missing))[:, None, None]
    first = np.maximum.accumulate(np.where(gap_starts(missing), number, 0), axis=0)
    where = np.argwhere(filled & np.isfinite(doubt))
    order = where[np.argsort(-doubt[tuple(where.T)], kind="stable")]
    gaps = np.column_stack([first[tuple(order.T)], order[:, 1:]])
    _, foremost = np.unique(gaps, axis=0, return_index=True)
    ends = [end for end in ("lower", "upper") if end in result]
    return pd.DataFrame(
        [
            {
                "step": t,
                "time": cube["time"].to_numpy()[t],
                "location": str(cube["location"].to_numpy()[l]),
                "measurement": str(cube["measurement"].to_numpy()[m]),
                "value": float(result["value"].to_numpy()[t, l, m]),
                "lower": np.nan,
                "upper": np.nan,
                **{end: float(result[end].to_numpy()[t, l, m]) for end in ends},
                "gap": int(runs[t, l, m]),
                "series": (int(l), int(m)),
            }
            for t, l, m in order[np.sort(foremost)[:WORST]]  # noqa: E741
        ]
    )


def has_intervals(result: xr.Dataset) -> bool:
    """Whether any filled cell has an interval."""
    return "lower" in result and bool(
        result["lower"].where(result["source"] == "filled").notnull().any()
    )


def _worst(story: Story, worst: pd.DataFrame) -> str:
    if worst.empty:
        return _section("Cells to check by hand", "<p>Nothing was filled.</p>")
    units = unit_of(story.cube)
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
        cells = [story.stamp(row.time), row.location, row.measurement, _number(row.value)]
        cells += [interval, units[row.measurement], f"{row.gap:,}"]
        rows.append([*(html.escape(cell) for cell in cells), button])
    head = ["time", "station", "measurement", "filled with", "interval", "unit", "gap (steps)", ""]
    why = (
        "the widest intervals for their measurement"
        if has_intervals(story.result)
        else "the longest gaps"
    )
    return _section(
        "Cells to check by hand",
        f"<p class=soft>One cell of each of the {len(rows)} gaps with {why}.</p>",
        _table(head, rows, numbers=(3, 6), escaped=True),
    )


def _settings(story: Story) -> str:
    settings = json.dumps(story.settings, indent=1, ensure_ascii=False, default=str)
    words = f"cdsa {version('cdsa')}, {now()}"
    command = f"<pre>{html.escape(story.command)}</pre>" if story.command else ""
    own = f"<pre>{html.escape(settings)}</pre>" if story.settings else ""
    return _section("Settings", f"<p class=soft>{html.escape(words)}</p>", command, own)


def _section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{html.escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def _table(
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


def _picture(figure: Figure, words: str, *, narrow: bool = False) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS, bbox_inches="tight", metadata={"Software": None})
    data = base64.b64encode(file.getvalue()).decode()
    kind = " class=narrow" if narrow else ""
    told = html.escape(words, quote=True)
    return (
        f'<figure{kind}><img alt="{told}" src="data:image/png;base64,{data}">'
        f"<figcaption>{html.escape(words)}</figcaption></figure>"
    )


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) and np.isfinite(value) else "-"


def _resource(name: str) -> str:
    return (files("cdsa") / "reporting" / name).read_text(encoding="utf-8")
