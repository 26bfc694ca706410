"""The page in a real browser: what a visitor does, step by step, with mouse and with keys."""

from pathlib import Path

import pytest
from playwright.sync_api import expect
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.web.limits import Limits
from server import running, table

pytestmark = pytest.mark.browser
WAIT = 30_000
"""Milliseconds that something may take on a busy machine."""
expect.set_options(timeout=WAIT)


@pytest.fixture(scope="module")
def address():
    with running(Limits(megabytes=5)) as where:
        yield where


@pytest.fixture
def visit(browser, address):
    """Opens the page; whatever a browser complains of, or asks others for, fails the test."""
    contexts, wrong = [], []

    def opened(width=1200, height=900, **more):
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        context.on("page", watched)  # a report opens in a page of its own
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.goto(address)
        return page

    def watched(page):
        page.on("pageerror", lambda bad: wrong.append(str(bad)))
        page.on("console", lambda told: wrong.append(told.text) if told.type == "error" else None)
        page.on(
            "request",
            lambda ask: None if ask.url.startswith((address, "data:", "blob:")) else
            wrong.append(f"asked for {ask.url}"),
        )  # fmt: skip

    opened.wrong = wrong
    yield opened
    for context in contexts:
        context.close()
    assert not wrong, wrong


def send(page, content: bytes, name: str = "air.csv") -> None:
    page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": content})


def fill(page, method: str, minutes: str = "") -> None:
    page.select_option("#method", method)
    page.fill("#minutes", minutes)
    page.click("#fill")


def test_a_table_is_sent_understood_filled_and_fetched(visit, tmp_path):
    content, page = table(), visit()
    send(page, content)
    expect(page.locator("#facts")).to_contain_text("60 time steps")
    expect(page.locator("#facts")).to_contain_text("3 stations")
    expect(page.locator("#map circle")).to_have_count(3)
    fill(page, "linear")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#records")).to_contain_text("linear")
    with page.expect_download() as fetched:
        page.click("#file-filled")
    assert fetched.value.suggested_filename == "air-fill.csv"
    (tmp_path / "air.csv").write_bytes(content)
    words = ["fill", tmp_path / "air.csv", "-o", tmp_path / "out.csv", "--method", "linear"]
    CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert Path(fetched.value.path()).read_bytes() == (tmp_path / "out.csv").read_bytes()


def test_a_click_on_a_filled_value_shows_where_it_comes_from(visit):
    page = visit()
    send(page, table(stations=4, steps=120))
    fill(page, "cdsa", "0.02")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#cells tbody tr").first).to_be_visible()
    page.click("#cells tbody tr:first-child button")
    expect(page.locator("#why-words")).to_contain_text("Comes from")
    assert page.locator("#reasons tbody tr").count() > 3
    assert page.locator("#where circle.reason").count() >= 1
    expect(page.locator("#cells tr[aria-current]")).to_have_count(1)
    # the same by a click on the time line
    first = page.locator("#why-words").inner_text()
    page.click("#cells tbody tr:nth-child(2) button")
    expect(page.locator("#why-words")).not_to_have_text(first)
    told = page.locator("#why-words").inner_text()
    page.click("#cells tbody tr:first-child button")
    expect(page.locator("#why-words")).to_have_text(first)
    page.click("#whole")
    box = page.locator("#timeline").bounding_box()
    step = int(page.locator("#cells tbody tr:nth-child(2)").get_attribute("data-step"))
    x = 58 + step / 120 * (box["width"] - 68)  # all 120 steps are shown
    page.locator("#timeline").click(position={"x": x, "y": box["height"] / 2})
    expect(page.locator("#why-words")).to_have_text(told)


def test_the_example_and_its_map_lead_to_a_series(visit):
    page = visit()
    page.click("#example")
    expect(page.locator("#facts")).to_contain_text("8,730 time steps")
    expect(page.locator("#notes")).to_contain_text("16 of 8,730 time stamps were absent")
    page.select_option("#gap-kind", "wind_dir")
    fill(page, "linear")
    expect(page.locator("#result")).to_be_visible()
    page.locator("#map circle[aria-label^=JFK]").click()
    expect(page.locator("#station")).to_have_value("JFK")
    expect(page.locator("#cells-words")).to_contain_text("of")
    with page.context.expect_page() as opened:
        page.click("#file-report")
    opened.value.wait_for_load_state()
    expect(opened.value.locator("h1")).to_contain_text("nyc_weather.csv.gz")


def test_a_bad_table_is_answered_and_can_be_said_how_to_read(visit):
    page = visit()
    send(page, b"when,who\nnever,nobody\n", "odd.csv")
    expect(page.locator("#problem")).to_contain_text("a column of time stamps")
    expect(page.locator("#understood")).to_be_hidden()
    strange = table().replace(b"time,", b"t1,").replace(b"2024-01-", b"2024.01.")
    strange = strange.replace(b"T", b" ").replace(b":00:00", b"h")
    send(page, strange, "strange.csv")
    expect(page.locator("#problem")).to_be_visible()
    page.click("#problem button")
    page.fill("#again [name=time]", "t1")
    page.fill("#again [name=time_format]", "%Y.%m.%d %Hh")
    page.click("#again button")
    expect(page.locator("#facts")).to_contain_text("60 time steps")
    page.click("#correct summary")
    page.fill("#reading [name=measurements]", "nothing")
    page.click("#reading button")
    expect(page.locator("#problem")).to_contain_text("nothing")
    visit.wrong[:] = [one for one in visit.wrong if "422" not in one]  # what a browser logs of it


def test_a_job_is_cancelled_and_another_one_begun(visit):
    page = visit()
    send(page, table(steps=100))
    fill(page, "cdsa", "5")
    expect(page.locator("#doing")).to_contain_text("training cdsa for 5 min")
    page.click("#cancel")
    expect(page.locator("#failure")).to_contain_text("cancelled")
    fill(page, "linear")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#failure")).to_be_hidden()


def test_another_table_leaves_nothing_of_the_one_before(visit):
    page = visit()
    send(page, table(steps=100, stations=5))
    fill(page, "cdsa", "5")
    expect(page.locator("#doing")).to_contain_text("training cdsa for 5 min")
    plain = b"\n".join(line.rsplit(b",", 3)[0] + b"," + line.rsplit(b",", 1)[1]
                       for line in table(steps=80).splitlines())  # fmt: skip
    send(page, plain.replace(b"S0", "Zürich".encode("latin-1")), "nowhere.csv")
    expect(page.locator("#problem")).to_contain_text("“Character encoding” latin-1")
    expect(page.locator("#facts")).to_contain_text("100 time steps")  # what there was stays
    page.click("#problem button")
    page.keyboard.type("latin-1")  # the field that the message spoke of has the focus
    page.keyboard.press("Enter")
    expect(page.locator("#facts")).to_contain_text("80 time steps")
    expect(page.locator("#map-words")).to_contain_text("no coordinates")
    expect(page.locator("#map")).to_be_hidden()
    expect(page.locator("#progress")).to_be_hidden()
    page.wait_for_timeout(1200)  # longer than between two questions about a job
    expect(page.locator("#progress")).to_be_hidden()
    fill(page, "linear")
    expect(page.locator("#records")).to_contain_text("linear")
    expect(page.locator("#station option").first).to_have_text("Zürich")
    visit.wrong[:] = [one for one in visit.wrong if "422" not in one]


def test_bounds_are_kept_and_the_pages_of_cells_begin_anew(visit):
    page = visit()
    send(page, table(steps=200))
    page.click("#correct summary")
    page.fill("#reading [name=bounds]", "no2=21:2O")
    page.click("#reading button")
    expect(page.locator("#problem")).to_contain_text("but found no2=21:2O")
    page.fill("#reading [name=bounds]", "no2=21:24")
    page.click("#reading button")
    expect(page.locator("#reading [name=bounds]")).to_have_value("no2=21:24")
    fill(page, "linear")
    expect(page.locator("#cells-words")).to_contain_text("1 to 12 of")
    page.click("#on")
    expect(page.locator("#cells-words")).to_contain_text("13 to 24 of")
    page.locator("#map circle[aria-label^=S2]").click()
    expect(page.locator("#cells-words")).to_contain_text("1 to 12 of")
    told = page.locator("#cells tbody tr td:nth-child(3)").all_inner_texts()
    assert told and all(21 <= float(value) <= 24 for value in told)


def test_places_without_a_sensor_are_filled_where_coordinates_were_told(visit):
    page = visit()
    plain = b"\n".join(b",".join(line.split(b",")[:2] + line.split(b",")[4:])
                       for line in table(stations=4).splitlines())  # fmt: skip
    dropped = """(text) => {
        const data = new DataTransfer();
        data.items.add(new File([text], "plain.csv", { type: "text/csv" }));
        document.getElementById("drop").dispatchEvent(
            new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(dropped, plain.decode())
    expect(page.locator("#map-words")).to_contain_text("no coordinates")
    page.click("#correct summary")
    lines = "\n".join(["station,lat,lon", *(f"S{n},{50 + n / 10},{8 + n / 10}" for n in range(4))])
    page.fill("#reading [name=locations]", lines)
    page.click("#reading button")
    expect(page.locator("#map circle")).to_have_count(4)
    page.click("#do summary")
    page.fill("#at", "name,lat,lon\nhill,50.15,8.2")
    fill(page, "idw")
    expect(page.locator("#station")).to_have_value("hill")
    expect(page.locator("#map circle.place")).to_have_count(1)
    expect(page.locator("#cells-words")).to_contain_text("of 60")


def test_a_job_that_runs_while_the_reading_is_corrected_is_left_without_a_word(visit):
    page = visit()
    send(page, table(steps=100))
    fill(page, "cdsa", "5")
    expect(page.locator("#doing")).to_contain_text("training cdsa for 5 min")
    page.click("#correct summary")
    page.fill("#reading [name=bounds]", "no2=0:")
    page.click("#reading button")
    expect(page.locator("#progress")).to_be_hidden()
    page.wait_for_timeout(1200)  # longer than between two questions about a job
    expect(page.locator("#failure")).to_be_hidden()
    fill(page, "linear")
    expect(page.locator("#result")).to_be_visible()


def test_a_page_that_is_reloaded_goes_on_and_two_visitors_wait_their_turn(visit):
    one, two = visit(), visit()
    send(one, table(steps=100))
    send(two, table(steps=80, stations=2))
    fill(one, "cdsa", "0.06")
    expect(one.locator("#doing")).to_contain_text("training cdsa for 0.06")
    fill(two, "linear")
    expect(two.locator("#doing")).to_contain_text("1 job before this one")
    one.reload()
    expect(one.locator("#facts")).to_contain_text("100 time steps")
    expect(one.locator("#result")).to_be_visible()
    expect(two.locator("#result")).to_be_visible()
    expect(one.locator("#records")).to_contain_text("cdsa")
    expect(two.locator("#records")).to_contain_text("linear")
    expect(two.locator("#facts")).to_contain_text("80 time steps")


def test_a_forecast_from_the_same_page(visit):
    page = visit()
    send(page, table())
    page.fill("#steps", "6")
    page.select_option("#forecaster", "last")
    page.click("#ahead button")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#key-filled")).to_have_text("forecast")
    expect(page.locator("#cells-words")).to_contain_text("of 6")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_shows_everything_without_scrolling_sideways(visit, scheme):
    page = visit(width=360, height=740, color_scheme=scheme)
    send(page, table())
    expect(page.locator("#facts")).to_contain_text("60 time steps")
    fill(page, "linear")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#cells tbody tr").first).to_be_visible()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360
    for name in ("#fill", "#timeline", "#map", "#gaps", "#file-filled"):
        box = page.locator(name).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360, name


def test_all_of_it_can_be_done_with_keys(visit):
    page = visit()
    page.focus("#example")
    page.keyboard.press("Enter")
    expect(page.locator("#facts")).to_contain_text("8,730")
    page.focus("#method")
    page.keyboard.type("linear")
    page.focus("#fill")
    page.keyboard.press("Space")
    expect(page.locator("#result")).to_be_visible()
    page.focus("#timeline")
    before = page.locator("#here").inner_text()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#here")).not_to_have_text(before)
    focused = "document.activeElement.getAttribute('aria-label').slice(0, 3)"
    page.locator("#map circle[tabindex='0']").focus()
    for _ in range(3):  # arrows go from station to station, and Enter takes one
        page.keyboard.press("ArrowRight")
        if page.evaluate(focused) == "LGA":
            break
    page.keyboard.press("Enter")
    expect(page.locator("#station")).to_have_value("LGA")
    expect(page.locator("#cells-words")).to_contain_text("of")
    assert page.evaluate(focused) == "LGA"  # though the map was drawn anew
    page.focus("#example")
    reached = {page.evaluate("document.activeElement.id || document.activeElement.tagName")}
    for _ in range(60):  # what the tab key comes to
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached >= {
        "circle", "gap-kind", "gaps", "SUMMARY", "method", "minutes", "interval", "fill", "steps",
        "forecaster", "known", "file-filled", "file-detail", "file-report", "station", "kind",
        "nearer", "further", "whole", "timeline", "on",
    }  # fmt: skip
    page.focus("#gaps")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#gap-here")).to_contain_text("JFK from 2013-01-01")
