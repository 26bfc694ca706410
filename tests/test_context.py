"""Calendar, climatology, distances and similarity of stations."""

import numpy as np
import pandas as pd
import pytest
import torch

from cdsa.core.climatology import Climatology, TimeBins
from cdsa.methods.engine.context import (
    DAY,
    MAX_STEP_VARIANCE,
    N_FOLDS,
    ContextBuilder,
    nearest_psd,
    similarity_of,
    similarity_out_of_fold,
    step_variance,
)
from cdsa.training.windows import cut
from conftest import network


def hours(count: int, step: str = "h"):
    return pd.date_range("2020-01-06", periods=count, freq=step).to_numpy()


def first_windows(cube, context, count=9):
    """The context of the first windows of a cube."""
    return cut(cube, 30, 7, context=context).take(torch.arange(count)).context


@pytest.mark.parametrize(
    ("step", "minutes"),
    [("5min", 15), ("15min", 15), ("20min", 20), ("h", 60), ("3h", 180), ("12h", DAY), ("D", DAY)],
)
def test_time_bins_are_as_long_as_steps_but_not_too_short(step, minutes):
    assert TimeBins.for_times(hours(50, step)).minutes == minutes


def test_weekends_have_time_bins_of_their_own_after_four_weeks():
    assert not TimeBins.for_times(hours(24 * 27)).weekends
    times = hours(24 * 29)
    time_bins = TimeBins.for_times(times)
    assert time_bins.weekends and time_bins.n_bins == 48
    saturday = time_bins.index_of(times)[5 * 24 : 6 * 24]
    assert saturday.tolist() == list(range(24, 48))


def test_climatology_is_the_mean_at_this_time_of_day():
    times = hours(24 * 200)
    values = np.tile(np.arange(24.0), 200)[:, None, None]
    climatology = Climatology.fit(values, times).at(times)
    np.testing.assert_allclose(climatology, values, atol=0.25)  # shrunk a little to the mean of all


def test_the_climatology_of_a_window_comes_from_outside_of_it():
    cube = network(steps=24 * 5, measurements=1)
    context = ContextBuilder.fit(cube).build(cube, np.arange(1), training=True)
    windows = cut(cube, 30, 7, context=context)
    window = windows.take(torch.arange(len(windows)))
    for number, steps in enumerate(window.steps.numpy()):
        outside = cube.copy()
        outside[steps] = np.nan
        climatology = Climatology.fit(outside.to_numpy(), cube["time"].to_numpy())
        expected = climatology.at(cube["time"].to_numpy()[steps])
        np.testing.assert_allclose(window.context.climatology[number], expected, rtol=1e-4)


def test_steps_of_training_are_filled_with_the_climatology_of_training():
    cube = network(steps=24 * 5, measurements=1)
    builder = ContextBuilder.fit(cube)
    contexts = [builder.build(cube, np.arange(1), training=training) for training in (True, False)]
    assert torch.equal(*(first_windows(cube, context).climatology for context in contexts))


def test_other_steps_get_the_climatology_of_all_training_steps():
    cube = network(steps=24 * 5, measurements=1)
    later = cube.assign_coords(time=cube["time"] + np.timedelta64(10, "D"))
    builder = ContextBuilder.fit(cube)
    context = first_windows(later, builder.build(later, np.arange(1)), count=1)
    expected = builder.climatology.at(later["time"].to_numpy()[:30])
    np.testing.assert_allclose(context.climatology[0], expected, rtol=1e-4)


def test_values_that_arrive_after_training_leave_climatology_reasonable():
    cube = network(steps=24 * 5, measurements=1, missing=0.0)
    early = cube.where(cube["time"].dt.hour != 3)
    context = ContextBuilder.fit(early).build(cube, np.arange(1))
    climatology = first_windows(cube, context).climatology
    assert climatology.isfinite().all()
    assert climatology.abs().max() < 2 * np.abs(cube).max().item()


def test_a_series_without_observations_has_no_climatology():
    cube = network(steps=60)
    cube[:, 1] = np.nan
    climatology = ContextBuilder.fit(cube).climatology.at(cube["time"].to_numpy())
    assert np.isnan(climatology[:, 1]).all() and np.isfinite(climatology[:, [0, 2]]).all()


def test_the_climatology_of_a_new_station_comes_from_its_own_values():
    cube = network(steps=24 * 9, stations=4)
    builder, variable_ids = ContextBuilder.fit(cube.isel(location=[0, 1])), np.array([1])
    other, times = cube.isel(location=[1, 3], measurement=variable_ids), cube["time"].to_numpy()
    climatology = builder.adapt_to(other, variable_ids).climatology.at(times)
    np.testing.assert_allclose(climatology[:, 0, 1], builder.climatology.at(times)[:, 1, 1])
    of_station = Climatology.fit(cube[:, 3:, 1:].to_numpy(), times)
    np.testing.assert_allclose(climatology[:, 1, 1:], of_station.at(times)[:, 0])


@pytest.mark.parametrize(
    ("steps", "step", "cycles"),
    [(20, "h", ()), (60, "h", ("day",)), (800, "h", ("day", "week")), (20, "D", ()),
     (60, "D", ("week",)), (800, "D", ("week", "year")), (40, "MS", ("year",))],
)  # fmt: skip
def test_a_cycle_is_a_feature_if_the_steps_resolve_it_and_the_data_cover_it(steps, step, cycles):
    cube = network(steps=steps).assign_coords(time=hours(steps, step))
    assert ContextBuilder.fit(cube).cycles == cycles


def test_distances_are_relative_to_the_stations_of_training():
    builder, variable_ids = ContextBuilder.fit(network(stations=3)), np.arange(2)

    def distance(cube):
        return builder.adapt_to(cube, variable_ids).build(cube, variable_ids).distance

    expected = builder.build(network(stations=3), variable_ids).distance
    np.testing.assert_allclose(distance(network(stations=5))[:3, :3], expected)
    without_coordinates = network(places=False)
    np.testing.assert_allclose(distance(without_coordinates), expected)  # known by their names
    assert distance(without_coordinates.assign_coords(location=["X", "Y", "Z"])) is None


def test_a_station_is_known_by_name_and_position():
    cube = network(stations=4)
    cube[:, 3] = np.nan
    builder = ContextBuilder.fit(cube)
    assert builder.is_known(cube).tolist() == [True, True, True, False]  # never measured
    moved = cube.assign_coords(lat=cube["lat"] + [0, 0.005, 1, 0], location=["S0", "S1", "S2", "X"])
    assert builder.is_known(moved).tolist() == [True, True, False, False]
    assert builder.is_known(moved.drop_vars(["lat", "lon"])).tolist() == [True, True, True, False]
    assert builder.is_known(cube.isel(location=[2, 3, 0])).tolist() == [True, False, True]


def test_similarity_is_the_correlation_over_common_steps(rng):
    common = rng.normal(size=(500, 1, 1))
    values = np.concatenate([common, common, -common, rng.normal(size=(500, 1, 1))], axis=1)
    values[:250, 1] = np.nan
    values[250:, 3] = np.nan
    similarity = similarity_of(values)
    assert similarity[0, 1] > 0.9 and similarity[0, 2] < -0.9 and abs(similarity[0, 3]) < 0.2
    assert similarity[1, 3] == 0 and np.allclose(similarity, similarity.T)
    assert np.allclose(similarity_of(values[:, :2], values), similarity[:2])
    values[:] = np.nan
    assert (similarity_of(values) == 0).all()


def test_in_training_the_similarity_of_a_window_comes_from_outside_of_it():
    values = np.random.default_rng(5).normal(size=(400, 2, 1))
    values[80:160, 1] = values[80:160, 0]  # the same in two of the folds, independent elsewhere
    fold, by_fold = similarity_out_of_fold(values, 40)
    assert fold.tolist() == np.repeat(np.arange(N_FOLDS), 40).tolist()
    similarity = by_fold[:, 0, 1]
    assert abs(similarity[2]) < 0.1  # windows that start there see both folds
    assert similarity[[0, 5, 9]].min() > 0.1
    in_sample = similarity_of(values)[0, 1]
    assert similarity[2] < in_sample and in_sample > 0.15


def test_the_similarity_of_a_short_table_comes_from_all_of_it():
    values = np.random.default_rng(5).normal(size=(20, 3, 2))
    fold, by_fold = similarity_out_of_fold(values, 10)
    assert (fold == 0).all() and by_fold.shape == (1, 3, 3)


def test_the_similarity_of_a_new_station_comes_from_its_own_values():
    cube = network(steps=24 * 9, stations=4, missing=0.0)
    builder = ContextBuilder.fit(cube.isel(location=[0, 1]))
    similarity = builder.adapt_to(cube, np.arange(2)).station_similarity
    np.testing.assert_allclose(similarity[:2, :2], builder.station_similarity)
    of_all = ContextBuilder.fit(cube).station_similarity
    np.testing.assert_allclose(similarity, of_all, atol=1e-9)


def test_measurements_are_similar_as_far_as_they_are_correlated_at_the_same_station():
    rng = np.random.default_rng(3)
    cube = network(steps=24 * 9, stations=4, measurements=3, missing=0.0)
    cube[..., 1] = -2 * cube[..., 0]
    cube[..., 2] = rng.normal(size=cube.shape[:2])
    builder = ContextBuilder.fit(cube, window=12)
    numbers = np.arange(3)
    contexts = [builder.build(cube, numbers, training=training) for training in (False, True)]
    for similarity in (context.measurement_similarity for context in contexts):
        assert (similarity[:, 0, 1] > 0.85).all() and (similarity[:, 0, 2] < 0.3).all()
    assert [len(context.measurement_similarity) for context in contexts] == [1, N_FOLDS]
    some = builder.build(cube.isel(measurement=[0, 2]), np.array([0, 2]))
    torch.testing.assert_close(
        some.measurement_similarity[0], contexts[0].measurement_similarity[0][[0, 2]][:, [0, 2]]
    )


def test_similarities_are_mended_to_be_positive_semi_definite():
    impossible = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    mended = nearest_psd(impossible)
    assert np.linalg.eigvalsh(impossible).min() < 0 <= np.linalg.eigvalsh(mended).min() + 1e-12
    possible = np.array([[1.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(nearest_psd(possible), possible)


def test_step_variance_is_the_mean_squared_difference_of_consecutive_values():
    values = np.full((5, 1, 3), np.nan)
    values[:, 0, 0] = [0.0, 0.5, np.nan, 0.0, 0.5]
    values[::2, 0, 1] = 1.0
    values[:, 0, 2] = 1.0
    np.testing.assert_allclose(step_variance(values), [0.25, MAX_STEP_VARIANCE, 1e-5])
