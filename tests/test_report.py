"""The report: one self-contained page that shows what was measured and filled."""

import base64
import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from playwright.sync_api import expect

from cdsa import fill, score
from cdsa.io.sidecars import read_sites
from cdsa.io.source import open_source
from cdsa.methods.blend import Blend
from cdsa.methods.registry import build_method
from cdsa.report.content import ReportContent, cells_to_check
from cdsa.report.page import render, render_report
from cdsa.report.series import choose_series, pack_series
from cdsa.workflows.pipeline import FillRequest, Reporter, run_fill
from cdsa.workflows.select import Selection
from commands import refused, run
from conftest import network
from frames import panel

SECTIONS = (
    "Contents of the file",
    "Missing values",
    "Filled values",
    "Expected error",
    "Series",
    "Cells to check",
    "Settings",
)
LINEAR = Selection(build_method("linear").fit(network(steps=30)), "linear")


@pytest.fixture(scope="module")
def content():
    cube = network(steps=150, stations=4, measurements=2, missing=0.25)
    filler = build_method("cdsa@small").fit(cube)
    scores = tuple(score(cube, name, "bursts:0.3") for name in ("linear", "mean"))
    return ReportContent(
        name="air.csv", cube=cube, result=fill(cube, filler), command="cdsa fill air.csv",
        selection=Selection(filler, "linear", scores[0], ("chose linear",), scores=scores),
    )  # fmt: skip


def decode(series, key):
    return np.frombuffer(base64.b64decode(series[key]), dtype="<f4").astype(float)


def test_it_has_every_section_and_loads_nothing(content):
    page = render(content)
    for title in SECTIONS:
        assert f"<h2>{title}</h2>" in page
    assert "default-src 'none'" in page
    outside = re.findall(r"""(?:src|href)=["']?(?!data:)[^"'\s>]+|https?://\S+|@import\S*""", page)
    assert outside == []


def test_it_states_facts_of_the_file_and_not_of_added_sites(tmp_path):
    path = tmp_path / "air.csv"
    panel(network(steps=120, stations=4)).to_csv(path, index=False)
    sites = pd.DataFrame({"name": ["here", "there"], "lat": [40.05, 40.1], "lon": [116.2, 116.3]})
    source, request = open_source(path), FillRequest(method="idw", at=read_sites(sites))
    page, without_sites = (
        render_report(run_fill(x, source, Reporter()), "air.csv", "")
        for x in (request, replace(request, at=None))
    )
    contents = r"<h2>Contents of the file</h2>.*?</table>"
    expected = re.search(contents, without_sites, re.DOTALL)[0]
    assert re.search(contents, page, re.DOTALL)[0] == expected
    assert "<b>4</b>stations" in page and "<b>2</b>sites without a sensor" in page
    assert "values of whole stations that were hidden" in page


def test_it_has_what_the_user_was_told(tmp_path):
    path = tmp_path / "air.csv"
    frame = panel(network(steps=120)).assign(wind_dir=350.0, operator="x & y")
    frame.to_csv(path, index=False)
    request = FillRequest(method="linear", check=False)
    result = run_fill(request, open_source(path), Reporter())
    page = render_report(replace(result, messages=("a < b",)), "air.csv", "")
    notes = re.search(r"<h2>Notes and warnings</h2>.*?</ul>", page, re.DOTALL)[0]
    assert "operator" in notes and "--direction wind_dir" in notes and "a &lt; b" in notes


def test_the_weights_of_combined_methods_are_listed_by_gap_length(content):
    weights = np.array([[[0.65, 0.35]] * 3 + [[0.1, 0.9]] * 2] * 2)
    blend = Blend(("linear", "mean"), ("pm25", "temp"), weights, np.array([[90, 9, 0, 9, 0]] * 2))
    selection = replace(content.selection, blend=blend)
    page = render(replace(content, selection=selection))
    assert "<b>linear + mean</b>" in page and page.count("<td class=n>0.65</td>") == 4
    assert "<tr><td>pm25</td><td>24-71</td><td class=n>0.1</td><td class=n>0.9</td></tr>" in page
    weights[0] = [1.0, 0.0]  # one method alone needs no row
    page = render(replace(content, selection=selection))
    assert "<tr><td>pm25</td><td>24-71" not in page and "<tr><td>temp</td><td>24-71" in page


def test_packed_series_match_the_result(content):
    packed = pack_series(content.result)
    assert packed["count"] == 150 and packed["step"] == 3600 and packed["left_out"] == 0
    assert len(packed["series"]) == 8
    for series in packed["series"]:
        expected = content.result.sel(
            location=series["location"], measurement=series["measurement"]
        )
        value = expected["value"].to_numpy()
        np.testing.assert_allclose(decode(series, "values"), value, rtol=1e-6)
        bits = np.unpackbits(
            np.frombuffer(base64.b64decode(series["filled"]), dtype=np.uint8), bitorder="little"
        )[:150]
        filled = (expected["source"] == "filled").to_numpy()
        np.testing.assert_array_equal(bits.astype(bool), filled)
        low = expected["lower"].to_numpy()[filled]
        np.testing.assert_allclose(decode(series, "lower"), low, rtol=1e-6)


def test_names_are_text_and_never_markup(content):
    cube = content.cube.assign_coords(location=['<img src=x onerror="1">', "</script>", "a&b", "d"])
    result = content.result.assign_coords(location=cube["location"])
    page = render(ReportContent(name="<b>.csv", cube=cube, result=result, selection=LINEAR))
    assert "<img src=x" not in page.replace("data:image", "")
    assert "&lt;b&gt;.csv" in page
    data = re.search(r'id="series-data">(.*?)</script>', page, re.DOTALL).group(1)
    names = {series["location"] for series in json.loads(data)["series"]}
    assert names == {'<img src=x onerror="1">', "</script>", "a&b", "d"}


def test_cells_to_check_have_the_widest_intervals_one_per_gap(content):
    suspects = cells_to_check(content)
    assert 1 < len(suspects) <= 15
    spread = [
        float(content.cube.sel(measurement=m).std()) for m in content.cube["measurement"].values
    ]
    wide = (content.result["upper"] - content.result["lower"]) / np.array(spread)
    first = suspects.iloc[0]
    at = wide.sel(time=first["time"], location=first["location"], measurement=first["measurement"])
    filled = wide.where(content.result["source"] == "filled")
    assert float(at) == pytest.approx(float(filled.max()))
    assert not suspects.duplicated(["location", "measurement", "time"]).any()
    each = suspects["measurement"].value_counts()
    assert len(each) == content.cube.sizes["measurement"] and each.max() - each.min() <= 1


def test_without_intervals_cells_to_check_are_in_the_longest_gaps():
    cube = network(steps=80, stations=3, measurements=1, missing=0.0)
    cube[10:14, 0, 0] = np.nan
    cube[40:60, 1, 0] = np.nan
    result = fill(cube, "linear", check=False)
    content = ReportContent(name="x", cube=cube, result=result, selection=LINEAR)
    suspects = cells_to_check(content)
    assert suspects["gap"].tolist() == [20, 4] and "those with the longest gaps" in render(content)


def test_an_interval_that_crosses_north_is_not_the_widest():
    cube = network(steps=60, stations=2, measurements=1, missing=0.0) % 360
    cube = cube.assign_coords(is_direction=("measurement", [True]))
    cube[10, 0, 0] = cube[30, 1, 0] = np.nan
    result = fill(cube, "linear")
    low, high = (xr.full_like(cube, np.nan) for _ in range(2))
    low[10, 0, 0], high[10, 0, 0] = 350.0, 10.0
    low[30, 1, 0], high[30, 1, 0] = 90.0, 200.0
    content = ReportContent(
        name="x", cube=cube, result=result.assign(lower=low, upper=high), selection=LINEAR
    )
    assert cells_to_check(content)["step"].tolist() == [30, 10]


def test_times_are_written_as_in_the_file():
    frame = panel(network(steps=60, stations=2, measurements=1, missing=0.2))
    frame["time"] = pd.to_datetime(frame["time"]).dt.tz_localize("Europe/Berlin")
    source = open_source(frame)
    content = ReportContent(
        name="x", cube=source.cube, result=fill(source.cube, "linear"), selection=LINEAR,
        clock=source.content.clock,
    )  # fmt: skip
    page = render(content)
    assert "+01:00 to" in page and '"zone":"Europe/Berlin"' in page
    midnight = int(np.datetime64("2020-01-01T00:00", "s").astype(np.int64))
    assert pack_series(content.result, clock=content.clock)["first"] == midnight


def test_a_large_table_shows_the_series_with_the_most_filled_values(content, monkeypatch):
    sizes = [len(json.dumps(series)) for series in pack_series(content.result)["series"]]
    room = int(3.5 * max(sizes))
    monkeypatch.setattr("cdsa.report.series.MAX_BYTES", room)
    chosen = choose_series(content.result)
    assert len(chosen) == 3 and pack_series(content.result)["left_out"] == 5
    filled = (content.result["source"] == "filled").sum("time").to_numpy()
    assert {filled[position] for position in chosen} == set(np.sort(filled.ravel())[-3:])
    least = tuple(int(at) for at in np.unravel_index(filled.argmin(), filled.shape))
    assert least in choose_series(content.result, [least])
    assert "series with fewer filled values are left out" in render(content)


def test_a_year_of_36_stations_stays_below_five_megabytes():
    cube = network(steps=8760, stations=36, measurements=6, missing=0.3)
    value = cube.fillna(1.0)
    kinds = np.array(["observed", "filled"], dtype=object)
    source = (cube.dims, kinds[cube.isnull().to_numpy().astype(int)])
    ends = {"lower": value - 1, "upper": value + 1}
    result = xr.Dataset({"value": value, "source": source, **ends})
    page = render(ReportContent(name="year", cube=cube, result=result, selection=LINEAR))
    assert 4_000_000 < len(page.encode()) < 5_000_000
    left_out = 36 * 6 - len(choose_series(result))
    assert f"{left_out} series with fewer filled values are left out" in page


def test_series_take_no_more_bytes_than_allowed(content, monkeypatch):
    for room in (3_500, 5_000, 9_000):
        monkeypatch.setattr("cdsa.report.series.MAX_BYTES", room)
        taken = len(json.dumps(pack_series(content.result)["series"], separators=(",", ":")))
        assert room / 2 < taken <= room


def test_intervals_are_named_by_their_level(content, monkeypatch):
    monkeypatch.setattr("cdsa.report.page.image", lambda *args, **options: "")  # quicker
    assert '<span class="key band">90% interval</span>' in render(content)
    wide = replace(content, result=content.result.assign_attrs(interval=0.955))
    page = render(wide)
    assert '<span class="key band">95.5% interval</span>' in page
    assert "<th>95.5% interval</th>" in page and ">in 90% interval</th>" in page
    assert "measured for the 90% interval; the series below show the 95.5% interval" in page
    without = replace(content, result=content.result.drop_vars(["lower", "upper"]))
    assert "key band" not in render(without)


def test_the_command_writes_it_with_the_table(tmp_path):
    panel(network(steps=200)).to_csv(tmp_path / "in.csv", index=False)
    words = ("fill", tmp_path / "in.csv", "-o", tmp_path / "o.csv")
    assert "r.html" in run(*words, "--method", "linear", "--report", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert all(title in page for title in SECTIONS) and "in 90% interval" in page
    message = refused(*words, "--report", tmp_path / "r.txt", "--overwrite")
    assert "a report is an HTML page" in message


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_script_is_valid(tmp_path, content):
    script = render(content).rsplit("<script>", 1)[1].rsplit("</script>", 1)[0]
    (tmp_path / "s.js").write_text(script)
    subprocess.run(["node", "--check", str(tmp_path / "s.js")], check=True)


@pytest.mark.browser
def test_it_opens_from_disk_in_a_browser_without_a_network(tmp_path, browser):
    cube = network(steps=200)
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    report, output = tmp_path / "r.html", tmp_path / "o.csv"
    run("fill", tmp_path / "in.csv", "-o", output, "--method", "linear", "--report", report)
    problems, requests = [], []
    page = browser.new_page(offline=True)
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(report.as_uri())
    assert page.locator("h2").all_inner_texts() == list(SECTIONS)
    for section in page.locator("section").all():
        assert section.is_visible() and len(section.inner_text().splitlines()) > 1
    widths = page.locator("img").evaluate_all("images => images.map((image) => image.naturalWidth)")
    assert len(widths) == 3 and min(widths) > 300  # gaps, map and errors
    assert page.locator("#station option").all_inner_texts() == list(cube["location"].values)
    first = str(cube["time"].values[0])[:16].replace("T", " ")
    readout = page.locator("#readout")
    expect(readout).to_contain_text(f"{first} to ")
    page.focus("#timeline")
    page.keyboard.press("ArrowRight")
    expect(readout).to_contain_text(re.compile("measured|filled"))
    page.locator("[data-step]").first.click()
    expect(readout).to_contain_text("filled with")
    page.close()
    assert not problems
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
