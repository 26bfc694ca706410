"""The rival 'mf': low rank found, moments tied, rank chosen."""

import numpy as np
import pytest
import xarray as xr

from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.methods.baselines.mf import Factors, MatrixFactors, _tied
from cdsa.workflows.score import score


def low_rank(rank=3, steps=300, series=20, noise=0.0, smooth=False) -> xr.DataArray:
    rng = np.random.default_rng(0)
    courses = rng.normal(size=(steps, rank))
    if smooth:
        courses = np.cumsum(courses, axis=0) / 5
    values = courses @ rng.normal(size=(rank, series)) + noise * rng.normal(size=(steps, series))
    times = np.datetime64("2020-01-01") + np.arange(steps).astype("timedelta64[h]")
    return make_cube(values[..., None], times, [f"S{n:02}" for n in range(series)], ["x"])


def test_a_low_rank_matrix_is_found_again():
    cube = low_rank()
    hidden = np.random.default_rng(1).random(cube.shape) < 0.3
    shown = cube.where(~hidden)
    exact = MatrixFactors(
        ranks=(4,), ridge=1e-4, smoothness=0, n_rounds=60
    )  # three, and what means are off
    filled = exact.fit(shown).fill(shown)
    error = np.abs(filled - cube).to_numpy()[hidden].mean() / float(cube.std())
    assert error < 0.01


def test_the_rank_is_chosen_on_hidden_cells():
    cube = low_rank(rank=4, noise=0.05, smooth=True)
    method = MatrixFactors(smoothness=0.01, ridge=0.01)
    scaled = (cube - cube.mean("time")) / cube.std("time")
    assert Factors(method).choose(scaled.to_numpy()[..., 0]) == 4


def test_moments_that_are_tied_fill_gaps_of_all_series_at_once():
    cube = low_rank(smooth=True)
    cube[100:104] = np.nan
    tied, free = (MatrixFactors(smoothness=t).fit(cube).fill(cube)[100:104] for t in (1.0, 0.0))
    truth = low_rank(smooth=True)[100:104]
    assert np.abs(tied - truth).mean() < 0.5 * np.abs(free - truth).mean()


def test_tied_moments_solve_the_whole_system():
    rng = np.random.default_rng(2)
    half = rng.normal(size=(5, 2, 2))
    both, right = half @ half.swapaxes(1, 2) + 3 * np.eye(2), rng.normal(size=(5, 2))
    whole = np.zeros((10, 10))
    for t in range(5):
        whole[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] = both[t]
    whole -= 0.7 * (np.eye(10, k=2) + np.eye(10, k=-2))
    expected = np.linalg.solve(whole, right.ravel()).reshape(5, 2)
    np.testing.assert_allclose(_tied(both, right, 0.7), expected)


def test_it_beats_the_straight_line_where_series_share_what_happens():
    cube, hide = low_rank(noise=0.1), "bursts:0.2"
    ours, line = (score(name, cube, hide).errors.overall()["mae"] for name in ("mf", "linear"))
    assert ours < 0.6 * line


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="ranks are numbers from 1 on"):
        MatrixFactors(ranks=(0,))
    with pytest.raises(ConfigError, match="ridge must be greater than 0"):
        MatrixFactors(ridge=0)
