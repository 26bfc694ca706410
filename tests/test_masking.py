"""Cells that are masked in training."""

import pytest
import torch

from cdsa.training.masking import make_generator, mask_cells


@pytest.mark.parametrize("kind", ["random", "bursts", "mixed"])
def test_only_observed_cells_are_masked_and_on_average_half_of_the_maximum(kind):
    observed = torch.rand(200, 40, 3, 2, generator=make_generator(1)) < 0.8
    masked = mask_cells(observed, kind, 0.8, make_generator(2))
    assert not (masked & ~observed).any()
    assert masked.float().mean() / observed.float().mean() == pytest.approx(0.4, abs=0.08)
    by_window = masked.flatten(1).float().mean(1)
    assert by_window.max() > 0.5 and by_window.min() < 0.1


def test_bursts_are_gaps_in_time():
    observed = torch.ones(100, 40, 3, 2).bool()
    n_gaps = {
        kind: (mask_cells(observed, kind, 0.5, make_generator(3)).int().diff(dim=1) == 1).sum()
        for kind in ("random", "bursts")
    }
    assert n_gaps["bursts"] * 3 < n_gaps["random"]


@pytest.mark.parametrize("kind", ["random", "bursts", "mixed"])
def test_tied_variables_are_masked_together(kind):
    observed = torch.ones(50, 20, 3, 4).bool()
    masked = mask_cells(observed, kind, 0.5, make_generator(4), torch.tensor([0, 1, 2, 1]))
    assert torch.equal(masked[..., 1], masked[..., 3])
    assert not torch.equal(masked[..., 0], masked[..., 1])
