"""A workflow does each step once, whoever starts it."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import cdsa
from cdsa.core.cube import check_cube
from cdsa.core.masks import LikeData
from cdsa.core.prepare import prepare, to_components
from cdsa.errors import ConfigError
from cdsa.io.sidecars import Sites
from cdsa.methods.baselines.simple import Linear
from cdsa.methods.registry import MethodOptions
from cdsa.workflows.advice import report_unlike_gaps
from cdsa.workflows.pipeline import CompareRequest, FillRequest, Reporter, TrainRequest
from commands import run
from conftest import network
from frames import panel
from small_networks import small_paper


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    panel(network(steps=200)).to_csv(path, index=False)
    return path


def gaps_of(*lengths, steps=600, stations=3):
    """A cube with a gap of each length at the first station."""
    cube = network(steps=steps, stations=stations, measurements=1, missing=0.0)
    values, start = cube.to_numpy().copy(), 5
    for length in lengths:
        values[start : start + length, 0] = np.nan
        start += length + 5
    return cube.copy(data=values)


def messages_on(cube, hidden):
    messages = []
    report_unlike_gaps(cube, cube.isnull().to_numpy(), hidden, messages.append)
    return messages


def test_gaps_much_longer_than_those_with_hidden_cells_are_reported():
    cube = gaps_of(300)
    hidden = cube.notnull() & False
    hidden[400:420, 1] = True
    [message] = messages_on(cube, hidden)
    assert "100% of the cells to fill are in gaps of up to 300 steps" in message
    assert "has 20:" in message
    hidden[400:560, 1] = True
    assert messages_on(cube, hidden) == []


def test_times_at_which_no_station_reports_are_reported():
    cube = gaps_of(30)
    hidden = cube.notnull() & False
    hidden[300:330, 1] = True
    assert messages_on(cube, hidden) == []
    cube[5:35] = np.nan
    [message] = messages_on(cube, hidden)
    assert "100% of the cells to fill are at times at which no station has a value" in message
    hidden[300:330] = True
    assert messages_on(cube, hidden) == []


@pytest.fixture
def count_calls(monkeypatch):
    """Count the calls of a function in every module of cdsa that uses it."""

    def count(function):
        calls = []

        def spy(*args, **options):
            calls.append(args)
            return function(*args, **options)

        for name, module in list(sys.modules.items()):
            if name.startswith("cdsa.") and vars(module).get(function.__name__) is function:
                monkeypatch.setattr(module, function.__name__, spy)
        return calls

    return count


@pytest.fixture
def count_methods(monkeypatch):
    """Count the instances of a class of methods."""

    def count(cls):
        built = []

        def spy(self, *args, **options):
            built.append(self)
            original(self, *args, **options)

        original = cls.__init__
        monkeypatch.setattr(cls, "__init__", spy)
        return built

    return count


def is_filled(cube):
    return not cube.isnull().any()


def test_a_fill_checks_the_cube_once(table, tmp_path, count_calls):
    calls = count_calls(check_cube)
    run("fill", table, "--method", "linear", "-o", tmp_path / "out.csv")
    assert len(calls) == 1


def test_a_fill_builds_its_method_once(table, tmp_path, count_methods):
    built = count_methods(Linear)
    run("fill", table, "--method", "linear", "-o", tmp_path / "out.csv")
    assert len(built) == 1


def test_a_fill_converts_the_directions_of_the_cube_once(table, tmp_path, count_calls):
    calls = count_calls(to_components)
    run("fill", table, "--method", "linear", "--direction", "temp", "-o", tmp_path / "out.csv")
    cube = cdsa.open_cube(table, directions=["temp"])
    measured = [args[0] for args in calls if not is_filled(args[0])]
    assert len(measured) == 1 and measured[0].equals(cube)
    assert len(calls) <= 2  # those of the filled values, for the bounds of a direction


@pytest.mark.parametrize("horizon", [0, 6])
def test_a_network_converts_the_directions_of_the_cube_once(windy, horizon, count_calls):
    calls = count_calls(to_components)
    data = prepare(windy)
    filler = small_paper(forecast=horizon > 0).fit(data)
    filler.fill_intervals(data, (0.9,))
    if horizon:
        filler.forecast_from(data, np.array([20, 30]), context=6, horizon=horizon)
    assert len(calls) == 1


def test_a_fill_draws_its_hidden_cells_once(table, tmp_path, monkeypatch):
    calls = []
    draw = LikeData.__call__

    def spy(strategy, cube, rng):
        calls.append(strategy)
        return draw(strategy, cube, rng)

    monkeypatch.setattr(LikeData, "__call__", spy)
    run("fill", table, "--method", "linear", "-o", tmp_path / "out.csv")
    assert len(calls) == 1


def test_a_comparison_builds_its_methods_once(table, count_methods, count_calls):
    built, checked = count_methods(Linear), count_calls(check_cube)
    run("score", table, "--methods", "linear,mean", "--repeat", 2)
    assert len(built) == 1 and len(checked) == 1


@pytest.mark.parametrize("request_type", [FillRequest, TrainRequest])
def test_the_method_of_a_request_is_built_when_it_is_validated(request_type):
    request = request_type(method="cdsa", options=MethodOptions(epochs=3))
    request.validate()
    assert request.built is request.built and request.built.train.epochs == 3
    assert replace(request, options=MethodOptions(epochs=4)).built.train.epochs == 4


def test_hiding_converts_nothing_and_equals_preparing_the_hidden_cube(windy, count_calls):
    data = prepare(windy)
    hidden = windy.copy(data=np.random.default_rng(0).random(windy.shape) < 0.3).astype(bool)
    calls = count_calls(to_components)
    visible = data.hide(hidden)
    assert not calls
    expected = prepare(windy.where(~hidden))
    xr.testing.assert_identical(visible.cube, expected.cube)
    xr.testing.assert_identical(visible.components, expected.components)


def test_the_steps_of_a_fill_are_reported_in_order(cube):
    events = []

    class Events(Reporter):
        def progress(self, status, fraction=None):
            events.append(status)

        def message(self, text):
            events.append(text)

    sites = Sites(names=("far",), lat=np.array([-40.0]), lon=np.array([0.0]))
    cdsa.fill(cube, "idw", at=sites, progress=Events())
    assert "Are lat and lon right?" in events[0]
    assert events[1:] == ["trying idw", "trying idw", "filling with idw"]


def test_methods_are_fitted_on_stations_and_not_on_sites(cube, monkeypatch):
    fitted = []
    fit = Linear.fit

    def spy(method, data, run=None):
        fitted.append(data.cube)
        return fit(method, data, run)

    monkeypatch.setattr(Linear, "fit", spy)
    cdsa.fill(cube, "linear", at=Sites(names=("X",), lat=np.array([40.0]), lon=np.array([116.0])))
    assert fitted and all(data["location"].equals(cube["location"]) for data in fitted)


def test_a_comparison_refuses_options_that_no_method_uses():
    with pytest.raises(ConfigError, match="--minutes is for methods that train a network"):
        CompareRequest(methods=("linear",), options=MethodOptions(minutes=1)).validate()
    with pytest.raises(ConfigError, match="--graph is for networks on a graph"):
        edges = (("A", "B", 1.0),)
        CompareRequest(methods=("cdsa",), options=MethodOptions(graph=edges)).validate()
