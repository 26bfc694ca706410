"""The method `cdsa`: any stations, honest intervals, settings chosen from the data."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from cdsa import score
from cdsa.core.cube import append_locations
from cdsa.core.gaps import run_lengths
from cdsa.errors import ConfigError
from cdsa.methods.engine import estimator, fit
from cdsa.methods.engine.persistence import load_filler, save_filler
from cdsa.methods.engine.validation import choose_holdout
from cdsa.methods.neural.cdsa import Cdsa, CdsaNetworkConfig, default_training
from cdsa.methods.registry import build_method
from cdsa.training.callbacks import RunContext
from cdsa.workflows.fill import fill_with
from conftest import network

FAR = 0.05
"""What a station thousands of kilometres away may change of others' values at the most, in spreads;
it takes part in what all stations together say about which times are alike."""


def small(**changes) -> Cdsa:
    return replace(build_method("cdsa@small"), **changes)


def many(stations: int, steps: int = 80) -> xr.DataArray:
    """Stations along a line, each a little later than the one before."""
    whole = network(steps=steps, stations=40, measurements=2)
    return whole.isel(location=slice(0, stations))


@pytest.fixture(scope="module")
def filler():
    return small(train=replace(small().train, epochs=6), stride=1).fit(many(36))


def spread(cube: xr.DataArray) -> xr.DataArray:
    return cube.std(("time", "location"))


@pytest.mark.parametrize("stations", [1, 20, 40])
def test_a_model_trained_with_36_stations_fills_others(filler, stations):
    cube = many(stations)
    cube[10:20, 0] = np.nan
    filled = filler.fill(cube)
    assert filled.notnull().all()
    means = cube.mean("time") if stations > 1 else cube.mean(("time", "location"))
    assert (np.abs(filled - means).max() > 0.01).all()  # no mere means


def test_stations_it_never_saw_are_no_mean(filler):
    filled = filler.fill(many(40))
    new = filled.isel(location=slice(36, None)).where(many(40).isnull())
    assert new.std("time").min() > 0.1


def test_the_order_of_stations_does_not_change_values(filler):
    cube = many(36)
    turned = cube.isel(location=np.random.default_rng(0).permutation(36))
    back = filler.fill(turned).sel(location=cube["location"])
    np.testing.assert_allclose(back, filler.fill(cube), rtol=1e-5)


def test_a_station_far_away_changes_hardly_anything(filler):
    cube = many(36)
    more = append_locations(cube, ["moon"], [-80.0], [0.0])
    more[:, -1] = np.random.default_rng(1).normal(15, 5, size=(80, 2))
    change = np.abs(filler.fill(more).isel(location=slice(0, -1)) - filler.fill(cube))
    assert (change.max(("time", "location")) / spread(cube)).max() < FAR


def test_it_fills_a_part_of_the_measurements_and_knows_them_by_name(filler):
    cube = many(36)
    one = cube.sel(measurement=["temp"])
    filled = filler.fill(one)
    assert filled.notnull().all() and abs(float(filled.mean()) - float(one.mean())) < 2
    turned = filler.fill(cube.isel(measurement=[1, 0])).isel(measurement=[1, 0])
    np.testing.assert_allclose(turned, filler.fill(cube), rtol=1e-5)


def test_it_works_without_coordinates_and_with_a_single_station():
    for cube in (network(places=False), network(stations=1), network(stations=1, measurements=1)):
        assert small().fit(cube).fill(cube).notnull().all()


def test_where_known_stations_are_is_known_should_the_cube_not_say(filler, caplog):
    cube = many(20)
    nowhere = cube.drop_vars(["lat", "lon"])
    xr.testing.assert_equal(filler.fill(nowhere), filler.fill(cube).drop_vars(["lat", "lon"]))
    assert not caplog.records
    strange = nowhere.assign_coords(location=[f"X{n}" for n in range(20)])
    assert filler.fill(strange).notnull().all()
    assert "fills without distances" in caplog.text


def test_short_and_long_cubes_are_filled(filler):
    for steps in (3, 11, 12, 13, 200):
        cube = network(steps=steps, stations=5)
        assert filler.fill(cube).notnull().all()


def test_blocks_of_windows_give_what_all_at_once_give(filler, monkeypatch):
    cube = network(steps=170, stations=3)
    cube[30:150, 0] = np.nan
    whole = fill_with(filler, cube)
    monkeypatch.setattr("cdsa.methods.engine.estimator.CELLS_IN_A_BLOCK", 1)
    monkeypatch.setattr("cdsa.methods.engine.predictor.MAX_CELLS_PER_BATCH", 1)
    parts = fill_with(filler, cube)
    for name in ("value", "lower", "upper"):
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-5)


def test_intervals_contain_the_value_and_grow_with_their_share(filler):
    cube = many(36)
    results = [fill_with(filler, cube, interval=share) for share in (0.5, 0.9, 0.99)]
    gap = cube.isnull().to_numpy()
    for result in results:
        assert (result["lower"] <= result["value"]).all()
        assert (result["value"] <= result["upper"]).all()
    widths = [(r["upper"] - r["lower"]).to_numpy()[gap].mean() for r in results]
    assert widths[0] < widths[1] < widths[2]


def test_intervals_hold_what_they_promise_on_cells_nobody_saw():
    cube = network(steps=600, stations=6)
    scored = score(cube, small(train=replace(small().train, epochs=4)), "bursts:+0.1")
    assert 0.8 < scored.errors.overall()["coverage"] < 0.98
    assert 0 < scored.errors.overall()["crps"] < 0.5


def test_intervals_are_wider_at_times_that_were_not_learnt_from(filler):
    cube = many(36)
    later = cube.assign_coords(time=cube["time"] + np.timedelta64(400, "D"))
    now, then = (fill_with(filler, c) for c in (cube, later))
    assert filler.network.calibration.n_windows >= 2
    widths = [(r["upper"] - r["lower"]).to_numpy()[cube.isnull()].mean() for r in (now, then)]
    assert widths[1] > 1.01 * widths[0]
    forecaster = replace(small(), horizon=4).fit(cube).network
    assert forecaster.calibration.level_out_of_sample(0.9) == 0.9


def test_the_interval_of_a_direction_runs_clockwise(windy):
    result = fill_with(small().fit(windy), windy)
    wind = result.sel(measurement=windy["measurement"][windy["is_direction"].values])
    assert (wind["lower"] >= 0).all() and (wind["upper"] <= 360).all()
    around = (wind["upper"] - wind["lower"]) % 360
    inside = (wind["value"] - wind["lower"]) % 360 <= around + 1e-6
    assert (inside | (wind["upper"] - wind["lower"] >= 360)).all()


def test_what_is_hidden_is_never_seen(monkeypatch):
    """No window, scale, usual value or distance that training gets depends on hidden cells."""
    cube, seen = network(steps=100), []
    hidden = xr.zeros_like(cube, dtype=bool)
    hidden[20:30, 0] = True

    def spy(model, windows, exam, *rest, **more):
        context = windows.take(torch.arange(len(windows))).context
        seen.append(
            [
                windows.values,
                windows.truth,
                context.climatology,
                context.station_similarity,
                exam.truth,
            ]
        )
        raise InterruptedError

    monkeypatch.setattr(fit, "train", spy)
    for truth in (cube, cube.where(~hidden, 1e6)):
        with pytest.raises(InterruptedError):
            score(truth, small(), hidden)
    assert all((a == b).all() for a, b in zip(*seen, strict=True))


def test_what_is_usual_never_tells_the_values_of_the_window(monkeypatch):
    """What a window may hide is no part of what it is told to be usual, on any of its days."""
    cube, seen = network(steps=240, stations=1, measurements=1, missing=0.0), []

    def spy(model, windows, *rest, **more):
        seen.append(windows.take(torch.arange(len(windows))))
        raise InterruptedError

    monkeypatch.setattr(fit, "train", spy)
    monkeypatch.setattr(fit.Scaler, "fit", lambda cube: default_scaler(cube))
    other = cube.copy()
    other[100] += 50.0
    for truth in (cube, other):
        with pytest.raises(InterruptedError):
            small(window=36, stride=1).fit(truth)
    inside = (seen[0].steps == 100).any(dim=1)
    change = (seen[0].context.climatology - seen[1].context.climatology).abs()
    changed = change.flatten(1).amax(dim=1) > 1e-3  # of a change by 50
    assert inside.any() and not changed[inside].any() and changed[~inside].any()


def test_what_was_kept_for_the_exam_is_known_when_it_fills():
    cube = network(steps=240)
    assert small().fit(cube).network.context_builder.climatology.count.sum() == cube.notnull().sum()


def default_scaler(cube):
    one = xr.ones_like(cube.isel(time=0, location=0, drop=True))
    return fit.Scaler(0 * one, one)


def test_it_is_saved_and_loaded_with_frame_and_calibration(filler, tmp_path):
    save_filler(filler, tmp_path)
    again, cube = load_filler(tmp_path, device="cpu"), many(40)
    assert fill_with(again, cube).equals(fill_with(filler, cube))


def test_virtual_sensors_are_filled_with_intervals(filler):
    cube = append_locations(many(36), ["between"], [41.05], [117.05])  # of stations 10 and 11
    filled = filler.fill(cube).isel(location=-1)
    assert filled.notnull().all() and filled.std("time").min() > 0.1
    result = fill_with(filler, cube).isel(location=-1)
    assert (result["source"] == "filled").all() and result["lower"].notnull().all()


def test_a_place_at_the_end_of_the_world_spoils_no_other(filler):
    cube = append_locations(many(36), ["lat and lon swapped"], [0.0], [0.0])
    told, without = fill_with(filler, cube), fill_with(filler, many(36))
    assert told["lower"].notnull().all()
    np.testing.assert_allclose(
        told["value"].isel(location=slice(0, 36)), without["value"], rtol=1e-4, atol=1e-4
    )


def test_it_chooses_by_the_data():
    hourly = Cdsa().resolve(network(steps=200, stations=10))
    assert hourly.window == 48 and hourly.train.minutes == 0.5 and hourly.stride == 1
    assert hourly.train.batch_size == 11  # 48 steps of 20 series are 960 cells
    assert hourly.model.n_layers == 4
    assert Cdsa().resolve(network(steps=9)).window == 9
    long = replace(Cdsa(), train=replace(Cdsa().train, minutes=60.0))
    assert long.resolve(network()).model == CdsaNetworkConfig()
    assert Cdsa(window=20).resolve(network()).window == 20
    wide = network(steps=100, stations=1500, places=False)
    assert Cdsa().resolve(wide).window == 10 and Cdsa().resolve(wide).train.batch_size == 1
    roads = network(steps=100, stations=180, measurements=1, places=False)
    assert Cdsa().resolve(roads).train.batch_size == 2  # one for each of two cores


def test_a_run_goes_on_with_more_minutes_than_it_was_begun_with(tmp_path):
    cube, ended = network(steps=100), []
    for minutes, stop in ((1.0, True), (30.0, True), (0.0001, False)):
        run = RunContext(
            folder=tmp_path,
            should_stop=lambda stop=stop: stop,
            on_progress=ended.append,
            device="cpu",
        )
        learnt = Cdsa(window=12).with_budget(minutes).fit(cube, run)
        assert learnt.network.model.norm.normalized_shape == (32,)
    assert [report.step for report in ended] == [1, 2]


def test_too_many_stations_are_refused():
    many_more = network(steps=3, stations=2001, measurements=1, places=False, missing=0)
    with pytest.raises(ConfigError, match="at most 2,000 may report, but 2,001 do"):
        Cdsa().resolve(many_more)


def test_many_places_are_filled_in_groups_to_the_same_values(filler, monkeypatch):
    names, lat = [f"P{n}" for n in range(7)], [40.55 + n / 10 for n in range(7)]
    cube = append_locations(many(20), names, lat, [116.0] * 7)
    whole = fill_with(filler, cube)
    monkeypatch.setattr(estimator, "SITES_AT_ONCE", 3)
    some = fill_with(filler, cube)
    for part in ("value", "lower", "upper"):
        np.testing.assert_allclose(some[part], whole[part], rtol=1e-4, atol=1e-4)


def test_short_tables_tell_nothing_usual_as_training_could_not_either():
    method = small()
    frames = [method.fit(network(steps=n)).network.context_builder for n in (30, 40)]
    assert [bool(frame.climatology.count.any()) for frame in frames] == [False, True]
    told = method.fit(network(steps=30)).network.adapt_to(network(steps=200)).context_builder
    assert not told.climatology.count.any()  # what it has not learnt to make use of


def test_values_no_measurement_has_are_refused_by_name(filler):
    cube = many(20)
    cube[5, 3, 0] = 1e25
    with pytest.raises(
        ConfigError, match=r"trained on pm25 around .* but at S3, 2020-01-01T05.* 1e\+25"
    ):
        filler.fill(cube)


def test_a_network_that_knows_no_places_says_so(caplog):
    nowhere = network(steps=60, stations=5, places=False)
    learnt = small().fit(nowhere)
    more = nowhere.reindex(location=[*nowhere["location"].to_numpy(), "X"])
    learnt.fill(more)
    assert "trained without coordinates" in caplog.text and "X" in caplog.text


def test_what_is_set_is_not_chosen():
    same = replace(Cdsa(), model=CdsaNetworkConfig(), train=replace(Cdsa().train, minutes=0.5))
    assert same.resolve(network()).model == CdsaNetworkConfig()
    own = CdsaNetworkConfig(d_model=16, n_heads=4)
    method = replace(Cdsa(), model=own, train=replace(Cdsa().train, batch_size=5, minutes=0.5))
    settled = method.resolve(network())
    assert (settled.model, settled.train.batch_size, settled.train.minutes) == (own, 5, 0.5)


def test_the_exam_is_of_gaps_like_the_tables_own():
    cube = network(steps=4000, stations=4, measurements=1, missing=0.0)
    values, rng = cube.to_numpy().copy(), np.random.default_rng(0)
    for start in rng.choice(3900, 40, replace=False):
        values[start : start + 24, int(rng.integers(4))] = np.nan
    own = cube.copy(data=values)
    _, hidden = choose_holdout(own, 48, 0, default_training(), 0)
    shown = own.where(~hidden).isnull().to_numpy()
    assert (run_lengths(shown)[hidden.to_numpy()] >= 12).mean() > 0.5
