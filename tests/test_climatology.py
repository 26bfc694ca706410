"""Daily cycles of series with gaps and changing levels."""

import numpy as np
import pandas as pd

from cdsa.core.climatology import Cycle

HOURS = pd.date_range("2024-01-01", periods=24 * 56, freq="h")
TIMES = HOURS.to_numpy()


def series(cycle, noise=0.5, n_stations=4, seed=0):
    """A cycle (t,) with slow levels and noise, (t, l, 1)."""
    rng = np.random.default_rng(seed)
    level = rng.normal(size=(len(TIMES) // 24, n_stations)).cumsum(axis=0).repeat(24, axis=0)
    return (cycle[:, None] + level + noise * rng.normal(size=level.shape))[..., None]


def test_the_cycle_is_found_under_changing_levels():
    cycle = 2 * np.sin(2 * np.pi * HOURS.hour.to_numpy() / 24)
    found = Cycle.fit(series(cycle), TIMES).at(TIMES)
    assert np.abs(found[..., 0] - cycle[:, None]).mean() < 0.15


def test_hours_that_are_measured_on_some_days_only_do_not_get_the_level_of_these_days():
    cycle = np.sin(2 * np.pi * HOURS.hour.to_numpy() / 24)
    values = series(cycle, noise=0.1) + 20 * (np.arange(len(TIMES)) < 700)[:, None, None]
    values[(np.arange(len(TIMES)) >= 700) & (HOURS.hour.to_numpy() < 6)] = np.nan
    found = Cycle.fit(values, TIMES).at(TIMES)
    assert np.abs(found[..., 0] - cycle[:, None]).mean() < 0.4


def test_where_there_is_no_cycle_nearly_none_is_found():
    values = series(np.zeros(len(TIMES)), noise=1.0)
    assert np.abs(Cycle.fit(values, TIMES).means).mean() < 0.1


def test_weekends_have_a_cycle_of_their_own():
    weekend, hour = HOURS.day_of_week.to_numpy() >= 5, HOURS.hour.to_numpy()
    cycle = np.where(weekend, 0.0, 3 * np.sin(2 * np.pi * hour / 24))
    found = Cycle.fit(series(cycle), TIMES).at(TIMES)[..., 0]
    assert np.abs(found[weekend]).mean() < 0.5 < np.abs(found[~weekend]).mean()


def test_a_series_without_values_has_no_cycle():
    values = series(np.zeros(len(TIMES)))
    values[:, 1] = np.nan
    means = Cycle.fit(values, TIMES).means
    assert np.isfinite(means).all()
