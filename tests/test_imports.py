"""Imports go downhill only: a module may use the layers below its own, or its own package."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "cdsa"
LAYERS = [
    {"errors"},
    {"core"},
    {"nn", "io", "sources"},
    {"models"},
    {"training", "datasets", "windows"},
    {"train"},
    {"method", "methods"},
    {"scoring"},
    {"choosing", "notes"},
    {"filling"},
    {"workflows"},
    {"pictures", "plots"},
    {"reporting", "report"},
    {"experiments", "serving", "web", "paper"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
NOT_HERE = {name: {"torch"} for name in LEVEL} | {
    "nn": {"xarray", "pandas"},
    "models": {"xarray", "pandas"},
    "windows": {"pandas"},
    "train": {"pandas"},
    "training": {"pandas"},
    "method": set(),
    "methods": set(),
    "paper": set(),
    "experiments": set(),
}
MODULES = [p for p in sorted(SRC.rglob("*.py")) if p != SRC / "__init__.py"]


def imported(path: Path) -> list[list[str]]:
    """Every import of the file at `path`, as the parts of its dotted name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}".split(".") for alias in node.names]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_go_downhill(path: Path) -> None:
    here = path.relative_to(SRC).parts[0].removesuffix(".py")
    names = imported(path)
    ours = {name[1] for name in names if name[0] == "cdsa" and name[1] != here}
    uphill = {part for part in ours if LEVEL[part] >= LEVEL[here]}
    strangers = {name[0] for name in names} & NOT_HERE.get(here, set())
    assert not uphill, f"{here} may not import {sorted(uphill)}: not below it"
    assert not strangers, f"{here} may not import {sorted(strangers)}"


def loaded_by(code: str) -> set[str]:
    """The top-level packages that are loaded after running `code` in a new interpreter."""
    names = "import sys; print(*{m.split('.')[0] for m in sys.modules}, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{names}"], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def loaded_by_command(*words: str) -> set[str]:
    """The top-level packages that are loaded after running a command."""
    run = f"sys.argv = ['cdsa', *{words!r}]\ntry: main()\nexcept SystemExit: pass"
    return loaded_by(f"import sys\nfrom cdsa.cli import main\n{run}")


def test_importing_cdsa_loads_nothing_heavy():
    assert not loaded_by("import cdsa") & {"torch", "pandas", "xarray", "numpy", "sklearn", "rich"}


def test_help_is_instant_because_it_loads_no_arrays():
    assert not loaded_by_command("--help") & {"torch", "sklearn", "numpy", "pandas", "xarray"}


def test_methods_loads_neither_torch_nor_sklearn():
    assert not loaded_by_command("methods") & {"torch", "sklearn"}


def test_filling_without_a_network_loads_no_torch(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("time,station,x\n2020-01-01 00:00,A,1\n2020-01-01 01:00,A,\n")
    words = ("fill", str(table), "-o", str(tmp_path / "o.csv"), "--no-check")
    assert not loaded_by_command(*words) & {"torch", "sklearn"}


def test_info_loads_neither_torch_nor_sklearn(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("time,station,x\n2020-01-01 00:00,A,1\n2020-01-01 01:00,A,\n")
    assert not loaded_by_command("info", str(table)) & {"torch", "sklearn"}
