"""Imports go downhill only: a module may use the layers below its own, or its own package."""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "cdsa"
LAYERS = [
    {"errors"},
    {"core"},
    {"nn", "io"},
    {"training", "datasets"},
    {"methods"},
    {"workflows"},
    {"plots"},
    {"report"},
    {"web", "paper"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
METHODS = [
    {"explanation", "error_model"},
    {"base"},
    {"registry"},
    {"wrapper"},
    {"calibration"},
    {"blend"},
    {"compose"},
    {"baselines", "engine"},
    {"neural"},
]
"""The inner order of `methods/`."""
METHODS_LEVEL = {name: level for level, names in enumerate(METHODS) for name in names}
TORCH = ("nn/", "training/", "methods/engine/", "methods/neural/", "paper/complexity.py")
"""Where torch may be imported."""
WITHOUT = {"nn": {"xarray", "pandas"}, "training": {"pandas"}}
"""What a package may not import."""
MODULES = [p for p in sorted(SRC.rglob("*.py")) if p != SRC / "__init__.py"]


@cache
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
    here, *inner = path.relative_to(SRC).with_suffix("").parts
    names = imported(path)
    ours = [name[1:] for name in names if name[0] == "cdsa" and len(name) > 1]
    uphill = {name[0] for name in ours if name[0] != here and LEVEL[name[0]] >= LEVEL[here]}
    assert not uphill, f"{here} may not import {sorted(uphill)}: not below it"
    if here == "methods" and inner != ["__init__"]:
        inside = {name[1] for name in ours if name[0] == "methods"} - {inner[0]}
        uphill = {n for n in inside if METHODS_LEVEL[n] >= METHODS_LEVEL[inner[0]]}
        assert not uphill, f"methods/{inner[0]} may not import {sorted(uphill)}: not below it"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_torch_and_tables_stay_in_their_layers(path: Path) -> None:
    name = path.relative_to(SRC).as_posix()
    banned = set(WITHOUT.get(name.split("/")[0], ()))
    banned |= set() if name.startswith(TORCH) else {"torch"}
    strangers = {first for first, *_ in imported(path)} & banned
    assert not strangers, f"{name} may not import {sorted(strangers)}"


STAGES = """
import contextlib, io, json, sys

def tell(stage):
    print(json.dumps([stage, sorted({name.split('.')[0] for name in sys.modules})]))

import cdsa
tell("import cdsa")
from cdsa.cli import main
for words in json.loads(sys.argv.pop()):
    sys.argv = ["cdsa", *words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
    tell(" ".join(words[:2]) if "--help" in words else words[0])
"""
"""Commands one after the other, and the top-level packages that are loaded after each of them."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> dict[str, set[str]]:
    """The packages that are loaded after each stage, in one new interpreter: lightest first."""
    folder = tmp_path_factory.mktemp("imports")
    table, filled = folder / "t.csv", folder / "o.csv"
    table.write_text("time,station,x\n2020-01-01 00:00,A,1\n2020-01-01 01:00,A,\n")
    commands = [
        ["--help"],
        ["fill", "--help"],
        ["methods"],
        ["info", str(table)],
        ["fill", str(table), "-o", str(filled), "--no-check"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", STAGES, json.dumps(commands)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert filled.exists(), done.stderr
    return {stage: set(names) for stage, names in map(json.loads, done.stdout.splitlines())}


def test_importing_cdsa_loads_nothing_heavy(loaded):
    heavy = {"torch", "pandas", "xarray", "numpy", "sklearn", "rich"}
    assert not loaded["import cdsa"] & heavy


@pytest.mark.parametrize("words", ["--help", "fill --help"])
def test_help_is_instant_because_it_loads_no_arrays(loaded, words):
    heavy = {"torch", "sklearn", "numpy", "pandas", "xarray", "pydantic"}
    assert not loaded[words] & heavy


@pytest.mark.parametrize("command", ["methods", "info", "fill"])
def test_a_command_without_a_network_loads_neither_torch_nor_sklearn(loaded, command):
    assert not loaded[command] & {"torch", "sklearn"}
