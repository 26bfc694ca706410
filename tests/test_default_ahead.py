"""The method `cdsa` ahead of the last measured time."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import cdsa
from cdsa.core.cube import append_times, make_cube
from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa import Cdsa, CdsaNetworkConfig
from cdsa.methods.registry import build_method
from cdsa.workflows.forecast import forecast_with, split_known
from conftest import network
from test_default import small


def test_forecasts_of_stations_it_never_saw_are_told_from_the_past_alone():
    cube = network(steps=140, stations=5)
    learnt = small(horizon=4).fit(cube.isel(location=slice(0, 3), time=slice(0, 100)))
    later = cube.copy()
    later[110:] += 50.0
    first, second = (
        learnt.forecast_from(c, np.array([104, 106]), context=12, horizon=4) for c in (cube, later)
    )
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_family_forecasts_at_several_horizons_at_once():
    cube = network(steps=300, missing=0.02)
    learnt = small(horizon=6, train=replace(small().train, epochs=6)).fit(cube[:-6])
    told = forecast_with(learnt, cube[:-6], 6)
    assert told["value"].shape[0] == 300 and (told["source"][-6:] == "forecast").all()
    assert (told["lower"] <= told["upper"]).isel(time=slice(-6, None)).all()
    error = np.abs(told["value"] - cube)[-6:].mean()
    level = np.abs(cube[-7].mean("location") - cube)[-6:].mean()
    assert error < level


def with_cause(steps: int = 400) -> xr.DataArray:
    """A series that jumps with another one, which nothing in the past foretells."""
    rng = np.random.default_rng(0)
    cause = np.repeat(rng.normal(size=steps // 4), 4)
    values = np.stack([3 * cause + 0.1 * rng.normal(size=steps), cause], axis=-1)
    times = np.arange(steps).astype("datetime64[h]")
    return make_cube(values[:, None, :], times, ["A"], ["effect", "cause"])


def test_what_is_known_in_advance_is_made_use_of():
    cube = with_cause()
    shown = cube.copy()
    shown[-8:, :, 0] = np.nan
    errors = {}
    for known in ((), ("cause",)):
        method = small(
            model=CdsaNetworkConfig(d_model=16, n_heads=2, n_layers=2, d_ff=16),
            train=replace(small().train, epochs=8, batch_size=16),
            stride=2,
        )
        past = shown if known else shown[:-8]
        told = cdsa.forecast(
            past, 8, method.with_horizon(8).with_known_covariates(known), known=known
        )
        assert told.sizes["time"] == 400
        error = np.abs(told["value"] - cube).sel(measurement="effect")[-8:]
        errors[known] = float(error.mean())
    assert errors["cause",] < 0.6 * errors[()]


def test_known_values_behind_the_forecast_stay_as_they_are():
    cube = with_cause(60)
    cube[-8:, :, 0] = np.nan
    past, future = split_known(cube, ["cause"])
    assert (past.sizes["time"], future.sizes["time"]) == (52, 8)
    told = forecast_with(build_method("last", horizon=5).fit(past), past, 5, future=future)
    source = told["source"].sel(measurement="effect").to_numpy().ravel()
    assert source[52:57].tolist() == ["forecast"] * 5 and source[57:].tolist() == ["missing"] * 3
    assert (told["source"].sel(measurement="cause") == "observed").all()
    np.testing.assert_array_equal(
        told["value"].sel(measurement="cause"), cube.sel(measurement="cause")
    )


def test_what_cannot_be_known_is_answered():
    with pytest.raises(ConfigError, match="did you mean 'cause'"):
        cdsa.forecast(with_cause(60), 3, small(), known=["cuase"])
    with pytest.raises(ConfigError, match="at least one measurement must be forecast"):
        cdsa.forecast(with_cause(60), 3, small(), known=["cause", "effect"])
    with pytest.raises(ConfigError, match="does not use"):
        build_method("cdsa-paper-forecast", horizon=3, known_covariates=["cause"])


def test_a_short_table_is_forecast_as_far_as_it_is_asked():
    assert Cdsa(horizon=12).resolve(network(steps=50)).window == 38


def test_a_forecaster_is_asked_as_many_steps_as_wanted():
    cube = network(steps=100)
    learnt = small(horizon=4).fit(cube)
    assert learnt.horizon == 4 and learnt.context_length == 12
    assert learnt.fill(append_times(cube, 4)).notnull().all()
    with pytest.raises(ConfigError, match="forecasts 4 steps"):
        forecast_with(learnt, cube, 5)
