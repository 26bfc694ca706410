"""Forecasts of the method `cdsa`, and known covariates."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import cdsa
from cdsa.core.cube import append_times, make_cube
from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa import Cdsa
from cdsa.methods.neural.cdsa_network import CdsaNetworkConfig
from cdsa.methods.registry import build_method
from cdsa.workflows.forecast import forecast_with, split_known
from conftest import network
from small_networks import small_cdsa


def test_forecasts_of_new_stations_depend_on_the_past_alone():
    cube = network(steps=140, stations=5)
    filler = small_cdsa(horizon=4).fit(cube.isel(location=slice(0, 3), time=slice(0, 100)))
    changed = cube.copy()
    changed[110:] += 50.0
    first, second = (
        filler.forecast_from(c, np.array([104, 106]), context=12, horizon=4)
        for c in (cube, changed)
    )
    assert len(first) == 4
    for step, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(step, other)


def test_all_steps_of_the_horizon_are_forecast_with_intervals():
    cube = network(steps=300, missing=0.02)
    method = small_cdsa(horizon=6, train=replace(small_cdsa().train, epochs=6))
    result = forecast_with(method.fit(cube[:-6]), cube[:-6], 6)
    assert result["value"].shape[0] == 300 and (result["source"][-6:] == "forecast").all()
    assert (result["lower"] <= result["upper"])[-6:].all()
    error = np.abs(result["value"] - cube)[-6:].mean()
    error_of_last = np.abs(cube[-7].mean("location") - cube)[-6:].mean()
    assert error < error_of_last


def cause_and_effect(steps: int = 400) -> xr.DataArray:
    """A series that follows the jumps of another one, which its past does not predict."""
    rng = np.random.default_rng(0)
    cause = np.repeat(rng.normal(size=steps // 4), 4)
    values = np.stack([3 * cause + 0.1 * rng.normal(size=steps), cause], axis=-1)
    times = np.arange(steps).astype("datetime64[h]")
    return make_cube(values[:, None, :], times, ["A"], ["effect", "cause"])


def test_known_covariates_make_a_forecast_more_accurate():
    cube = cause_and_effect()
    visible = cube.copy()
    visible[-8:, :, 0] = np.nan
    method = small_cdsa(
        model=CdsaNetworkConfig(d_model=16, n_heads=2, n_layers=2, d_ff=16),
        train=replace(small_cdsa().train, epochs=4, batch_size=16),
        stride=4,
    )
    errors = {}
    for known in ((), ("cause",)):
        past = visible if known else visible[:-8]
        configured = method.with_horizon(8).with_known_covariates(known)
        result = cdsa.forecast(past, 8, configured, known=known)
        assert result.sizes["time"] == 400
        error = np.abs(result["value"] - cube).sel(measurement="effect")[-8:]
        errors[known] = float(error.mean())
    assert errors["cause",] < 0.6 * errors[()]


def test_known_values_after_the_horizon_are_kept():
    cube = cause_and_effect(60)
    cube[-8:, :, 0] = np.nan
    past, future = split_known(cube, ["cause"])
    assert (past.sizes["time"], future.sizes["time"]) == (52, 8)
    result = forecast_with(build_method("last", horizon=5).fit(past), past, 5, future=future)
    source = result["source"].sel(measurement="effect").to_numpy().ravel()
    assert source[52:57].tolist() == ["forecast"] * 5 and source[57:].tolist() == ["missing"] * 3
    assert (result["source"].sel(measurement="cause") == "observed").all()
    value = result["value"].sel(measurement="cause")
    np.testing.assert_array_equal(value, cube.sel(measurement="cause"))


def test_impossible_known_covariates_are_refused():
    with pytest.raises(ConfigError, match="did you mean 'cause'"):
        cdsa.forecast(cause_and_effect(60), 3, small_cdsa(), known=["cuase"])
    with pytest.raises(ConfigError, match="at least one measurement must be forecast"):
        cdsa.forecast(cause_and_effect(60), 3, small_cdsa(), known=["cause", "effect"])
    with pytest.raises(ConfigError, match="does not use values known in advance"):
        build_method("cdsa-paper-forecast", horizon=3, known_covariates=["cause"])


def test_the_window_of_a_short_table_leaves_room_for_the_horizon():
    assert Cdsa(horizon=12).resolve(network(steps=50)).window == 38


def test_a_forecaster_has_the_horizon_it_was_trained_for():
    cube = network(steps=100)
    filler = small_cdsa(horizon=4).fit(cube)
    assert filler.horizon == 4 and filler.context_length == 12
    assert filler.fill(append_times(cube, 4)).notnull().all()
    with pytest.raises(ConfigError, match="forecasts 4 steps"):
        forecast_with(filler, cube, 5)
