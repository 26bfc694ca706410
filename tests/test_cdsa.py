"""The method `cdsa`: any stations, calibrated intervals, settings chosen by the data."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from cdsa import score
from cdsa.core.cube import append_locations
from cdsa.errors import ConfigError
from cdsa.methods.engine.persistence import load_filler, save_filler
from cdsa.methods.neural.cdsa import Cdsa
from cdsa.methods.neural.cdsa_network import CdsaNetworkConfig
from cdsa.training.callbacks import RunContext
from cdsa.workflows.fill import fill_with
from conftest import network
from small_networks import small_cdsa

FAR = 0.05
"""Change of other stations' values by one that is thousands of kilometres away, in standard
deviations; it takes part in the map of time, which all stations share."""


def stations(n: int, steps: int = 80) -> xr.DataArray:
    """Stations along a line, each a little later than the one before."""
    return network(steps=steps, stations=40, measurements=2).isel(location=slice(0, n))


@pytest.fixture(scope="module")
def filler():
    return small_cdsa(train=replace(small_cdsa().train, epochs=6), stride=1).fit(stations(36))


@pytest.mark.parametrize("n", [1, 20, 40])
def test_a_network_trained_on_36_stations_fills_other_numbers_of_them(filler, n):
    cube = stations(n)
    cube[10:20, 0] = np.nan
    filled = filler.fill(cube)
    assert filled.notnull().all()
    means = cube.mean("time") if n > 1 else cube.mean(("time", "location"))
    assert (np.abs(filled - means).max() > 0.01).all()


def test_new_stations_are_not_filled_with_means(filler):
    filled = filler.fill(stations(40)).where(stations(40).isnull())
    assert filled.isel(location=slice(36, None)).std("time").min() > 0.1


def test_the_order_of_stations_does_not_change_values(filler):
    cube = stations(36)
    permuted = cube.isel(location=np.random.default_rng(0).permutation(36))
    filled = filler.fill(permuted).sel(location=cube["location"])
    np.testing.assert_allclose(filled, filler.fill(cube), rtol=1e-5)


def test_a_station_far_away_hardly_changes_others(filler):
    cube = stations(36)
    more = append_locations(cube, ["moon"], [-80.0], [0.0])
    more[:, -1] = np.random.default_rng(1).normal(15, 5, size=(80, 2))
    change = np.abs(filler.fill(more).isel(location=slice(0, -1)) - filler.fill(cube))
    spread = cube.std(("time", "location"))
    assert (change.max(("time", "location")) / spread).max() < FAR


def test_measurements_are_known_by_name(filler):
    cube = stations(36)
    temperature = cube.sel(measurement=["temp"])
    filled = filler.fill(temperature)
    assert filled.notnull().all()
    assert abs(float(filled.mean()) - float(temperature.mean())) < 2
    permuted = filler.fill(cube.isel(measurement=[1, 0])).isel(measurement=[1, 0])
    np.testing.assert_allclose(permuted, filler.fill(cube), rtol=1e-5)


def test_it_works_without_coordinates_and_with_a_single_station():
    for cube in (network(places=False), network(stations=1), network(stations=1, measurements=1)):
        assert small_cdsa().fit(cube).fill(cube).notnull().all()


def test_known_stations_keep_their_coordinates_if_a_cube_has_none(filler, caplog):
    cube = stations(20)
    without = cube.drop_vars(["lat", "lon"])
    xr.testing.assert_equal(filler.fill(without), filler.fill(cube).drop_vars(["lat", "lon"]))
    assert not caplog.records
    renamed = without.assign_coords(location=[f"X{n}" for n in range(20)])
    assert filler.fill(renamed).notnull().all()
    assert "fills without distances" in caplog.text


def test_unmonitored_sites_need_a_network_with_coordinates(caplog):
    cube = network(steps=60, stations=5, places=False)
    small_cdsa().fit(cube).fill(cube.reindex(location=[*cube["location"].to_numpy(), "X"]))
    assert "trained without coordinates" in caplog.text and "X" in caplog.text


def test_short_and_long_cubes_are_filled(filler):
    for steps in (3, 11, 12, 13, 200):
        assert filler.fill(network(steps=steps, stations=5)).notnull().all()


def test_a_long_cube_is_filled_in_blocks_to_the_same_values(filler, monkeypatch):
    cube = network(steps=170, stations=3)
    cube[30:150, 0] = np.nan
    expected = fill_with(filler, cube)
    monkeypatch.setattr("cdsa.methods.engine.estimator.CELLS_IN_A_BLOCK", 1)
    monkeypatch.setattr("cdsa.methods.engine.predictor.MAX_CELLS_PER_BATCH", 1)
    result = fill_with(filler, cube)
    for name in ("value", "lower", "upper"):
        np.testing.assert_allclose(result[name], expected[name], rtol=1e-5, atol=1e-5)


def test_intervals_contain_the_value_and_grow_with_their_level(filler):
    cube = stations(36)
    results = [fill_with(filler, cube, interval=level) for level in (0.5, 0.9, 0.99)]
    for result in results:
        assert (result["lower"] <= result["value"]).all()
        assert (result["value"] <= result["upper"]).all()
    widths = [(r["upper"] - r["lower"]).to_numpy()[cube.isnull()].mean() for r in results]
    assert widths[0] < widths[1] < widths[2]


def test_intervals_cover_hidden_cells_as_often_as_their_level_says():
    method = small_cdsa(train=replace(small_cdsa().train, epochs=4))
    errors = score(network(steps=600, stations=6), method, "bursts:+0.1").errors.overall()
    assert 0.8 < errors["coverage"] < 0.98
    assert 0 < errors["crps"] < 0.5


def test_intervals_are_wider_outside_the_training_period(filler):
    cube = stations(36)
    later = cube.assign_coords(time=cube["time"] + np.timedelta64(400, "D"))
    results = [fill_with(filler, c) for c in (cube, later)]
    assert filler.network.calibration.n_windows >= 2
    widths = [(r["upper"] - r["lower"]).to_numpy()[cube.isnull()].mean() for r in results]
    assert widths[1] > 1.01 * widths[0]
    forecaster = small_cdsa(horizon=4).fit(cube).network
    assert forecaster.calibration.level_out_of_sample(0.9) == 0.9


def test_the_interval_of_a_direction_runs_clockwise(windy):
    result = fill_with(small_cdsa().fit(windy), windy)
    wind = result.sel(measurement=windy["measurement"][windy["is_direction"].values])
    assert (wind["lower"] >= 0).all() and (wind["upper"] <= 360).all()
    width = (wind["upper"] - wind["lower"]) % 360
    inside = (wind["value"] - wind["lower"]) % 360 <= width + 1e-6
    assert (inside | (wind["upper"] - wind["lower"] >= 360)).all()


def test_context_and_calibration_are_saved_with_the_network(filler, tmp_path):
    save_filler(filler, tmp_path)
    loaded, cube = load_filler(tmp_path, device="cpu"), stations(40)
    assert fill_with(loaded, cube).equals(fill_with(filler, cube))


def test_settings_are_chosen_by_the_data():
    hourly = Cdsa().resolve(network(steps=200, stations=10))
    assert hourly.window == 48 and hourly.train.minutes == 0.5 and hourly.stride == 1
    assert hourly.train.batch_size == 11  # 48 steps of 20 series are 960 cells
    assert hourly.model.n_layers == 3
    assert Cdsa().resolve(network(steps=9)).window == 9
    long = replace(Cdsa(), train=replace(Cdsa().train, minutes=60.0))
    assert long.resolve(network()).model == CdsaNetworkConfig()
    wide = Cdsa().resolve(network(steps=100, stations=1500, places=False))
    assert wide.window == 10 and wide.train.batch_size == 5  # of 240 series each
    roads = network(steps=100, stations=180, measurements=1, places=False)
    assert Cdsa().resolve(roads).train.batch_size == 2


def test_settings_of_the_user_are_not_chosen():
    assert Cdsa(window=20).resolve(network()).window == 20
    train = replace(Cdsa().train, batch_size=5, minutes=0.5)
    equal = replace(Cdsa(), model=CdsaNetworkConfig(), train=train)
    assert equal.resolve(network()).model == CdsaNetworkConfig()
    model = CdsaNetworkConfig(d_model=16, n_heads=4)
    resolved = replace(Cdsa(), model=model, train=train).resolve(network())
    assert resolved.model == model
    assert (resolved.train.batch_size, resolved.train.minutes) == (5, 0.5)


def test_a_training_can_be_resumed_with_more_minutes(tmp_path):
    cube, progress = network(steps=100), []
    for minutes, stop in ((1.0, True), (30.0, True), (0.0001, False)):
        run = RunContext(
            folder=tmp_path,
            should_stop=lambda stop=stop: stop,
            on_progress=progress.append,
            device="cpu",
        )
        filler = Cdsa(window=12).with_budget(minutes=minutes).fit(cube, run)
        assert filler.network.model.norm.normalized_shape == (32,)
    assert [report.step for report in progress] == [1, 2]


def test_too_many_stations_are_refused():
    cube = network(steps=3, stations=2001, measurements=1, places=False, missing=0)
    with pytest.raises(ConfigError, match="at most 2,000 may report, but 2,001 do"):
        Cdsa().resolve(cube)


def test_impossible_values_are_refused_by_name(filler):
    cube = stations(20) * 1e24  # in another unit
    message = r"trained on pm25 around .* but at S0, 2020-01-01T00.* \d\.\d+e\+2[45]"
    with pytest.raises(ConfigError, match=message):
        filler.fill(cube)
