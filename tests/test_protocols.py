"""The paper's protocols: what is trained on and hidden, and that no hidden value leaks."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from cdsa.core.config import override
from cdsa.core.cube import DIRECTION, assign_metadata
from cdsa.core.prepare import prepare
from cdsa.errors import ConfigError
from cdsa.methods.base import Filler
from cdsa.methods.registry import build_method
from cdsa.paper import protocols
from cdsa.paper.protocols import ForecastTrial, ImputationTrial
from cdsa.paper.runner import evaluate
from conftest import network


def year(stations=3, measurements=1, seed=0) -> xr.DataArray:
    """Hours from January to March, so that there are training and test months."""
    return network(24 * 80, stations, measurements, seed=seed)


def windy(steps=24 * 12) -> xr.DataArray:
    cube = network(steps, 3, 2)
    degrees = np.random.default_rng(1).uniform(0, 360, cube.shape[:2])
    values = cube.to_numpy().copy()
    values[..., 1] = np.where(np.isnan(values[..., 1]), np.nan, degrees)
    named = cube.copy(data=values).assign_coords(measurement=["pm25", "wind_direction"])
    return assign_metadata(named, units={"pm25": "ug/m3"}, directions=["wind_direction"])


def removed(cube):
    rng = np.random.default_rng(5)
    return cube.copy(data=(rng.random(cube.shape) < 0.1) & cube.notnull().to_numpy())


IMPUTATIONS = {
    "kdd2015-pm25 in-sample": lambda c: protocols.kdd2015_pm25(c, removed(c), "in-sample"),
    "kdd2015-pm25 out-of-sample": lambda c: protocols.kdd2015_pm25(c, removed(c), "out-of-sample"),
    "kdd2015-weather in-sample": lambda c: protocols.kdd2015_weather(
        c, "in-sample", 0, missing=0.3
    ),
    "kdd2015-weather out-of-sample": lambda c: protocols.kdd2015_weather(
        c, "out-of-sample", 0, missing=0.3
    ),
    "kdd2018": lambda c: protocols.kdd2018(c, 0.5, 0),
    "kdd2018 directions": lambda c: protocols.kdd2018(c, 0.5, 0, directions=True),
    "nyc-traffic": lambda c: protocols.nyc_traffic(c, 0.5, 0),
}
FORECASTS = {name: lambda c, name=name: protocols.metr_la(c, name) for name in protocols.SPLITS}


def cube_for(name: str) -> xr.DataArray:
    return windy() if name.startswith("kdd2018") else year()


def small(name="cdsa-paper@small", **changes):
    """A network that trains for two passes, the same every time."""
    return override(build_method(name), [f"{key}={value}" for key, value in changes.items()])


def fitted_scale(filler) -> tuple:
    """The mean and standard deviation that a network scales by."""
    scaler = filler.network.scaler
    return scaler.mean.to_numpy().tobytes(), scaler.std.to_numpy().tobytes()


@pytest.mark.parametrize("name", IMPUTATIONS)
def test_no_hidden_value_is_seen(name):
    """Other values behind hidden cells change nothing that a method receives."""
    cube = cube_for(name)
    trial: ImputationTrial = IMPUTATIONS[name](cube)
    hidden = trial.eval_masks["all"]
    values = np.where(hidden, cube * 0.5 + 7, cube)
    other: ImputationTrial = IMPUTATIONS[name](cube.copy(data=values))
    assert hidden.any() and other.eval_masks["all"].equals(hidden)
    assert (other.truth.to_numpy() != trial.truth.to_numpy())[hidden.to_numpy()].all()
    xr.testing.assert_identical(other.train, trial.train)
    xr.testing.assert_identical(other.test, trial.test)


def test_no_hidden_value_reaches_a_scale_or_a_prediction():
    cube = windy()
    trial = protocols.kdd2018(cube, 0.5, 0)
    values = np.where(trial.eval_masks["all"], cube * 0.5 + 7, cube)
    other = protocols.kdd2018(cube.copy(data=values), 0.5, 0)
    brief = small(**{"window": 12, "stride": 12, "train.epochs": 1})
    for method in ("mean", "linear", "climatology", brief):
        estimator = build_method(method)
        one, two = estimator.fit(trial.train), estimator.fit(other.train)
        assert one.fill(trial.test).equals(two.fill(other.test))
        if not isinstance(method, str):
            assert fitted_scale(one) == fitted_scale(two)


@pytest.mark.parametrize("name", IMPUTATIONS)
def test_scored_cells_were_measured_and_are_missing_from_the_visible_cubes(name):
    trial: ImputationTrial = IMPUTATIONS[name](cube_for(name))
    for eval_mask in trial.eval_masks.values():
        assert eval_mask.dims == trial.truth.dims and eval_mask.any()
        assert trial.truth.notnull().where(eval_mask, True).all()
        assert not (eval_mask & trial.test.notnull()).any()
        assert not (eval_mask & trial.train.notnull()).any()


@pytest.mark.parametrize("name", FORECASTS)
def test_a_forecast_sees_nothing_from_its_origin_on(name):
    cube = network(400, 3, 1)
    trial: ForecastTrial = FORECASTS[name](cube)
    origin = trial.origins[len(trial.origins) // 2]
    first = cube.sizes["time"] - trial.test.sizes["time"] + origin
    values = cube.to_numpy().copy()
    values[first:] = values[first:] * 0.5 + 7
    other: ForecastTrial = FORECASTS[name](cube.copy(data=values))
    xr.testing.assert_identical(other.train, trial.train)
    if trial.validation is not None:
        xr.testing.assert_identical(other.validation, trial.validation)
    before = np.flatnonzero(trial.origins <= origin)[::-8]  # from the last one backwards
    network_ = small("cdsa-paper-forecast@small", window=12, horizon=12, stride=12)
    for method in ("last", "climatology", network_):
        estimator = build_method(method)
        one, two = estimator.fit(trial.train), estimator.fit(other.train)
        a = one.forecast_from(trial.test, trial.origins[before], context=12, horizon=12)
        b = two.forecast_from(other.test, other.origins[before], context=12, horizon=12)
        assert all(x.equals(y) for x, y in zip(a, b, strict=True))
        if not isinstance(method, str):
            assert fitted_scale(one) == fitted_scale(two)


@pytest.mark.parametrize("name", FORECASTS)
def test_nothing_of_the_test_time_is_trained_or_validated_on(name):
    trial: ForecastTrial = FORECASTS[name](network(400, 2, 1))
    known = [trial.train] + ([trial.validation] if trial.validation is not None else [])
    assert max(cube["time"].to_numpy()[-1] for cube in known) < trial.test["time"].to_numpy()[0]


# ------------------------------------------------------------------ what the notes on the paper say


def test_out_of_sample_training_has_nothing_of_a_test_month():
    cube = year()
    trial = protocols.kdd2015_pm25(cube, removed(cube), "out-of-sample")
    march = pd.DatetimeIndex(cube["time"].to_numpy()).month == 3
    assert trial.train.isel(time=march).isnull().all()
    assert trial.train.isel(time=~march).equals(trial.test.isel(time=~march))
    assert trial.test.isel(time=march).notnull().any()
    months = trial.eval_masks["test-months"]
    assert months.isel(time=march).equals(trial.eval_masks["all"].isel(time=march))
    assert not months.isel(time=~march).any()


def test_in_sample_training_has_all_remaining_cells():
    cube = year()
    trial = protocols.kdd2015_pm25(cube, removed(cube), "in-sample")
    assert trial.train.equals(cube.where(~removed(cube)))
    assert trial.eval_masks["all"].equals(removed(cube))


def test_weather_is_brought_to_the_papers_missing_rate_and_a_fifth_of_the_rest_is_scored():
    cube = year()
    trial = protocols.kdd2015_weather(cube, "in-sample", 3, missing=0.3)
    left = trial.truth.notnull()
    assert float(1 - left.mean()) == pytest.approx(0.3, abs=1e-3)
    assert int(trial.eval_masks["all"].sum()) == round(0.2 * int(left.sum()))
    again = protocols.kdd2015_weather(cube, "in-sample", 4, missing=0.3)
    assert again.truth.equals(trial.truth)  # the gaps are the data's, not the trial's
    assert not again.eval_masks["all"].equals(trial.eval_masks["all"])
    as_it_is = protocols.kdd2015_weather(cube, "in-sample", 3, missing=0.05)
    assert as_it_is.truth.equals(cube)
    assert trial.remarks == ("brought to 30.0% missing by bursts",) and as_it_is.remarks == ()


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
def test_kdd2018_has_the_requested_missing_rate(rate):
    trial = protocols.kdd2018(windy(), rate, 0)
    assert float(trial.test.isnull().mean()) == pytest.approx(rate, abs=1e-3)


def test_kdd2018_scores_the_wind_as_published_even_with_directions():
    cube = windy()
    plain, turned = (
        protocols.kdd2018(cube, 0.5, 0),
        protocols.kdd2018(cube, 0.5, 0, directions=True),
    )
    assert "is_direction" not in plain.train.coords
    assert turned.train["is_direction"].to_numpy().tolist() == [False, True]
    assert turned.eval_masks["all"].equals(plain.eval_masks["all"])
    assert turned.truth.identical(plain.truth)
    assert DIRECTION not in plain.truth["units"].to_numpy()

    class Opposite(Filler):
        """Fills with the truth, and directions with a full turn less a degree."""

        def fill(self, cube):
            cube = prepare(cube).cube
            truth = plain.truth.sel(time=cube["time"])
            wrong = xr.where(plain.truth["measurement"] == "wind_direction", 359.0, 0.0)
            return cube.copy(data=(truth + wrong).transpose(*cube.dims).to_numpy())

    errors = evaluate(turned, Opposite())["all", None].by("measurement")["mae"]
    assert errors["wind_direction"] == pytest.approx(359)  # not one degree
    assert errors["pm25"] == pytest.approx(0)


def test_kdd2018_is_filled_in_pieces_of_48_hours():
    trial = protocols.kdd2018(windy(steps=100), 0.5, 0)
    seen = []

    class Recorder(Filler):
        def fill(self, cube):
            cube = prepare(cube).cube
            seen.append(cube.sizes["time"])
            return cube.fillna(0.0)

    evaluate(trial, Recorder())
    assert seen == [48, 48, 4]


def test_mse_over_several_measurements_is_of_z_scores():
    trial = protocols.kdd2018(windy(), 0.5, 0)

    class Mean(Filler):
        """Fills with the mean of the visible values."""

        def fill(self, cube):
            return prepare(cube).cube.fillna(trial.test.mean(("time", "location")))

    mse = evaluate(trial, Mean())["all", None].overall()["mse"]
    hidden, spread = trial.eval_masks["all"], trial.test.std(("time", "location"))
    z = (trial.truth - trial.test.mean(("time", "location"))) / spread
    assert mse == pytest.approx(float((z**2).where(hidden).mean()))


def test_the_papers_split_of_metr_la_has_every_window_of_two_hours_in_the_last_fifth():
    trial = protocols.metr_la(network(34272 // 48, 2, 1), "80/20")  # 714 steps
    assert trial.validation is None
    assert trial.train.sizes["time"] == 571 and trial.test.sizes["time"] == 143
    assert trial.origins.tolist() == list(range(12, 132))


def test_dcrnns_split_of_metr_la_is_by_windows():
    cube = network(714, 2, 1)
    trial = protocols.metr_la(cube, "70/10/20")
    windows = 714 - 23
    assert len(trial.origins) == round(0.2 * windows)
    assert trial.train.sizes["time"] == round(0.7 * windows)
    starts = windows - round(0.2 * windows)
    assert trial.validation.sizes["time"] == starts - round(0.7 * windows)
    assert trial.test["time"].to_numpy()[0] == cube["time"].to_numpy()[starts]
    assert trial.origins[-1] + 12 == trial.test.sizes["time"]


def test_a_wrong_protocol_or_too_little_data_is_refused():
    cube = network(60, 2, 1)
    with pytest.raises(ConfigError, match="no protocol of metr-la '60/40'"):
        protocols.metr_la(cube, "60/40")
    with pytest.raises(ConfigError, match="windows of 24 steps"):
        protocols.metr_la(cube, "80/20")
    with pytest.raises(ConfigError, match="did you mean 'in-sample'"):
        protocols.kdd2015_pm25(cube, removed(cube), "insample")


# ------------------------------------------------------------------ forecasts from many origins


def test_a_network_forecasts_from_many_origins_as_it_does_from_each():
    cube = network(120, 3, 2)
    filler = small("cdsa-paper-forecast@small", window=6, horizon=6).fit(cube)
    origins = np.array([6, 30, 114])
    together = filler.forecast_from(cube, origins, context=6, horizon=6)

    class OneByOne(Filler):
        def fill(self, piece):
            return filler.fill(piece)

    alone = OneByOne().forecast_from(cube, origins, context=6, horizon=6)
    assert len(together) == len(alone) == 6
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), rtol=1e-5, atol=1e-5)
        assert one["time"].equals(other["time"])


def test_forecast_errors_are_ratios_of_sums_over_all_windows():
    cube = network(400, 2, 1)
    trial = protocols.metr_la(cube, "80/20")

    class Zero(Filler):
        def fill(self, piece):
            return piece.fillna(0.0)

    errors = evaluate(trial, Zero())
    truth = trial.test.to_numpy()
    for horizon, step in (("15", 3), ("30", 6), ("60", 12)):
        target = truth[trial.origins + step - 1]
        assert errors["all", horizon].overall()["mae"] == pytest.approx(np.nanmean(np.abs(target)))
    every = np.concatenate([truth[trial.origins + step].ravel() for step in range(12)])
    assert errors["all", "mean"].overall()["mae"] == pytest.approx(np.nanmean(np.abs(every)))
    assert errors["all", "mean"].overall()["cells"] == np.isfinite(every).sum()
