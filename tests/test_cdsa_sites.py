"""The method `cdsa` at unmonitored sites and at new stations."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from cdsa.core.cube import append_locations, make_cube
from cdsa.methods.engine import estimator
from cdsa.methods.neural.cdsa_network import CdsaNetworkConfig
from cdsa.workflows.fill import fill_with
from conftest import network
from small_networks import small_cdsa


@pytest.fixture(scope="module")
def cube():
    return network(steps=80, stations=36)


@pytest.fixture(scope="module")
def filler(cube):
    return small_cdsa(train=replace(small_cdsa().train, epochs=6), stride=1).fit(cube)


def rising_levels(stations: int, steps: int = 400) -> xr.DataArray:
    """Stations whose level rises from one to the next, with a common wave."""
    rng = np.random.default_rng(0)
    t = np.arange(steps)[:, None]
    common = np.repeat(rng.normal(size=(steps // 4, 1)), 4, axis=0)
    values = 5 * np.arange(stations) + 10 * common + 3 * np.sin(t / 5)
    values = values + 0.3 * rng.normal(size=values.shape)
    return make_cube(
        values[..., None],
        t.ravel().astype("datetime64[h]"),
        [f"S{n:02}" for n in range(stations)],
        ["x"],
        lat=40 + np.arange(stations) / 10,
        lon=np.full(stations, 116.0),
    )


def test_unmonitored_sites_are_predicted_from_near_stations_with_calibrated_intervals():
    cube, sites = rising_levels(12), [3, 8]
    visible = cube.copy()
    visible[:, sites] = np.nan
    method = small_cdsa(
        model=CdsaNetworkConfig(d_model=16, n_heads=4, n_layers=2, d_ff=32),
        train=replace(small_cdsa().train, epochs=2, batch_size=8),
        window=24,
        stride=2,
    )
    filler = method.fit(cube.isel(location=[n for n in range(12) if n not in sites]))
    result = fill_with(filler, visible).isel(location=sites)
    truth = cube.isel(location=sites)
    error, error_of_mean = (float(np.abs(x - truth).mean()) for x in (result["value"], cube.mean()))
    coverage = float(((result["lower"] <= truth) & (truth <= result["upper"])).mean())
    assert error < 0.5 * error_of_mean and 0.7 < coverage <= 1


def test_a_virtual_sensor_is_filled_with_intervals(cube, filler):
    more = append_locations(cube, ["between"], [41.05], [117.05])  # of stations 10 and 11
    filled = filler.fill(more).isel(location=-1)
    assert filled.notnull().all() and filled.std("time").min() > 0.1
    result = fill_with(filler, more).isel(location=-1)
    assert (result["source"] == "filled").all() and result["lower"].notnull().all()


def test_a_site_far_away_changes_no_other(cube, filler):
    more = append_locations(cube, ["lat and lon swapped"], [0.0], [0.0])
    result, expected = fill_with(filler, more), fill_with(filler, cube)
    assert result["lower"].notnull().all()
    values = result["value"].isel(location=slice(0, 36))
    np.testing.assert_allclose(values, expected["value"], rtol=1e-4, atol=1e-4)


def test_many_sites_are_filled_in_groups_to_the_same_values(cube, filler, monkeypatch):
    names, lat = [f"P{n}" for n in range(7)], [40.55 + n / 10 for n in range(7)]
    more = append_locations(cube.isel(location=slice(0, 20)), names, lat, [116.0] * 7)
    expected = fill_with(filler, more)
    monkeypatch.setattr(estimator, "SITES_AT_ONCE", 3)
    result = fill_with(filler, more)
    for name in ("value", "lower", "upper"):
        np.testing.assert_allclose(result[name], expected[name], rtol=1e-4, atol=1e-4)


def test_the_error_at_unmonitored_sites_is_validated():
    cube = network(steps=600, stations=12, missing=0.1)
    method = small_cdsa(train=replace(small_cdsa().train, epochs=1), stride=12)
    errors = method.fit(cube).validation_errors
    assert all(error["mae_unmonitored"] > error["mae"] for error in errors)


def test_a_station_without_training_data_that_reports_later_is_new():
    cube = network(steps=200, stations=6)
    early = cube.copy()
    early[:, 2] = np.nan
    silent, absent = (small_cdsa(stride=12).fit(c) for c in (early, early.drop_isel(location=2)))
    builder, expected = (f.network.adapt_to(cube).context_builder for f in (silent, absent))
    count = builder.climatology.count[:, 2]
    np.testing.assert_allclose(count, expected.climatology.count[:, 2])
    assert count.any() and builder.station_similarity[2].any()
    assert silent.network.adapt_to(early).unobserved(early).tolist() == [n == 2 for n in range(6)]
