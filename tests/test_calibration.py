"""Prediction intervals cover what their level promises."""

from functools import partial

import numpy as np
import pytest
import xarray as xr

from cdsa.core.domain import Domain
from cdsa.core.metrics import LEVELS as METRIC_LEVELS
from cdsa.methods.base import Filler
from cdsa.methods.calibration import (
    BOUND_QUANTILES,
    LEVELS,
    MIN_CELLS,
    UNOBSERVED,
    Calibration,
    CalibrationSet,
    ConformalFiller,
    cross_fitted_bounds,
)
from cdsa.methods.registry import build_method
from cdsa.nn.quantile_head import QUANTILES
from conftest import network

AT_90 = LEVELS.index(0.9)


def fit(cells, measurements=1, stations=1) -> Calibration:
    cube = network(steps=1, stations=stations, measurements=measurements)
    return Calibration.fit(cells, cube, Domain.of(cube))


def predictions(
    rng, n_cells=4000, spread=1.0, predicted_spread=1.0, gap=0, measurement=0, location=0
) -> CalibrationSet:
    """A model that expects uniform errors of one spread, while they have another."""
    bounds = (2 * np.array(BOUND_QUANTILES)[:, None] - 1) * np.full(n_cells, predicted_spread)
    return CalibrationSet(
        point=np.zeros(n_cells),
        truth=rng.uniform(-spread, spread, n_cells),
        bounds=bounds,
        location=np.full(n_cells, location),
        measurement=np.full(n_cells, measurement),
        gap_class=np.full(n_cells, gap),
    )


def test_intervals_use_the_range_of_quantiles_that_a_network_predicts():
    assert min(BOUND_QUANTILES) == pytest.approx(QUANTILES[0])
    assert max(BOUND_QUANTILES) == pytest.approx(QUANTILES[-1])


def test_narrow_intervals_are_widened_and_wide_ones_narrowed(rng):
    for spread, predicted in ((2.0, 1.0), (1.0, 3.0)):
        cells = predictions(rng, spread=spread, predicted_spread=predicted)
        factor = fit(cells).factors[AT_90, 0, 0]
        assert factor == pytest.approx(spread / predicted, rel=0.05)


def test_each_measurement_and_gap_class_has_its_own_factor(rng):
    cells = CalibrationSet.concatenate([
        predictions(rng, gap=0), predictions(rng, spread=3.0, gap=2),
        predictions(rng, spread=2.0, measurement=1),
    ])  # fmt: skip
    factors = fit(cells, measurements=2).factors[AT_90]
    assert factors[0, 0] == pytest.approx(1, rel=0.1) and factors[0, 2] == pytest.approx(3, rel=0.1)
    assert factors[1, 0] == pytest.approx(2, rel=0.1)


def test_few_cells_take_the_factor_of_their_measurement_or_of_all(rng):
    cells = CalibrationSet.concatenate([
        predictions(rng, spread=2.0, gap=0),
        predictions(rng, n_cells=MIN_CELLS - 1, spread=9.0, gap=1),
        predictions(rng, n_cells=MIN_CELLS - 1, spread=9.0, measurement=1),
    ])  # fmt: skip
    factors = fit(cells, measurements=2).factors[AT_90]
    assert factors[0, 1] == factors[0, 4] == pytest.approx(2, rel=0.1)
    assert factors[1, 0] == pytest.approx(2, rel=0.15)


def test_without_enough_cells_the_intervals_of_the_model_are_not_scaled(rng):
    cells = CalibrationSet.concatenate([
        predictions(rng, n_cells=5), predictions(rng, n_cells=MIN_CELLS - 6, measurement=1),
    ])  # fmt: skip
    assert (fit(cells, measurements=2).factors == 1).all()


def test_a_gap_class_with_few_cells_is_pooled_with_its_neighbours(rng):
    cells = CalibrationSet.concatenate([
        predictions(rng, n_cells=5, spread=1.0, gap=0), predictions(rng, spread=2.0, gap=1),
        predictions(rng, spread=8.0, gap=3), predictions(rng, spread=30.0, gap=UNOBSERVED),
    ])  # fmt: skip
    factors = fit(cells).factors[AT_90, 0]
    assert factors[0] == pytest.approx(2, rel=0.1)  # not what gaps of days need
    assert factors[4] == pytest.approx(8, rel=0.1)
    assert 2 < factors[2] < 8 and factors[UNOBSERVED] == pytest.approx(30, rel=0.1)


def test_a_cell_without_a_prediction_does_not_count(rng):
    cells = predictions(rng)
    cells.point[::3] = np.nan
    known = cells.select(~np.isnan(cells.point))
    factors, expected = (fit(c).factors for c in (cells, known))
    np.testing.assert_array_equal(factors, expected)


def test_half_widths_are_multiplied_by_their_factor():
    cube = network(steps=3, stations=1, measurements=1, missing=0.0)
    gap_classes = np.array([0, 1, 1]).reshape(3, 1, 1)
    factors = np.ones((len(LEVELS), 1, UNOBSERVED + 1))
    factors[:, :, 1] = 2.0
    calibration = Calibration(factors, ("pm25",), (False,), ("S0",), np.ones(1))
    low, high = calibration.bounds(
        0.9, cube, (cube, cube - 1, cube + 3), gap_classes, Domain.of(cube)
    )
    np.testing.assert_allclose((cube - low).values.ravel(), [1, 2, 2])
    np.testing.assert_allclose((high - cube).values.ravel(), [3, 6, 6])


def test_intervals_are_widened_at_stations_that_are_hard_to_predict(rng):
    cells = CalibrationSet.concatenate([
        predictions(rng, spread=2.0, location=0), predictions(rng, location=1),
        predictions(rng, n_cells=MIN_CELLS - 1, spread=9.0, location=2),
    ])  # fmt: skip
    calibration = fit(cells, stations=4)
    factors = calibration.factors[AT_90, 0, 0] * calibration.station_factors
    assert factors[0] == pytest.approx(2, rel=0.1)
    assert (calibration.station_factors[1:] == 1).all()  # never narrowed, nor by a few cells


def test_what_has_no_width_does_not_widen_the_rest_of_its_station(rng):
    dry = predictions(rng, n_cells=8000, spread=0.0, location=1)
    rain = predictions(rng, n_cells=800, spread=5.0, location=0)
    temp = predictions(rng, n_cells=800, location=0, measurement=1)
    cells = CalibrationSet.concatenate([dry, rain, temp])
    calibration = fit(cells, measurements=2, stations=2)
    assert calibration.factors[AT_90, 0, 0] == 0
    assert calibration.station_factors[0] == pytest.approx(1, rel=0.1)


def test_a_station_has_its_factor_wherever_it_stands_in_a_table():
    cube = network(steps=3, stations=3, measurements=1, missing=0.0)[:, [2, 0, 1]]
    factors = np.ones((len(LEVELS), 1, UNOBSERVED + 1))
    calibration = Calibration(factors, ("pm25",), (False,), ("S1", "S0"), np.array([1.5, 3.0]))
    gap_classes = np.zeros(cube.shape, dtype=int)
    _, high = calibration.bounds(
        0.9, cube, (cube, cube - 1, cube + 1), gap_classes, Domain.of(cube)
    )
    np.testing.assert_allclose((high - cube)[0, :, 0], [1, 3, 1.5])  # S2 is new


def test_bounds_keep_to_the_valid_range_and_are_missing_without_a_prediction():
    cube = network(steps=2, stations=1, measurements=1, missing=0.0)
    cube = cube.assign_coords(valid_min=("measurement", [0.0]), valid_max=("measurement", [11.0]))
    factors = np.ones((len(LEVELS), 1, UNOBSERVED + 1))
    calibration = Calibration(factors, ("pm25",), (False,), ("S0",), np.ones(1))
    point = cube.copy()
    point[1] = np.nan
    prediction = point, point - 99, point + 99
    low, high = calibration.bounds(0.9, cube, prediction, np.zeros((2, 1, 1), int), Domain.of(cube))
    assert (low[0].item(), high[0].item()) == (0.0, 11.0)
    assert np.isnan(low[1].item()) and np.isnan(high[1].item())


def test_the_factor_of_a_level_in_between_is_interpolated(rng):
    calibration = fit(predictions(rng, spread=2.0))
    low, high = (calibration.factors[LEVELS.index(level), 0, 0] for level in (0.9, 0.95))
    assert min(low, high) <= calibration._factors_at(0.92)[0, 0] <= max(low, high)
    assert calibration._factors_at(0.999)[0, 0] == calibration.factors[-1, 0, 0]


def test_any_filler_gets_intervals_from_cells_that_were_hidden_from_it(rng):
    cube = network(steps=800, stations=4)
    hidden = cube.notnull() & (rng.random(cube.shape) < 0.3)
    visible = cube.where(~hidden)
    linear = build_method("linear").fit(visible)
    conformal = ConformalFiller.fit(linear, linear.fill(visible), cube, visible)
    other = cube.notnull() & ~hidden & (rng.random(cube.shape) < 0.3)
    filled, ((low, high),) = conformal.fill_intervals(cube.where(~other), [0.9])
    assert filled.equals(linear.fill(cube.where(~other)))
    inside = ((cube >= low) & (cube <= high)).to_numpy()[other.to_numpy()]
    assert 0.86 < inside.mean() < 0.94
    assert (low <= filled).all() and (filled <= high).all()


def test_the_own_intervals_of_a_filler_are_scaled(rng):
    """Too narrow by the same factor everywhere, and twice as wide at every other step."""
    cube = network(steps=800, stations=4)
    hidden = cube.notnull() & (rng.random(cube.shape) < 0.3)
    visible = cube.where(~hidden)
    linear = build_method("linear").fit(visible)
    widths = xr.DataArray(0.01 * (1 + np.arange(800) % 2), coords={"time": cube["time"]})

    class Narrow(Filler):
        gives_intervals = True

        def fill(self, cube):
            return linear.fill(cube)

        def fill_intervals(self, cube, levels):
            filled = linear.fill(cube)
            sides = [(filled - level * widths, filled + level * widths) for level in levels]
            return filled, [tuple(x.transpose(*filled.dims) for x in pair) for pair in sides]

    filled, bounds = Narrow().fill_intervals(visible, METRIC_LEVELS)
    own = dict(zip(METRIC_LEVELS, bounds, strict=True))
    conformal = ConformalFiller.fit(Narrow(), filled, cube, visible, own)
    _, ((low, high),) = conformal.fill_intervals(visible, [0.9])
    assert conformal.error_model is None and not conformal.fill_intervals(visible, [])[1]
    inside = ((cube >= low) & (cube <= high)).to_numpy()[hidden.to_numpy()]
    assert 0.88 < inside.mean() < 0.92
    width = (high - low).where(visible.isnull()).mean(("location", "measurement")).to_numpy()
    assert np.nanmean(width[1::2]) / np.nanmean(width[::2]) == pytest.approx(2, rel=0.2)
    scored = cross_fitted_bounds(filled, cube, visible, [0.9], own)[0.9]
    inside = ((cube >= scored[0]) & (cube <= scored[1])).to_numpy()[hidden.to_numpy()]
    assert 0.86 < inside.mean() < 0.94


def test_out_of_sample_a_window_counts_as_one_observation():
    calibration = partial(Calibration, np.ones((1, 1, 1)), ("x",), (False,), ("a",), np.ones(1))
    assert calibration(n_windows=48).level_out_of_sample(0.9) == pytest.approx(0.9 * 49 / 48)
    assert calibration(n_windows=2).level_out_of_sample(0.9) == pytest.approx(0.95)
    assert calibration().level_out_of_sample(0.9) == 0.9
