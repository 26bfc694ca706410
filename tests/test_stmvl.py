"""The rival 'st-mvl': each view by hand on four moments of three stations, and the blend."""

import numpy as np
import pytest
import xarray as xr

from cdsa.core.cube import make_cube
from cdsa.core.geo import great_circle
from cdsa.errors import ConfigError
from cdsa.methods.baselines.stmvl import (
    StMvl,
    alike_moments,
    alike_stations,
    blended,
    nearby,
    smooth,
)
from cdsa.workflows.score import score
from test_method_kriging import field

NAN = np.nan
VALUES = np.array([[1.0, 2.0, 4.0], [2.0, NAN, 5.0], [4.0, 4.0, 7.0], [3.0, 5.0, NAN]])
APART = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])


def test_inverse_distances_by_hand():
    told = nearby(VALUES, APART, 4)
    assert told[1, 1] == pytest.approx((2 + 5) / 2)  # both one kilometre away
    assert told[3, 2] == pytest.approx((3 / 2**4 + 5) / (1 / 2**4 + 1))
    assert told[0, 0] == pytest.approx((2 + 4 / 2**4) / (1 + 1 / 2**4))


def test_exponential_smoothing_by_hand():
    told = smooth(VALUES, 0.85)
    # one step before and one behind, then two behind at 0.15 of their weight
    assert told[1, 1] == pytest.approx((2 + 4 + 0.15 * 5) / (1 + 1 + 0.15))
    assert told[3, 2] == pytest.approx((7 + 0.15 * 5 + 0.15**2 * 4) / (1 + 0.15 + 0.15**2))


def test_stations_that_ran_together_by_hand():
    told = alike_stations(VALUES, 7)
    with_first = 1 / np.sqrt(((2 - 1) ** 2 + (4 - 4) ** 2 + (5 - 3) ** 2) / 3)
    with_third = 1 / np.sqrt(((2 - 4) ** 2 + (4 - 7) ** 2) / 2)
    expected = (with_first * 2 + with_third * 5) / (with_first + with_third)
    assert told[1, 1] == pytest.approx(expected)


def test_moments_that_looked_alike_by_hand():
    told = alike_moments(VALUES, 7)
    before = 1 / np.sqrt(((2 - 1) ** 2 + (5 - 4) ** 2) / 2)
    behind = 1 / np.sqrt(((2 - 4) ** 2 + (5 - 7) ** 2) / 2)
    further = 1 / np.sqrt((2 - 3) ** 2)
    expected = (before * 2 + behind * 4 + further * 5) / (before + behind + further)
    assert told[1, 1] == pytest.approx(expected)


def test_the_blend_gives_a_station_its_best_view():
    rng = np.random.default_rng(0)
    views = rng.normal(size=(2000, 4))
    series = 0.7 * views[:, 1] + 0.3 * views[:, 3] + 2 + 0.01 * rng.normal(size=2000)
    np.testing.assert_allclose(blended(views, series), [0, 0.7, 0, 0.3, 2], atol=0.02)
    assert blended(views, np.full(2000, NAN)) is None


def test_a_value_is_remembered_however_long_a_gap_is():
    long = np.full((3000, 1), NAN)
    long[0], long[-1] = 3.0, 7.0
    told = smooth(long, 0.85)
    np.testing.assert_allclose(told[1:1400], 3.0)
    np.testing.assert_allclose(told[1600:-1], 7.0)
    assert np.isfinite(told).all()


def test_the_unit_of_a_measurement_changes_nothing_but_the_unit():
    cube = field(steps=200, stations=12)
    level = np.random.default_rng(5).normal(0, 4, size=12)  # stations are not alike
    cube = cube + xr.DataArray(level, dims="location")
    gaps = np.random.default_rng(6).random(cube.shape) < 0.2
    shown = cube.where(~gaps)
    filled = StMvl().fit(shown).fill(shown)
    other = 1.8 * shown + 1000
    np.testing.assert_allclose(StMvl().fit(other).fill(other), 1.8 * filled + 1000, rtol=1e-9)


def test_a_station_that_nothing_is_known_of_blends_like_the_others():
    cube = field(steps=100, stations=8)
    cube[:, 3] = NAN
    learnt = StMvl().fit(cube)
    shown = field(steps=100, stations=8)
    shown[10:20, 3] = NAN
    renamed = shown.assign_coords(location=[*"abc", "new", *"efgh"])
    cube = cube.assign_coords(location=renamed["location"])
    absent = StMvl().fit(cube.isel(location=[0, 1, 2, 4, 5, 6, 7])).fill(renamed)
    np.testing.assert_allclose(learnt.fill(shown)[:, 3], absent[:, 3])


def test_no_view_of_a_cell_sees_the_cell():
    changed = VALUES.copy()
    changed[2, 0] = 99.0
    for before, after in zip(
        (nearby(VALUES, APART, 4), smooth(VALUES, 0.85), alike_stations(VALUES, 7),
         alike_moments(VALUES, 7)),
        (nearby(changed, APART, 4), smooth(changed, 0.85), alike_stations(changed, 7),
         alike_moments(changed, 7)),
        strict=True,
    ):  # fmt: skip
        assert before[2, 0] == pytest.approx(after[2, 0])


def test_in_a_block_of_gaps_the_stations_around_are_asked():
    block = np.tile(np.array([[1.0, 3.0, 2.0]]), (30, 1)) + np.arange(30)[:, None]
    block[8:20, :] = NAN
    block[8:20, 0] = 5.0
    assert np.isnan(alike_moments(block, 7)[14, 1])
    views = StMvl().views(block, APART)
    assert np.isnan(views[14, 1]).any() and np.isfinite(views[3]).all()
    time = np.datetime64("2024-01-01") + np.arange(30).astype("timedelta64[h]")
    cube = make_cube(block[..., None], time, list("ABC"), ["x"], lat=[50, 51, 52], lon=[8, 8, 8])
    filled = StMvl().fit(cube).fill(cube)
    np.testing.assert_allclose(filled[8:20, 1:, 0][4:8], 5.0)  # what the only one says that reports


def test_it_beats_each_view_alone_on_a_field_that_moves():
    values = [np.full(20, 10.0)]
    moving = field(steps=300, stations=20, length=300).to_numpy()[:, :, 0]
    for t in range(1, 300):
        values.append(0.9 * values[-1] + 0.1 * 10 + 0.4 * (moving[t] - 10))
    like = field(steps=300, stations=20, length=300)
    cube = make_cube(
        np.array(values)[..., None], like["time"].to_numpy(), like["location"].to_numpy(), ["x"],
        lat=like["lat"].to_numpy(), lon=like["lon"].to_numpy(),
    )  # fmt: skip
    hidden = cube.copy(data=np.random.default_rng(2).random(cube.shape) < 0.2).astype(bool)
    shown = cube.where(~hidden)
    apart = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
    views = StMvl().views(shown.to_numpy()[..., 0], apart)
    off = np.abs(views - cube.to_numpy())[hidden.to_numpy()[..., 0]].mean(axis=0)
    blend = score("st-mvl", cube, hidden).errors.overall()["mae"]
    assert blend < 0.95 * off.min()


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="smoothing lies between 0 and 1"):
        StMvl(smoothing=1.5)
