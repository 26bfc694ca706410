"""The method of a fill is chosen by trial, per measurement where that pays."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cdsa
from cdsa.core import defaults
from cdsa.core.cube import append_locations, units_of
from cdsa.core.masks import Bursts
from cdsa.core.metrics import Errors, measure
from cdsa.core.prepare import prepare
from cdsa.errors import CdsaError
from cdsa.methods.base import Filler
from cdsa.methods.registry import build_method
from cdsa.workflows.score import Score, hidden_cells, try_method
from cdsa.workflows.select import Selection, better_for, choose, select_method
from conftest import network

BLANK = Score("x", "given", 0, Errors(pd.DataFrame()), 300, 0, 3, {}, 0.1)


def scores_with(errors, n_cells=300):
    """Scores of methods with these errors, one per measurement."""
    scores = []
    for method, biases in errors.items():
        cube = network(steps=n_cells, stations=1, measurements=len(biases), missing=0.0)
        hidden = xr.ones_like(cube, dtype=bool)
        errors = measure(cube + np.array(biases), cube, hidden, cube.where(~hidden))
        scores.append(replace(BLANK, method=method, errors=errors, units=units_of(cube)))
    return scores


def test_a_measurement_gets_another_method_only_if_that_is_clearly_better():
    errors = {"one": (1.0, 1.0, 1.0), "two": (0.95, 2.0, 0.5), "three": (9.0, 9.0, 0.6)}
    scores = scores_with(errors)
    names = [str(name) for name in scores[0].table("measurement").index]
    assert better_for(scores, "one") == {names[2]: "two"}
    assert better_for(scores_with({"one": (1.0,), "two": (0.1,)}, n_cells=100), "one") == {}


def test_a_selection_names_the_methods_of_single_measurements():
    selection = Selection(Filler(), "a", per_variable={"x": "b", "y": "c", "z": "b"})
    assert selection.label == "a; b for x, z; c for y"


def test_each_measurement_is_filled_and_scored_by_the_method_chosen_for_it():
    cube = network(steps=400, stations=4, measurements=2, missing=0.1)
    steps = np.arange(400)
    cube[:, :, 1] = np.where(cube[:, :, 1].isnull(), np.nan, (steps // 5 % 2)[:, None] * 9.0)
    cube = cube.copy(data=cube.to_numpy())
    selection = choose(["linear", "idw"], prepare(cube), "bursts:+0.2", per_variable=True)
    single = choose([selection.best], prepare(cube), "bursts:+0.2")
    assert selection.per_variable
    for variable in (str(name) for name in cube["measurement"].to_numpy()):
        name = selection.per_variable.get(variable, selection.best)
        filled = build_method(name).fit(cube).fill(cube).sel(measurement=variable)
        np.testing.assert_array_equal(selection.filler.fill(cube).sel(measurement=variable), filled)
        score = next(score for score in selection.scores if score.method == name)
        expected = selection.expected.table("measurement").loc[variable]
        assert expected["mae"] == score.table("measurement").loc[variable, "mae"]
    filled, bounds = selection.filler.fill_intervals(cube, [0.9])
    gap = cube.isnull().to_numpy()
    assert (bounds[0][0].to_numpy()[gap] <= filled.to_numpy()[gap]).all()
    assert selection.expected.errors.overall()["mae"] < single.expected.errors.overall()["mae"]


def test_each_method_is_tried_once(monkeypatch):
    tried = []

    def spy(method, *arguments, **options):
        tried.append(method.label)
        return try_method(method, *arguments, **options)

    monkeypatch.setattr("cdsa.workflows.select.try_method", spy)
    cube = network(steps=400, stations=4, measurements=2, missing=0.1)
    cube[:, :, 1] = cube[:, :, 1] * 0 + (np.arange(400) // 5 % 2)[:, None] * 9.0
    selection = choose(["linear", "idw"], prepare(cube), "bursts:+0.2", per_variable=True)
    assert selection.per_variable and tried == ["linear", "idw"]


def test_intervals_of_baselines_hold_where_whole_stations_drop_out():
    rng = np.random.default_rng(0)
    common = np.cumsum(rng.normal(size=(1500, 4, 1)), axis=0) / 3
    values = np.concatenate([common, 2 * common + 0.05 * rng.normal(size=common.shape)], axis=2)
    cube = network(steps=1500, stations=4, measurements=2, missing=0).copy(data=values)
    truth, visible = cube.copy(), values.copy()
    for _ in range(40):
        start = int(rng.integers(0, 1480))
        visible[start : start + 15, int(rng.integers(4))] = np.nan
    cube = cube.copy(data=visible)
    selection = choose(["mice"], prepare(cube), defaults.HIDE)
    _, ((lower, upper),) = selection.filler.fill_intervals(cube, [0.9])
    coverage = ((truth >= lower) & (truth <= upper)).where(cube.isnull()).mean()
    assert 0.8 < float(coverage) < 0.98
    assert 0.8 < selection.expected.errors.overall()["coverage"] < 0.98


def test_coverage_is_unknown_where_too_few_cells_were_hidden():
    cube = network(steps=120, stations=2, measurements=1, missing=0.3)
    selection = choose(["linear"], prepare(cube), "random:+0.2")
    assert np.isnan(selection.expected.errors.overall()["coverage"])


def test_the_expected_error_of_a_selection_is_that_of_a_score_with_gaps_like_the_data():
    truth = network(steps=3000, stations=6, measurements=1, missing=0.0)
    cube = truth.where(~Bursts(rate=0.3)(truth, np.random.default_rng(1)))
    score = cdsa.score(cube, "linear", "like-data:+0.1")
    hidden = hidden_cells(cube, "like-data:+0.1", seed=0)
    selection = choose(["linear"], prepare(cube), hidden, match_missingness=True)
    expected = selection.expected.errors.overall()["mae"]
    assert expected == pytest.approx(score.errors.overall()["mae"])


def test_too_few_stations_for_a_method_are_reported(cube):
    messages = []
    data, kriging = prepare(cube), build_method("kriging")
    events = {"run": None, "message": messages.append, "progress": lambda status: None}
    select_method("kriging", lambda: kriging, data, cube, check=False, **events)
    assert messages == [
        "kriging needs 5 stations, but there are 3: where too few report, gaps are interpolated "
        "in time instead"
    ]


def test_a_fill_tries_the_network_first(monkeypatch):
    tried = []

    def spy(method, cube, hide, **options):
        tried.append(method)
        raise CdsaError("enough")

    monkeypatch.setattr("cdsa.workflows.select.try_method", spy)
    with pytest.raises(CdsaError, match="enough"):
        cdsa.fill(network(steps=200))
    assert type(tried[0]).__name__ == "Cdsa"


def test_a_location_without_a_value_is_filled_by_a_method_that_fills_sites():
    cube = append_locations(network(steps=100, stations=6), ["X"], [40.22], [116.22])
    result = cdsa.fill(cube, minutes=0.01)
    method = result.attrs["method"]
    assert method == "cdsa" or method.endswith("at sites")
    assert result["value"].sel(location="X").notnull().all()
    assert (result["expected_mae"] > 0).all()
