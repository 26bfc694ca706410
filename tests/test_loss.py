"""Losses on masked cells, and schedules of the learning rate."""

from typing import get_args

import pytest
import torch

from cdsa.training.loss import Loss, learning_rate, masked_loss


def test_losses_count_target_cells_only():
    prediction = torch.tensor([1.0, 2.0, 9.0, -3.0])
    target = torch.tensor([True, True, False, True])
    losses = {
        kind: masked_loss(kind, prediction, torch.zeros(4), target).item()
        for kind in get_args(Loss)
    }
    assert losses["mae"] == pytest.approx(2)
    assert losses["mse"] == pytest.approx(14 / 3)
    assert losses["rmse"] == pytest.approx((14 / 3) ** 0.5)
    assert losses["rmse+mae"] == pytest.approx(((14 / 3) ** 0.5 + 2) / 2)


@pytest.mark.parametrize("kind", get_args(Loss))
def test_a_loss_without_target_cells_or_without_error_has_a_finite_gradient(kind):
    for target in (torch.zeros(3).bool(), torch.ones(3).bool()):
        prediction = torch.zeros(3, requires_grad=True)
        masked_loss(kind, prediction, torch.zeros(3), target).backward()
        assert prediction.grad.isfinite().all()


def test_the_schedule_of_the_authors():
    rates = {epoch: learning_rate("steps", 1e-3, epoch, 0.5) for epoch in (0, 19, 20, 34, 35, 99)}
    assert rates[0] == rates[19] == 1e-3
    assert rates[20] == rates[34] == pytest.approx(3e-4)
    assert rates[35] == pytest.approx(9e-5) and rates[99] == 1e-6


def test_the_cosine_schedule_rises_then_falls():
    rates = [learning_rate("cosine", 1.0, 0, progress) for progress in (0, 0.02, 0.05, 0.5, 1.0)]
    assert rates[0] < rates[1] < rates[2] == pytest.approx(1.0)
    assert rates[2] > rates[3] > rates[4] == pytest.approx(0.01)
