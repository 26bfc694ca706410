"""The baseline 'st-mvl': each view by hand on four steps of three stations, and the blend."""

import numpy as np
import pytest
import xarray as xr

from cdsa import score
from cdsa.core.cube import make_cube
from cdsa.core.geo import great_circle
from cdsa.errors import ConfigError
from cdsa.methods.baselines.stmvl import (
    StMvl,
    fit_weights,
    global_spatial_view,
    global_temporal_view,
    local_spatial_view,
    local_temporal_view,
)
from test_kriging import random_field

NAN = np.nan
VALUES = np.array([[1.0, 2.0, 4.0], [2.0, NAN, 5.0], [4.0, 4.0, 7.0], [3.0, 5.0, NAN]])
DISTANCE = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])


def test_the_global_spatial_view_weights_by_inverse_distance():
    view = global_spatial_view(VALUES, DISTANCE, 4)
    assert view[1, 1] == pytest.approx((2 + 5) / 2)  # both one kilometre away
    assert view[3, 2] == pytest.approx((3 / 2**4 + 5) / (1 / 2**4 + 1))
    assert view[0, 0] == pytest.approx((2 + 4 / 2**4) / (1 + 1 / 2**4))


def test_the_global_temporal_view_smooths_exponentially():
    view = global_temporal_view(VALUES, 0.85)
    # one step before and one after, then two after at 0.15 of the weight
    assert view[1, 1] == pytest.approx((2 + 4 + 0.15 * 5) / (1 + 1 + 0.15))
    assert view[3, 2] == pytest.approx((7 + 0.15 * 5 + 0.15**2 * 4) / (1 + 0.15 + 0.15**2))


def test_the_local_spatial_view_weights_stations_by_their_agreement():
    view = local_spatial_view(VALUES, 7)
    first = 1 / np.sqrt(((2 - 1) ** 2 + (4 - 4) ** 2 + (5 - 3) ** 2) / 3)
    third = 1 / np.sqrt(((2 - 4) ** 2 + (4 - 7) ** 2) / 2)
    assert view[1, 1] == pytest.approx((first * 2 + third * 5) / (first + third))


def test_the_local_temporal_view_weights_steps_by_their_agreement():
    view = local_temporal_view(VALUES, 7)
    before = 1 / np.sqrt(((2 - 1) ** 2 + (5 - 4) ** 2) / 2)
    after = 1 / np.sqrt(((2 - 4) ** 2 + (5 - 7) ** 2) / 2)
    later = 1 / np.sqrt((2 - 3) ** 2)
    expected = (before * 2 + after * 4 + later * 5) / (before + after + later)
    assert view[1, 1] == pytest.approx(expected)


def test_the_weights_of_a_station_favour_its_best_views():
    rng = np.random.default_rng(0)
    views = rng.normal(size=(2000, 4))
    series = 0.7 * views[:, 1] + 0.3 * views[:, 3] + 2 + 0.01 * rng.normal(size=2000)
    np.testing.assert_allclose(fit_weights(views, series), [0, 0.7, 0, 0.3, 2], atol=0.02)
    assert fit_weights(views, np.full(2000, NAN)) is None


def test_smoothing_reaches_across_a_gap_of_any_length():
    series = np.full((3000, 1), NAN)
    series[0], series[-1] = 3.0, 7.0
    view = global_temporal_view(series, 0.85)
    np.testing.assert_allclose(view[1:1400], 3.0)
    np.testing.assert_allclose(view[1600:-1], 7.0)
    assert np.isfinite(view).all()


def test_the_unit_of_a_measurement_does_not_matter():
    cube = random_field(n_steps=200, n_stations=12)
    level = np.random.default_rng(5).normal(0, 4, size=12)  # stations are not alike
    cube = cube + xr.DataArray(level, dims="location")
    visible = cube.where(np.random.default_rng(6).random(cube.shape) >= 0.2)
    filled = StMvl().fit(visible).fill(visible)
    converted = 1.8 * visible + 1000
    expected = 1.8 * filled + 1000
    np.testing.assert_allclose(StMvl().fit(converted).fill(converted), expected, rtol=1e-9)


def test_a_station_without_training_values_blends_like_the_others():
    cube = random_field(n_steps=100, n_stations=8)
    cube[:, 3] = NAN
    filler = StMvl().fit(cube)
    visible = random_field(n_steps=100, n_stations=8)
    visible[10:20, 3] = NAN
    renamed = visible.assign_coords(location=[*"abc", "new", *"efgh"])
    cube = cube.assign_coords(location=renamed["location"])
    expected = StMvl().fit(cube.isel(location=[0, 1, 2, 4, 5, 6, 7])).fill(renamed)
    np.testing.assert_allclose(filler.fill(visible)[:, 3], expected[:, 3])


@pytest.mark.parametrize(
    "view",
    [
        lambda values: global_spatial_view(values, DISTANCE, 4),
        lambda values: global_temporal_view(values, 0.85),
        lambda values: local_spatial_view(values, 7),
        lambda values: local_temporal_view(values, 7),
    ],
)
def test_no_view_of_a_cell_sees_the_cell(view):
    changed = VALUES.copy()
    changed[2, 0] = 99.0
    assert view(VALUES)[2, 0] == pytest.approx(view(changed)[2, 0])


def test_in_a_block_of_gaps_the_stations_that_report_are_used():
    block = np.tile(np.array([[1.0, 3.0, 2.0]]), (30, 1)) + np.arange(30)[:, None]
    block[8:20, :] = NAN
    block[8:20, 0] = 5.0
    assert np.isnan(local_temporal_view(block, 7)[14, 1])
    views = StMvl().views(block, DISTANCE)
    assert np.isnan(views[14, 1]).any() and np.isfinite(views[3]).all()
    time = np.datetime64("2024-01-01") + np.arange(30).astype("timedelta64[h]")
    cube = make_cube(block[..., None], time, list("ABC"), ["x"], lat=[50, 51, 52], lon=[8, 8, 8])
    filled = StMvl().fit(cube).fill(cube)
    np.testing.assert_allclose(filled[8:20, 1:, 0][4:8], 5.0)  # the only station that reports


def test_it_beats_each_view_alone_on_a_field_with_memory():
    field = random_field(n_steps=300, n_stations=20, length=300)
    noise, values = field.to_numpy()[:, :, 0] - 10, [np.full(20, 10.0)]
    for t in range(1, 300):
        values.append(10 + 0.9 * (values[-1] - 10) + 0.4 * noise[t])
    cube = field.copy(data=np.array(values)[..., None])
    hidden = cube.copy(data=np.random.default_rng(2).random(cube.shape) < 0.2).astype(bool)
    visible = cube.where(~hidden)
    distance = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
    views = StMvl().views(visible.to_numpy()[..., 0], distance)
    errors = np.abs(views - cube.to_numpy())[hidden.to_numpy()[..., 0]].mean(axis=0)
    blend = score(cube, "st-mvl", hidden).errors.overall()["mae"]
    assert blend < 0.95 * errors.min()


def test_impossible_settings_are_refused():
    with pytest.raises(ConfigError, match="smoothing must lie between 0 and 1"):
        StMvl(smoothing=1.5)
