import numpy as np
import pytest
import torch
import xarray as xr

from cdsa.core.masks import AtRandom
from cdsa.core.splits import segments, steps_in_months
from cdsa.errors import ConfigError
from cdsa.training.windows import cut, cut_at, stitch
from conftest import network


def test_observed_and_target_cells_never_overlap(cube, rng):
    windows = cut(cube, 12, 6, target=AtRandom(share=0.3)(cube, rng))
    for window in windows.batches(3):
        assert not (window.observed & window.target).any()


def test_values_are_zero_where_not_observed(cube, rng):
    hidden = AtRandom(share=0.3)(cube, rng)
    window = next(cut(cube, 12, 6, target=hidden).batches(100))
    assert (window.values[~window.observed] == 0).all()
    assert torch.equal(window.values[window.observed], window.truth[window.observed])


def test_hidden_values_have_no_effect_on_what_a_model_sees(cube, rng):
    hidden = AtRandom(share=0.3)(cube, rng)
    changed = cube.where(~hidden, 1e6)
    first, second = (next(cut(c, 12, 6, target=hidden).batches(100)) for c in (cube, changed))
    assert torch.equal(first.values, second.values) and torch.equal(first.observed, second.observed)


def test_the_last_window_ends_with_the_cube(cube):
    windows = cut(cube, 25, 25)
    assert windows.steps[-1, -1] == cube.sizes["time"] - 1 and len(windows) == 3


def test_no_window_crosses_a_split():
    cube = network(steps=24 * 150, measurements=1)
    is_test = steps_in_months(cube, [2, 4])
    for used in (~is_test, is_test):
        ranges = [range(s.start, s.stop) for s in segments(used)]
        for steps in cut(cube, 36, 7, steps=used).steps:
            real = steps[steps >= 0].tolist()
            assert sum(real[0] in steps and real[-1] in steps for steps in ranges) == 1


def test_a_cube_shorter_than_a_window_is_padded_with_empty_steps():
    cube = network(steps=5, missing=0.0)
    window = next(cut(cube, 8, 8).batches(1))
    assert window.values.shape == (1, 8, 3, 2) and not window.observed[0, 5:].any()


def test_windows_cut_at_given_steps_are_padded_beyond_the_cube(cube):
    windows = cut_at(cube, np.array([-2, 10, 55]), 12)
    assert windows.steps[0].tolist() == [-1, -1, *range(10)]
    assert windows.steps[2].tolist() == [*range(55, 60), *[-1] * 7]
    window, same = windows.take(torch.tensor([1])), cut(cube, 12, 10).take(torch.tensor([1]))
    assert torch.equal(window.values, same.values) and torch.equal(window.observed, same.observed)


def test_overlapping_windows_are_averaged(cube):
    windows = cut(cube, 12, 6)
    predictions = (
        (torch.full_like(w.values, float(n)), w.steps) for n, w in enumerate(windows.batches(1))
    )
    stitched = stitch(predictions, cube)
    assert stitched[0, 0, 0] == 0 and stitched[6, 0, 0] == 0.5


def test_steps_without_a_window_stay_missing(cube):
    windows = cut(cube, 10, 10, steps=np.arange(60) < 30)
    stitched = stitch(((w.values, w.steps) for w in windows.batches(2)), cube)
    assert stitched[30:].isnull().all() and stitched[:30].notnull().all()


def test_a_stride_that_skips_steps_is_refused(cube):
    with pytest.raises(ConfigError, match="stride"):
        cut(cube, 5, 6)


def test_the_labels_of_the_cube_are_restored(cube):
    windows = cut(cube, 12, 6)
    stitched = stitch(((w.truth, w.steps) for w in windows.batches(2)), cube)
    xr.testing.assert_equal(stitched["location"], cube["location"])


def test_some_windows_can_be_kept(cube):
    windows = cut(cube, 12, 6)
    few = windows.keep(torch.tensor([3, 1]))
    assert len(few) == 2 and torch.equal(few.steps[1], windows.steps[1])
    assert torch.equal(few.take(torch.tensor([0])).values, windows.take(torch.tensor([3])).values)


def test_windows_can_be_moved_to_another_device(cube):
    windows = cut(cube, 12, 6).to(torch.device("meta"))
    assert windows.values.is_meta and windows.steps.is_meta and len(windows) == 9
