import numpy as np

from cdsa.core.splits import keep_steps, last_steps, segments, steps_in_months
from conftest import network


def test_the_last_steps_are_tested(cube):
    is_test = last_steps(cube, 0.2)
    assert is_test.sum() == 12
    assert np.flatnonzero(~is_test).max() < np.flatnonzero(is_test).min()


def test_months_are_whole():
    cube = network(steps=24 * 100, measurements=1)
    is_test = steps_in_months(cube, [2])
    months = cube["time"].dt.month.values
    assert (months[is_test] == 2).all() and (months[~is_test] != 2).all()
    assert [s.stop - s.start for s in segments(~is_test)] == [24 * 31, 24 * (100 - 31 - 29)]


def test_other_steps_become_missing(cube):
    rest = keep_steps(cube, ~last_steps(cube, 0.5))
    assert rest[30:].isnull().all() and rest[:30].identical(cube[:30])
