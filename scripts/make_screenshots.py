"""Screenshots of the page and of its report for docs/: python scripts/make_screenshots.py

Starts a server, fills the example in Chromium, explains a value, and captures the whole page and
the report: wide and narrow, light and dark.
"""

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from conftest import BROWSERS  # noqa: E402
from server import running  # noqa: E402

SCREENS = {"wide": (1200, 900), "narrow": (360, 740)}
WAIT = 600_000


def fill_example(browser: Browser, address: str, minutes: float) -> str:
    """The URL of a page with the example filled."""
    page = browser.new_page()
    page.set_default_timeout(WAIT)
    page.goto(address)
    page.click("#example")
    page.wait_for_selector("#summary:not([hidden])")
    page.select_option("#method", "cdsa")
    page.fill("#minutes", str(minutes))
    page.click("#fill")
    page.wait_for_selector("#result:not([hidden])")
    url = page.url
    page.close()
    return url


def explain_direction(page: Page, url: str) -> None:
    """Open the page and explain a wind direction."""
    page.goto(url)
    page.wait_for_selector("#cells tbody tr")
    page.select_option("#measurement", "wind_dir")
    page.wait_for_selector("#cells tbody tr")
    page.wait_for_timeout(500)
    page.click("#cells tbody tr:nth-child(3) button")
    page.wait_for_selector("#contributions tbody tr")
    page.wait_for_timeout(500)


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.25, help="of training")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    with running() as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        url = fill_example(browser, address, options.minutes)
        for size, (width, height) in SCREENS.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,  # type: ignore[arg-type]
                )
                page = context.new_page()
                page.set_default_timeout(WAIT)
                explain_direction(page, url)
                page.screenshot(path=options.folder / f"page-{size}-{scheme}.png", full_page=True)
                link = page.get_attribute("#file-report", "href")
                page.goto(f"{address}{link}")
                page.wait_for_selector("#station option", state="attached")
                page.screenshot(path=options.folder / f"report-{size}-{scheme}.png", full_page=True)
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
