"""Scores are honest: no method sees what it is scored on, and the numbers are what they say."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import xarray as xr

import cdsa
from cdsa.core.masks import Bursts, GivenMask
from cdsa.core.metrics import measure
from cdsa.errors import ConfigError
from cdsa.methods.base import Filler, Method
from cdsa.methods.registry import build_method
from cdsa.workflows.score import hidden_cells, summarise
from conftest import network
from small_sources import GAPPY, NAN, RISING, panel


@dataclass(frozen=True, kw_only=True)
class Spy(Method, Filler):
    """Fills with zeros and records every array it is given."""

    seen: list = field(default_factory=list)

    def fit(self, cube, run=None):
        self.seen.append(cube)
        return self

    def fill(self, cube):
        self.seen.append(cube)
        return cube.cube.fillna(0.0)


@dataclass(frozen=True, kw_only=True)
class Oracle(Method, Filler):
    """Knows the truth."""

    truth: xr.DataArray

    def fit(self, cube, run=None):
        return self

    def fill(self, cube):
        return cube.cube.fillna(self.truth)


@dataclass(frozen=True, kw_only=True)
class Empty(Method, Filler):
    """Fills nothing."""

    def fit(self, cube, run=None):
        return self

    def fill(self, cube):
        return cube.cube


STRATEGIES = ["random:0.5", "bursts:0.5", "blocks:0.5", "stations:1", "last:5"]


@pytest.mark.parametrize("test", [None, 0.5])
@pytest.mark.parametrize("hide", STRATEGIES)
def test_a_method_never_sees_a_hidden_cell(hide, test):
    cube = network(steps=80)
    spy = Spy()
    cdsa.score(cube, spy, hide, seed=3, test=test)
    hidden = hidden_cells(cube, hide, seed=3, test=test)
    secrets = cube.to_numpy()[hidden.to_numpy()]  # noise makes every value unique
    assert len(spy.seen) == 2 and len(secrets) > 0
    for array in (array for data in spy.seen for array in (data.cube, data.components)):
        attrs = [xr.DataArray(value) for value in array.attrs.values()]
        for values in [array, *array.coords.values(), *attrs]:
            if np.issubdtype(values.dtype, np.floating):
                assert not np.isin(secrets, values.to_numpy()).any()
        base = array.to_numpy().base  # nor through the memory behind a view
        assert base is None or not np.isin(secrets, np.asarray(base, dtype=float)).any()


@pytest.mark.parametrize("test", [None, 0.5])
def test_hidden_values_change_no_prediction(test):
    cube = network(steps=80)
    hidden = hidden_cells(cube, "bursts:0.4", seed=0, test=test)
    seen = []
    for truth in (cube, cube.where(~hidden, 1e6)):
        spy = Spy()
        cdsa.score(truth, spy, GivenMask(hidden=hidden), test=test)
        seen.append(spy.seen)
    for first, second in zip(*seen, strict=True):
        assert first.cube.identical(second.cube)
        assert first.components.identical(second.components)


def test_with_a_test_share_a_method_is_fitted_on_the_start_only():
    cube = network(steps=80)
    spy = Spy()
    cdsa.score(cube, spy, "random:0.5", test=0.25)
    train, visible = (data.cube for data in spy.seen)
    assert train[60:].isnull().all() and train[:60].identical(cube[:60])
    assert visible["time"].identical(cube["time"][60:])


def test_every_method_is_scored_on_the_same_cells(cube):
    scores = cdsa.compare(cube, ["mean", "linear"], "bursts:0.4", repeats=2)
    cells = {(s.method, s.repeat): s.errors.by("location")["cells"].tolist() for s in scores}
    assert cells["mean", 0] == cells["linear", 0] and cells["mean", 1] == cells["linear", 1]
    assert cells["mean", 0] != cells["mean", 1]


def test_a_perfect_method_has_no_error(cube):
    score = cdsa.score(cube, Oracle(truth=cube), "random:0.4")
    assert score.table()["mae"].item() == 0 and score.unfilled == 0


def test_cells_left_open_are_reported(cube):
    score = cdsa.score(cube, Empty(), "random:0.4")
    assert score.unfilled == score.hidden > 0


def test_a_score_without_predictions_can_be_summarised():
    score = cdsa.score(cdsa.open_cube(panel(x=RISING[:6])), Empty(), "random:0.4")
    assert len(summarise([score])) == 1 and score.repeat == 0


def test_records_are_flat_and_complete(cube):
    record = cdsa.score(cube, "linear", "bursts:0.4").records()[0]
    expected = ["method", "measurement", "hide", "repeat", "mae", "rmse", "mse", "mre", "mape"]
    assert [key for key in record if key in expected] == expected and "seconds" in record
    assert all(
        isinstance(value, str | int | float)
        for name, value in record.items()
        if name not in ("crps", "coverage", "width")  # linear interpolation has no intervals
    )


def test_several_measurements_are_averaged_in_standard_deviations(cube):
    records = cdsa.score(cube, "linear", "bursts:0.4").records()
    assert [record["measurement"] for record in records] == ["pm25", "temp", "all"]
    assert records[-1]["unit"] == "standard deviations"


def test_the_best_is_marked_once_per_measurement(cube):
    table = summarise(cdsa.compare(cube, ["mean", "linear"], "bursts:0.4", repeats=3))
    assert table.groupby("measurement")["best"].sum().eq(1).all() and (table["spread"] > 0).all()


def test_by_default_a_tenth_of_the_measured_cells_is_hidden(cube):
    score = cdsa.score(cube, "linear")
    assert score.hidden == pytest.approx(0.1 * int(cube.notnull().sum()), abs=1)


def test_too_few_cells_to_hide_are_refused():
    cube = network(steps=2, stations=1, measurements=1, missing=0.0)
    with pytest.raises(ConfigError, match="too few measured cells"):
        cdsa.score(cube, "linear")


def test_zero_repeats_are_refused(cube):
    with pytest.raises(ConfigError, match="at least once"):
        cdsa.compare(cube, ["mean"], repeats=0)


def test_several_methods_in_one_score_are_refused():
    with pytest.raises(ConfigError, match=r"use cdsa\.compare"):
        cdsa.score(cdsa.open_cube(panel(x=RISING[:6])), ["linear", "mean"])


def test_linear_interpolation_beats_the_mean_on_a_smooth_wave(cube):
    linear, mean = (
        cdsa.score(cube, name, "random:0.4").table()["mae"].item() for name in ("linear", "mean")
    )
    assert linear < mean / 2


def test_a_score_has_the_name_that_was_given(cube):
    score = cdsa.score(cube, "cdsa-paper@small", minutes=0.001)
    assert score.method == "cdsa-paper@small"


def test_a_method_object_can_be_scored(cube):
    assert cdsa.score(cube, build_method("linear"), "random:0.4").method == "linear"


def test_minutes_are_for_networks(cube):
    score = cdsa.score(cube, "cdsa", minutes=0.01)
    assert score.method == "cdsa" and score.seconds < 60
    with pytest.raises(ConfigError, match="minutes is for methods that train"):
        cdsa.score(cube, "linear", minutes=1)


@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_the_expected_error_is_that_of_the_cubes_own_gaps(rate):
    truth = network(steps=3000, stations=6, measurements=1, missing=0.0)
    hidden = Bursts(rate=rate)(truth, np.random.default_rng(1))
    sparse = truth.where(~hidden)
    filled = build_method("linear").fit(sparse).fill(sparse)
    error = measure(filled, truth, hidden, sparse).overall()["mae"]
    expected = cdsa.score(sparse, "linear", "like-data:+0.1").errors.overall()["mae"]
    assert expected == pytest.approx(error, rel=0.15)


def test_a_constant_sensor_does_not_outweigh_the_others():
    # the standard deviation of many times 0.1 is a rounding error, not zero
    frame = panel(x=GAPPY[:6], still=0.1)
    score = cdsa.score(cdsa.open_cube(frame), "mean", "random:0.4", seed=1)
    assert score.table()["mae"].item() < 5


def test_a_measurement_may_be_called_all():
    frame = panel(x=RISING[:6], **{"all": RISING[:6] * 2})
    records = cdsa.score(cdsa.open_cube(frame), "linear", "random:0.4").records()
    assert [(r["measurement"], r["overall"]) for r in records] == [
        ("x", False),
        ("all", False),
        ("all", True),
    ]


def test_the_unit_is_that_of_the_scored_measurement():
    frame = panel(a=np.full(6, NAN), b=RISING[:6])
    cube = cdsa.open_cube(frame, units={"a": "K", "b": "hPa"})
    assert cdsa.score(cube, "linear", "random:0.7").records("location")[0]["unit"] == "hPa"


def test_the_overall_relative_error_is_relative_to_the_values():
    rng = np.random.default_rng(0)
    frame = panel(a=1000 + 0.3 * rng.normal(size=6), b=500 + 0.1 * rng.normal(size=6))
    score = cdsa.score(cdsa.open_cube(frame), "mean", "random:0.4")
    assert score.table()["mre"].item() < 0.01


def test_gap_classes_are_in_order():
    cube = cdsa.open_demo()[:2000]
    order = cdsa.score(cube, "linear", "bursts:0.5").table("gap").index.tolist()
    assert order == [name for name in ("1", "2-5", "6-23", "24-71", "72+") if name in order]


def test_a_score_has_a_short_repr(cube):
    assert repr(cdsa.score(cube, "linear", "random:0.4")).startswith("<Score linear: MAE")
