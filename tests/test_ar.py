"""The baseline 'ar': coefficients are estimated, gaps smoothed from both sides."""

import numpy as np
import pytest

from cdsa import score
from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.methods.baselines.ar import AutoRegressive, Process, fit_process, smooth

COEFFICIENTS = (1.2, -0.5)


def simulate(n_steps=4000, seed=0):
    """A process of order two around a mean of 20, with innovations of variance one."""
    rng = np.random.default_rng(seed)
    values = np.zeros(n_steps)
    for t in range(len(COEFFICIENTS), n_steps):
        values[t] = sum(a * values[t - 1 - n] for n, a in enumerate(COEFFICIENTS)) + rng.normal()
    return values + 20


def with_gaps(values, share=0.2, seed=1):
    gappy = values.copy()
    gappy[np.random.default_rng(seed).random(len(values)) < share] = np.nan
    return gappy


def cube_of(values):
    times = np.datetime64("2020-01-01") + np.arange(len(values)).astype("timedelta64[h]")
    return make_cube(values[:, None, None], times, ["A"], ["x"])


def test_the_coefficients_of_a_process_with_gaps_are_found():
    process = fit_process(with_gaps(simulate()), 12)
    assert len(process.coefficients) in (2, 3)
    np.testing.assert_allclose(process.coefficients[:2], COEFFICIENTS, atol=0.07)
    innovation_variance = process.innovation_variance * process.scale**2
    assert innovation_variance == pytest.approx(1, rel=0.1)
    assert process.mean == pytest.approx(20, abs=0.3)


def test_orders_are_compared_on_the_same_values():
    rng = np.random.default_rng(0)
    calm, wild = (np.convolve(rng.normal(size=n + 40), 0.6 ** np.arange(30), "valid")[:n]
                  for n in (300, 2400))  # fmt: skip
    wild = (10 * wild).reshape(-1, 3)  # short runs, which only low orders can be fitted on
    runs = np.concatenate([wild, np.full((len(wild), 1), np.nan)], axis=1).ravel()
    series = np.concatenate([calm, [np.nan], runs])
    assert len(fit_process(series, 12).coefficients) <= 2


def test_a_gap_gets_its_conditional_mean_given_both_sides():
    process = Process(mean=5.0, scale=1.0, coefficients=(0.8,), innovation_variance=1.0)
    expected = 5 + 0.8 * (1 + 3) / (1 + 0.8**2)  # for a gap of one step in a process of order one
    np.testing.assert_allclose(smooth(np.array([6.0, np.nan, 8.0]), process), [6, expected, 8])


def test_a_forecast_returns_to_the_mean():
    process = Process(mean=5.0, scale=1.0, coefficients=(0.8,), innovation_variance=1.0)
    series = np.array([5.0, 7.0, np.nan, np.nan, np.nan])
    np.testing.assert_allclose(smooth(series, process)[2:], 5 + 2 * 0.8 ** np.arange(1, 4))


def test_it_beats_linear_interpolation_on_an_auto_regressive_process():
    cube, hide = cube_of(simulate(n_steps=1500)), "bursts:0.2"
    ar, line = (score(cube, name, hide).errors.overall()["mae"] for name in ("ar", "linear"))
    assert ar < 0.9 * line


def test_a_process_that_is_not_stationary_is_damped():
    walk = np.cumsum(np.random.default_rng(3).normal(size=600)) + 0.3 * np.arange(600)
    filled = smooth(np.append(walk, np.full(200, np.nan)), fit_process(walk, 3))
    assert np.isfinite(filled).all() and np.abs(filled).max() < 2 * np.abs(walk).max()


def test_a_series_with_too_few_complete_runs_has_no_process():
    series = np.full(60, np.nan)
    series[::2] = 1.0
    assert fit_process(series, 5) is None


def test_an_order_below_one_is_refused():
    with pytest.raises(ConfigError, match="max_order must be at least 1"):
        AutoRegressive(max_order=0)
