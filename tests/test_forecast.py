"""A forecast is a fill of the steps after the end."""

import numpy as np
import pytest

import cdsa
from cdsa.errors import ConfigError
from cdsa.methods.registry import build_method
from cdsa.workflows.forecast import check_horizon, forecast_with, split_known
from conftest import network


def test_a_forecast_keeps_measured_values_and_gaps(cube):
    result = cdsa.forecast(cube, 4, "last")
    past, ahead = result.isel(time=slice(0, -4)), result.isel(time=slice(-4, None))
    assert past["value"].equals(cube) and (ahead["source"] == "forecast").all()
    assert set(np.unique(past["source"])) == {"observed", "missing"}
    assert ahead["value"].notnull().all() and result.sizes["time"] == cube.sizes["time"] + 4


def test_a_forecast_has_the_error_of_the_last_steps(cube):
    result = cdsa.forecast(cube, 4, "last")
    score = cdsa.score(cube, "last", "last:4").table("measurement")
    np.testing.assert_allclose(result["expected_mae"], score["mae"])


@pytest.mark.parametrize("horizon", [0, 2.5, -1])
def test_a_horizon_is_a_positive_whole_number(horizon):
    with pytest.raises(ConfigError, match="a whole number of steps from 1 on"):
        check_horizon(horizon)


def test_a_filler_that_cannot_forecast_so_far_is_refused(cube):
    filler = cdsa.build_method("cdsa@small", horizon=2).fit(cube)
    with pytest.raises(ConfigError, match="forecasts 2 steps"):
        forecast_with(filler, cube, 5)
    filler = cdsa.build_method("cdsa@small").fit(cube)
    with pytest.raises(ConfigError, match="was not trained to forecast"):
        forecast_with(filler, cube, 1)


def test_the_past_ends_at_the_last_value_that_is_not_known_in_advance():
    cube = network(steps=60)
    cube[-8:, :, 0] = np.nan
    past, future = split_known(cube, ["temp"])
    assert (past.sizes["time"], future.sizes["time"]) == (52, 8)
    with pytest.raises(ConfigError, match="at least one measurement must be forecast"):
        split_known(cube, ["pm25", "temp"])
    with pytest.raises(ConfigError, match="did you mean 'temp'"):
        split_known(cube, ["tmp"])


def test_later_known_values_stay_as_they_are():
    cube = network(steps=60, missing=0.0)
    cube[-8:, :, 0] = np.nan
    past, future = split_known(cube, ["temp"])
    result = forecast_with(build_method("last", horizon=5).fit(past), past, 5, future=future)
    source = result["source"].sel(measurement="pm25", location="S0").to_numpy()
    assert source[52:57].tolist() == ["forecast"] * 5 and source[57:].tolist() == ["missing"] * 3
    known = result.sel(measurement="temp")
    assert (known["source"] == "observed").all()
    np.testing.assert_array_equal(known["value"], cube.sel(measurement="temp"))
