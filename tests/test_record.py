"""What the record around a window says of its cells: lines, and the same hour of other weeks."""

import numpy as np
import pytest

from cdsa.methods.engine.record import Record

DAY = np.timedelta64(1, "D")
LINE, BEFORE, AFTER, SAME_HOUR, HAS_SAME_HOUR = range(5)


def make(values, step=DAY) -> Record:
    times = np.datetime64("2020-01-01", "ns") + np.arange(len(values)) * step
    return Record(np.asarray(values, dtype=np.float64)[:, None, None], times)


@pytest.fixture
def days():
    """Thirty days that count up, the tenth to the nineteenth missing."""
    values = np.arange(30.0)
    values[10:20] = np.nan
    return make(values)


def test_a_line_joins_the_ends_of_a_gap_however_long(days):
    features = days.at()[:, 0, 0]
    np.testing.assert_allclose(features[:, LINE], np.arange(30))
    np.testing.assert_allclose(features[12, [BEFORE, AFTER]], [1 / 4, 1 / 9])


def test_some_steps_know_all_others(days):
    np.testing.assert_array_equal(days.at(slice(8, 17)), days.at()[8:17])


def test_a_chunk_does_not_know_what_is_hidden_in_it_and_around_it(days):
    steps = np.arange(2, 6)[None]
    nothing = np.full((1, 4, 1, 1), np.nan)
    near, far = (days.around(steps, nothing, np.array([n]))[0, :, 0, 0] for n in (0, 1))
    np.testing.assert_allclose(near[:, LINE], [2, 3, 4, 5])
    np.testing.assert_allclose(1 / near[0, [BEFORE, AFTER]] - 1, [1, 4])
    np.testing.assert_allclose(1 / far[0, [BEFORE, AFTER]] - 1, [2, 5])
    none_before = days.around(steps, nothing, np.array([9]))[0, :, 0, 0]
    assert (none_before[:, BEFORE] == 0).all() and (none_before[:, LINE] == 20).all()


def test_the_same_hour_is_a_mean_of_the_week_before_and_the_week_after(days):
    features = days.at()[:, 0, 0]
    assert features[9, [SAME_HOUR, HAS_SAME_HOUR]].tolist() == [2, 0.5]  # the 16th is missing
    assert features[14, [SAME_HOUR, HAS_SAME_HOUR]].tolist() == [14, 1]
    assert features[3, HAS_SAME_HOUR] == 0


def test_in_a_chunk_of_more_than_a_week_hidden_days_are_no_same_hour(days):
    steps = np.arange(9)[None]
    seen = np.where(steps == 8, np.nan, days.values[steps[0], 0, 0])[..., None, None]
    features = days.around(steps, seen)[0, :, 0, 0]
    assert features[0, [SAME_HOUR, HAS_SAME_HOUR]].tolist() == [7, 0.5]
    assert features[1, HAS_SAME_HOUR] == 0  # a week later is the hidden day


def test_a_forecast_knows_the_week_before_its_window_and_no_later_day(days):
    steps = np.arange(20, 29)[None]
    seen = np.where(steps < 25, days.values[steps[0], 0, 0], np.nan)[..., None, None]
    features = days.before(steps, seen)[0, :, 0, 0]
    np.testing.assert_allclose(features[5:, LINE], 24)
    assert (features[:, HAS_SAME_HOUR] == 0).all()  # missing, or in the window itself
    earlier = days.before(steps - 12, seen)[0, :, 0, 0]
    assert earlier[0, [SAME_HOUR, HAS_SAME_HOUR]].tolist() == [1, 0.5]
    assert earlier[8, HAS_SAME_HOUR] == 0  # lies in the window


@pytest.mark.parametrize("step", [np.timedelta64(5, "h"), np.timedelta64(7, "D")])
def test_steps_that_make_no_week_have_no_same_hour(step):
    record = make(np.arange(200.0), step)
    assert (record.at()[..., HAS_SAME_HOUR] == 0).all()


def test_empty_steps_before_a_table_are_known_to_nobody(days):
    steps = np.array([[-1, -1, 0, 1]])
    seen = np.array([np.nan, np.nan, 0.0, 1.0])[None, :, None, None]
    features = days.before(steps, seen)[0, :, 0, 0]
    assert (features[:, HAS_SAME_HOUR] == 0).all() and np.isfinite(features).all()
