"""The page in a real browser: what a visitor does, step by step, with mouse and with keyboard."""

from pathlib import Path

import pytest
from playwright.sync_api import expect
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.io.files import UPLOAD_SUFFIXES
from cdsa.web.limits import Limits
from server import running, table

pytestmark = pytest.mark.browser
WAIT = 30_000
"""Milliseconds that a step may take on a busy machine."""
expect.set_options(timeout=WAIT)


@pytest.fixture(scope="module")
def address():
    with running(Limits(megabytes=5)) as where:
        yield where


@pytest.fixture
def visit(browser, address):
    """Opens the page; errors in the console and requests to other servers fail the test."""
    contexts, errors = [], []

    def open_page(width=1200, height=900, **more):
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        context.on("page", watch)  # a report opens in a page of its own
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.goto(address)
        return page

    def watch(page):
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.on(
            "request",
            lambda request: None if request.url.startswith((address, "data:", "blob:")) else
            errors.append(f"request to {request.url}"),
        )  # fmt: skip

    open_page.errors = errors
    yield open_page
    for context in contexts:
        context.close()
    assert not errors, errors


def ignore_status_422(visit) -> None:
    """Browsers log every response that is an error."""
    visit.errors[:] = [error for error in visit.errors if "422" not in error]


def upload(page, content: bytes, name: str = "air.csv") -> None:
    page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": content})


def fill(page, method: str, minutes: str = "") -> None:
    page.select_option("#method", method)
    page.fill("#minutes", minutes)
    page.click("#fill")


def test_a_table_is_uploaded_summarised_filled_and_downloaded(visit, tmp_path):
    content, page = table(), visit()
    last_suffixes = dict.fromkeys(Path(f"table{suffix}").suffix for suffix in UPLOAD_SUFFIXES)
    expect(page.locator("#file")).to_have_attribute("accept", ",".join(last_suffixes))
    upload(page, content)
    expect(page.locator("#facts")).to_contain_text("60 time steps")
    expect(page.locator("#facts")).to_contain_text("3 stations")
    expect(page.locator("#map circle")).to_have_count(3)
    fill(page, "linear")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#records")).to_contain_text("linear")
    with page.expect_download() as download:
        page.click("#file-filled")
    assert download.value.suggested_filename == "air-fill.csv"
    (tmp_path / "air.csv").write_bytes(content)
    words = ["fill", tmp_path / "air.csv", "-o", tmp_path / "out.csv", "--method", "linear"]
    CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert Path(download.value.path()).read_bytes() == (tmp_path / "out.csv").read_bytes()


def test_a_click_on_a_filled_value_explains_it(visit):
    page = visit()
    upload(page, table(stations=4, steps=120))
    fill(page, "cdsa", "0.02")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#cells tbody tr").first).to_be_visible()
    page.click("#cells tbody tr:first-child button")
    expect(page.locator("#explanation-text")).to_contain_text("Comes from: same series")
    assert page.locator("#contributions tbody tr").count() > 3
    assert page.locator("#explanation-map circle.contribution").count() >= 1
    expect(page.locator("#cells tr[aria-current]")).to_have_count(1)
    # the same by a click on the chart
    first = page.locator("#explanation-text").inner_text()
    page.click("#cells tbody tr:nth-child(2) button")
    expect(page.locator("#explanation-text")).not_to_have_text(first)
    second = page.locator("#explanation-text").inner_text()
    page.click("#cells tbody tr:first-child button")
    expect(page.locator("#explanation-text")).to_have_text(first)
    page.click("#zoom-reset")
    box = page.locator("#timeline").bounding_box()
    step = int(page.locator("#cells tbody tr:nth-child(2)").get_attribute("data-step"))
    x = 58 + step / 120 * (box["width"] - 68)  # all 120 steps are shown
    page.locator("#timeline").click(position={"x": x, "y": box["height"] / 2})
    expect(page.locator("#explanation-text")).to_have_text(second)


def test_the_example_and_its_map_lead_to_a_series(visit):
    page = visit()
    page.click("#example")
    expect(page.locator("#facts")).to_contain_text("8,730 time steps")
    expect(page.locator("#notes")).to_contain_text("16 of 8,730")
    page.select_option("#gap-measurement", "wind_dir")
    fill(page, "linear")
    expect(page.locator("#result")).to_be_visible()
    page.locator("#map circle[aria-label^=JFK]").click()
    expect(page.locator("#station")).to_have_value("JFK")
    expect(page.locator("#cells-range")).to_contain_text("of")
    with page.context.expect_page() as opened:
        page.click("#file-report")
    opened.value.wait_for_load_state()
    expect(opened.value.locator("h1")).to_contain_text("nyc_weather.csv.gz")


def test_a_table_that_cannot_be_read_gets_a_message_and_a_form_of_options(visit):
    page = visit()
    upload(page, b"when,who\nnever,nobody\n", "odd.csv")
    expect(page.locator("#problem")).to_contain_text("a column of timestamps")
    expect(page.locator("#summary")).to_be_hidden()
    strange = table().replace(b"time,", b"t1,").replace(b"2024-01-", b"2024.01.")
    strange = strange.replace(b"T", b" ").replace(b":00:00", b"h")
    upload(page, strange, "strange.csv")
    expect(page.locator("#problem")).to_be_visible()
    page.click("#problem button")
    page.fill("#retry-options [name=time]", "t1")
    page.fill("#retry-options [name=time_format]", "%Y.%m.%d %Hh")
    page.click("#retry-options button")
    expect(page.locator("#facts")).to_contain_text("60 time steps")
    page.click("#correct summary")
    page.fill("#options [name=measurements]", "nothing")
    page.click("#options button")
    expect(page.locator("#problem")).to_contain_text("nothing")
    ignore_status_422(visit)


def test_a_job_is_cancelled_and_another_one_started(visit):
    page = visit()
    upload(page, table(steps=100))
    fill(page, "cdsa", "5")
    expect(page.locator("#status")).to_contain_text("training cdsa for 5 min")
    page.click("#cancel")
    expect(page.locator("#failure")).to_contain_text("cancelled")
    fill(page, "linear")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#failure")).to_be_hidden()


def test_a_new_table_replaces_everything_about_the_old_one(visit):
    page = visit()
    upload(page, table(steps=100, stations=5))
    fill(page, "cdsa", "5")
    expect(page.locator("#status")).to_contain_text("training cdsa for 5 min")
    plain = b"\n".join(line.rsplit(b",", 3)[0] + b"," + line.rsplit(b",", 1)[1]
                       for line in table(steps=80).splitlines())  # fmt: skip
    upload(page, plain.replace(b"S0", "Zürich".encode("latin-1")), "nowhere.csv")
    expect(page.locator("#problem")).to_contain_text("“Character encoding” latin-1")
    expect(page.locator("#facts")).to_contain_text("100 time steps")  # the old table stays
    page.click("#problem button")
    page.keyboard.type("latin-1")  # the field that the message names has the focus
    page.keyboard.press("Enter")
    expect(page.locator("#facts")).to_contain_text("80 time steps")
    expect(page.locator("#map-caption")).to_contain_text("no coordinates")
    expect(page.locator("#map")).to_be_hidden()
    expect(page.locator("#progress")).to_be_hidden()
    page.wait_for_timeout(1200)  # longer than the interval of polling
    expect(page.locator("#progress")).to_be_hidden()
    fill(page, "linear")
    expect(page.locator("#records")).to_contain_text("linear")
    expect(page.locator("#station option").first).to_have_text("Zürich")
    ignore_status_422(visit)


def test_bounds_are_respected_and_a_new_series_starts_at_the_first_page(visit):
    page = visit()
    upload(page, table(steps=200))
    page.click("#correct summary")
    page.fill("#options [name=bounds]", "no2=21:2O")
    page.click("#options button")
    expect(page.locator("#problem")).to_contain_text("but found '21:2O'")
    ignore_status_422(visit)
    page.fill("#options [name=bounds]", "no2=21:24")
    page.fill("#options [name=units]", "no2=ug/m3")
    page.click("#options button")
    expect(page.locator("#options [name=bounds]")).to_have_value("no2=21:24")
    expect(page.locator("#options [name=units]")).to_have_value("no2=ug/m3")
    fill(page, "linear")
    expect(page.locator("#cells-range")).to_contain_text("1 to 12 of")
    page.click("#next")
    expect(page.locator("#cells-range")).to_contain_text("13 to 24 of")
    page.locator("#map circle[aria-label^=S2]").click()
    expect(page.locator("#cells-range")).to_contain_text("1 to 12 of")
    values = page.locator("#cells tbody tr td:nth-child(3)").all_inner_texts()
    assert values and all(21 <= float(value) <= 24 for value in values)


def test_unmonitored_sites_are_filled_once_coordinates_are_entered(visit):
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
    expect(page.locator("#map-caption")).to_contain_text("no coordinates")
    page.click("#correct summary")
    lines = "\n".join(["station,lat,lon", *(f"S{n},{50 + n / 10},{8 + n / 10}" for n in range(4))])
    page.fill("#options [name=locations]", lines)
    page.click("#options button")
    expect(page.locator("#map circle")).to_have_count(4)
    page.click("#fill-form summary")
    page.fill("#sites", "name,lat,lon\nhill,50.15,8.2")
    fill(page, "idw")
    expect(page.locator("#station")).to_have_value("hill")
    expect(page.locator("#map circle.site")).to_have_count(1)
    expect(page.locator("#cells-range")).to_contain_text("of 60")
    page.select_option("#options [name=coordinates]", "false")
    page.click("#options button")
    expect(page.locator("#map-caption")).to_contain_text("no coordinates")
    expect(page.locator("#options [name=coordinates]")).to_have_value("false")


def test_a_running_job_is_discarded_silently_when_the_options_change(visit):
    page = visit()
    upload(page, table(steps=100))
    fill(page, "cdsa", "5")
    expect(page.locator("#status")).to_contain_text("training cdsa for 5 min")
    page.click("#correct summary")
    page.fill("#options [name=bounds]", "no2=0:")
    page.click("#options button")
    expect(page.locator("#progress")).to_be_hidden()
    page.wait_for_timeout(1200)  # longer than the interval of polling
    expect(page.locator("#failure")).to_be_hidden()
    fill(page, "linear")
    expect(page.locator("#result")).to_be_visible()


def test_a_reloaded_page_continues_and_two_visitors_wait_their_turn(visit):
    one, two = visit(), visit()
    upload(one, table(steps=100))
    upload(two, table(steps=80, stations=2))
    fill(one, "cdsa", "0.06")
    expect(one.locator("#status")).to_contain_text("training cdsa for 0.06")
    fill(two, "linear")
    expect(two.locator("#status")).to_contain_text("1 job before this one")
    one.reload()
    expect(one.locator("#facts")).to_contain_text("100 time steps")
    expect(one.locator("#result")).to_be_visible()
    expect(two.locator("#result")).to_be_visible()
    expect(one.locator("#records")).to_contain_text("cdsa")
    expect(two.locator("#records")).to_contain_text("linear")
    expect(two.locator("#facts")).to_contain_text("80 time steps")


def test_a_table_is_forecast_from_the_same_page(visit):
    page = visit()
    upload(page, table())
    page.fill("#horizon", "6")
    page.select_option("#forecaster", "last")
    page.click("#forecast-form button")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#key-filled")).to_have_text("forecast")
    expect(page.locator("#cells-range")).to_contain_text("of 6")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_needs_no_horizontal_scrolling(visit, scheme):
    page = visit(width=360, height=740, color_scheme=scheme)
    upload(page, table())
    expect(page.locator("#facts")).to_contain_text("60 time steps")
    fill(page, "linear")
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("#cells tbody tr").first).to_be_visible()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360
    for name in ("#fill", "#timeline", "#map", "#gaps", "#file-filled"):
        box = page.locator(name).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360, name


def test_everything_can_be_done_with_the_keyboard(visit):
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
    before = page.locator("#readout").inner_text()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#readout")).not_to_have_text(before)
    focused = "document.activeElement.getAttribute('aria-label').slice(0, 3)"
    page.locator("#map circle[tabindex='0']").focus()
    for _ in range(3):  # the arrow keys move between stations, Enter selects one
        page.keyboard.press("ArrowRight")
        if page.evaluate(focused) == "LGA":
            break
    page.keyboard.press("Enter")
    expect(page.locator("#station")).to_have_value("LGA")
    expect(page.locator("#cells-range")).to_contain_text("of")
    assert page.evaluate(focused) == "LGA"  # although the map was redrawn
    page.focus("#example")
    reached = {page.evaluate("document.activeElement.id || document.activeElement.tagName")}
    for _ in range(60):  # the stops of the tab key
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached >= {
        "circle", "gap-measurement", "gaps", "SUMMARY", "method", "minutes", "interval", "fill",
        "horizon", "forecaster", "known-covariates", "file-filled", "file-detail", "file-report",
        "station", "measurement", "zoom-in", "zoom-out", "zoom-reset", "timeline", "next",
    }  # fmt: skip
    page.focus("#gaps")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#gap-readout")).to_contain_text("JFK from 2013-01-01")
