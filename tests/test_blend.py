"""Methods are combined with weights fitted on hidden cells, and only where that pays."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from cdsa.core.domain import Domain
from cdsa.core.gaps import GAP_CLASSES
from cdsa.core.metrics import measure
from cdsa.methods import blend as blend_module
from cdsa.methods.base import Filler
from cdsa.methods.blend import STEP, Blend, blend_fills, fit_blend
from cdsa.methods.calibration import MIN_CELLS, N_FOLDS, time_folds
from cdsa.methods.compose import BlendedFiller
from conftest import network


def hide(cube, share=0.3, seed=0):
    return cube.where(np.random.default_rng(seed).random(cube.shape) > share)


def guess(cube, *noise, seed=0):
    """Predictions of every cell by methods with independent errors of these sizes."""
    rng = np.random.default_rng(seed)
    names = "abcdef"[: len(noise)]
    return {
        name: cube + size * rng.normal(size=cube.shape)
        for name, size in zip(names, noise, strict=True)
    }


def fit(fills, truth, visible, weights=None):
    return fit_blend(fills, truth, visible, weights, default=next(iter(fills)))


def fill(fills, visible, weights):
    pairs = [(filled, {}) for filled in fills.values()]
    return blend_fills(visible, pairs, weights, Domain.of(visible))[0]


def blend_of(weights, n_cells=None, names="ab"):
    """A blend of one measurement with weights by gap class."""
    n_cells = [[100] * len(GAP_CLASSES)] if n_cells is None else [n_cells]
    return Blend(tuple(names), ("pm25",), np.array([weights]), np.array(n_cells))


def test_weights_are_not_negative_and_sum_to_one():
    cube = network(steps=600, missing=0.1)
    blend, cell_weights = fit(guess(cube, 1, 2, 1.5, 9), cube, hide(cube))
    for weights in (np.moveaxis(blend.weights, -1, 0), cell_weights):
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=0), 1)
    np.testing.assert_allclose(blend.weights / STEP, np.round(blend.weights / STEP))


def test_independent_errors_are_averaged_and_poor_methods_left_out():
    cube = network(steps=1500, missing=0.0)
    visible, fills = hide(cube), guess(cube, 1, 1, 20)
    blend, _ = fit(fills, cube, visible)
    assert set(blend.used) == {"a", "b"}
    np.testing.assert_allclose(blend.by_measurement[:, 0], 0.5, atol=0.15)


@pytest.mark.parametrize("noise", [(1, 1, 1), (1, 1.1, 3), (1, 5, 5), (1, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_a_blend_is_never_worse_than_its_best_candidate_by_more_than_noise(noise, seed):
    cube = network(steps=500, missing=0.0, seed=seed)
    common = network(steps=500, missing=0.0, seed=seed + 50) - cube  # an error that all share
    fills = {k: v + common for k, v in guess(cube, *(0.3 * n for n in noise), seed=seed).items()}
    visible = hide(cube, seed=seed)
    blend, cell_weights = fit(fills, cube, visible)
    hidden, fresh = visible.isnull(), hide(cube, seed=seed + 99).isnull() & visible.notnull()
    best = min(float(abs(x - cube).where(fresh).mean()) for x in fills.values())
    other = cube.where(~fresh)
    blended = fill(fills, other, blend.cell_weights(other))
    assert float(abs(blended - cube).where(fresh).mean()) < 1.02 * best
    alone = min(float(abs(x - cube).where(hidden).mean()) for x in fills.values())
    crossed = float(abs(fill(fills, visible, cell_weights) - cube).where(hidden).mean())
    assert crossed < 1.0001 * alone  # what is reported


def test_each_measurement_and_gap_class_has_its_own_weights():
    cube = network(steps=2000, stations=8, measurements=2, missing=0.0)
    visible = hide(cube, 0.15)
    for start in range(0, 2000, 100):
        visible[start : start + 40, :, 0] = np.nan
    long = np.zeros(cube.shape, bool)
    long[np.arange(2000) % 100 < 40, :, 0] = True
    a, b = guess(cube, 1, 1, seed=3).values()
    fills = {"a": cube.where(long, a), "b": b.where(long | (np.arange(2) == 1), cube)}
    blend, _ = fit(fills, cube, visible)
    short, longer = blend.weights[0, 0], blend.weights[0, 3]
    assert longer[0] > 0.9 and short[1] > 0.5
    assert 0.2 < blend.weights[1, 0, 0] < 0.8


def test_few_hidden_cells_get_the_default_method():
    cube = network(steps=MIN_CELLS, stations=1, measurements=1, missing=0.0)
    blend, cell_weights = fit(guess(cube, 9, 1), cube, hide(cube, 0.5))
    assert blend.used == ("a",) and (cell_weights[0] == 1).all()


def test_one_method_is_used_alone_where_a_combination_is_not_better():
    cube = network(steps=1000, missing=0.0)
    fills = guess(cube, 1)
    fills["b"] = fills["a"] + 0.01
    blend, cell_weights = fit(fills, cube, hide(cube))
    assert ((blend.weights == 0) | (blend.weights == 1)).all()
    assert ((cell_weights == 0) | (cell_weights == 1)).all()


def test_a_fold_of_time_is_not_seen_by_its_own_weights():
    cube = network(steps=600, measurements=1, missing=0.0)
    visible, fills = hide(cube), guess(cube, 1, 1.2)
    fold = time_folds(600)
    _, before = fit(fills, cube, visible)
    for number in range(N_FOLDS):
        inside = fold == number
        changed = cube.copy(deep=True)
        changed[inside] = fills["a"][inside] + 0.5 * (fills["b"] - fills["a"])[inside]
        changed = cube.where(visible.notnull(), changed)
        _, after = fit(fills, changed, visible)
        np.testing.assert_array_equal(after[:, inside], before[:, inside])
        assert (after[:, ~inside] != before[:, ~inside]).any()


def test_cells_count_by_their_weight():
    cube = network(steps=1000, measurements=1, missing=0.0)
    visible, early = hide(cube), (np.arange(1000) % 50 < 25)[:, None, None]
    a, b = guess(cube, 3, 3).values()
    fills = {"a": a.where(early, cube), "b": b.where(~early, cube)}
    weights = np.broadcast_to(np.where(early, 1.0, 1e-6), cube.shape)
    blend, _ = fit(fills, cube, visible, weights)
    assert blend.used == ("b",)


def test_perfect_predictions_are_no_problem():
    cube = network(steps=400, missing=0.0)
    blend, _ = fit({"a": cube + 1, "b": cube, "c": cube}, cube, hide(cube))
    assert blend.used == ("b",)


def test_directions_are_averaged_on_the_circle():
    cube = network(steps=4, stations=1, measurements=1, missing=0.0) * 0
    cube = cube.assign_coords(is_direction=("measurement", [True]))
    fills = [(cube + 350, {}), (cube + 20, {})]
    weights = np.full((2, *cube.shape), 0.5)
    filled, _ = blend_fills(cube.where(cube != 0), fills, weights, Domain.of(cube))
    np.testing.assert_allclose(filled, 5)


def test_weights_of_directions_are_fitted_on_the_circle(rng):
    cube = network(steps=800, measurements=1, missing=0.0)
    cube = cube.assign_coords(is_direction=("measurement", [True]))
    cube = cube.copy(data=rng.uniform(0, 360, cube.shape))
    fills = {name: filled % 360 for name, filled in guess(cube, 30, 30).items()}
    visible = hide(cube)
    blend, cell_weights = fit(fills, cube, visible)
    np.testing.assert_allclose(blend.by_measurement[0], 0.5, atol=0.15)
    hidden = visible.isnull()
    blended, *single = (
        measure(filled, cube, hidden, visible).overall()["mae"]
        for filled in (fill(fills, visible, cell_weights), *fills.values())
    )
    assert blended < 0.8 * min(single)


def test_measured_values_are_kept_to_the_last_bit():
    cube = network(steps=200)
    fills = [
        (filled.where(cube.isnull(), cube), {}) for filled in guess(cube.fillna(1), 1, 1).values()
    ]
    shares = np.stack([np.full(cube.shape, w) for w in (0.35, 0.65)])
    filled, _ = blend_fills(cube, fills, shares, Domain.of(cube))
    observed = cube.notnull().to_numpy()
    np.testing.assert_array_equal(filled.to_numpy()[observed], cube.to_numpy()[observed])
    assert filled.notnull().all()


def test_bounds_are_those_of_the_methods_that_give_any():
    cube = network(steps=50, missing=0.0)
    own = {0.9: (cube - 1, cube + 2)}, {0.9: (cube - 3, cube + 4)}
    fills = [(cube, own[0]), (cube + 0.5, {}), (cube, own[1])]
    weights = np.stack([np.full(cube.shape, w) for w in (0.3, 0.6, 0.1)])
    blended, intervals = blend_fills(cube.where(False), fills, weights, Domain.of(cube))
    np.testing.assert_allclose(blended - intervals[0.9][0], 1.5)
    np.testing.assert_allclose(intervals[0.9][1] - blended, 2.5)


def test_least_squares_on_the_simplex_are_exact(rng):
    """Second opinion: the best of the solutions on all subsets of the candidates."""
    for _ in range(30):
        design = rng.normal(size=(20, 5)) + rng.normal(size=(20, 1))
        gram, linear = design.T @ design + 0.1 * np.eye(5), 0.1 * np.eye(5)[2]
        solved = blend_module._least_squares(gram, linear, np.eye(5)[2])
        best = np.inf
        for size in range(1, 6):
            for free in map(list, combinations(range(5), size)):
                system = np.block([[gram[np.ix_(free, free)], np.ones((size, 1))],
                                   [np.ones((1, size)), np.zeros((1, 1))]])  # fmt: skip
                x = np.linalg.solve(system, np.append(linear[free], 1))[:-1]
                if (x >= 0).all():
                    best = min(best, x @ gram[np.ix_(free, free)] @ x - 2 * linear[free] @ x)
        assert solved @ gram @ solved - 2 * linear @ solved == pytest.approx(best)
        assert (solved >= 0).all() and solved.sum() == pytest.approx(1)


def test_weights_are_reported_in_a_few_words():
    same = [[0.7, 0.3]] * 5
    assert blend_of(same).describe("pm25") == "a 0.7, b 0.3"
    assert blend_of([[0, 1]] * 5).describe("pm25") == "b"
    long = [*same[:3], [0.1, 0.9], [0.1, 0.9]]
    text = "a 0.7, b 0.3; gaps of 24+ steps: b 0.9, a 0.1"
    assert blend_of(long, [100, 100, 100, 10, 3]).describe("pm25") == text
    assert blend_of(long, [100, 100, 100, 0, 0]).describe("pm25") == "a 0.7, b 0.3"
    short = [[0.2, 0.8], *same[1:]]
    assert blend_of(short).describe("pm25").endswith("; gaps of 1 step: b 0.8, a 0.2")
    frame = blend_of(long, [9, 0, 0, 9, 0]).to_frame()
    assert frame.loc[("pm25", "24-71"), "b"] == 0.9 and len(frame) == 2


def test_the_network_explains_the_measurements_in_which_it_has_the_largest_weight():
    class Network(Filler):
        explainable = True

    weights = np.array([[[0.6, 0.4]] * 5, [[0.4, 0.6]] * 5])
    blend = Blend(("cdsa", "kalman"), ("pm25", "temp"), weights, np.ones((2, 5), dtype=np.int64))
    fillers = {"cdsa": Network(), "kalman": Filler()}
    blended = BlendedFiller(fillers, blend)
    explainer = blended.only_explainable()
    assert blended.filler_of("S0", "pm25") is explainer.filler_of("S0", "pm25") is fillers["cdsa"]
    assert not explainer.filler_of("S0", "temp").explainable
    without = replace(blend, weights=weights[[1, 1]])
    assert BlendedFiller(fillers, without).only_explainable() is None
