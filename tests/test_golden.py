"""Numbers that a refactoring must leave alone; made by `python tests/test_golden.py`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cdsa.core.records import provenance
from cdsa.methods.neural.cdsa_paper import get_preset
from cdsa.nn.types import MANNERS
from cdsa.training.callbacks import RunContext
from conftest import network

PATH = Path(__file__).parent / "golden" / "losses.json"
CASES = [(manner, task) for manner in MANNERS for task in ("fill", "forecast")]


def losses(manner: str, task: str) -> list[float]:
    """The validation errors of a short training at seed 0."""
    found = []
    method = get_preset("small", forecast=task == "forecast").in_manner(manner)
    train = replace(method.train, epochs=None, minutes=None, validate_every=1, patience=10)
    seen: dict[int, float] = {}

    def watch(report) -> None:
        seen[report.step] = report.validation

    run = RunContext(device="cpu", on_progress=watch, should_stop=lambda: len(seen) >= 10)
    replace(method, train=train, run=run).fit(network(steps=100))
    found += [seen[step] for step in sorted(seen)]
    return found


@pytest.mark.parametrize(("manner", "task"), CASES)
def test_the_first_ten_steps_are_as_they_were(manner, task):
    golden = json.loads(PATH.read_text())["errors"][f"{manner} {task}"]
    assert losses(manner, task) == pytest.approx(golden, rel=1e-4)


if __name__ == "__main__":
    told = {f"{manner} {task}": losses(manner, task) for manner, task in CASES}
    origin = provenance("python tests/test_golden.py")
    PATH.write_text(json.dumps({"origin": origin, "errors": told}, indent=1) + "\n")
