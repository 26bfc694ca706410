"""The documentation agrees with the code and the results."""

import dataclasses
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import cdsa
from cdsa.cli import OLD_COMMANDS, OLD_OPTIONS
from cdsa.cli.app import app
from cdsa.core.config import RENAMED as RENAMED_SETTINGS
from cdsa.core.config import to_dict
from cdsa.core.cube import RENAMED_COORDS
from cdsa.core.masks import STRATEGIES
from cdsa.core.records import read_results
from cdsa.datasets.registry import DATASETS
from cdsa.io.options import OPTIONS
from cdsa.io.options import RENAMED as RENAMED_OPTIONS
from cdsa.methods.neural.cdsa import Cdsa
from cdsa.methods.neural.cdsa_paper import CdsaPaper, CdsaPaperForecast
from cdsa.paper.render import render_html, render_markdown
from cdsa.paper.tables import TABLES as PAPER_TABLES
from cdsa.web.schemas import RENAMED as RENAMED_FIELDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)


@pytest.fixture
def renderer(monkeypatch):
    """The script, which imports others of its folder."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("render_tables")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_table_agrees_with_the_results(page, renderer):
    text = page.read_text(encoding="utf-8")
    assert renderer.render_page(text) == text


def test_every_table_has_a_place(renderer):
    wanted = {name for page in PAGES for name in re.findall(r"table: (\w+) -->", page.read_text())}
    assert set(renderer.TABLES) == wanted


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
    for option in OPTIONS.values():
        assert option.command_line_flag.split("/")[-1] in text, option


def names_of(config, prefix=""):
    for name in to_dict(config):
        value = getattr(config, name)
        if dataclasses.is_dataclass(value):
            yield from names_of(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_setting_of_a_network_is_explained():
    text = (ROOT / "docs" / "network.md").read_text(encoding="utf-8")
    for name in names_of(CdsaPaper()):
        own = re.sub(r"model\.(location|measurement)\.", "model.time.", name)
        short = re.sub(r"model\.time", "", own) if own != "model.time.d_qk" else own
        assert f"`{short}`" in text, name
    for name in {**CdsaPaper.PRESETS, **CdsaPaperForecast.PRESETS}:
        assert f"`{name}`" in text, name


def test_every_setting_of_the_default_network_is_explained():
    text = "".join((ROOT / "docs" / name).read_text() for name in ("network.md", "cdsa.md"))
    for name in names_of(Cdsa()):
        assert f"`{name}`" in text or f"`--set {name}=" in text, name
    assert all(f"--preset {name}" in text for name in Cdsa.PRESETS)


def test_the_pages_of_the_papers_tables_agree_with_the_results():
    records = read_results(ROOT / "results" / "paper.jsonl")
    for name, page in (("tables.md", render_markdown), ("tables.html", render_html)):
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert text == page(records, "results/paper.jsonl"), "run cdsa paper tables"


def test_every_data_set_and_table_is_explained():
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    for name in (*DATASETS, *PAPER_TABLES):
        assert f"`{name}`" in text, name


def test_every_way_of_hiding_is_explained():
    text = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")
    assert all(f"`{kind}:" in text for kind in STRATEGIES)


def code_blocks(language: str) -> list[tuple[str, str]]:
    """Name of the page and code of every block; commands stand in blocks without a language."""
    pattern = rf"^```{language}\n(.*?)^```"
    return [
        (page.name, code)
        for page in PAGES
        for code in re.findall(pattern, page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    ]


def commands() -> list[tuple[str, str]]:
    return [
        (page, line.partition("#")[0].strip())
        for page, block in code_blocks("")
        for line in block.splitlines()
        if line.startswith("cdsa ")
    ]


@pytest.mark.parametrize(("page", "line"), commands())
def test_every_command_of_the_docs_is_understood(page, line):
    command, words = typer.main.get_command(app), shlex.split(line)[1:]
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    context = command.context_class(command)
    command.make_parser(context).parse_args(list(words))  # refuses unknown options


def test_the_docs_use_public_names_only():
    for page, code in code_blocks("python"):
        if page == "CONTRIBUTING.md":
            continue
        modules = re.findall(r"^\s*(?:from|import) (cdsa[\w.]*)", code, flags=re.MULTILINE)
        assert set(modules) <= {"cdsa", "cdsa.plots"}, page
        names = set(re.findall(r"\bcdsa\.([a-zA-Z]\w*)", code)) - {"plots"}
        assert names <= set(cdsa.__all__), page


def test_every_code_block_of_the_docs_is_valid_python():
    for page, code in code_blocks("python"):
        compile(code, page, "exec")


def test_the_glossary_has_every_name_that_has_changed():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    for old, names in RENAMED_SETTINGS.items():
        for new in names:
            assert re.search(f"`{old}` → (?:`n_rounds` .mf. or )?`{new}`", text), (old, new)
    for old, new in OLD_COMMANDS.items():
        assert f"| `cdsa {old}` | `cdsa {new}` |" in text
    for (_, old), new in OLD_OPTIONS.items():
        assert re.search(rf"\| `[a-z ]*{old}` \| `[a-z ]*{new}` \|", text), (old, new)
    for old, new in (RENAMED_FIELDS | RENAMED_OPTIONS | RENAMED_COORDS).items():
        rows = [line for line in text.splitlines() if f"`{old}`" in line and f"`{new}`" in line]
        assert rows, (old, new)


def test_rendered_pages_agree_with_the_code():
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "render_pages.py", "--check"], check=True, timeout=120
    )


def test_the_site_is_built_without_warnings_and_loads_nothing_from_elsewhere(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", tmp_path / "site"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        outside = re.findall(
            r'<(?:script|img|link)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text("utf-8")
        )
        assert not outside, f"{page.name} loads {outside} from other servers"
