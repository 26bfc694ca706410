"""Networks as methods that fill and forecast."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import cdsa
from cdsa.core.cube import append_times
from cdsa.errors import ConfigError
from cdsa.methods.engine.estimator import FEW_STEPS
from cdsa.methods.registry import build_method
from cdsa.nn.types import MANNERS
from cdsa.workflows.forecast import forecast_with
from conftest import network
from small_networks import small_paper


@pytest.fixture(scope="module")
def cube():
    return network(steps=100, stations=3, measurements=2)


@pytest.fixture(scope="module")
def forecaster(cube):
    return small_paper(forecast=True).fit(cube)


def test_windows_are_shortened_to_a_short_table(caplog):
    with caplog.at_level(logging.WARNING, "cdsa"):
        filler = small_paper().fit(network(steps=8))
    assert filler.network.context_length == 8
    assert "windows of 12 steps are longer than the 8 of the table" in caplog.text


def test_other_data_are_refused(cube):
    with pytest.raises(ConfigError, match="steps of 1 h"):
        small_paper().fit(cube).fill(cube[::2])


def test_fewer_stations_at_another_time_are_filled(cube):
    later = cube["time"].to_numpy()[:30] + np.timedelta64(400, "D")
    other = network(steps=30, stations=2).assign_coords(time=later)
    assert small_paper().fit(cube).fill(other).notnull().all()


def test_a_forecast_is_a_fill_of_appended_steps(cube, forecaster):
    result = cdsa.forecast(cube, 5, small_paper(forecast=True))
    assert result.sizes["time"] == 105
    assert (result["source"][-5:] == "forecast").all() and result["value"][-5:].notnull().all()
    xr.testing.assert_equal(result["value"][:-5], cube)  # gaps are not filled
    assert set(np.unique(result["source"][:-5])) == {"observed", "missing"}
    filled = forecaster.fill(append_times(cube, 6))
    # close, not equal: sums depend on how many windows are predicted together
    xr.testing.assert_allclose(filled[-6:-1], result["value"][-5:])
    xr.testing.assert_allclose(forecast_with(forecaster, cube, 6)["value"][-6:], filled[-6:])


def test_a_forecast_depends_on_its_context_alone(cube, forecaster):
    changed = cube.copy(data=cube.to_numpy().copy())
    changed[:-6] += 100
    for steps in (6, 4):
        first, second = (
            forecast_with(forecaster, c, steps)["value"][-steps:] for c in (cube, changed)
        )
        np.testing.assert_allclose(first, second, rtol=1e-8)  # decimals are those of all values
    changed[-6:] += 100
    assert not forecast_with(forecaster, changed, 4)["value"][-4:].equals(first)


def test_a_context_may_be_short(cube, forecaster):
    assert forecast_with(forecaster, cube[-3:], 6)["value"][-6:].notnull().all()


def test_a_longer_horizon_than_that_of_training_is_refused(cube, forecaster):
    with pytest.raises(ConfigError, match="forecasts 6 steps"):
        forecast_with(forecaster, cube, 7)
    with pytest.raises(ConfigError, match="was not trained to forecast"):
        forecast_with(small_paper().fit(cube), cube, 2)
    with pytest.raises(ConfigError, match="forecasts 3 steps"):  # its windows were shortened
        cdsa.forecast(cube[:6], 5, small_paper(forecast=True))


def test_a_method_is_given_the_horizon_of_a_forecast(cube):
    for method in (small_paper(forecast=True), small_paper()):
        assert cdsa.forecast(cube, 7, method)["value"].sizes["time"] == 107


def test_a_forecaster_can_be_built_for_any_horizon():
    for manner in MANNERS:
        method = build_method(f"cdsa-paper-forecast:{manner}", horizon=30)
        assert method.horizon == 30 == method.window
        method = build_method(f"cdsa-paper-forecast:{manner}", horizon=3)
        assert method.window == 24 and method.horizon == (24 if manner == "shared" else 3)
    with pytest.raises(ConfigError, match="'linear' fills gaps but cannot forecast"):
        build_method("linear", horizon=3)
    with pytest.raises(ConfigError, match="'linear' has no manners"):
        build_method("linear:joint")


def test_a_training_of_a_few_steps_warns(cube):
    few = small_paper(train=replace(small_paper().train, epochs=None, minutes=1e-4)).fit(cube)
    assert few.network.train_state.step < FEW_STEPS
    assert "steps only: the machine was slow or busy" in few.warnings[0]
    assert not small_paper().fit(cube).warnings  # few epochs were asked for
