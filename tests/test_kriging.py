"""The baseline 'kriging': variograms of all time steps together, PyKrige's weights."""

import tracemalloc

import numpy as np
import pytest
import xarray as xr

from cdsa import score
from cdsa.core.cube import make_cube
from cdsa.core.geo import great_circle
from cdsa.errors import ConfigError
from cdsa.methods.baselines.kriging import (
    Kriging,
    _bin_by_distance,
    _squared_differences,
    fit_variogram,
)
from cdsa.methods.registry import build_method

LENGTH = 30.0
"""Kilometres in which the field's variogram rises to 63%."""


def random_field(
    n_steps: int = 60, n_stations: int = 30, length: float = LENGTH, seed: int = 0
) -> xr.DataArray:
    """A Gaussian random field with an exponential variogram, independent in time."""
    rng = np.random.default_rng(seed)
    lat, lon = 40 + rng.random(n_stations), 116 + rng.random(n_stations)
    covariance = np.exp(-great_circle(lat, lon) / length)
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(n_stations))
    values = 10 + 3 * rng.normal(size=(n_steps, n_stations)) @ root.T
    times = np.datetime64("2020-01-01") + np.arange(n_steps).astype("timedelta64[h]")
    names = [f"S{n:02}" for n in range(n_stations)]
    return make_cube(values[..., None], times, names, ["x"], lat=lat, lon=lon)


def distances(cube: xr.DataArray) -> np.ndarray:
    return great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())


def test_the_variogram_of_a_field_is_found():
    cube = random_field(n_steps=400)
    variogram = fit_variogram(cube.to_numpy()[:, :, 0], distances(cube), "exponential")
    assert variogram.length == pytest.approx(LENGTH, rel=0.4)
    assert variogram.nugget < 0.1 * variogram.rise


def test_stations_of_different_levels_do_not_make_the_variogram_flat():
    nugget_shares = []
    for seed in range(8):
        cube, rng = random_field(n_steps=200, seed=seed), np.random.default_rng(99 + seed)
        levels = 1.5 * rng.normal(size=30)  # half of the field's standard deviation
        values = cube.to_numpy()[:, :, 0] + levels
        variogram = fit_variogram(values, distances(cube), "exponential")
        nugget_shares.append(variogram.nugget / (variogram.nugget + variogram.rise))
    assert np.mean(nugget_shares) == pytest.approx(0.2, abs=0.06)


def test_classes_of_distance_average_the_squares_of_all_pairs_and_steps():
    cube = random_field(n_steps=40, n_stations=9)
    values = np.where(np.random.default_rng(0).random((40, 9)) < 0.3, np.nan, cube[:, :, 0])
    scaled = values - np.nanmean(values, axis=1, keepdims=True)
    scaled = scaled / np.nanstd(values, axis=1, keepdims=True, ddof=1)
    expected = (scaled[:, :, None] - scaled[:, None]) ** 2
    squares, n_steps = _squared_differences(values)
    np.testing.assert_allclose(squares, np.nansum(expected, axis=0), atol=1e-9)
    np.testing.assert_array_equal(n_steps, np.isfinite(expected).sum(axis=0))
    lag, gamma, n_pairs = _bin_by_distance(squares, n_steps, distances(cube))
    assert len(lag) == 15 and (np.diff(lag) > 0).all()
    assert n_pairs.sum() == np.triu(n_steps, 1).sum()
    assert gamma[0] < gamma[-1]


def test_steps_at_which_few_stations_report_do_not_make_the_variogram_flat():
    cube = random_field(n_steps=400, n_stations=20)
    distance, values = distances(cube), cube.to_numpy()[:, :, 0].copy()
    complete = fit_variogram(values, distance, "exponential")
    rng = np.random.default_rng(0)
    for t in range(400):  # four of twenty report
        values[t, rng.permutation(20)[4:]] = np.nan
    sparse = fit_variogram(values, distance, "exponential")
    assert sparse.at(distance).mean() == pytest.approx(complete.at(distance).mean(), rel=0.1)


def test_steps_with_fewer_stations_than_the_minimum_have_no_part_in_the_variogram():
    cube = random_field(n_steps=100, n_stations=20)
    gappy = cube[:30].where(np.random.default_rng(0).random((30, 20, 1)) > 0.1)
    with_pairs = cube.copy()
    with_pairs[50:, 2:] = np.nan  # two stations
    filled, expected = (Kriging().fit(train).fill(gappy) for train in (with_pairs, cube[:50]))
    np.testing.assert_allclose(filled, expected)


def test_no_array_over_all_pairs_and_steps_is_held_in_memory():
    cube = random_field(n_steps=500, n_stations=200)
    distance, values = distances(cube), cube.to_numpy()[:, :, 0]
    fit_variogram(values[:5], distance, "linear")  # loads scipy
    tracemalloc.start()
    fit_variogram(values, distance, "exponential")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15 * values.nbytes  # pairs and steps would take a hundred times as much


@pytest.mark.parametrize("model", ["exponential", "linear"])
def test_it_beats_the_mean_and_idw_on_a_random_field(model):
    cube, hide = random_field(), "random:0.2"
    kriging = score(cube, f"kriging:{model}", hide).errors.overall()["mae"]
    assert kriging < 0.8 * score(cube, "mean", hide).errors.overall()["mae"]
    if model == "exponential":  # the model of the field
        assert kriging < score(cube, "idw", hide).errors.overall()["mae"]


def test_the_prediction_at_the_site_of_a_station_is_its_value():
    cube = random_field(n_stations=12)
    station = cube.isel(location=0)
    twin = station.assign_coords(location="twin").expand_dims("location", axis=1)
    both = xr.concat([cube, twin * np.nan], "location")
    filled = Kriging().fit(cube).fill(both.transpose(*cube.dims))
    np.testing.assert_allclose(filled.sel(location="twin"), station, rtol=0.02)


def test_its_weights_solve_the_kriging_system():
    cube = random_field(n_steps=5, n_stations=6)
    cube[2, 1] = np.nan
    filled = float(Kriging().fit(cube).fill(cube)[2, 1, 0])
    distance = distances(cube)
    v = fit_variogram(cube.to_numpy()[:, :, 0], distance, "exponential")

    def gamma(d):
        return np.where(d > 0, v.nugget + v.rise * (1 - np.exp(-d / v.length)), 0.0)

    known = [0, 2, 3, 4, 5]
    left = np.ones((6, 6))
    left[:5, :5], left[5, 5] = gamma(distance[np.ix_(known, known)]), 0.0
    right = np.append(gamma(distance[known, 1]), 1.0)
    weights = np.linalg.solve(left, right)[:5]
    assert weights.sum() == pytest.approx(1)
    assert filled == pytest.approx(float(weights @ cube.to_numpy()[2, known, 0]), rel=1e-3)


def test_steps_with_few_stations_are_interpolated_linearly():
    cube = random_field(n_stations=6)
    cube[7, 2:] = np.nan
    cube[8, 3:] = np.nan
    filled, line = (build_method(name).fit(cube).fill(cube) for name in ("kriging", "linear"))
    np.testing.assert_allclose(filled[7, 2:, 0], line[7, 2:, 0])
    assert not np.allclose(Kriging(min_stations=3).fit(cube).fill(cube)[8, 3:, 0], line[8, 3:, 0])


def test_impossible_settings_are_refused():
    with pytest.raises(ConfigError, match="did you mean 'linear'"):
        build_method("kriging:linea")
    with pytest.raises(ConfigError, match="min_stations must be at least 2"):
        Kriging(min_stations=1)
