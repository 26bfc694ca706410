"""Mean, last value, linear interpolation and climatology, each by its definition."""

import numpy as np
import pytest

from cdsa.methods.baselines.simple import Climatology, Last, Linear, Mean
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
