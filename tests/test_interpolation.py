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


def test_a_line_between_observations_outside_a_window_is_that_of_the_whole_series():
    series = torch.tensor([math.nan, 2.0, *[math.nan] * 6, 16.0, math.nan])[None, :, None, None]
    whole = interpolate(series.nan_to_num(), ~series.isnan())
    window = slice(3, 7)  # without any observation
    inside = interpolate(series[:, window].nan_to_num(), ~series[:, window].isnan())
    given = (whole.line, whole.proximity_before, whole.proximity_after)
    across = inside.across(*(field[:, window] for field in given))
    for field, expected in zip(across, whole, strict=True):
        torch.testing.assert_close(field, expected[:, window])
    nothing = torch.full_like(inside.line, math.nan)
    for field, expected in zip(inside.across(nothing, nothing, nothing), inside, strict=True):
        assert torch.equal(field, expected)


def test_steps_may_have_any_positions():
    values, observed = torch.tensor([1.0, 0.0, 4.0]), torch.tensor([True, False, True])
    position = torch.tensor([-10, 0, 5])
    shape = (1, 3, 1, 1)
    line = interpolate(values.view(shape), observed.view(shape), position.view(shape))
    assert line.line.flatten().tolist() == [1, 3, 4]
    torch.testing.assert_close(line.proximity_before.flatten()[1].item(), 1 / 11)
    torch.testing.assert_close(line.bridge_variance.flatten()[1].item(), 10 / 3)
