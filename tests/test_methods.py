"""What each simple method promises of its own."""

import numpy as np
import pytest

from cdsa.core.cube import assign_metadata, make_cube
from cdsa.errors import ConfigError
from cdsa.methods.baselines.simple import Climatology, Last, Linear, Mean
from cdsa.methods.baselines.sklearn_imputers import Knn
from cdsa.methods.registry import make_method
from conftest import network


def series(*values: float):
    cube = network(steps=len(values), stations=1, measurements=1, missing=0.0)
    return cube.copy(data=np.array(values).reshape(-1, 1, 1))


def fill(method, cube):
    return method.fit(cube).fill(cube).to_numpy().ravel().tolist()


NAN = float("nan")


def test_mean_is_the_stations_own():
    cube = network(stations=2, measurements=1, missing=0.0)
    cube[0, 0, 0] = NAN
    assert Mean().fit(cube).fill(cube)[0, 0, 0] == pytest.approx(float(cube[1:, 0, 0].mean()))


def test_last_carries_forward_and_backward_only_at_the_start():
    assert fill(Last(), series(NAN, 1, NAN, NAN, 4, NAN)) == [1, 1, 1, 1, 4, 4]


def test_linear_is_straight_inside_and_level_at_the_ends():
    assert fill(Linear(), series(NAN, 1, NAN, NAN, 4, NAN)) == [1, 1, 2, 3, 4, 4]


def test_climatology_is_the_usual_value_of_hour_and_month():
    cube = network(steps=24 * 60, stations=1, measurements=1, missing=0.0)
    hour, month = cube["time"].dt.hour.values, cube["time"].dt.month.values
    cube[100, 0, 0] = NAN
    alike = (hour == hour[100]) & (month == month[100])
    alike[100] = False
    assert Climatology().fit(cube).fill(cube)[100, 0, 0] == pytest.approx(float(cube[alike].mean()))


def test_climatology_falls_back_to_the_hour_then_the_month():
    cube = network(steps=24 * 40, stations=1, measurements=1, missing=0.0)
    february = cube["time"].dt.month.values == 2
    hour = cube["time"].dt.hour.values
    gone = february & (hour == 5)
    cube[gone] = NAN
    filled = Climatology().fit(cube).fill(cube)
    january = cube[~february & (hour == 5)]
    assert np.allclose(filled[gone], float(january.mean()))


def test_a_silent_station_gets_the_mean_of_the_others_at_that_moment():
    cube = network(stations=3, measurements=1, missing=0.0)
    cube[:, 0] = NAN
    filled = Linear().fit(cube).fill(cube)
    assert np.allclose(filled[:, 0], cube[:, 1:].mean("location"))


def test_knn_finds_the_moments_that_look_alike():
    # a daily wave repeats exactly: the same hour of another day is the best donor
    cube = network(steps=24 * 20, stations=3, measurements=1, missing=0.0)
    hour = cube["time"].dt.hour.values
    clean = cube.copy(
        data=np.stack([np.sin((hour + n) * 2 * np.pi / 24) for n in range(3)], 1)[..., None]
    )
    gappy = clean.copy(deep=True)
    gappy[100:110, 0] = NAN
    assert np.allclose(Knn().fit(gappy).fill(gappy), clean, atol=1e-6)


def test_mice_finds_a_linear_relation():
    rng = np.random.default_rng(0)
    cube = network(steps=300, stations=3, measurements=1, missing=0.0)
    a, b = rng.normal(size=300), rng.normal(size=300)
    values = np.stack([a, b, 2 * a - b + 1], axis=1)[..., None]
    truth = cube.copy(data=values)
    gappy = truth.copy(deep=True)
    gappy[50:80, 2] = NAN
    filled = make_method("mice")[1].fit(gappy).fill(gappy)
    assert np.allclose(filled, truth, atol=1e-2)


def test_a_misspelt_method_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'linear'"):
        make_method("linea")


@pytest.mark.parametrize("name", ["idw", "kriging", "knn", "mice"])
def test_where_nobody_reports_a_straight_line_stands_in(name):
    cube = network(steps=120, stations=6, measurements=1, missing=0.1)
    cube[40:60] = np.nan
    told = make_method(name)[1].fit(cube).fill(cube)
    line = make_method("linear")[1].fit(cube).fill(cube)
    np.testing.assert_allclose(told[40:60], line[40:60])
    assert not np.allclose(told[60:], line[60:])


def test_a_direction_just_before_north_is_rounded_to_north():
    times = np.datetime64("2024-01-01") + np.arange(3).astype("timedelta64[h]")
    low, high = np.mgrid[181:360, 1:180].reshape(2, -1).astype(float)
    values = np.stack([low, np.full_like(low, np.nan), high])[..., None]
    names = [f"S{n}" for n in range(len(low))]
    cube = assign_metadata(make_cube(values, times, names, ["wind"]), directions=["wind"])
    filled = make_method("linear")[1].fit(cube).fill(cube)
    assert (filled >= 0).all() and (filled < 360).all()
