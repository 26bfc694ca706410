import numpy as np
import pandas as pd
import pytest

from cdsa.core import backbone
from cdsa.core.backbone import choose_transformations
from cdsa.core.cube import assign_metadata, make_cube
from cdsa.errors import ConfigError
from cdsa.methods.baselines.kalman import Kalman
from cdsa.workflows.api import score

HOURS = pd.date_range("2020-01-01", periods=24 * 40, freq="h").to_numpy()


def persistent(n_series, seed=0, rho=0.95):
    """Auto-regressive series with variance 1 that share half of it."""
    rng = np.random.default_rng(seed)
    values = np.zeros((len(HOURS), n_series))
    for t in range(1, len(values)):
        shocks = (rng.normal() + rng.normal(size=n_series)) / np.sqrt(2)
        values[t] = rho * values[t - 1] + np.sqrt(1 - rho**2) * shocks
    return values


def cube_of(values):
    n_stations = values.shape[1]
    return make_cube(
        values[:, :, None] if values.ndim == 2 else values,
        HOURS,
        [f"S{k}" for k in range(n_stations)],
        ["x"] if values.ndim == 2 else [f"m{k}" for k in range(values.shape[2])],
        lat=np.linspace(40, 41, n_stations),
        lon=np.linspace(10, 11, n_stations),
    )


def test_beats_interpolation_where_series_are_related():
    cube = cube_of(persistent(5))
    ours, line = (
        score(cube, m, "blocks:+0.2").errors.overall()["mae"] for m in ("kalman", "linear")
    )
    assert ours < 0.85 * line


def test_intervals_have_their_coverage():
    cube = cube_of(persistent(4))
    result = score(cube, "kalman", "bursts:+0.2").errors.overall()
    assert 0.85 < result["coverage"] < 0.95


def test_copies_of_a_series_are_filled_with_each_other():
    series = persistent(1)
    values = np.repeat(series, 3, axis=1)
    values[100:400, 1] = np.nan
    filled = Kalman().fit(cube_of(values)).fill(cube_of(values))
    assert np.abs(filled.to_numpy()[100:400, 1, 0] - series[100:400, 0]).max() < 0.1


def test_a_logarithm_is_chosen_for_what_grows_by_factors():
    values = np.exp(2 * persistent(4))
    [chosen] = choose_transformations(cube_of(values))
    assert chosen.log_offset is not None
    [chosen] = choose_transformations(cube_of(values - 1))
    assert chosen.log_offset is None


def test_a_daily_cycle_is_removed_where_there_is_one():
    cycle = 5 * np.sin(2 * np.pi * np.arange(len(HOURS)) / 24)
    with_cycle = persistent(3, rho=0.5) + cycle[:, None]
    assert choose_transformations(cube_of(with_cycle))[0].cyclic


def test_a_forecast_follows_the_daily_cycle():
    cycle = 5 * np.sin(2 * np.pi * np.arange(len(HOURS)) / 24)
    cube = cube_of(0.3 * persistent(3) + cycle[:, None])
    visible = cube.copy()
    visible[-24:] = np.nan
    filled = Kalman().fit(visible[:-24]).fill(visible)
    assert float(np.abs(filled - cube)[-24:].mean()) < 0.6


def test_values_that_are_never_negative_stay_so():
    values = np.exp(2 * persistent(4))
    values[200:260] = np.nan
    filler = Kalman().fit(cube_of(values))
    filled, [(lower, _)] = filler.fill_intervals(cube_of(values), [0.99])
    assert float(filled.min()) >= 0 and float(lower.min()) >= 0


def test_intervals_of_a_direction_contain_it():
    degrees = (30 * persistent(3)) % 360
    degrees[100:150, 0] = np.nan
    cube = assign_metadata(cube_of(degrees), directions=["x"])
    filled, [(lower, upper)] = Kalman().fit(cube).fill_intervals(cube, [0.9])
    gaps = cube.isnull().to_numpy()
    inside = ((filled - lower) % 360 <= (upper - lower) % 360).to_numpy()[gaps]
    assert inside.all() and float(((upper - lower) % 360).to_numpy()[gaps].min()) > 0


def test_a_forecast_decays_to_the_climatology():
    values = persistent(2, rho=0.8) + 10
    values[-100:] = np.nan
    filled = Kalman().fit(cube_of(values)).fill(cube_of(values)).to_numpy()[:, :, 0]
    mean = np.nanmean(values, axis=0)
    assert np.abs(filled[-1] - mean).max() < 0.01 < np.abs(filled[-100] - mean).max()


def test_many_stations_are_modelled_in_regions(monkeypatch):
    monkeypatch.setattr(backbone, "MAX_SERIES", 4)
    values = persistent(10)
    values[300:320, 3] = np.nan
    filler = Kalman().fit(cube_of(values))
    regions = [region.rows.tolist() for region in filler.backbone.regions]
    assert sorted(row for rows in regions for row in rows) == list(range(10))
    assert max(map(len, regions)) <= 4
    assert not filler.fill(cube_of(values)).isnull().any()


def test_iterations_are_not_negative():
    with pytest.raises(ConfigError, match="n_iterations must not be negative, but found -1"):
        Kalman(n_iterations=-1)


def test_a_station_without_a_model_is_kriged_from_its_neighbours():
    """As a field that varies smoothly along a line of stations; better than their mean."""
    rng = np.random.default_rng(0)
    position = np.linspace(0, 1, 9)
    amplitude = persistent(2, seed=1)
    values = np.exp(amplitude[:, :1] * position + amplitude[:, 1:] * (1 - position))
    values *= np.exp(0.02 * rng.normal(size=values.shape))
    cube, new = cube_of(values), 4
    visible = cube.copy()
    visible[:, new] = np.nan
    filler = Kalman().fit(cube.drop_sel(location="S4"))
    filled, [(lower, upper)] = filler.fill_intervals(visible, [0.9])
    truth, mean = cube[:, new], visible.mean("location")
    error = float(np.abs(filled[:, new] - truth).mean())
    assert error < 0.3 * float(np.abs(mean - truth).mean())
    inside = (lower[:, new] <= truth) & (truth <= upper[:, new])
    assert inside.mean() > 0.7
    # its own values count where it has some
    visible[::2, new] = 2 * cube[::2, new]
    filled = filler.fill(visible)
    assert abs(float((filled[1::2, new] / truth[1::2]).median()) - 2) < 0.1


def test_a_station_without_a_model_or_coordinates_gets_a_mean():
    cube = cube_of(persistent(4)).drop_vars(["lat", "lon"])
    filler = Kalman().fit(cube.isel(location=slice(0, 3)))
    visible = cube.copy()
    visible[:, 3] = np.nan
    np.testing.assert_allclose(filler.fill(visible)[:, 3], cube[:, :3].mean("location"))


def test_a_station_that_never_reported_is_kriged_too():
    values = persistent(5)
    values[:, 2] = np.nan
    cube = cube_of(values)
    filled = Kalman().fit(cube).fill(cube)[:, 2, 0].to_numpy()
    neighbours = values[:, [1, 3]].mean(axis=1)
    assert np.corrcoef(filled, neighbours)[0, 1] > 0.9 and np.std(filled) > 0.3
