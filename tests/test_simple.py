"""Mean, last value, seasonal naive, linear interpolation, climatology, each by its definition."""

import numpy as np
import pytest

from cdsa.methods.baselines.simple import Climatology, Last, Linear, Mean, SeasonalNaive
from cdsa.methods.registry import build_method
from conftest import network

NAN = float("nan")


def fill(method, *values: float) -> list[float]:
    cube = network(steps=len(values), stations=1, measurements=1, missing=0.0)
    cube = cube.copy(data=np.array(values).reshape(-1, 1, 1))
    return method.fit(cube).fill(cube).to_numpy().ravel().tolist()


def test_the_mean_is_that_of_the_station():
    cube = network(stations=2, measurements=1, missing=0.0)
    cube[0, 0, 0] = NAN
    assert Mean().fit(cube).fill(cube)[0, 0, 0] == pytest.approx(float(cube[1:, 0, 0].mean()))


def test_last_carries_forward_and_backward_only_at_the_start():
    assert fill(Last(), NAN, 1, NAN, NAN, 4, NAN) == [1, 1, 1, 1, 4, 4]


def test_seasonal_naive_is_the_value_a_week_before_then_a_day_before():
    cube = network(steps=24 * 16, stations=1, measurements=1, missing=0.0)
    week, day = 24 * 7, 24
    values, gaps = cube.to_numpy().ravel().copy(), cube.copy()
    gaps[200] = gaps[300] = gaps[300 - week] = gaps[50] = gaps[50 + week] = NAN
    gaps[300 + day : 300 + 2 * day] = NAN  # the day after does not matter
    filled = SeasonalNaive().fit(gaps).fill(gaps).to_numpy().ravel()
    assert filled[200] == pytest.approx(values[200 - week])
    assert filled[300] == pytest.approx(values[300 - day])
    assert filled[50] == pytest.approx(values[50 - day])


def test_seasonal_naive_without_a_whole_season_is_the_last_value():
    assert fill(SeasonalNaive(), 1, NAN, 3, NAN) == [1, 1, 3, 3]


def test_linear_is_constant_beyond_the_first_and_last_value():
    assert fill(Linear(), NAN, 1, NAN, NAN, 4, NAN) == [1, 1, 2, 3, 4, 4]


def test_climatology_is_the_mean_of_hour_and_month():
    cube = network(steps=24 * 60, stations=1, measurements=1, missing=0.0)
    hour, month = cube["time"].dt.hour.values, cube["time"].dt.month.values
    cube[100, 0, 0] = NAN
    same = (hour == hour[100]) & (month == month[100])
    same[100] = False
    assert Climatology().fit(cube).fill(cube)[100, 0, 0] == pytest.approx(float(cube[same].mean()))


def test_climatology_falls_back_to_the_hour_of_other_months():
    cube = network(steps=24 * 40, stations=1, measurements=1, missing=0.0)
    february = cube["time"].dt.month.values == 2
    hour = cube["time"].dt.hour.values
    gaps = february & (hour == 5)
    cube[gaps] = NAN
    filled = Climatology().fit(cube).fill(cube)
    january = cube[~february & (hour == 5)]
    assert np.allclose(filled[gaps], float(january.mean()))


@pytest.mark.parametrize("name", ["idw", "kriging", "knn", "mice"])
def test_methods_of_single_time_steps_interpolate_linearly_where_no_station_reports(name):
    cube = network(steps=120, stations=6, measurements=1, missing=0.1)
    cube[40:60] = np.nan
    filled, line = (build_method(method).fit(cube).fill(cube) for method in (name, "linear"))
    np.testing.assert_allclose(filled[40:60], line[40:60])
    assert not np.allclose(filled[60:], line[60:])
