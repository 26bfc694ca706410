import numpy as np
import pytest
import torch
import xarray as xr

from cdsa.core.masks import AtRandom
from cdsa.core.splits import segments, split_by_months
from cdsa.errors import ConfigError
from cdsa.training.windows import cut, stitch
from conftest import network


def test_observed_and_asked_never_overlap(cube, rng):
    windows = cut(cube, 12, 6, target=AtRandom(share=0.3)(cube, rng))
    for window in windows.batches(3):
        assert not (window.observed & window.target).any()


def test_values_are_zero_where_not_observed(cube, rng):
    hidden = AtRandom(share=0.3)(cube, rng)
    window = next(cut(cube, 12, 6, target=hidden).batches(100))
    assert (window.values[~window.observed] == 0).all()
    assert torch.equal(window.values[window.observed], window.truth[window.observed])


def test_changing_a_hidden_value_changes_nothing_a_model_sees(cube, rng):
    hidden = AtRandom(share=0.3)(cube, rng)
    changed = cube.where(~hidden, 1e6)
    first, second = (next(cut(c, 12, 6, target=hidden).batches(100)) for c in (cube, changed))
    assert torch.equal(first.values, second.values) and torch.equal(first.observed, second.observed)


def test_the_last_window_ends_with_the_cube(cube):
    windows = cut(cube, 25, 25)
    assert windows.steps[-1, -1] == cube.sizes["time"] - 1 and len(windows) == 3


def test_no_window_straddles_a_split():
    cube = network(steps=24 * 150, measurements=1)
    split = split_by_months(cube, test=[2, 4])
    for part in (split.train, split.test):
        inside = [range(s.start, s.stop) for s in segments(part)]
        for steps in cut(cube, 36, 7, steps=part).steps:
            real = steps[steps >= 0].tolist()
            assert sum(real[0] in piece and real[-1] in piece for piece in inside) == 1


def test_a_cube_shorter_than_a_window_goes_on_with_empty_steps():
    cube = network(steps=5, missing=0.0)
    window = next(cut(cube, 8, 8).batches(1))
    assert window.values.shape == (1, 8, 3, 2) and not window.observed[0, 5:].any()


def test_overlaps_are_averaged(cube):
    windows = cut(cube, 12, 6)
    pieces = (
        (torch.full_like(w.values, float(n)), w.steps) for n, w in enumerate(windows.batches(1))
    )
    stitched = stitch(pieces, cube)
    assert stitched[0, 0, 0] == 0 and stitched[6, 0, 0] == 0.5


def test_steps_without_a_window_stay_open(cube):
    part = np.arange(60) < 30
    windows = cut(cube, 10, 10, steps=part)
    stitched = stitch(((w.values, w.steps) for w in windows.batches(2)), cube)
    assert stitched[30:].isnull().all() and stitched[:30].notnull().all()


def test_a_stride_that_skips_steps_is_refused(cube):
    with pytest.raises(ConfigError, match="stride"):
        cut(cube, 5, 6)


def test_labels_come_back(cube):
    windows = cut(cube, 12, 6)
    stitched = stitch(((w.truth, w.steps) for w in windows.batches(2)), cube)
    xr.testing.assert_equal(stitched["location"], cube["location"])


def test_some_windows_can_be_kept(cube):
    windows = cut(cube, 12, 6)
    few = windows.keep(torch.tensor([3, 1]))
    assert len(few) == 2 and torch.equal(few.steps[1], windows.steps[1])
    assert torch.equal(few.take(torch.tensor([0])).values, windows.take(torch.tensor([3])).values)


def test_windows_can_be_brought_to_another_device(cube):
    windows = cut(cube, 12, 6).to(torch.device("meta"))
    assert windows.values.is_meta and windows.steps.is_meta and len(windows) == 9
