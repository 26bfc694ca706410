"""The docs say what is so."""

import importlib.util
import re
from pathlib import Path

import pytest

from cdsa.cli.reading import OPTIONS
from cdsa.masks import KINDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)


def renderer():
    spec = importlib.util.spec_from_file_location("render", ROOT / "scripts" / "render_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_table_is_what_the_results_say(page):
    text = page.read_text(encoding="utf-8")
    assert renderer().rendered(text) == text


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_map_names_every_module():
    text = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "cdsa"
    for path in source.rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py", "app.py"):
            assert path.name in text, path.relative_to(source)


def test_every_reading_option_is_explained():
    text = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    for name in OPTIONS:
        option = "--no-coordinates" if name == "coordinates" else f"--{name.replace('_', '-')}"
        assert option in text, option


def test_every_way_of_hiding_is_explained():
    text = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")
    assert all(f"`{kind}:" in text for kind in KINDS)
