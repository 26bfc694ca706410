"""The baseline 'gaan': attention to neighbours, gates, and a batch size by the number of pairs."""

import torch

from cdsa.methods.neural import gaan
from cdsa.methods.neural.gaan import Gaan, GaanConfig, GatedAttention, neighbour_max
from cdsa.training.loop import TrainConfig
from conftest import network


def test_only_neighbours_are_attended_to_and_each_head_has_a_gate():
    torch.manual_seed(0)
    attention = GatedAttention(GaanConfig(n_heads=2, d_qk=4, d_gate=4), 5, 3)
    neighbours = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.bool)
    x = torch.randn(2, 3, 5)
    changed = x.clone()
    changed[:, 2] += 10
    *_, to_max, own_gate, mean_gate, _ = attention.project(x).split(attention.sizes, dim=-1)
    gates = attention.gates(to_max, own_gate, mean_gate, neighbours)
    assert gates.shape == (2, 3, 2) and ((gates > 0) & (gates < 1)).all()
    before, after = attention(x, neighbours), attention(changed, neighbours)
    assert torch.equal(before[:, 0], after[:, 0])
    assert not torch.allclose(before[:, 1], after[:, 1])
    with torch.no_grad():  # close the gates
        attention.project.bias[sum(attention.sizes[:4]) :][:2] = -100.0
    before, after = attention(x, neighbours), attention(changed, neighbours)
    torch.testing.assert_close(before[:, 1], after[:, 1])


def test_the_maximum_over_neighbours_has_its_gradient_and_keeps_little_memory(monkeypatch):
    torch.manual_seed(0)
    x = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    neighbours = (torch.rand(9, 9) < 0.4) | torch.eye(9, dtype=torch.bool)
    expected = x.unsqueeze(1).masked_fill(~neighbours.unsqueeze(-1), -torch.inf).amax(dim=2)
    (gradient,) = torch.autograd.grad(expected.square().sum(), x)
    monkeypatch.setattr(gaan, "MAX_COMPARED", 4 * x.numel())
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: sizes.append(tensor.numel()) or tensor, lambda tensor: tensor
    ):
        maximum = neighbour_max(x, neighbours)
    assert torch.equal(maximum, expected) and max(sizes) <= x.numel()
    torch.testing.assert_close(torch.autograd.grad(maximum.square().sum(), x)[0], gradient)


def test_the_more_stations_the_smaller_the_batch():
    cubes = [network(steps=2, stations=n, places=False) for n in (10, 36, 100, 207, 1000)]
    sizes = [Gaan().resolve(cube).train.batch_size for cube in cubes]
    assert sizes[:2] == [32, 32] and sizes == sorted(sizes, reverse=True) and sizes[-1] == 1
    assert Gaan(train=TrainConfig(batch_size=5)).resolve(cubes[3]).train.batch_size == 5
