"""Numbers that a redesign must leave alone, to the last bit; see `golden_cases.py`."""

from typing import Any

import numpy as np
import pytest

import golden_cases as cases

METHODS, TRAINING, INTERVALS, WEIGHTS = (
    cases.golden(f"{name}.json") for name in ("methods", "training", "intervals", "weights")
)
NEAR = 1e-3


def floats(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if one is None else one for one in values])


def near(now: list[float | None], then: list[float | None]) -> bool:
    """Whether numbers are the same but for rounding; 359.9 degrees and 0.1 are neighbours."""
    one, other = floats(now), floats(then)
    margin = NEAR * np.nanmax(np.abs(other), initial=1.0)
    turned = [one + turn for turn in (0, -360, 360)]
    close = [np.isclose(part, other, rtol=NEAR, atol=margin, equal_nan=True) for part in turned]
    return bool(np.logical_or.reduce(close).all())


def compare(now: dict[str, Any], golden: dict[str, Any], case: str) -> None:
    """The same bits on a like machine. Another CPU or library sums in another order, so there
    numbers are close only, and nothing can be said of the bits of weights."""
    then = golden["cases"][case]
    assert list(now) == list(then)
    alike = cases.numerics() == golden["origin"]["numerics"]
    for key in then:
        if alike or key.endswith("shapes"):
            assert now[key] == then[key], f"{case}: {key}"
        elif not key.endswith("sha256"):
            assert len(now[key]) == len(then[key]) and near(now[key], then[key]), f"{case}: {key}"


def test_every_method_and_every_network_has_its_golden_numbers():
    assert list(METHODS["cases"]) == list(cases.NAMES)
    assert list(WEIGHTS["cases"]) == list(cases.NETWORKS)
    assert list(INTERVALS["cases"]) == list(cases.INTERVALS)


def test_the_golden_numbers_say_something():
    gaps = int(cases.short().isnull().sum())
    for name, found in METHODS["cases"].items():
        assert len(found["filled"]) == gaps and None not in found["filled"]
        assert len(set(found["filled"])) > 9
        assert ("forecast" in found) == cases.can_forecast(name)
        if name in cases.NETWORKS:
            assert found["weights fill shapes"] and len(found["weights fill sha256"]) == 64
            for level in cases.LEVELS:
                low, high = floats(found[f"lower {level}"]), floats(found[f"upper {level}"])
                assert np.isfinite(low).mean() > 0.8 and (low[np.isfinite(low)] != 0).any()
                assert (low < high).any()
    for found in INTERVALS["cases"].values():
        assert all(np.isfinite(floats(values)).all() for values in found.values())
    training = TRAINING["cases"]["cdsa"]
    assert len(set(training["losses"])) == len(training["losses"]) == 10


@pytest.mark.parametrize("name", cases.NAMES)
def test_a_method_fills_and_foresees_as_it_did(name):
    compare(cases.method_numbers(name), METHODS, name)


@pytest.mark.parametrize("name", cases.NETWORKS)
def test_the_weights_of_a_network_have_their_names(name):
    assert cases.weight_names(name) == WEIGHTS["cases"][name]


def test_the_default_network_learns_as_it_did():
    compare(cases.training_numbers(), TRAINING, "cdsa")


@pytest.mark.parametrize("case", cases.INTERVALS)
def test_intervals_are_as_they_were(case):
    compare(cases.interval_numbers(case), INTERVALS, case)
