"""Every public name is documented: what it takes, what it returns, and an example that runs."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import cdsa

ROOT = Path(__file__).parents[1]
FUNCTIONS = [name for name in cdsa.__all__ if inspect.isfunction(getattr(cdsa, name))]
PLOTS = importlib.import_module("cdsa.plots").__all__


def sections(text: str) -> dict[str, str]:
    """The sections of a numpydoc docstring by their headings."""
    parts = re.split(r"^(\w+)\n-{3,}\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", cdsa.__all__)
def test_every_public_name_has_an_example(name):
    assert ">>> " in sections(getattr(cdsa, name).__doc__).get("Examples", "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_of_a_public_function_is_documented(name):
    signature = inspect.signature(getattr(cdsa, name))
    text = sections(getattr(cdsa, name).__doc__).get("Parameters", "")
    documented = re.findall(r"^(\**\w+)$", text, flags=re.MULTILINE)
    stars = {inspect.Parameter.VAR_KEYWORD: "**", inspect.Parameter.VAR_POSITIONAL: "*"}
    assert documented == [stars.get(p.kind, "") + p.name for p in signature.parameters.values()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_public_function_returns_is_documented(name):
    function = getattr(cdsa, name)
    returns = inspect.signature(function).return_annotation is not None
    assert ("Returns" in sections(function.__doc__)) == returns


def test_the_reference_has_every_public_name():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^::: cdsa\.(\w+)$", text, flags=re.MULTILINE)) == {
        *cdsa.__all__, "plots",
    }  # fmt: skip


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_says_what_it_shows(name):
    assert getattr(importlib.import_module("cdsa.plots"), name).__doc__
