"""The baseline 'mf': low rank is recovered, time steps are tied, the rank is chosen."""

import numpy as np
import pytest
import xarray as xr

from cdsa import score
from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.methods.baselines.mf import MatrixFactorization, _solve_tridiagonal


def low_rank(rank=3, n_steps=300, n_series=20, noise=0.0, smooth=False) -> xr.DataArray:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(n_steps, rank))
    if smooth:
        factors = np.cumsum(factors, axis=0) / 5
    values = factors @ rng.normal(size=(rank, n_series))
    values = values + noise * rng.normal(size=values.shape)
    times = np.datetime64("2020-01-01") + np.arange(n_steps).astype("timedelta64[h]")
    return make_cube(values[..., None], times, [f"S{n:02}" for n in range(n_series)], ["x"])


def test_a_low_rank_matrix_is_recovered():
    cube = low_rank()
    hidden = np.random.default_rng(1).random(cube.shape) < 0.3
    visible = cube.where(~hidden)
    # three factors, and one for the error of the means
    exact = MatrixFactorization(ranks=(4,), ridge=1e-4, smoothness=0, n_rounds=60)
    filled = exact.fit(visible).fill(visible)
    error = np.abs(filled - cube).to_numpy()[hidden].mean() / float(cube.std())
    assert error < 0.01


def test_the_rank_is_chosen_on_hidden_cells():
    cube = low_rank(rank=4, n_steps=150, noise=0.05, smooth=True)
    settings = MatrixFactorization(smoothness=0.01, ridge=0.01)
    scaled = (cube - cube.mean("time")) / cube.std("time")
    assert settings.choose_rank(scaled.to_numpy()[..., 0]) == 4


def test_smooth_factors_fill_gaps_of_all_series_at_once():
    truth, rank = low_rank(n_steps=150, smooth=True), (4,)
    cube = truth.copy()
    cube[100:104] = np.nan
    smooth, free = (
        MatrixFactorization(ranks=rank, smoothness=value).fit(cube).fill(cube)[100:104]
        for value in (1.0, 0.0)
    )
    truth = truth[100:104]
    assert np.abs(smooth - truth).mean() < 0.5 * np.abs(free - truth).mean()


def test_tied_time_steps_solve_the_full_system():
    rng = np.random.default_rng(2)
    half = rng.normal(size=(5, 2, 2))
    diagonal, rhs = half @ half.swapaxes(1, 2) + 3 * np.eye(2), rng.normal(size=(5, 2))
    system = np.zeros((10, 10))
    for t in range(5):
        system[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] = diagonal[t]
    system -= 0.7 * (np.eye(10, k=2) + np.eye(10, k=-2))
    expected = np.linalg.solve(system, rhs.ravel()).reshape(5, 2)
    np.testing.assert_allclose(_solve_tridiagonal(diagonal, rhs, 0.7), expected)


def test_it_beats_linear_interpolation_where_series_share_factors():
    cube, hide = low_rank(noise=0.1), "bursts:0.2"
    method = MatrixFactorization(ranks=(2, 4))
    ours, line = (score(cube, name, hide).errors.overall()["mae"] for name in (method, "linear"))
    assert ours < 0.6 * line


def test_impossible_settings_are_refused():
    with pytest.raises(ConfigError, match="ranks must be numbers from 1 on"):
        MatrixFactorization(ranks=(0,))
    with pytest.raises(ConfigError, match="ridge must be greater than 0"):
        MatrixFactorization(ridge=0)
