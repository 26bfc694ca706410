"""The example of CONTRIBUTING.md works as it stands: one file, one line in the registry."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest

import cdsa
import test_every_method
from cdsa.methods.registry import REGISTRY, MethodInfo

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
MODULE_CODE, REGISTRY_ENTRY = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
PROMISES = [
    (promise, shape)
    for name, promise in vars(test_every_method).items()
    if name.startswith("test_")
    for shape in next(
        (mark.args[1] for mark in promise.pytestmark if mark.args[0] == "shape"), [None]
    )
]


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """The example as a module of the package and an entry of the registry; its name."""
    info = eval(REGISTRY_ENTRY, {"MethodInfo": MethodInfo})
    path = tmp_path / "example.py"
    path.write_text(MODULE_CODE, encoding="utf-8")
    module_name = f"cdsa.methods.{info.module.partition(':')[0]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module_name, module)
    monkeypatch.setitem(REGISTRY, info.name, info)
    spec.loader.exec_module(module)
    return info.name


@pytest.mark.parametrize(
    ("promise", "shape"), PROMISES, ids=[f"{f.__name__}-{shape}" for f, shape in PROMISES]
)
def test_the_example_keeps_the_promises_of_every_method(promise, shape, registered, windy):
    arguments = {"name": registered, "shape": shape, "windy": windy}
    promise(**{name: arguments[name] for name in inspect.signature(promise).parameters})


def test_the_example_is_known_everywhere(registered):
    assert registered in [info.name for info in cdsa.list_methods()]
    demo = cdsa.open_demo()[:50]
    assert cdsa.fill(demo, registered).attrs["method"] == registered
    [score] = cdsa.compare(demo, [registered], hide="random:0.2")
    assert score.unfilled == 0


def test_every_place_that_is_named_exists():
    root = Path(__file__).parents[1]
    for name in set(re.findall(r"`((?:[\w-]+/)+[\w.-]*)`", TEXT)) - {
        "src/cdsa/methods/baselines/network_mean.py"
    }:
        assert (root / name).exists() or (root / "src" / "cdsa" / name).exists(), name
