"""Numbers that a refactoring must leave alone; made by `python tests/test_golden.py`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cdsa.core.records import provenance
from cdsa.nn.types import MANNERS
from cdsa.training.callbacks import RunContext
from conftest import network
from small_networks import small_paper

PATH = Path(__file__).parent / "golden" / "losses.json"
CASES = [(manner, task) for manner in MANNERS for task in ("fill", "forecast")]


def losses(manner: str, task: str) -> list[float]:
    """The validation errors of a short training at seed 0."""
    method = small_paper(manner, forecast=task == "forecast")
    train = replace(method.train, epochs=None, minutes=None, validate_every=1, patience=10)
    errors: list[float] = []
    run = RunContext(
        device="cpu",
        on_progress=lambda progress: errors.append(progress.validation),
        should_stop=lambda: len(errors) >= 10,
    )
    replace(method, train=train).fit(network(steps=100), run)
    return errors


@pytest.mark.parametrize(("manner", "task"), CASES)
def test_the_first_ten_steps_are_as_they_were(manner, task):
    golden = json.loads(PATH.read_text())["errors"][f"{manner} {task}"]
    assert losses(manner, task) == pytest.approx(golden, rel=1e-4)


if __name__ == "__main__":
    errors = {f"{manner} {task}": losses(manner, task) for manner, task in CASES}
    origin = provenance("python tests/test_golden.py")
    PATH.write_text(json.dumps({"origin": origin, "errors": errors}, indent=1) + "\n")
