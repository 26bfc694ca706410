"""The rival 'kriging': pooled variograms, PyKrige's weights."""

import tracemalloc

import numpy as np
import pytest
import xarray as xr

from cdsa.core.cube import make_cube
from cdsa.core.geo import great_circle
from cdsa.errors import ConfigError
from cdsa.methods.baselines.kriging import Kriging, _by_distance, _squares, fitted
from cdsa.methods.registry import make_method
from cdsa.workflows.score import score

LENGTH = 30.0
"""Kilometres in which the field's variogram rises to 63%."""


def field(
    steps: int = 60, stations: int = 30, length: float = LENGTH, seed: int = 0
) -> xr.DataArray:
    """A Gaussian random field with an exponential variogram, drawn anew at every moment."""
    rng = np.random.default_rng(seed)
    lat, lon = 40 + rng.random(stations), 116 + rng.random(stations)
    covariance = np.exp(-great_circle(lat, lon) / length)
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(stations))
    values = 10 + 3 * rng.normal(size=(steps, stations)) @ root.T
    times = np.datetime64("2020-01-01") + np.arange(steps).astype("timedelta64[h]")
    names = [f"S{n:02}" for n in range(stations)]
    return make_cube(values[..., None], times, names, ["x"], lat=lat, lon=lon)


def test_the_variogram_of_a_field_is_found():
    cube = field(steps=400)
    apart = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
    found = fitted(cube.to_numpy()[:, :, 0], apart, "exponential")
    assert found.length == pytest.approx(LENGTH, rel=0.4) and found.nugget < 0.1 * found.rise


def test_stations_that_differ_in_level_do_not_make_it_flat():
    shares = []
    for seed in range(8):
        cube, rng = field(steps=200, seed=seed), np.random.default_rng(99 + seed)
        values = cube.to_numpy()[:, :, 0] + 1.5 * rng.normal(size=30)  # half of the field's spread
        apart = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
        found = fitted(values, apart, "exponential")
        shares.append(found.nugget / (found.nugget + found.rise))
    assert np.mean(shares) == pytest.approx(0.2, abs=0.06)


def test_its_classes_average_the_squares_of_all_pairs_and_moments():
    cube = field(steps=40, stations=9)
    values = np.where(np.random.default_rng(0).random((40, 9)) < 0.3, np.nan, cube[:, :, 0])
    scaled = values - np.nanmean(values, axis=1, keepdims=True)
    scaled = scaled / np.nanstd(values, axis=1, keepdims=True, ddof=1)
    differences = (scaled[:, :, None] - scaled[:, None]) ** 2
    squares, common = _squares(values)
    np.testing.assert_allclose(squares, np.nansum(differences, axis=0), atol=1e-9)
    np.testing.assert_array_equal(common, np.isfinite(differences).sum(axis=0))
    apart = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
    far, halves, number = _by_distance(squares, common, apart)
    assert len(far) == 15 and (np.diff(far) > 0).all()
    assert number.sum() == np.triu(common, 1).sum()
    assert halves[0] < halves[-1]


def test_moments_of_few_stations_do_not_make_it_flat():
    cube = field(steps=400, stations=20)
    apart = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
    values = cube.to_numpy()[:, :, 0].copy()
    whole = fitted(values, apart, "exponential")
    rng = np.random.default_rng(0)
    for t in range(400):  # four of twenty report
        values[t, rng.permutation(20)[4:]] = np.nan
    some = fitted(values, apart, "exponential")
    assert some.at(apart).mean() == pytest.approx(whole.at(apart).mean(), rel=0.1)
    gappy = cube.where(rng.random(cube.shape) > 0.1)
    with_pairs = cube.copy()
    with_pairs[200:, 2:] = np.nan  # two stations, which say nothing of their distance
    learnt, bare = (Kriging().fit(part).fill(gappy) for part in (with_pairs, cube[:200]))
    np.testing.assert_allclose(learnt, bare)


def test_many_stations_take_no_memory_for_every_pair_and_moment():
    cube = field(steps=500, stations=200)
    apart = great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())
    values = cube.to_numpy()[:, :, 0]
    fitted(values[:5], apart, "linear")  # what is loaded once
    tracemalloc.start()
    fitted(values, apart, "exponential")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15 * values.nbytes  # pairs and moments would be a hundred times as much


@pytest.mark.parametrize("shape", ["exponential", "linear"])
def test_it_beats_the_mean_and_idw_on_a_random_field(shape):
    cube, hide = field(), "random:0.2"
    kriging = score(f"kriging:{shape}", cube, hide).errors.overall()["mae"]
    assert kriging < 0.8 * score("mean", cube, hide).errors.overall()["mae"]
    if shape == "exponential":  # which the field has
        assert kriging < score("idw", cube, hide).errors.overall()["mae"]


def test_it_gives_back_its_data_points():
    cube = field(stations=12)
    there = cube.isel(location=0)
    twin = there.assign_coords(location="twin").expand_dims("location", axis=1)
    both = xr.concat([cube, twin * np.nan], "location")
    filled = Kriging().fit(cube).fill(both.transpose(*cube.dims))
    np.testing.assert_allclose(filled.sel(location="twin"), there, rtol=0.02)


def test_its_weights_are_those_of_the_equations():
    cube = field(steps=5, stations=6)
    cube[2, 1] = np.nan
    told = float(Kriging().fit(cube).fill(cube)[2, 1, 0])
    lat, lon = cube["lat"].to_numpy(), cube["lon"].to_numpy()
    apart = great_circle(lat, lon)
    v = fitted(cube.to_numpy()[:, :, 0], apart, "exponential")

    def gamma(d):
        return np.where(d > 0, v.nugget + v.rise * (1 - np.exp(-d / v.length)), 0.0)

    there = [0, 2, 3, 4, 5]
    left = np.ones((6, 6))
    left[:5, :5], left[5, 5] = gamma(apart[np.ix_(there, there)]), 0.0
    right = np.append(gamma(apart[there, 1]), 1.0)
    weights = np.linalg.solve(left, right)[:5]
    assert weights.sum() == pytest.approx(1)
    assert told == pytest.approx(float(weights @ cube.to_numpy()[2, there, 0]), rel=1e-3)


def test_moments_with_few_stations_get_a_straight_line():
    cube = field(stations=6)
    cube[7, 2:] = np.nan
    cube[8, 3:] = np.nan
    filled = make_method("kriging")[1].fit(cube).fill(cube)
    line = make_method("linear")[1].fit(cube).fill(cube)
    np.testing.assert_allclose(filled[7, 2:, 0], line[7, 2:, 0])
    assert not np.allclose(Kriging(min_stations=3).fit(cube).fill(cube)[8, 3:, 0], line[8, 3:, 0])


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="did you mean 'linear'"):
        make_method("kriging:linea")
    with pytest.raises(ConfigError, match="fewest must be at least 2"):
        Kriging(min_stations=1)
