"""The optimiser of the default network: updates of matrices, and what it keeps when it is saved."""

import numpy as np
import pytest
import torch
from torch import nn

from cdsa.training.optimiser import MIN_SIDE, Muon, make_optimiser, orthogonalise
from cdsa.training.state import TrainingStore, TrainState

BETAS = (0.9, 0.98)


def layers(width: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))


def descend(model: nn.Module, optimiser: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        x = torch.randn(8, model[0].in_features, generator=torch.Generator().manual_seed(step))
        optimiser.zero_grad()
        (model(x) - x.flip(1)).square().mean().backward()
        optimiser.step()


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 16, 64), (2, 40, 20)])
def test_an_update_has_singular_values_near_one_and_the_directions_of_the_gradient(shape):
    gradients = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    update = orthogonalise(gradients)
    size = torch.linalg.svdvals(update)
    assert size.shape[1] == min(shape[1:]) and size.max() < 1.3 and size.median() > 0.6
    u, _, v = torch.linalg.svd(gradients, full_matrices=False)
    along = torch.einsum("nik, nij, nkj -> nk", u, update, v)
    torch.testing.assert_close(along.sort(dim=1).values, size.sort(dim=1).values, atol=2e-3, rtol=0)


def test_narrow_matrices_and_vectors_are_updated_as_by_adam():
    by_adam, by_muon = layers(MIN_SIDE - 1), layers(MIN_SIDE - 1)
    for name, model in (("adam", by_adam), ("muon", by_muon)):
        descend(model, make_optimiser(name, model, 0.01, BETAS), range(5))
    for a, b in zip(by_adam.parameters(), by_muon.parameters(), strict=True):
        assert torch.equal(a, b)


def test_matrices_move_by_the_same_length_whatever_the_scale_of_the_loss():
    lengths = []
    for scale in (1.0, 1e-3):
        model = layers(MIN_SIDE)
        before = model[0].weight.detach().clone()
        optimiser = Muon(model, 0.01, BETAS)
        (scale * model(torch.eye(MIN_SIDE)).square().sum()).backward()
        optimiser.step()
        lengths.append(float((model[0].weight.detach() - before).norm()))
    assert lengths[0] > 0
    np.testing.assert_allclose(lengths[0], lengths[1], rtol=1e-3)


def test_a_saved_optimiser_goes_on_bit_for_bit(tmp_path):
    store = TrainingStore(tmp_path / "run", "fingerprint")
    uninterrupted, resumed = layers(MIN_SIDE), layers(MIN_SIDE)
    optimiser = Muon(uninterrupted, 0.01, BETAS)
    descend(uninterrupted, optimiser, range(3))
    store.save(TrainState(step=3), uninterrupted, optimiser, {})
    descend(uninterrupted, optimiser, range(3, 6))
    optimiser = Muon(resumed, 0.01, BETAS)
    assert store.load(resumed, optimiser, {}).step == 3
    descend(resumed, optimiser, range(3, 6))
    for a, b in zip(uninterrupted.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)
