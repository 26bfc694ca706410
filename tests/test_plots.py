"""Plots show what is in the data and nothing else; their files appear complete or not at all."""

import html
import itertools
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.dates import date2num
from matplotlib.image import imread

from cdsa import fill, score
from cdsa.core.summary import missing_over_time
from cdsa.errors import ConfigError, OutputError
from cdsa.methods.registry import build_method
from cdsa.plots import (
    plot_accuracy,
    plot_attended_series,
    plot_attention_map,
    plot_errors,
    plot_gaps,
    plot_growth,
    plot_map,
    plot_series,
    plot_time_measurement,
)
from cdsa.plots.figures import BLUE, COLOURS, DPI, RED, new_figure, save_figure
from cdsa.report.page import image
from conftest import network
from test_explain import nth_gap


@pytest.fixture(scope="module")
def cube():
    return network(steps=120, stations=4, measurements=2, missing=0.25)


@pytest.fixture(scope="module")
def explanation(cube):
    return build_method("cdsa@small").fit(cube).explain(cube, *nth_gap(cube, 60))


def axes(columns=1):
    figure = new_figure(4, 3, columns=columns)
    return figure.axes[0] if columns == 1 else figure.axes


def test_gaps_are_as_dark_as_their_share(cube):
    ax = plot_gaps(cube, axes())
    shares = ax.images[0].get_array()
    np.testing.assert_allclose(shares, 100 * missing_over_time(cube, "location", 300))
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [str(name) for name in cube["location"].to_numpy()]
    assert ax.images[0].get_clim() == (0, shares.max())


@pytest.mark.parametrize(("n_missing", "darkest"), [(0, 5), (1, 5), (50, 50), (100, 100)])
def test_few_gaps_are_visible_too(n_missing, darkest):
    cube = network(steps=30_000, stations=2, measurements=1, missing=0.0)
    cube[:n_missing, 0, 0] = np.nan
    assert plot_gaps(cube, axes()).images[0].get_clim() == (0, darkest)


def test_a_series_distinguishes_measured_filled_and_hidden_values(cube):
    result = fill(cube, "linear")
    location, measurement = str(cube["location"].values[1]), str(cube["measurement"].values[0])
    truth = network(steps=120, stations=4, measurements=2, missing=0.0)
    ax = plot_series(result, axes(), location=location, measurement=measurement, truth=truth)
    series = result.sel(location=location, measurement=measurement)
    value, gap = series["value"].to_numpy(), (series["source"] != "observed").to_numpy()
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(np.isnan(lines["measured"].get_ydata()), gap)
    coloured = {to_hex(line.get_color()) for line in ax.lines}
    assert RED.lower() in coloured
    drawn = np.concatenate([line.get_ydata() for line in ax.lines if line.get_color() == RED])
    assert set(value[gap]) <= set(drawn)
    dots = lines["hidden truth"]
    assert dots.get_color() == BLUE and len(dots.get_ydata()) == gap.sum()


def test_the_band_is_the_interval_of_the_gap(cube):
    filler = build_method("cdsa@small").fit(cube)
    result = fill(cube, filler)
    location, measurement = str(cube["location"].values[0]), str(cube["measurement"].values[1])
    ax = plot_series(result, axes(), location=location, measurement=measurement, level=0.9)
    series = result.sel(location=location, measurement=measurement)
    corners = np.concatenate([band.get_paths()[0].vertices[:, 1] for band in ax.collections])
    gap = (series["source"] == "filled").to_numpy()
    assert set(np.round(series["lower"].to_numpy()[gap], 6)) <= set(np.round(corners, 6))
    assert "90% interval" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_stations_are_at_their_coordinates_and_grow_with_their_error(cube):
    names = [str(name) for name in cube["location"].to_numpy()]
    errors = {name: float(number + 1) for number, name in enumerate(names)}
    ax = plot_map(cube, axes(), errors=errors, unit="ug/m3")
    dots = ax.collections[-1]
    np.testing.assert_allclose(
        np.asarray(dots.get_offsets()), np.stack([cube["lon"], cube["lat"]], axis=1)
    )
    assert (np.diff(dots.get_sizes()) > 0).all()
    assert {text.get_text() for text in ax.texts} == set(names)
    with pytest.raises(ConfigError, match="needs coordinates"):
        plot_map(network(steps=20, places=False), axes())


@pytest.mark.parametrize("width", [2.9, 4, 7])
@pytest.mark.parametrize("reach", [(0.1, 0.1), (2.0, 0.05), (0.01, 3.0)])
def test_nothing_on_a_map_overlaps(width, reach, cube):
    wide, high = reach
    spread = {"lon": -122.4 + wide * np.arange(4), "lat": 37.7 + high * np.arange(4)}
    cube = cube.assign_coords({name: ("location", where) for name, where in spread.items()})
    figure = new_figure(width, 3.4)
    errors = {str(name): 12.5 for name in cube["location"].values}
    ax = plot_map(cube, figure.axes[0], errors=errors, unit="standard deviations")
    figure.draw_without_rendering()
    plot_area, legend = ax.get_window_extent(), ax.get_legend().get_window_extent()
    bar = figure.axes[1].get_tightbbox()
    assert legend.y0 >= plot_area.y1 and not legend.overlaps(bar) and not plot_area.overlaps(bar)
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        boxes = [tick.label1.get_window_extent().padded(2) for tick in ticks]
        assert boxes and not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))
    whole = figure.get_tightbbox()
    assert whole.x0 >= 0 and whole.y0 >= 0 and whole.x1 <= width and whole.y1 <= 3.4


def test_errors_are_those_of_the_scores(cube):
    scores = [score(cube, name, "bursts:0.3") for name in ("linear", "mean")]
    ax = plot_errors(scores, axes())
    for line, scored in zip(ax.lines, scores, strict=True):
        assert line.get_label() == scored.method
        np.testing.assert_allclose(line.get_ydata(), scored.table("gap")["mae"])
    assert ax.get_ylim()[0] == 0 and len({line.get_color() for line in ax.lines}) == 2


def test_bars_of_growth_are_ratios_to_the_undoubled_cost():
    records = [
        {"manner": manner, "doubled": axis, "sizes": "24x16x4", "flops": flops, "seconds": 1.0,
         "mib": 100.0 + 10 * flops, "mib_before": 100.0}
        for manner, more in (("independent", 2), ("joint", 4), ("decomposed", 3), ("shared", 5))
        for axis, flops in (("", 10), ("time", 10 * more), ("location", 20), ("measurement", 30))
    ]  # fmt: skip
    for cost, first in (("operations", 4), ("memory", 4), ("time of a training step", 1)):
        ax = plot_growth(records, axes(), cost=cost)
        names = [text.get_text() for text in ax.get_legend().get_texts()]
        bars = dict(zip(names, ax.containers, strict=True))
        assert bars["joint"][0].get_height() == pytest.approx(first)
        assert len({bar[0].get_facecolor() for bar in ax.containers}) == 4
    assert ax.get_ylabel() == "times that of 24 x 16 x 4" and ax.get_title() == cost


def test_accuracy_is_averaged_over_seeds():
    errors = [("b", 3, 12.0), ("b", 3, 14.0), ("b", 20, 11.0), ("a", 10, 30.0)]
    records = [{"method": name, "minutes": at, "mae": mae} for name, at, mae in errors]
    ax = plot_accuracy(records, axes(), levels={"line": 20.0}, unit="K")
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines["b"].get_xdata()) == [3, 20] and list(lines["b"].get_ydata()) == [13, 11]
    assert list(lines["a"].get_ydata()) == [30] and ax.lines[-1].get_ydata()[0] == 20
    assert [text.get_text() for text in ax.texts] == ["line"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["3", "10", "20"]
    assert lines["a"].get_color() != lines["b"].get_color()


def test_accuracy_by_cpu_seconds_has_round_ticks():
    records = [
        {"method": "net", "cpu_seconds": 7.7 * n, "mae": 30.0 / n**0.5} for n in range(1, 80)
    ]
    ax = plot_accuracy([*records, {"method": "fast", "cpu_seconds": 2.5, "mae": 20.0}], axes(),
                       by="cpu_seconds")  # fmt: skip
    assert [label.get_text() for label in ax.get_xticklabels()] == ["3", "10", "30", "100", "300"]
    assert ax.get_xlabel() == "CPU seconds" and ax.lines[0].get_markevery() == 7


def test_the_rows_of_attention_maps_sum_to_one_and_that_of_the_cell_is_framed(explanation):
    assert list(explanation.maps) == ["time", "location", "measurement"]
    for ax, (axis, table) in zip(axes(3), explanation.maps.items(), strict=True):
        np.testing.assert_allclose(table.sum("attended"), 1, atol=1e-5)
        plot_attention_map(table, ax, row=getattr(explanation.cell, axis))
        (frame,) = ax.patches
        assert frame.get_y() + 0.5 == list(table[axis].values).index(
            getattr(explanation.cell, axis)
        )


def test_both_components_of_a_direction_are_framed():
    kinds = ["pm25", "wind\0east", "wind\0north"]
    names = {"measurement": kinds, "attended": kinds}
    table = xr.DataArray(np.eye(3), dims=list(names), coords=names)
    ax = plot_attention_map(table, axes(), row="wind")
    assert sorted(frame.get_y() + 0.5 for frame in ax.patches) == [1, 2]
    assert [label.get_text() for label in ax.get_yticklabels()][1] == "wind, east"
    assert not plot_attention_map(table, axes()).patches


def largest(shares: xr.DataArray) -> set[tuple[int, int]]:
    """Where the six largest of (t, n) shares are that are worth a box."""
    order = np.argsort(-shares.to_numpy(), axis=None)[:6]
    where = [tuple(map(int, np.unravel_index(at, shares.shape))) for at in order]
    return {at for at in where if float(shares[at]) > 0.002}


def test_text_outside_the_axes_is_not_cut_off(tmp_path):
    figure = new_figure(2, 1)
    figure.text(1.5, 0.5, "a long name")
    save_figure(figure, tmp_path / "p.png")
    assert imread(tmp_path / "p.png").shape[1] > 1.5 * 2 * DPI


def test_the_papers_figure_boxes_the_most_attended_cells(explanation):
    left, right = axes(2)
    plot_time_measurement(explanation, left)
    plot_attended_series(explanation, right)
    time, location, measurement = explanation.cell
    at = int(np.flatnonzero(explanation.shares["time"].values == time)[0])
    near = explanation.shares.isel(time=slice(max(0, at - 12), at + 13))
    boxed = {(round(box.get_x() + 0.5), round(box.get_y() + 0.5)) for box in left.patches}
    assert boxed == largest(near.sel(location=location)) and len(boxed) > 1
    series = near.stack(series=("location", "measurement"))
    totals = series.sum("time").to_series().drop((location, measurement))
    lines = series.sel(series=[(location, measurement), totals.idxmax()])
    arrows = [text for text in right.texts if getattr(text, "arrow_patch", None) is not None]
    steps = date2num(near["time"].values)
    attended = sorted(float(steps[step]) for step, _ in largest(lines))
    assert sorted(float(arrow.xyann[0]) for arrow in arrows) == pytest.approx(attended)
    assert {float(arrow.xy[0]) for arrow in arrows} == {float(date2num(time))}
    assert {to_hex(line.get_color()).upper() for line in right.lines[:2]} == set(COLOURS[:2])


ODD_NAMES = [r"$\q$", "in $ to $", "北京", r"50\$"]


@pytest.fixture(scope="module")
def odd(cube):
    kinds = ["price in $ or $", "b"]
    named = cube.assign_coords(location=ODD_NAMES, measurement=kinds)
    return named.assign_coords(units=("measurement", ["$/m$", "K"]))


def written(figure, path):
    """The texts of a picture, letter by letter."""
    with rc_context({"svg.fonttype": "none"}):
        save_figure(figure, path)
    return html.unescape(path.read_text(encoding="utf-8"))


def test_names_are_never_drawn_as_formulas(odd, explanation, tmp_path):
    kinds = [str(kind) for kind in odd["measurement"].values]
    figure = new_figure(12, 9, columns=4)
    gaps, places, series, errors = figure.axes
    plot_gaps(odd, gaps)
    plot_map(odd, places, errors=dict.fromkeys(ODD_NAMES, 1.0), unit="$/l$")
    plot_series(fill(odd, "linear"), series, location=ODD_NAMES[0], measurement=kinds[0])
    plot_errors([replace(score(odd, "mean", "random:+0.2"), method="$m$")], errors)
    page = written(figure, tmp_path / "p.svg")
    for name in (*ODD_NAMES, "price in $ or $ ($/m$)", "($/l$)", "$m$"):
        assert f"{name}<" in page, name
    renamed = replace(
        explanation,
        cell=explanation.cell._replace(location=ODD_NAMES[0], measurement=kinds[0]),
        shares=explanation.shares.assign_coords(location=ODD_NAMES, measurement=kinds),
        values=explanation.values.assign_coords(location=ODD_NAMES, measurement=kinds),
    )
    table = explanation.maps["location"].assign_coords(location=ODD_NAMES)
    figure = new_figure(12, 4, columns=3)
    plot_time_measurement(renamed, figure.axes[0])
    plot_attended_series(renamed, figure.axes[1], other=kinds[1])
    plot_attention_map(table, figure.axes[2])
    page = written(figure, tmp_path / "q.svg")
    assert page.count(f">{kinds[0]}<") == 2 and all(f">{name}<" in page for name in ODD_NAMES)


def test_glyphs_that_the_default_font_lacks_come_from_an_installed_one(odd, tmp_path, monkeypatch):
    monkeypatch.setattr("cdsa.plots.figures.FALLBACK_FONTS", ("No Such Font", "STIXGeneral"))
    figure = plot_gaps(odd, axes()).figure
    save_figure(figure, tmp_path / "p.png")  # a warning of a missing letter would be an error
    families = {tuple(label.get_fontfamily()) for label in figure.axes[0].get_yticklabels()}
    assert families == {("sans-serif", "STIXGeneral")}
    assert image(plot_gaps(odd, axes()).figure, "gaps").startswith("<figure")


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_the_same_plot_gives_the_same_file(cube, tmp_path, ending):
    for name in ("a", "b"):
        figure = new_figure(4, 2)
        plot_gaps(cube, figure.axes[0])
        save_figure(figure, tmp_path / f"{name}{ending}")
    first, second = ((tmp_path / f"{name}{ending}").read_bytes() for name in ("a", "b"))
    assert len(first) > 1000 and first == second
    with pytest.raises(OutputError, match="already exists"):
        save_figure(new_figure(2, 2), tmp_path / f"a{ending}")


def test_a_folder_is_never_replaced(tmp_path):
    (tmp_path / "a.png").mkdir()
    (tmp_path / "a.png" / "precious").touch()
    with pytest.raises(OutputError, match="is a folder"):
        save_figure(new_figure(2, 2), tmp_path / "a.png", overwrite=True)
    assert (tmp_path / "a.png" / "precious").exists()


def test_another_file_format_is_refused(tmp_path):
    with pytest.raises(OutputError, match="a figure is saved as .png"):
        save_figure(new_figure(2, 2), tmp_path / "a.gif")


def test_a_gap_of_one_step_has_a_band():
    cube = network(steps=30, stations=2, measurements=1, missing=0.0)
    cube[10, 0, 0] = np.nan
    result = fill(cube, "linear")
    value = result["value"]
    wide = xr.full_like(value, 1.0)
    result = result.assign(lower=value - wide, upper=value + wide)
    location, measurement = str(cube["location"].values[0]), str(cube["measurement"].values[0])
    ax = plot_series(result, axes(), location=location, measurement=measurement)
    assert any(len(band.get_paths()) for band in ax.collections)


def test_the_interval_of_a_direction_may_cross_north():
    cube = network(steps=30, stations=1, measurements=1, missing=0.0) % 360
    cube = cube.assign_coords(is_direction=("measurement", [True]))
    cube[10, 0, 0] = np.nan
    result = fill(cube, "linear")
    low, high = xr.full_like(cube, np.nan), xr.full_like(cube, np.nan)
    low[10, 0, 0], high[10, 0, 0] = 350.0, 20.0
    location, measurement = str(cube["location"].values[0]), str(cube["measurement"].values[0])
    ax = plot_series(
        result.assign(lower=low, upper=high), axes(), location=location, measurement=measurement
    )
    pieces = [line[:, 1].tolist() for band in ax.collections for line in band.get_segments()]
    assert sorted(pieces) == [[0.0, 20.0], [350.0, 360.0]]


def test_many_stations_are_not_hidden_by_lines_between_them():
    cube = network(steps=10, stations=300, measurements=1, missing=0.0)
    assert len(plot_gaps(cube, axes()).lines) == 0


def test_the_explanation_of_a_long_gap_is_plotted(cube):
    silent = cube.copy()
    silent[30:100, 0, 0] = np.nan
    filler = build_method("cdsa@small").fit(silent)
    location, measurement = str(cube["location"].values[0]), str(cube["measurement"].values[0])
    explanation = filler.explain(silent, cube["time"].values[65], location, measurement)
    ax = plot_attended_series(explanation, axes())
    assert np.isfinite(ax.lines[-1].get_ydata()).all()  # the cell itself
