"""Methods are chosen by trial, and combined where that pays."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import cdsa
from cdsa.core import defaults
from cdsa.core.cube import append_locations
from cdsa.core.domain import Domain
from cdsa.core.masks import Bursts
from cdsa.core.metrics import measure
from cdsa.core.prepare import prepare
from cdsa.errors import CdsaError, ConfigError
from cdsa.methods.base import Filler, Method
from cdsa.methods.baselines.simple import Mean
from cdsa.methods.blend import Blend, blend_fills
from cdsa.methods.registry import build_method
from cdsa.workflows.fill import fill_with
from cdsa.workflows.pipeline import FillResult
from cdsa.workflows.score import hidden_cells, try_method
from cdsa.workflows.select import Selection, choose, select_method
from conftest import network

SELECT = "cdsa.workflows.select"


def mixed(steps=500):
    """A cube of two measurements: `linear` is best for the first, `idw` for the second."""
    cube = network(steps=steps, stations=4, measurements=2, missing=0.1)
    jumps = (np.arange(steps) // 5 % 2)[:, None] * 9.0
    values = cube.to_numpy().copy()
    values[:, :, 1] = np.where(np.isnan(values[:, :, 1]), np.nan, jumps)
    return cube.copy(data=values)


@dataclass(frozen=True, kw_only=True)
class Fails(Method):
    name: ClassVar[str] = "fails"

    def fit(self, cube, run=None):
        raise ConfigError("it needs the moon")


def test_a_selection_names_its_methods():
    weights = np.full((1, 5, 4), 0.25)
    blend = Blend(tuple("abcd"), ("x",), weights, np.ones((1, 5), dtype=np.int64))
    assert Selection(Filler(), "a").label == "a"
    weights = weights[..., :2] * 2
    two = Blend(("a", "b"), ("x",), weights, blend.n_cells)
    assert Selection(Filler(), "a", blend=two).label == "a + b"
    assert Selection(Filler(), "a", blend=blend).label == "a + b + 2 others"


def test_a_measurement_is_filled_by_the_method_that_is_best_for_it():
    cube = mixed()
    selection = choose(["linear", "idw"], prepare(cube), "bursts:+0.2", combine=True)
    assert selection.blend.largest("temp") == selection.method_of("temp") == "idw"
    filled, bounds = selection.filler.fill_intervals(cube, [0.9])
    alone = build_method("idw").fit(cube).fill(cube).sel(measurement="temp")
    np.testing.assert_array_equal(filled.sel(measurement="temp"), alone)
    gap = cube.isnull().to_numpy()
    assert (bounds[0][0].to_numpy()[gap] <= filled.to_numpy()[gap]).all()
    single = choose([selection.best], prepare(cube), "bursts:+0.2")
    assert selection.expected.errors.overall()["mae"] < single.expected.errors.overall()["mae"]


def test_the_expected_error_of_a_combination_is_cross_fitted(monkeypatch):
    cube, seen = mixed(), []

    def spy(cube, fills, weights, domain):
        seen.append(weights)
        return blend_fills(cube, fills, weights, domain)

    monkeypatch.setattr(f"{SELECT}.blend_fills", spy)
    selection = choose(["linear", "idw"], prepare(cube), "bursts:+0.2", combine=True)
    hidden = hidden_cells(cube, "bursts:+0.2", seed=0)
    visible = cube.where(~hidden)
    fills = [(build_method(name).fit(visible).fill(visible), {}) for name in ("linear", "idw")]
    crossed, _ = blend_fills(visible, fills, seen[0], Domain.of(visible))
    error = measure(crossed, cube, hidden, visible).overall()["mae"]
    assert selection.expected.errors.overall()["mae"] == pytest.approx(error)
    blend = selection.blend.select(("linear", "idw"))
    assert (seen[0] != blend.cell_weights(visible)).any()


def test_combined_intervals_hold_their_level(rng):
    truth = network(steps=2000, stations=4, measurements=1, missing=0.0)
    shocks, weights = rng.normal(size=(2000, 5)), 0.8 ** np.arange(30)
    waves = np.stack([np.convolve(column, weights)[:2000] for column in shocks.T], axis=1)
    truth = truth.copy(data=(waves[:, :4] + waves[:, 4:])[..., None])
    cube = truth.where(~Bursts(rate=0.2)(truth, np.random.default_rng(1)))
    selection = choose(["linear", "idw"], prepare(cube), combine=True)
    assert selection.blend is not None
    _, ((lower, upper),) = selection.filler.fill_intervals(cube, [0.9])
    coverage = ((truth >= lower) & (truth <= upper)).where(cube.isnull()).mean()
    assert 0.86 < float(coverage) < 0.94
    assert 0.86 < selection.expected.errors.overall()["coverage"] < 0.94


def test_a_combination_keeps_measured_values():
    cube = mixed()
    filled = choose(["linear", "idw"], prepare(cube), combine=True).filler.fill(cube)
    observed = cube.notnull().to_numpy()
    np.testing.assert_array_equal(filled.to_numpy()[observed], cube.to_numpy()[observed])
    assert filled.notnull().all()


def test_a_method_that_fails_is_left_out_with_a_message():
    messages, cube = [], prepare(mixed(300))
    methods = [Fails(), "linear", "idw"]
    selection = choose(methods, cube, combine=True, message=messages.append)
    assert [score.method for score in selection.scores] == ["linear", "idw"]
    assert messages == ["fails is left out: it needs the moon"]
    for options in ({"methods": methods}, {"methods": [Fails()], "combine": True}):
        with pytest.raises(ConfigError, match="the moon"):
            choose(cube=cube, **options)


def test_a_method_without_weight_is_not_fitted_again(monkeypatch):
    fitted, fit = [], Mean.fit

    def spy(self, cube, run=None):
        fitted.append(self.label)
        return fit(self, cube, run)

    monkeypatch.setattr(Mean, "fit", spy)
    selection = choose(["linear", "idw", "mean"], prepare(mixed()), combine=True)
    assert "mean" not in selection.blend.candidates and fitted == ["mean"]


def test_the_weights_are_reported():
    cube = mixed()
    events = {"run": None, "message": lambda text: None, "progress": lambda status: None}
    methods = {"linear": build_method("linear")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(defaults, "BASELINES", ("idw",))
        selection = select_method(
            "auto", lambda: methods["linear"], prepare(cube), cube, check=True, **events
        )
    first, *weights = selection.reasons
    assert first.startswith("combined ") and "linear" in first and "idw" in first
    assert "weights for temp: idw" in weights
    result = FillResult(dataset=fill_with(selection.filler, cube), source=None, selection=selection)
    assert [record["weights"] for record in result.records][1] == "idw"


def test_each_method_is_tried_once(monkeypatch):
    tried = []

    def spy(method, *arguments, **options):
        tried.append(method.label)
        return try_method(method, *arguments, **options)

    monkeypatch.setattr(f"{SELECT}.try_method", spy)
    selection = choose(["linear", "idw"], prepare(mixed(400)), "bursts:+0.2", combine=True)
    assert selection.blend is not None and tried == ["linear", "idw"]


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

    monkeypatch.setattr(f"{SELECT}.try_method", spy)
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
