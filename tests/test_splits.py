import numpy as np
import pytest

from cdsa.core.splits import Split, keep_steps, segments, split_by_months, split_chronologically
from cdsa.errors import ConfigError
from conftest import network


def test_every_step_is_in_one_set(cube):
    split = split_chronologically(cube, validation=0.1, test=0.2)
    assert (split.train.astype(int) + split.validation + split.test == 1).all()
    assert split.test.sum() == 12 and split.validation.sum() == 6


def test_training_precedes_validation_and_test(cube):
    split = split_chronologically(cube, validation=0.1, test=0.2)
    assert np.flatnonzero(split.train).max() < np.flatnonzero(split.validation).min()
    assert np.flatnonzero(split.validation).max() < np.flatnonzero(split.test).min()


def test_months_are_whole():
    cube = network(steps=24 * 100, measurements=1)
    split = split_by_months(cube, test=[2])
    months = cube["time"].dt.month.values
    assert (months[split.test] == 2).all() and (months[split.train] != 2).all()
    assert [s.stop - s.start for s in segments(split.train)] == [24 * 31, 24 * (100 - 31 - 29)]


def test_other_steps_become_missing(cube):
    split = split_chronologically(cube, test=0.5)
    rest = keep_steps(cube, split.train)
    assert rest[30:].isnull().all() and rest[:30].identical(cube[:30])


def test_an_empty_training_set_is_refused(cube):
    with pytest.raises(ConfigError, match="leave something to train on"):
        split_chronologically(cube, test=1.0)


def test_a_step_in_two_sets_is_refused():
    yes = np.ones(3, dtype=bool)
    with pytest.raises(ConfigError, match="only one of"):
        Split(yes, ~yes, yes)
