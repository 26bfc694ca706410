import numpy as np
import pytest
import xarray as xr

from cdsa.core.cube import assign_metadata
from cdsa.core.metrics import LEVELS, importance_weights, measure
from conftest import network


@pytest.fixture
def truth():
    return network(steps=30, missing=0.0)


def prediction_of(truth, rng):
    return truth + xr.DataArray(rng.normal(size=truth.shape), dims=truth.dims)


def test_metrics_match_their_definitions(truth, rng):
    prediction, eval_mask = prediction_of(truth, rng), xr.ones_like(truth, dtype=bool)
    errors = measure(prediction, truth, eval_mask, truth).by("measurement").loc["temp"]
    e, y = (prediction - truth).sel(measurement="temp").values, truth.sel(measurement="temp").values
    assert errors["mae"] == pytest.approx(np.abs(e).mean())
    assert errors["mse"] == pytest.approx((e**2).mean())
    assert errors["rmse"] == pytest.approx(np.sqrt((e**2).mean()))
    assert errors["mre"] == pytest.approx(np.abs(e).sum() / np.abs(y).sum())
    assert errors["mape"] == pytest.approx(np.abs(e / y).mean())


def test_only_evaluated_cells_count(truth, rng):
    eval_mask = xr.zeros_like(truth, dtype=bool)
    eval_mask[3, 1, 0] = True
    errors = measure(prediction_of(truth, rng), truth, eval_mask, truth)
    assert errors.overall()["cells"] == 1


def test_errors_of_parts_add_up_to_those_of_the_whole(truth, rng):
    prediction = prediction_of(truth, rng)
    eval_mask = xr.DataArray(rng.random(truth.shape) < 0.4, dims=truth.dims, coords=truth.coords)
    half = eval_mask & (truth["time"] < truth["time"][7])
    parts = measure(prediction, truth, half, truth) + measure(
        prediction, truth, eval_mask & ~half, truth
    )
    whole = measure(prediction, truth, eval_mask, truth)
    for key in ("measurement", "location", "gap"):
        assert np.allclose(parts.by(key).sort_index(), whole.by(key).sort_index(), equal_nan=True)


def test_units_are_never_added(truth, rng):
    prediction, eval_mask = prediction_of(truth, rng), xr.ones_like(truth, dtype=bool)
    thousand = xr.DataArray(
        [1.0, 1000.0], dims="measurement", coords={"measurement": truth["measurement"]}
    )
    small = measure(prediction, truth, eval_mask, truth)
    large = measure(prediction * thousand, truth * thousand, eval_mask, truth * thousand)
    assert large.overall()["mae"] == pytest.approx(small.overall()["mae"])
    assert np.allclose(large.by("location")["rmse"], small.by("location")["rmse"])


def test_one_measurement_is_counted_in_its_own_unit(truth, rng):
    only = truth[:, :, :1]
    prediction, eval_mask = prediction_of(only, rng), xr.ones_like(only, dtype=bool)
    assert measure(prediction, only, eval_mask, only).overall()["mae"] == pytest.approx(
        float(np.abs(prediction - only).mean())
    )


def test_a_direction_errs_by_the_shorter_way_round(truth):
    wind = assign_metadata(truth, directions=["temp"])
    wind[..., 1] = 359.0
    prediction = wind.copy(deep=True)
    prediction[..., 1] = 2.0
    errors = (
        measure(prediction, wind, xr.ones_like(wind, dtype=bool), wind)
        .by("measurement")
        .loc["temp"]
    )
    assert errors["mae"] == pytest.approx(3.0)
    assert np.isnan(errors["mape"]) and np.isnan(
        errors["mre"]
    )  # a share of a direction says nothing


def test_zeros_are_left_out_of_percentage_errors(truth, rng):
    truth[0] = 0.0
    errors = measure(prediction_of(truth, rng), truth, xr.ones_like(truth, dtype=bool), truth)
    assert np.isfinite(errors.overall()["mape"])


def test_a_cell_has_the_class_of_its_whole_gap(truth):
    visible = truth.copy(deep=True)
    visible[2:9, 0, 0] = np.nan  # a natural gap of 2 and a hidden one of 5 beside it: 7 steps
    eval_mask = xr.zeros_like(truth, dtype=bool)
    eval_mask[4:9, 0, 0] = True
    assert measure(truth, truth, eval_mask, visible).by("gap").index.tolist() == ["6-23"]


def test_cells_without_a_prediction_are_not_counted(truth):
    prediction = truth.copy(deep=True)
    prediction[0] = np.nan
    eval_mask = xr.ones_like(truth, dtype=bool)
    assert measure(prediction, truth, eval_mask, truth).overall()["cells"] == truth[1:].size


def intervals_around(prediction, width):
    """Intervals of all levels, those of the quantiles of a uniform distribution."""
    return {
        level: (prediction - level * width / 2, prediction + level * width / 2) for level in LEVELS
    }


def test_crps_is_the_mean_quantile_loss_over_the_sum_of_the_truth(truth, rng):
    prediction, eval_mask = truth + 1.0, truth.notnull()
    metrics = measure(prediction, truth, eval_mask, truth, intervals_around(prediction, 4.0)).by(
        "measurement"
    )
    shares = np.arange(1, 20) / 20
    quantiles = prediction.to_numpy()[..., None] + (shares - 0.5) * 4.0
    error = truth.to_numpy()[..., None] - quantiles
    loss = 2 * np.maximum(shares * error, (shares - 1) * error).mean(-1)
    for m, name in enumerate(truth["measurement"].values):
        expected = np.nansum(loss[..., m]) / np.nansum(np.abs(truth.to_numpy()[..., m]))
        np.testing.assert_allclose(metrics.loc[name, "crps"], expected)


def test_the_crps_of_a_point_prediction_is_its_relative_error(truth):
    prediction, eval_mask = truth + 2.0, truth.notnull()
    metrics = measure(prediction, truth, eval_mask, truth, intervals_around(prediction, 0.0)).by(
        "measurement"
    )
    np.testing.assert_allclose(metrics["crps"], metrics["mre"])


def test_coverage_and_width_are_those_of_the_widest_interval(truth):
    eval_mask = truth.notnull()
    inside = intervals_around(truth + 1.7, 4.0)  # the widest one reaches 1.8 to either side
    outside = intervals_around(truth + 1.9, 4.0)
    metrics = measure(truth + 1.7, truth, eval_mask, truth, inside).by("measurement")
    assert (metrics["coverage"] == 1).all()
    np.testing.assert_allclose(metrics["width"], 3.6)
    assert (
        measure(truth, truth, eval_mask, truth, outside).by("measurement")["coverage"] == 0
    ).all()


def test_the_interval_of_a_direction_may_cross_north():
    cube = assign_metadata(
        network(steps=4, stations=1, measurements=1, missing=0.0), directions=["pm25"]
    )
    cube[:] = np.array([355.0, 5.0, 25.0, 335.0]).reshape(4, 1, 1)
    low, high = (cube.copy(data=np.full(cube.shape, end)) for end in (340.0, 20.0))
    metrics = measure(cube, cube, cube.notnull(), cube, {0.9: (low, high)}).overall()
    assert (metrics["coverage"], metrics["width"]) == (0.5, 40.0) and np.isnan(metrics["crps"])


def test_without_intervals_their_metrics_are_nan(truth):
    metrics = measure(truth, truth, truth.notnull(), truth).overall()
    assert metrics[["crps", "coverage", "width"]].isna().all()


def test_importance_weights_give_strata_their_share_of_the_missing_cells():
    truth = network(steps=2000, stations=1, measurements=1, missing=0.0)
    eval_mask, missing = (xr.zeros_like(truth, dtype=bool) for _ in range(2))
    eval_mask[10:1010:10] = True  # a hundred single cells
    eval_mask[1100:1400] = True  # and a long gap, three hundred of
    missing[:400:2] = missing[500:600] = True  # two hundred single cells, and a long gap
    prediction = truth + xr.where(np.arange(2000)[:, None, None] < 1050, 1.0, 4.0)
    visible = truth.where(~eval_mask)
    (weight,) = importance_weights([(eval_mask, visible)], missing)
    errors = measure(prediction, truth, eval_mask, visible)
    like_missing = measure(prediction, truth, eval_mask, visible, weights=weight)
    assert errors.overall()["mae"] == pytest.approx((100 * 1 + 300 * 4) / 400)
    assert like_missing.overall()["mae"] == pytest.approx((200 * 1 + 100 * 4) / 300, rel=0.02)
    assert like_missing.overall()["cells"] == 400
    assert np.allclose(like_missing.by("gap")["mae"], errors.by("gap")["mae"])


def test_too_few_missing_cells_give_equal_weights(truth):
    eval_mask, few = xr.ones_like(truth, dtype=bool), xr.zeros_like(truth, dtype=bool)
    few[3] = True
    assert (importance_weights([(eval_mask, truth.where(~eval_mask))], few)[0] == 1).all()
