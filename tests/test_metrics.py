import numpy as np
import pytest
import xarray as xr

from cdsa.core.cube import assign_metadata
from cdsa.core.metrics import LEVELS, importance_weights, measure
from conftest import network


@pytest.fixture
def truth():
    return network(steps=30, missing=0.0)


def guess_of(truth, rng):
    return truth + xr.DataArray(rng.normal(size=truth.shape), dims=truth.dims)


def test_figures_are_what_their_names_say(truth, rng):
    guess, asked = guess_of(truth, rng), xr.ones_like(truth, dtype=bool)
    errors = measure(guess, truth, asked, truth).by("measurement").loc["temp"]
    e, y = (guess - truth).sel(measurement="temp").values, truth.sel(measurement="temp").values
    assert errors["mae"] == pytest.approx(np.abs(e).mean())
    assert errors["mse"] == pytest.approx((e**2).mean())
    assert errors["rmse"] == pytest.approx(np.sqrt((e**2).mean()))
    assert errors["mre"] == pytest.approx(np.abs(e).sum() / np.abs(y).sum())
    assert errors["mape"] == pytest.approx(np.abs(e / y).mean())


def test_only_asked_cells_count(truth, rng):
    asked = xr.zeros_like(truth, dtype=bool)
    asked[3, 1, 0] = True
    errors = measure(guess_of(truth, rng), truth, asked, truth)
    assert errors.overall()["cells"] == 1


def test_parts_add_up_to_the_whole(truth, rng):
    guess = guess_of(truth, rng)
    asked = xr.DataArray(rng.random(truth.shape) < 0.4, dims=truth.dims, coords=truth.coords)
    half = asked & (truth["time"] < truth["time"][7])
    parts = measure(guess, truth, half, truth) + measure(guess, truth, asked & ~half, truth)
    whole = measure(guess, truth, asked, truth)
    for key in ("measurement", "location", "gap"):
        assert np.allclose(parts.by(key).sort_index(), whole.by(key).sort_index(), equal_nan=True)


def test_units_are_never_added(truth, rng):
    guess, asked = guess_of(truth, rng), xr.ones_like(truth, dtype=bool)
    kilo = xr.DataArray(
        [1.0, 1000.0], dims="measurement", coords={"measurement": truth["measurement"]}
    )
    small = measure(guess, truth, asked, truth)
    large = measure(guess * kilo, truth * kilo, asked, truth * kilo)
    assert large.overall()["mae"] == pytest.approx(small.overall()["mae"])
    assert np.allclose(large.by("location")["rmse"], small.by("location")["rmse"])


def test_one_measurement_is_counted_in_its_own_unit(truth, rng):
    only = truth[:, :, :1]
    guess, asked = guess_of(only, rng), xr.ones_like(only, dtype=bool)
    assert measure(guess, only, asked, only).overall()["mae"] == pytest.approx(
        float(np.abs(guess - only).mean())
    )


def test_an_angle_errs_by_the_shorter_way(truth):
    wind = assign_metadata(truth, angles=["temp"])
    wind[..., 1] = 359.0
    guess = wind.copy(deep=True)
    guess[..., 1] = 2.0
    errors = (
        measure(guess, wind, xr.ones_like(wind, dtype=bool), wind).by("measurement").loc["temp"]
    )
    assert errors["mae"] == pytest.approx(3.0)
    assert np.isnan(errors["mape"]) and np.isnan(
        errors["mre"]
    )  # a share of a direction says nothing


def test_zeros_are_left_out_of_percentages(truth, rng):
    truth[0] = 0.0
    errors = measure(guess_of(truth, rng), truth, xr.ones_like(truth, dtype=bool), truth)
    assert np.isfinite(errors.overall()["mape"])


def test_a_cell_belongs_to_the_class_of_its_whole_gap(truth):
    visible = truth.copy(deep=True)
    visible[2:9, 0, 0] = np.nan  # a natural gap of 2 and a hidden one of 5 beside it: 7 steps
    asked = xr.zeros_like(truth, dtype=bool)
    asked[4:9, 0, 0] = True
    assert measure(truth, truth, asked, visible).by("gap").index.tolist() == ["6-23"]


def test_unanswered_cells_are_not_counted(truth):
    guess = truth.copy(deep=True)
    guess[0] = np.nan
    asked = xr.ones_like(truth, dtype=bool)
    assert measure(guess, truth, asked, truth).overall()["cells"] == truth[1:].size


def ends_around(guess, width):
    """Intervals of all levels, those of the quantiles of a uniform distribution."""
    return {level: (guess - level * width / 2, guess + level * width / 2) for level in LEVELS}


def test_crps_is_the_mean_quantile_loss_over_the_sum_of_the_truth(truth, rng):
    guess, asked = truth + 1.0, truth.notnull()
    told = measure(guess, truth, asked, truth, ends_around(guess, 4.0)).by("measurement")
    shares = np.arange(1, 20) / 20
    quantiles = guess.to_numpy()[..., None] + (shares - 0.5) * 4.0
    error = truth.to_numpy()[..., None] - quantiles
    loss = 2 * np.maximum(shares * error, (shares - 1) * error).mean(-1)
    for m, name in enumerate(truth["measurement"].values):
        expected = np.nansum(loss[..., m]) / np.nansum(np.abs(truth.to_numpy()[..., m]))
        np.testing.assert_allclose(told.loc[name, "crps"], expected)


def test_the_crps_of_a_certain_guess_is_its_relative_error(truth):
    guess, asked = truth + 2.0, truth.notnull()
    figures = measure(guess, truth, asked, truth, ends_around(guess, 0.0)).by("measurement")
    np.testing.assert_allclose(figures["crps"], figures["mre"])


def test_coverage_and_width_are_those_of_the_widest_interval(truth):
    asked = truth.notnull()
    inside = ends_around(truth + 1.7, 4.0)  # the widest one reaches 1.8 to either side
    outside = ends_around(truth + 1.9, 4.0)
    figures = measure(truth + 1.7, truth, asked, truth, inside).by("measurement")
    assert (figures["coverage"] == 1).all()
    np.testing.assert_allclose(figures["width"], 3.6)
    assert (measure(truth, truth, asked, truth, outside).by("measurement")["coverage"] == 0).all()


def test_the_interval_of_a_direction_may_cross_north():
    cube = assign_metadata(
        network(steps=4, stations=1, measurements=1, missing=0.0), angles=["pm25"]
    )
    cube[:] = np.array([355.0, 5.0, 25.0, 335.0]).reshape(4, 1, 1)
    low, high = (cube.copy(data=np.full(cube.shape, end)) for end in (340.0, 20.0))
    told = measure(cube, cube, cube.notnull(), cube, {0.9: (low, high)}).overall()
    assert (told["coverage"], told["width"]) == (0.5, 40.0) and np.isnan(told["crps"])


def test_without_intervals_there_is_no_word_of_them(truth):
    figures = measure(truth, truth, truth.notnull(), truth).overall()
    assert figures[["crps", "coverage", "width"]].isna().all()


def test_cells_count_as_much_as_others_are_as_far_from_what_was_measured():
    truth = network(steps=2000, stations=1, measurements=1, missing=0.0)
    asked, own = (xr.zeros_like(truth, dtype=bool) for _ in range(2))
    asked[10:1010:10] = True  # a hundred single cells
    asked[1100:1400] = True  # and a long gap, three hundred of
    own[:400:2] = own[500:600] = True  # two hundred single cells, and a long gap
    guess = truth + xr.where(np.arange(2000)[:, None, None] < 1050, 1.0, 4.0)
    visible = truth.where(~asked)
    (weight,) = importance_weights([(asked, visible)], own)
    errors = measure(guess, truth, asked, visible)
    like_own = measure(guess, truth, asked, visible, weights=weight)
    assert errors.overall()["mae"] == pytest.approx((100 * 1 + 300 * 4) / 400)
    assert like_own.overall()["mae"] == pytest.approx((200 * 1 + 100 * 4) / 300, rel=0.02)
    assert like_own.overall()["cells"] == 400
    assert np.allclose(like_own.by("gap")["mae"], errors.by("gap")["mae"])


def test_few_missing_cells_say_nothing_of_proportions(truth):
    asked, few = xr.ones_like(truth, dtype=bool), xr.zeros_like(truth, dtype=bool)
    few[3] = True
    assert (importance_weights([(asked, truth.where(~asked))], few)[0] == 1).all()
