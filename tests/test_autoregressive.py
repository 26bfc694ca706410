"""The rival 'ar': coefficients found, gaps smoothed from both sides."""

import numpy as np
import pytest

from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.methods.baselines.ar import AutoRegressive, Process, learn_process, smoothed
from cdsa.workflows.score import score

SECOND = (1.2, -0.5)


def process(coefficients=SECOND, steps=4000, seed=0):
    rng = np.random.default_rng(seed)
    values = np.zeros(steps)
    for t in range(len(coefficients), steps):
        values[t] = sum(a * values[t - 1 - n] for n, a in enumerate(coefficients)) + rng.normal()
    return values + 20


def with_gaps(values, share=0.2, seed=1):
    gaps = values.copy()
    gaps[np.random.default_rng(seed).random(len(values)) < share] = np.nan
    return gaps


def cube_of(values):
    times = np.datetime64("2020-01-01") + np.arange(len(values)).astype("timedelta64[h]")
    return make_cube(values[:, None, None], times, ["A"], ["x"])


def test_the_coefficients_of_a_process_with_gaps_are_found():
    found = learn_process(with_gaps(process()), 12)
    assert len(found.coefficients) in (2, 3)
    np.testing.assert_allclose(found.coefficients[:2], SECOND, atol=0.07)
    assert found.news == pytest.approx(1, rel=0.1) and found.mean == pytest.approx(20, abs=0.3)


def test_orders_are_compared_on_the_same_values():
    rng = np.random.default_rng(0)
    calm, wild = (np.convolve(rng.normal(size=n + 40), 0.6 ** np.arange(30), "valid")[:n]
                  for n in (300, 2400))  # fmt: skip
    wild = (10 * wild).reshape(-1, 3)  # of short stretches, which only few orders can learn from
    apart = np.concatenate([wild, np.full((len(wild), 1), np.nan)], axis=1).ravel()
    series = np.concatenate([calm, [np.nan], apart])
    assert len(learn_process(series, 12).coefficients) <= 2


def test_a_gap_is_what_is_likeliest_from_both_sides():
    known = Process(mean=5.0, coefficients=(0.8,), news=1.0)
    series = np.array([6.0, np.nan, 8.0])
    expected = 5 + 0.8 * (1 + 3) / (1 + 0.8**2)  # of a gap of one step in a process of order one
    np.testing.assert_allclose(smoothed(series, known), [6, expected, 8])


def test_a_forecast_goes_back_to_the_mean():
    known = Process(mean=5.0, coefficients=(0.8,), news=1.0)
    series = np.array([5.0, 7.0, np.nan, np.nan, np.nan])
    np.testing.assert_allclose(smoothed(series, known)[2:], 5 + 2 * 0.8 ** np.arange(1, 4))


def test_it_beats_the_straight_line_on_its_own_process():
    cube, hide = cube_of(process(steps=1500)), "bursts:0.2"
    ours, line = (score(name, cube, hide).errors.overall()["mae"] for name in ("ar", "linear"))
    assert ours < 0.9 * line


def test_a_walk_that_does_not_come_back_is_damped():
    walk = np.cumsum(np.random.default_rng(3).normal(size=600)) + 0.3 * np.arange(600)
    found = learn_process(walk, 3)
    filled = smoothed(np.append(walk, np.full(200, np.nan)), found)
    assert np.isfinite(filled).all() and np.abs(filled).max() < 2 * np.abs(walk).max()


def test_too_few_values_together_are_left_to_means():
    series = np.full(60, np.nan)
    series[::2] = 1.0
    assert learn_process(series, 5) is None
    with pytest.raises(ConfigError, match="most must be at least 1"):
        AutoRegressive(max_order=0)
