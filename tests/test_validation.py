"""Cells held out to validate a network."""

from dataclasses import replace

import numpy as np
import pytest

from cdsa.core.gaps import run_lengths
from cdsa.methods.engine.validation import choose_holdout, gap_classes, spread_evenly
from cdsa.methods.neural.cdsa import DEFAULT_TRAINING
from conftest import network


def test_held_out_gaps_are_like_those_of_the_table():
    cube = network(steps=4000, stations=4, measurements=1, missing=0.0)
    values, rng = cube.to_numpy().copy(), np.random.default_rng(0)
    for start in rng.choice(3900, 40, replace=False):
        values[start : start + 24, int(rng.integers(4))] = np.nan
    cube = cube.copy(data=values)
    _, hidden = choose_holdout(cube, 48, 0, DEFAULT_TRAINING, 0)
    missing = cube.where(~hidden).isnull().to_numpy()
    assert (run_lengths(missing)[hidden.to_numpy()] >= 12).mean() > 0.5


@pytest.mark.parametrize("masking", ["random", "bursts", "like_data"])
def test_measured_cells_of_the_validation_steps_are_held_out(masking):
    cube, config = network(steps=400), replace(DEFAULT_TRAINING, masking=masking)
    steps, hidden = choose_holdout(cube, 12, 0, config, 0)
    assert hidden.any() and cube.notnull().where(hidden, True).all()
    assert not hidden[~steps].any()


def test_a_forecaster_holds_out_the_last_measured_steps_if_enough_are_left():
    cube = network(steps=100)
    cube[90:] = np.nan
    steps, hidden = choose_holdout(cube, 12, 6, DEFAULT_TRAINING, 0)
    assert np.flatnonzero(steps)[-1] == 89 and steps.sum() >= 12 and not hidden.any()
    steps, _ = choose_holdout(cube[:20], 12, 6, DEFAULT_TRAINING, 0)
    assert not steps.any()


def test_the_gap_class_of_a_forecast_is_that_of_its_lead_time():
    cube = network(steps=20, stations=2, missing=0.0)
    unobserved = np.array([False, True])
    classes = gap_classes(cube, 12, unobserved)
    assert (np.diff(classes[-12:, 0, 0]) >= 0).all() and classes[-1, 0, 0] > classes[-12, 0, 0]
    assert (classes[:, 1] > classes.max(where=~unobserved[:, None], initial=0)).all()


def test_numbers_are_spread_evenly():
    assert spread_evenly(3, 5).tolist() == [0, 1, 2]
    assert spread_evenly(9, 3).tolist() == [0, 4, 8]


def test_gaps_longer_than_a_window_are_held_out_if_the_table_has_such_gaps():
    cube = network(steps=4000, stations=6, measurements=1, missing=0.0)
    values, rng = cube.to_numpy().copy(), np.random.default_rng(0)
    for number in range(12):
        start = int(rng.integers(3800))
        values[start : start + 150, number % 6] = np.nan
    cube = cube.copy(data=values)
    steps, hidden = choose_holdout(cube, 48, 0, DEFAULT_TRAINING, 0)
    missing = cube.where(~hidden).isnull().to_numpy()
    assert (run_lengths(missing)[hidden.to_numpy()] > 48).mean() > 0.3
    assert not hidden[~steps].any() and not steps.all()
