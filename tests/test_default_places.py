"""The method `cdsa` at places without a sensor, or whose sensor it never saw."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from cdsa.core.cube import append_locations, make_cube
from cdsa.errors import CubeError
from cdsa.methods.neural.cdsa import CdsaNetworkConfig
from cdsa.workflows.fill import fill_with
from conftest import network
from test_default import small


def levels(stations: int, steps: int = 400) -> xr.DataArray:
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


def test_places_without_a_sensor_are_told_from_near_ones_with_honest_intervals():
    cube, hidden = levels(12), [3, 8]
    asked = xr.zeros_like(cube, dtype=bool)
    asked[:, hidden] = True
    method = small(
        model=CdsaNetworkConfig(d_model=16, n_heads=4, n_layers=2, d_ff=32),
        train=replace(small().train, epochs=4, batch_size=8),
        window=24,
        stride=1,
    )
    learnt = method.fit(cube.isel(location=[n for n in range(12) if n not in hidden]))
    result = fill_with(learnt, cube.where(~asked)).isel(location=hidden)
    truth = cube.isel(location=hidden)
    error = float(np.abs(result["value"] - truth).mean())
    level = float(np.abs(cube.mean() - truth).mean())
    inside = float(((result["lower"] <= truth) & (truth <= result["upper"])).mean())
    assert error < 0.5 * level and 0.7 < inside <= 1


def test_the_error_at_places_without_a_sensor_is_told_by_the_exam():
    cube = network(steps=600, stations=12, missing=0.1)
    told = small(train=replace(small().train, epochs=1), stride=12).fit(cube).validation_errors
    assert all(error["mae_unmonitored"] > error["mae"] for error in told)


def test_a_station_that_moved_is_another_one():
    cube = network(steps=100)
    learnt = small().fit(cube)
    moved = cube.assign_coords(lat=cube["lat"] + 1)
    assert learnt.network.context_builder.is_known(cube).all()
    assert not learnt.network.context_builder.is_known(moved).any()
    assert learnt.network.context_builder.is_known(cube.drop_vars(["lat", "lon"])).all()


def test_places_to_be_added_need_names_and_neighbours_with_coordinates():
    with pytest.raises(CubeError, match="already a station 'S1'"):
        append_locations(network(), ["S1"], [1.0], [1.0])
    with pytest.raises(CubeError, match="have none"):
        append_locations(network(places=False), ["new"], [1.0], [1.0])


def test_a_station_that_was_silent_in_training_and_reports_later_is_a_new_one():
    cube = network(steps=200, stations=6)
    early = cube.copy()
    early[:, 2] = np.nan
    silent, gone = (small(stride=12).fit(c) for c in (early, early.drop_isel(location=2)))
    told = [f.network.adapt_to(cube).context_builder for f in (silent, gone)]
    np.testing.assert_allclose(told[0].climatology.count[:, 2], told[1].climatology.count[:, 2])
    assert told[0].climatology.count[:, 2].any() and told[0].station_similarity[2].any()
    assert silent.network.adapt_to(early).unobserved(early).tolist() == [n == 2 for n in range(6)]
