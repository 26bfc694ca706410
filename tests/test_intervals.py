"""Intervals that hold what they promise."""

from functools import partial

import numpy as np
import pytest

from cdsa.methods.calibration import (
    ENOUGH,
    NEVER,
    SHARES,
    BoundedFiller,
    Calibration,
    Told,
    ends_of,
)
from cdsa.methods.registry import make_method
from cdsa.nn.quantile_head import QUANTILES
from conftest import network


def told(rng, cells=4000, spread=1.0, told_spread=1.0, gap=0, measurement=0) -> Told:
    """A network that thinks errors are uniform with this spread, while they have another."""
    truth = rng.uniform(-spread, spread, cells)
    ends = [
        np.full(cells, (2 * end - 1) * told_spread) for level in SHARES for end in ends_of(level)
    ]
    return Told(
        point=np.zeros(cells),
        truth=truth,
        ends=np.stack(ends),
        measurement=np.full(cells, measurement),
        gap=np.full(cells, gap),
    )


def test_the_quantiles_of_a_network_are_those_that_intervals_want():
    wanted = [end for level in SHARES for end in ends_of(level)]
    assert min(wanted) == pytest.approx(QUANTILES[0]) and max(wanted) == pytest.approx(
        QUANTILES[-1]
    )


def test_what_is_too_narrow_is_widened_and_what_is_too_wide_narrowed(rng):
    for spread, told_spread in ((2.0, 1.0), (1.0, 3.0)):
        found = Calibration.learn(
            told(rng, spread=spread, told_spread=told_spread), ("x",), (False,)
        )
        factor = found.factors[SHARES.index(0.9), 0, 0]
        assert factor == pytest.approx(spread / told_spread, rel=0.05)


def test_each_measurement_and_gap_length_has_its_own_factor(rng):
    both = Told.joined([
        told(rng, gap=0), told(rng, spread=3.0, gap=2), told(rng, spread=2.0, measurement=1),
    ])  # fmt: skip
    factors = Calibration.learn(both, ("x", "y"), (False, False)).factors[SHARES.index(0.9)]
    assert factors[0, 0] == pytest.approx(1, rel=0.1) and factors[0, 2] == pytest.approx(3, rel=0.1)
    assert factors[1, 0] == pytest.approx(2, rel=0.1)


def test_few_cells_take_the_factor_of_their_measurement_or_of_all(rng):
    both = Told.joined([
        told(rng, spread=2.0, gap=0), told(rng, cells=ENOUGH - 1, spread=9.0, gap=1),
        told(rng, cells=ENOUGH - 1, spread=9.0, measurement=1),
    ])  # fmt: skip
    factors = Calibration.learn(both, ("x", "y"), (False, False)).factors[SHARES.index(0.9)]
    assert factors[0, 1] == factors[0, 4] == pytest.approx(2, rel=0.1)
    assert factors[1, 0] == pytest.approx(2, rel=0.15)
    alone = Calibration.learn(told(rng, cells=5), ("x",), (False,))
    assert (alone.factors == 1).all()


def test_a_class_with_few_cells_is_taken_with_those_next_to_it(rng):
    three = Told.joined([
        told(rng, cells=5, spread=1.0, gap=0), told(rng, spread=2.0, gap=1),
        told(rng, spread=8.0, gap=3), told(rng, spread=30.0, gap=NEVER),
    ])  # fmt: skip
    factors = Calibration.learn(three, ("x",), (False,)).factors[SHARES.index(0.9), 0]
    assert factors[0] == pytest.approx(2, rel=0.1)  # not what gaps of days need
    assert factors[4] == pytest.approx(8, rel=0.1)
    assert 2 < factors[2] < 8 and factors[NEVER] == pytest.approx(30, rel=0.1)


def test_intervals_are_as_wide_as_their_factor_says():
    cube = network(steps=3, stations=1, measurements=1, missing=0.0)
    gaps = np.array([0, 1, 1]).reshape(3, 1, 1)
    factors = np.ones((len(SHARES), 1, NEVER + 1))
    factors[:, :, 1] = 2.0
    found = Calibration(factors, ("pm25",), (False,))
    low, high = found.interval(0.9, cube, (cube, cube - 1, cube + 3), gaps)
    np.testing.assert_allclose((cube - low).values.ravel(), [1, 2, 2])
    np.testing.assert_allclose((high - cube).values.ravel(), [3, 6, 6])


def test_ends_keep_to_physical_bounds_and_are_open_where_nothing_was_guessed():
    cube = network(steps=2, stations=1, measurements=1, missing=0.0)
    cube = cube.assign_coords(valid_min=("measurement", [0.0]), valid_max=("measurement", [11.0]))
    found = Calibration(np.ones((len(SHARES), 1, NEVER + 1)), ("pm25",), (False,))
    guess = cube.copy()
    guess[1] = np.nan
    low, high = found.interval(0.9, cube, (guess, guess - 99, guess + 99), np.zeros((2, 1, 1), int))
    assert (low[0].item(), high[0].item()) == (0.0, 11.0)
    assert np.isnan(low[1].item()) and np.isnan(high[1].item())


def test_a_level_between_two_has_a_factor_between_theirs(rng):
    found = Calibration.learn(told(rng, spread=2.0), ("x",), (False,))
    low, high = (found.factors[SHARES.index(level), 0, 0] for level in (0.9, 0.95))
    assert min(low, high) <= found._at(0.92)[0, 0] <= max(low, high)
    assert found._at(0.999)[0, 0] == found.factors[-1, 0, 0]


def test_any_filler_gets_intervals_from_a_trial(rng):
    cube = network(steps=800, stations=4)
    hidden = cube.notnull() & (rng.random(cube.shape) < 0.3)
    visible = cube.where(~hidden)
    linear = make_method("linear")[1].fit(visible)
    bounded = BoundedFiller.learn(linear, linear.fill(visible), cube, visible)
    other = cube.notnull() & ~hidden & (rng.random(cube.shape) < 0.3)
    filled, ((low, high),) = bounded.fill_between(cube.where(~other), [0.9])
    assert filled.equals(linear.fill(cube.where(~other)))
    inside = ((cube >= low) & (cube <= high)).to_numpy()[other.to_numpy()]
    assert 0.86 < inside.mean() < 0.94
    assert (low <= filled).all() and (filled <= high).all()


def test_a_new_time_is_one_more_window():
    of = partial(Calibration, np.ones((1, 1, 1)), ("x",), (False,))
    assert of(windows=48).at_new_times(0.9) == pytest.approx(0.9 * 49 / 48)
    assert of(windows=2).at_new_times(0.9) == pytest.approx(0.95)
    assert of().at_new_times(0.9) == 0.9
