"""Interpolation inside a window."""

import math

import torch

from cdsa.nn.interpolation import interpolate


def test_a_gap_is_a_straight_line_and_the_ends_are_constant():
    nan = math.nan
    series = torch.tensor([nan, 2.0, nan, nan, 8.0, nan])[None, :, None, None]
    interpolation = interpolate(torch.nan_to_num(series), ~series.isnan())
    assert interpolation.line.flatten().tolist() == [2, 2, 4, 6, 8, 8]
    before = torch.tensor([0, 1, 1 / 2, 1 / 3, 1, 1 / 2])
    torch.testing.assert_close(interpolation.proximity_before.flatten(), before)
    after = torch.tensor([1 / 2, 1, 1 / 3, 1 / 2, 1, 0])
    torch.testing.assert_close(interpolation.proximity_after.flatten(), after)


def test_a_series_without_observations_is_zero():
    empty = interpolate(torch.zeros(1, 3, 1, 1), torch.zeros(1, 3, 1, 1, dtype=torch.bool))
    assert all((field == 0).all() for field in empty)
