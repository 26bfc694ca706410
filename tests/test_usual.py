"""The usual value of a series at a time of day, told from other days."""

import numpy as np
import pandas as pd
import pytest
import torch

from cdsa.methods.engine.context import (
    DAY,
    N_FOLDS,
    Climatology,
    ContextBuilder,
    TimeBins,
    station_similarity,
    station_similarity_out_of_fold,
)
from cdsa.training.windows import cut
from conftest import network


def hours(count: int, step: str = "h"):
    return pd.date_range("2020-01-06", periods=count, freq=step).to_numpy()


@pytest.mark.parametrize(
    ("step", "minutes"),
    [("5min", 15), ("15min", 15), ("20min", 20), ("h", 60), ("3h", 180), ("12h", DAY), ("D", DAY)],
)
def test_slots_are_as_long_as_steps_but_not_too_short(step, minutes):
    assert TimeBins.for_times(hours(50, step)).minutes == minutes


def test_weekends_have_slots_of_their_own_after_four_weeks():
    assert not TimeBins.for_times(hours(24 * 27)).weekends
    slots, times = TimeBins.for_times(hours(24 * 29)), hours(24 * 29)
    assert slots.weekends and slots.n_bins == 48
    saturday = slots.index_of(times)[5 * 24 : 6 * 24]
    assert saturday.tolist() == list(range(24, 48))


def test_the_usual_value_is_the_mean_at_this_time_of_day():
    times = hours(24 * 200)
    values = np.tile(np.arange(24.0), 200)[:, None, None]
    told = Climatology.fit(values, times).at(times)
    np.testing.assert_allclose(told, values, atol=0.25)  # it leans a little on the whole mean


def test_what_is_usual_is_told_from_outside_the_window(rng):
    cube = network(steps=24 * 5, measurements=1)
    where = ContextBuilder.fit(cube).build(cube, np.arange(1), training=True)
    windows = cut(cube, 30, 7, context=where)
    window = windows.take(torch.arange(len(windows)))
    for number, steps in enumerate(window.steps.numpy()):
        outside = cube.copy()
        outside[steps] = np.nan
        expected = Climatology.fit(outside.to_numpy(), cube["time"].to_numpy())
        told = expected.at(cube["time"].to_numpy()[steps])
        np.testing.assert_allclose(window.context.climatology[number], told, rtol=1e-4)


def test_a_time_that_was_learnt_from_is_filled_with_what_it_was_learnt_with():
    cube = network(steps=24 * 5, measurements=1)
    frame, kinds = ContextBuilder.fit(cube), np.arange(1)
    learning, filling = (frame.build(cube, kinds, training=way) for way in (True, False))
    told = [
        cut(cube, 30, 7, context=w).take(torch.arange(9)).context.climatology
        for w in (learning, filling)
    ]
    assert torch.equal(*told)


def test_another_time_knows_all_that_was_learnt():
    cube = network(steps=24 * 5, measurements=1)
    later = cube.assign_coords(time=cube["time"] + np.timedelta64(10, "D"))
    frame = ContextBuilder.fit(cube)
    around = (
        cut(later, 30, 7, context=frame.build(later, np.arange(1))).take(torch.arange(1)).context
    )
    expected = frame.climatology.at(later["time"].to_numpy()[:30])
    np.testing.assert_allclose(around.climatology[0], expected, rtol=1e-4)


def test_values_that_came_in_after_learning_spoil_nothing():
    cube = network(steps=24 * 5, measurements=1, missing=0.0)
    early = cube.where(cube["time"].dt.hour != 3)
    where = ContextBuilder.fit(early).build(cube, np.arange(1))
    usual = cut(cube, 30, 7, context=where).take(torch.arange(9)).context.climatology
    assert usual.isfinite().all() and usual.abs().max() < 2 * np.abs(cube).max().item()


def test_nothing_is_usual_where_nothing_was_measured():
    cube = network(steps=60)
    cube[:, 1] = np.nan
    told = ContextBuilder.fit(cube).climatology.at(cube["time"].to_numpy())
    assert np.isnan(told[:, 1]).all() and np.isfinite(told[:, [0, 2]]).all()


def test_other_stations_are_told_from_their_own_values():
    cube = network(steps=24 * 9, stations=4)
    frame, kinds = ContextBuilder.fit(cube.isel(location=[0, 1])), np.array([1])
    own = cube.isel(location=[1, 3], measurement=kinds)
    placed = frame.adapt_to(own, kinds)
    told, times = placed.climatology.at(own["time"].to_numpy()), cube["time"].to_numpy()
    np.testing.assert_allclose(told[:, 0, 1], frame.climatology.at(times)[:, 1, 1])
    fresh = Climatology.fit(cube[:, 3:, 1:].to_numpy(), times)
    np.testing.assert_allclose(told[:, 1, 1:], fresh.at(times)[:, 0])


@pytest.mark.parametrize(
    ("steps", "step", "cycles"),
    [(20, "h", ()), (60, "h", ("day",)), (800, "h", ("day", "week")), (20, "D", ()),
     (60, "D", ("week",)), (800, "D", ("week", "year")), (40, "MS", ("year",))],
)  # fmt: skip
def test_a_cycle_is_told_where_steps_and_time_make_it_meaningful(steps, step, cycles):
    cube = network(steps=steps).assign_coords(time=hours(steps, step))
    assert ContextBuilder.fit(cube).cycles == cycles


def test_distances_are_in_units_of_the_network_learnt_from():
    frame = ContextBuilder.fit(network(stations=3))
    more = network(stations=5)
    around = frame.adapt_to(more, np.arange(2)).build(more, np.arange(2))
    own = frame.build(network(stations=3), np.arange(2))
    np.testing.assert_allclose(around.distance[:3, :3], own.distance)
    nowhere = network(places=False)
    same = frame.adapt_to(nowhere, np.arange(2)).build(nowhere, np.arange(2))
    np.testing.assert_allclose(same.distance, own.distance)  # where they are is known
    nowhere = nowhere.assign_coords(location=["X", "Y", "Z"])
    assert frame.adapt_to(nowhere, np.arange(2)).build(nowhere, np.arange(2)).distance is None


def test_stations_resemble_each_other_as_far_as_they_do_so_together(rng):
    common = rng.normal(size=(500, 1, 1))
    values = np.concatenate([common, common, -common, rng.normal(size=(500, 1, 1))], axis=1)
    values[:250, 1] = np.nan
    values[250:, 3] = np.nan
    found = station_similarity(values)
    assert found[0, 1] > 0.9 and found[0, 2] < -0.9 and abs(found[0, 3]) < 0.2
    assert found[1, 3] == 0 and np.allclose(found, found.T)
    assert np.allclose(station_similarity(values[:, :2], values), found[:2])
    values[:] = np.nan
    assert (station_similarity(values) == 0).all()


def test_while_learning_likeness_is_told_from_outside_the_windows_it_is_told_to():
    values = np.random.default_rng(5).normal(size=(400, 2, 1))
    values[80:160, 1] = values[80:160, 0]  # the same in two of the blocks, strangers elsewhere
    block, told = station_similarity_out_of_fold(values, 40)
    assert block.tolist() == np.repeat(np.arange(N_FOLDS), 40).tolist()
    alike = told[:, 0, 1]
    assert abs(alike[2]) < 0.1  # windows that begin there see both blocks
    assert alike[[0, 5, 9]].min() > 0.1
    whole = station_similarity(values)[0, 1]
    assert alike[2] < whole and whole > 0.15


def test_likeness_of_a_short_table_is_told_from_all_of_it():
    values = np.random.default_rng(5).normal(size=(20, 3, 2))
    block, told = station_similarity_out_of_fold(values, 10)
    assert (block == 0).all() and told.shape == (1, 3, 3)


def test_the_likeness_of_a_new_station_is_told_from_its_own_values():
    cube = network(steps=24 * 9, stations=4, missing=0.0)
    frame = ContextBuilder.fit(cube.isel(location=[0, 1]))
    whole = ContextBuilder.fit(cube)
    placed = frame.adapt_to(cube, np.arange(2))
    np.testing.assert_allclose(placed.station_similarity[:2, :2], frame.station_similarity)
    np.testing.assert_allclose(placed.station_similarity, whole.station_similarity, atol=1e-9)
