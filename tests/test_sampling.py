"""Training windows whose masked cells were hidden from the smoother too."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from cdsa.core.cube import make_cube
from cdsa.core.prepare import prepare
from cdsa.core.scaler import Scaler
from cdsa.core.standardise import Transformation
from cdsa.methods.engine.backbone import TrainingBackbone
from cdsa.methods.engine.context import ContextBuilder
from cdsa.nn.context import RECORD_FEATURES
from cdsa.training.masking import IMPUTATION, Task
from cdsa.training.sampling import (
    DROP_EVERY,
    POOL,
    SmoothedWindows,
    near_stations,
    training_sizes,
)
from cdsa.training.windows import cut
from conftest import network

WINDOW = 12


@pytest.fixture(scope="module", autouse=True)
def fixed_shrinkage():
    """Like the transformations, this is chosen by the whole record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cdsa.core.backbone.choose_shrinkage", lambda values, observed: 0.1)
        yield


def make(
    cube: xr.DataArray, seed: int = 0, scaler: Scaler | None = None, task: Task = IMPUTATION
) -> SmoothedWindows:
    components = prepare(cube).components
    scaler = scaler or Scaler.fit(components)
    scaled = scaler.normalise(components)
    builder = ContextBuilder.fit(scaled, WINDOW)
    n_measurements = components.sizes["measurement"]
    context = builder.build(scaled, np.arange(n_measurements), training=True)
    transformations = [
        Transformation(cyclic=True, log_offset=0.5 if n == 0 else None)
        for n in range(n_measurements)
    ]
    backbone = TrainingBackbone.fit(components, scaler, WINDOW, transformations)
    windows = cut(scaled, WINDOW, 1, context=context)
    return SmoothedWindows(windows, backbone.smooth, backbone.fold, 4, "mixed", 0.9, seed, task)


def wide(n_stations: int, n_measurements: int) -> xr.DataArray:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, n_stations, n_measurements)).cumsum(axis=0)
    times = np.datetime64("2020-01-01", "ns") + np.arange(60) * np.timedelta64(1, "h")
    names = [f"S{n:02}" for n in range(n_stations)], [f"m{n}" for n in range(n_measurements)]
    degrees = np.linspace(0, 1, n_stations)
    return make_cube(values, times, *names, lat=degrees, lon=degrees)


@pytest.fixture(scope="module")
def cube():
    return network(steps=300, stations=5)


@pytest.fixture(scope="module")
def draws(cube):
    return make(cube)


def test_no_masked_value_reaches_the_smoother_or_its_parameters(cube, draws):
    components, scaler = prepare(cube).components, Scaler.fit(prepare(cube).components)
    for step in (0, draws.steps_per_set, 5 * draws.steps_per_set):
        before = draws.draw(step)
        chunks = draws._newest_sets(step)[-1]
        masked = np.zeros(components.shape, dtype=bool)
        first, inside = int(chunks.first[0]), slice(int(chunks.margin[0]), None)
        hidden = chunks.masked[0].numpy()[inside][: draws.length]
        start = first + int(chunks.margin[0])
        masked[start : start + draws.length] = hidden
        assert hidden.any()
        changed = cube.where(~masked, cube + 1.0)
        after = make(changed, scaler=scaler)
        same = after._newest_sets(step)[-1]
        assert torch.equal(same.masked[0], chunks.masked[0])
        torch.testing.assert_close(
            same.smoothed[0], chunks.smoothed[0], rtol=0, atol=0, equal_nan=True
        )
        assert before.target.any()


def test_the_line_of_a_chunk_begins_at_an_observation_before_it_near_or_far(cube, draws):
    observed, further = cube.notnull().to_numpy(), []
    for number in range(4):
        chunks = draws._newest_sets(number * draws.steps_per_set)[-1]
        for chunk, first in enumerate(chunks.first.tolist()):
            for series, proximity in np.ndenumerate(chunks.smoothed[chunk, 0, ..., 6]):
                if observed[(first, *series)] or not 0 < proximity < 1:
                    continue
                distance = round(1 / proximity) - 1
                assert observed[(first - distance, *series)]
                nearest = first - np.flatnonzero(observed[(slice(first), *series)]).max()
                further.append(distance - nearest)
    assert min(further) == 0 and max(further) > 10


def test_no_value_of_a_horizon_reaches_the_smoother_or_its_parameters(cube):
    components, task = prepare(cube).components, Task(horizon=4)
    scaler = Scaler.fit(components)
    draws = make(cube, task=task)
    for step in (0, draws.steps_per_set):
        batch = draws.draw(step)
        assert batch.target[:, -4:].any() and not batch.target[:, :-4].any()
        assert not batch.visible[:, -4:].any()
        chunks = draws._newest_sets(step)[-1]
        changed = components.to_numpy().copy()
        first = int(chunks.first[0]) + WINDOW - 4
        changed[first : first + 4] += 1.0
        same = make(cube.copy(data=changed), scaler=scaler, task=task)._newest_sets(step)[-1]
        torch.testing.assert_close(
            same.smoothed[0], chunks.smoothed[0], rtol=0, atol=0, equal_nan=True
        )


def test_a_known_covariate_is_visible_in_the_horizon(cube):
    draws = make(cube, task=Task(horizon=4, known=torch.tensor([True, False])))
    batch = draws.draw(0)
    assert batch.visible[:, -4:, :, 0].any() and not batch.visible[:, -4:, :, 1].any()
    assert batch.target[..., 1].any() and not batch.target[..., 0].any()


def test_the_smoother_does_see_what_is_visible(cube, draws):
    chunks = draws._newest_sets(0)[-1]
    visible = ~chunks.masked[0].numpy()
    steps = int(chunks.first[0]) + np.arange(len(visible))
    shift = np.zeros(cube.shape)
    shift[steps] = np.where(visible, 1.0, 0.0)
    after = make(cube + shift, scaler=Scaler.fit(prepare(cube).components))
    difference = after._newest_sets(0)[-1].smoothed[0] - chunks.smoothed[0]
    assert difference[..., 0].nan_to_num().abs().max() > 0.01


def test_masked_cells_were_measured_and_dropped_stations_have_no_smoothed_mean(draws):
    for step in range(0, DROP_EVERY * draws.steps_per_set, 3):
        batch = draws.draw(step)
        assert (batch.window.observed | ~batch.target).all()
        record = batch.window.context.record
        assert record.shape == (*batch.target.shape, len(RECORD_FEATURES))
        lacking = record[..., 0].isnan()
        visible = batch.visible
        assert not (lacking & visible).any()
    first, second = draws._newest_sets(draws.steps_per_set)
    assert first.dropped.any() and not second.dropped.any()


def test_a_step_draws_from_the_newest_chunks_whatever_was_drawn_before(cube, draws):
    per_set = draws.steps_per_set
    assert [len(draws._newest_sets(n * per_set)) for n in (0, 1, POOL, POOL + 3)] == [
        1,
        2,
        POOL,
        POOL,
    ]
    later = draws.draw((POOL + 3) * per_set)
    fresh = make(cube).draw((POOL + 3) * per_set)
    assert torch.equal(later.window.values, fresh.window.values)
    assert torch.equal(later.target, fresh.target)


def test_some_stations_are_drawn_as_if_they_were_new(draws):
    ids = torch.cat([draws.draw(step).window.context.station_ids for step in range(8)])
    assert 0.1 < (ids < 0).float().mean() < 0.7 and ids.max() == ids.shape[1] - 1
    window = draws.draw(0).window
    dropped = window.context.record[..., 0].isnan().flatten(3).all(dim=3).all(dim=1)
    assert dropped.any() and (window.context.station_ids[dropped] == -1).all()


def test_what_a_step_draws_depends_on_its_number_and_the_seed_alone(cube, draws):
    late = draws.steps_per_set + 2
    batch = draws.draw(late)
    draws.draw(0)
    again, other = make(cube).draw(late), make(cube, seed=1).draw(late)
    assert torch.equal(again.target, batch.target)
    assert torch.equal(again.window.values, batch.window.values)
    assert not torch.equal(other.target, batch.target)


def test_windows_of_many_series_have_some_of_them():
    assert training_sizes(21, 1) == (21, 1)
    assert training_sizes(36, 1) == (24, 1)
    assert training_sizes(207, 1) == (207, 1)  # of many stations a window has more
    assert training_sizes(900, 1) == (240, 1) and training_sizes(60, 9) == (40, 6)
    assert training_sizes(12, 11) == (6, 6)
    assert training_sizes(3, 40) == (3, 6)
    draws = make(wide(7, 7))
    batch = draws.draw(0)
    assert batch.target.shape[2:] == batch.window.values.shape[2:] == (6, 6)
    context = batch.window.context
    assert context.record.shape[2:4] == (6, 6) and len(context.variable_ids) == 6
    assert context.distance.shape == context.station_similarity.shape[-2:] == (6, 6)
    assert len({tuple(draws.draw(n).window.context.variable_ids.tolist()) for n in range(9)}) > 1


def test_components_of_a_direction_are_drawn_together():
    draws = make(wide(3, 8))
    groups = torch.tensor([0, 1, 2, 3, 4, 5, 6, 6])
    draws = replace(draws, task=Task(mask_groups=groups))
    for step in range(8):
        ids = draws.draw(step).window.context.variable_ids.tolist()
        assert (6 in ids) == (7 in ids)


def test_gaps_are_copied_from_times_with_data(cube):
    """As a year of which some months are held out: their silence is no gap to learn from."""
    months = cube.where((np.arange(300) < 100)[:, None, None])
    draws = replace(make(months), masking="like_data")
    has_data = draws.windows.observed.flatten(1).any(dim=1)
    draws = replace(draws, windows=draws.windows.keep(has_data[draws.windows.steps].all(dim=1)))
    for number in range(1, 4):  # in the first set whole stations are dropped too
        chunks = draws._newest_sets(number * draws.steps_per_set)[-1]
        for first, masked in zip(chunks.first.tolist(), chunks.masked, strict=True):
            observed = draws.windows.observed[first : first + len(masked)]
            assert masked.sum() < observed.sum()


def test_a_fold_without_a_chunk_is_left_out(cube):
    """The parameters of the other fold are still those that were fitted elsewhere."""
    block = int(np.flatnonzero(make(cube).fold)[0])
    draws = make(cube.where((np.arange(300) // block % 2 == 1)[:, None, None]))
    observed = draws.windows.observed.flatten(1).any(dim=1)
    complete = observed[draws.windows.steps].all(dim=1)
    draws = replace(draws, windows=draws.windows.keep(complete))
    assert list(draws.starts) == [1]
    asked = []
    nothing = torch.zeros(len(RECORD_FEATURES))
    draws.smooth = lambda steps, seen, fold, hidden_around: (
        asked.append(fold) or nothing.expand(*seen.shape, -1)
    )
    for number in range(3):
        draws.draw(number * draws.steps_per_set)
    assert asked == [1, 1, 1]


@pytest.mark.parametrize("coordinates", [True, False])
def test_stations_of_a_window_are_near_each_other_more_often_than_not(coordinates):
    cube = wide(40, 1)
    context = make(cube).windows.at(torch.arange(WINDOW).unsqueeze(0)).context
    number = torch.arange(40.0)
    apart = (number.unsqueeze(1) - number).abs()
    context = context._replace(station_similarity=-apart, distance=apart if coordinates else None)
    rng = torch.Generator().manual_seed(0)
    drawn = torch.stack([near_stations(context, 8, rng) for _ in range(200)])
    assert (drawn.diff(dim=1) > 0).all()  # in order, none twice
    widths = (drawn[:, -1] - drawn[:, 0]).float()
    assert widths.min() == 7 and widths.max() > 30  # next to each other, or from everywhere
    assert 12 < widths.median() < 26
    assert drawn.flatten().bincount(minlength=40).min() > 10  # every station now and then
