"""What users, scripts and browsers see of us, as it was; see `golden_cases.py`."""

import re
from typing import Any

import pytest

import golden_cases as cases

HELPS = cases.golden_helps()
GOLDEN = cases.golden("surfaces.json")
ALIKE = cases.renderers() == GOLDEN["origin"]["renderers"]
"""Whether what draws our help and our schema is what drew the golden ones; of another version the
frames and the wording around ours may differ, and only our own names are compared."""


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    return cases.helps()


def options(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


def test_there_are_the_same_commands(helps):
    assert list(helps) == list(HELPS) and len(HELPS) > 10


@pytest.mark.parametrize("words", HELPS)
def test_the_help_of_a_command_is_as_it_was(words, helps):
    now, then = helps[words], HELPS[words]
    assert "--help" in options(then) and max(map(len, then.splitlines())) <= 80
    if ALIKE:
        assert now == then
    assert options(now) == options(then)


def names(schema: dict[str, Any]) -> dict[str, list[str]]:
    found = {path: sorted(methods) for path, methods in schema["paths"].items()}
    return found | {"schemas": sorted(schema["components"]["schemas"])}


def test_the_schema_of_the_server_is_as_it_was():
    now, then = cases.openapi(), cases.golden("openapi.json")
    assert names(now) == names(then) and len(then["paths"]) > 5
    if ALIKE:
        assert now == then


def test_a_report_has_the_same_headings_and_ids():
    then = GOLDEN["cases"]["report"]
    assert len(then["headings"]) > 5 and "select station" in then["ids"]
    assert cases.report() == then
