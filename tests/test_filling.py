from dataclasses import dataclass, replace

import numpy as np
import pytest

import cdsa
from cdsa.errors import ConfigError, CubeError
from cdsa.methods.registry import build_method
from cdsa.training.callbacks import RunContext
from cdsa.workflows.fill import count_sources
from cdsa.workflows.select import plan
from conftest import network


@dataclass(frozen=True)
class Sure:
    """A method that knows how sure it is."""

    def fit(self, cube):
        return self

    def fill(self, cube):
        return cube.fillna(5.0)

    def fill_between(self, cube, levels):
        return self.fill(cube), [self.interval(cube, level) for level in levels]

    def interval(self, cube, level):
        whole = self.fill(cube)
        return whole - level, whole + level


def test_every_cell_has_a_source(cube):
    result = cdsa.fill(cube, "linear")
    assert set(np.unique(result["source"])) == {"observed", "filled"}
    assert ((result["source"] == "filled") == cube.isnull()).all()


def test_sources_are_counted_by_measurement():
    cube = network(missing=0.2)
    cube[:, :, 1] = np.nan
    counts = count_sources(cdsa.fill(cube, "mean"))
    assert counts["temp"] == {"observed": 0, "filled": 0, "unfillable": 180}
    assert counts["pm25"]["filled"] == int(cube[:, :, 0].isnull().sum())


def test_a_method_that_knows_intervals_brings_them(cube):
    result = cdsa.fill(cube, Sure(), interval=0.5)
    gap = cube.isnull()
    assert (result["lower"].where(gap, 4.5) == 4.5).all() and (
        result["upper"].where(gap, 5.5) == 5.5
    ).all()


def test_the_interval_of_a_measured_value_is_itself(cube):
    result = cdsa.fill(cube, Sure())
    known = cube.notnull()
    assert (result["lower"] == cube).where(known, True).all() and (result["upper"] == cube).where(
        known, True
    ).all()


def test_a_method_without_intervals_brings_none(cube):
    assert set(cdsa.fill(cube, "linear")) == {"value", "source"}


def test_an_impossible_interval_is_refused(cube):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        cdsa.fill(cube, "linear", interval=90)


def test_what_has_learnt_already_fills_without_learning_again(cube):
    learnt = build_method("mean").fit(cube)
    other = cube + 10.0
    assert cdsa.fill(other, learnt).value.equals(learnt.fill(other))


def test_minutes_are_for_networks(cube):
    with pytest.raises(ConfigError, match="minutes are for methods that train"):
        cdsa.fill(cube, "linear", minutes=1)
    with pytest.raises(ConfigError, match="minutes must be greater than 0"):
        cdsa.fill(cube, "cdsa", minutes=0)
    steps = []
    method = replace(build_method("cdsa@small"), run=RunContext(on_progress=steps.append))
    cdsa.fill(cube, method, minutes=0.01)
    assert 0.6 <= steps[-1].seconds < 10
    cdsa.forecast(cube, 2, method, minutes=0.01)


def test_what_cannot_be_is_answered_before_anything_is_learnt(cube):
    class Never:
        def fit(self, cube):
            raise AssertionError("it learns")

    with pytest.raises(ConfigError, match="an interval holds a share"):
        cdsa.fill(cube, Never(), interval=1.5)
    for steps in (0, 2.5):
        with pytest.raises(ConfigError, match="a whole number from 1 on"):
            cdsa.forecast(cube, steps, Never())
    with pytest.raises(ConfigError, match="has learnt already"):
        cdsa.fill(cube, build_method("mean").fit(cube), minutes=1)


def test_names_that_are_no_text_are_refused(cube):
    for axis in ("location", "measurement"):
        with pytest.raises(CubeError, match=f"the name of a {axis} is text, but found"):
            cdsa.fill(cube.assign_coords({axis: np.arange(cube.sizes[axis])}), "linear")


def test_something_else_than_a_cube_is_refused():
    with pytest.raises(CubeError, match="cdsa.open_cube"):
        cdsa.fill(np.zeros((2, 2, 2)))


def test_public_names_are_what_they_say():
    assert all(callable(getattr(cdsa, name)) for name in cdsa.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cdsa.nothing  # noqa: B018


def test_it_is_said_if_a_method_has_too_few_stations_for_what_it_does(cube):
    told = []
    plan("kriging", cube, check=False, tell=told.append)
    assert told == [
        "kriging needs 5 stations, but there are 3: where too few report, straight lines are drawn "
        "instead"
    ]
