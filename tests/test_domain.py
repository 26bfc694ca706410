"""The values that a measurement can have are inferred from its measured values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdsa.core.cube import assign_metadata, make_cube
from cdsa.core.domain import Domain
from cdsa.core.prepare import prepare
from cdsa.methods.registry import build_method

HOURS = np.arange("2020-01-01", "2020-03-01", dtype="datetime64[h]")


def cube_of(values, **metadata):
    """Two stations with the same values."""
    values = np.resize(np.asarray(values, dtype=float), len(HOURS))
    cube = make_cube(np.stack([values, values], 1)[:, :, None], HOURS, ["A", "B"], ["x"])
    return assign_metadata(cube, **metadata) if metadata else cube


def domain_of(values, **metadata):
    return Domain.of(cube_of(values, **metadata))


def bounds(domain):
    return float(domain.low[0]), float(domain.high[0])


@pytest.fixture
def values(rng):
    """One number for each hour, without bounds and of single decimals."""
    return rng.normal(size=len(HOURS))


def test_values_without_bounds_have_none(values):
    assert bounds(domain_of(values)) == (-math.inf, math.inf)
    assert bounds(domain_of(15 + 4 * values)) == (-math.inf, math.inf)  # degrees of a mild winter


@pytest.mark.parametrize("shape", ["rain", "counts", "concentration"])
def test_what_is_never_negative_is_recognised(values, shape):
    series = {
        "rain": np.where(values > 1.5, np.round(values, 1), 0.0),
        "counts": np.round(np.exp(2 + values)),
        "concentration": np.round(np.exp(3 + values), 1),
    }
    assert domain_of(series[shape]).low[0] == 0


def test_a_percentage_ends_at_both_ends(values):
    humidity = np.round(np.clip(60 + 15 * values, 5, 97))
    assert bounds(domain_of(humidity, units={"x": "%"})) == (0, 100)
    assert bounds(domain_of(humidity, units={"x": "percent"})) == (0, 100)
    assert domain_of(humidity + 10, units={"x": "%"}).high[0] != 100  # some are above


def test_where_values_pile_up_is_a_bound_but_a_stuck_sensor_is_none(values):
    visibility = np.round(np.minimum(9 + 2 * values, 10), 1)
    assert domain_of(visibility).high[0] == 10
    stuck = values.copy()
    stuck[100:300] = 5.0  # the largest value, two hundred times in one run
    assert domain_of(stuck).high[0] == math.inf


def test_what_is_stated_counts(values):
    rain = np.where(values > 1.5, values, 0.0)
    infinite = (-math.inf, math.inf)
    assert bounds(domain_of(rain, bounds={"x": infinite})) == infinite
    assert bounds(domain_of(rain, bounds={"x": (-1, 50)})) == (-1, 50)
    assert domain_of(rain, digits={"x": 3}).decimals[0] == 3


def test_a_direction_has_no_bounds_and_no_outliers(values):
    domain = domain_of(np.where(values > 0, 0.0, 350.0), directions=["x"])
    assert bounds(domain) == (-math.inf, math.inf)
    assert np.isinf(domain.fences).all()


def test_too_few_values_show_nothing():
    cube = cube_of([1.0, 2.0, 0.0])[:10]
    assert bounds(Domain.of(cube)) == (-math.inf, math.inf)
    assert Domain.of(cube).fit(np.array([[1.5]]))[0, 0] == 1.5


@given(st.integers(0, 6), st.integers(-3, 6), st.booleans())
def test_values_are_rounded_as_the_measured_ones_are(decimals, power, single):
    rng = np.random.default_rng(decimals)
    values = np.round(rng.normal(size=len(HOURS)) * 10.0**power, decimals)
    if len(np.unique(values)) < 300:
        return  # nothing but zeros
    values = values.astype(np.float32).astype(float) if single and power + decimals < 6 else values
    domain = domain_of(values)
    assert domain.decimals[0] == decimals
    rounded = domain.fit(np.array([[math.pi * 10.0**power]]))[0, 0]
    assert rounded == round(math.pi * 10.0**power, decimals)


def test_nothing_remains_of_rounding_errors_beside_large_values(values):
    domain = domain_of(297 + values)  # of no resolution
    assert str(domain.fit(np.array([[-6.9e-18]]))[0, 0]) == "0.0"
    assert domain.fit(np.array([[math.pi]]))[0, 0] == pytest.approx(math.pi, abs=1e-7)


def test_tiny_values_keep_ten_digits(values):
    exact = 2.123456789e-18
    assert domain_of(2e-18 + 1e-18 * values).fit(np.array([[exact]]))[0, 0] == exact


@given(st.floats(-1e3, 1e3), st.floats(0, 50))
def test_intervals_are_rounded_outwards(middle, width):
    domain = domain_of(np.round(np.random.default_rng(0).normal(size=len(HOURS)), 1))
    lower, upper = domain.fit_bounds(np.array([[middle - width]]), np.array([[middle + width]]))
    assert lower[0, 0] <= middle - width + 1e-6 and upper[0, 0] >= middle + width - 1e-6
    assert upper[0, 0] - lower[0, 0] <= 2 * width + 0.2 + 1e-9


def test_an_outlier_stays_but_is_pulled_in_for_methods(values):
    values[40] = 1e9
    cube = cube_of(values)
    data = prepare(cube)
    assert data.domain.outliers(cube)[:, 0, 0].nonzero()[0].tolist() == [40]
    assert float(data.cube.max()) == 1e9
    assert float(data.components.max()) < 200


def test_a_spike_moves_no_fill_far(values):
    cube = cube_of(values).where(np.arange(len(HOURS))[:, None, None] % 5 != 3)
    spiked = cube.copy()
    spiked[40, 0, 0] = 1e9
    for name in ("mean", "linear", "kalman", "mf"):
        before, after = (build_method(name).fit(c).fill(c) for c in (cube, spiked))
        assert float(abs(after - before).where(cube.isnull()).max()) < 200, name
        assert float(after[40, 0, 0]) == 1e9


def test_hidden_values_show_nothing_of_the_domain(values):
    cube = cube_of(np.exp(values))
    hidden = cube < float(cube.quantile(0.3))
    data = prepare(cube).hide(hidden)
    assert float(data.domain.low[0]) == Domain.of(cube.where(~hidden)).low[0]
    other = prepare(cube.where(~hidden, -5.0)).hide(hidden)
    np.testing.assert_array_equal(data.components, other.components)
    np.testing.assert_array_equal(data.domain.low, other.domain.low)
