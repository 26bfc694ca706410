"""The baseline 'fc-lstm': tied to its stations, with the calendar as an input."""

import numpy as np
import pytest

from cdsa.methods.engine.persistence import load_filler, save_filler
from cdsa.methods.registry import build_method
from conftest import network

CUBE, ORIGINS = network(steps=72, stations=4), np.array([50])


def forecast(filler, cube=CUBE):
    """The last of six steps."""
    return filler.forecast_from(cube, ORIGINS, context=6, horizon=6)[5]


@pytest.fixture(scope="module")
def filler():
    return build_method("fc-lstm@small", horizon=6).fit(CUBE)


def test_the_time_of_day_is_an_input(filler):
    assert filler.network.context_builder.n_calendar_features == 2
    later = CUBE.assign_coords(time=CUBE["time"] + np.timedelta64(7, "h"))
    assert not np.allclose(forecast(filler).to_numpy(), forecast(filler, later).to_numpy())


def test_a_saved_network_forecasts_the_same(filler, tmp_path):
    save_filler(filler, tmp_path / "net")
    loaded = load_filler(tmp_path / "net")
    np.testing.assert_array_equal(forecast(loaded), forecast(filler))


def test_stations_may_be_reordered_and_absent_ones_count_as_missing(filler):
    assert not filler.network.inductive
    some, absent = CUBE.isel(location=[2, 0]), CUBE["location"].to_numpy()[[1, 3]]
    missing = CUBE.where(~CUBE["location"].isin(absent))
    expected = forecast(filler, missing).sel(location=some["location"])
    np.testing.assert_array_equal(forecast(filler, some), expected)
