"""Every example runs as it stands, on less data and with less time to train."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch, capsys):
    text = re.sub(r"minutes=[0-9.]+", "minutes=0.01", path.read_text())
    text = re.sub(r"slice\(0, \d+\)", "slice(0, 150)", text).replace("2013-03-01", "2013-01-06")
    assert "minutes" not in text or "0.01" in text  # none trains for as long as it says
    (tmp_path / path.name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(path.name, run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_imports_public_names_only(path):
    modules = re.findall(r"^(?:from|import) (cdsa[\w.]*)", path.read_text(), flags=re.MULTILINE)
    assert set(modules) <= {"cdsa", "cdsa.plots"}


def test_they_are_numbered_and_say_how_to_run_them():
    assert [int(path.name[:2]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    for path in EXAMPLES:
        assert f"python examples/{path.name}" in path.read_text().split('"""')[1]
