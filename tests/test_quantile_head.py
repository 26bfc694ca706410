"""Quantiles in order by construction."""

import torch

from cdsa.nn.quantile_head import (
    QUANTILES,
    interpolate_quantiles,
    monotone_quantiles,
    pinball_loss,
)


def test_quantiles_never_cross():
    raw = 20 * torch.randn(200, len(QUANTILES))
    assert (monotone_quantiles(raw).diff(dim=-1) >= 0).all()


def test_levels_between_quantiles_are_interpolated():
    quantiles = torch.tensor([float(n) for n in range(len(QUANTILES))]).expand(3, -1)
    levels = torch.tensor([0.05, 0.075, 0.5, 0.01, 0.99])
    expected = torch.tensor([0.0, 0.5, 9.0, 0.0, 18.0]).expand(3, -1)
    torch.testing.assert_close(interpolate_quantiles(quantiles, levels), expected)


def test_the_pinball_loss_of_a_point_is_its_absolute_error():
    point, truth = torch.tensor([1.0, -2.0]), torch.tensor([3.0, -2.5])
    quantiles = point.unsqueeze(-1).expand(-1, len(QUANTILES))
    torch.testing.assert_close(pinball_loss(quantiles, truth), (point - truth).abs())
