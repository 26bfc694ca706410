"""The fast paths of attention, each beside its plain equation."""

import pytest
import torch
from torch import einsum

from cdsa.nn import kernels
from cdsa.nn.attention import (
    JOINT_APPLY,
    apply_sequential,
    apply_weighted,
    joint_map,
)
from cdsa.nn.kernels import (
    FROM_ROWS,
    MAX_FUSED_COLUMNS,
    TO_ROWS,
    apply_fused,
    joint_attention,
)
from cdsa.nn.types import AXES, Sizes
from maps import full_map

SIZES = Sizes(7, 5, 3)


def random_maps(sizes: Sizes, heads: int = 2):
    rng = torch.Generator().manual_seed(2)
    return {
        axis: torch.randn(2, heads, n, n, generator=rng, dtype=torch.float64).softmax(-1)
        for axis, n in zip(AXES, sizes, strict=True)
    }


@pytest.mark.parametrize("sizes", [SIZES, Sizes(4, 1, 6), Sizes(3, 8, 1), Sizes(2, 24, 12)])
def test_maps_applied_at_once_are_maps_applied_one_after_the_other(sizes):
    assert (sizes.locations * sizes.measurements > MAX_FUSED_COLUMNS) == (sizes.steps == 2)
    maps, v = random_maps(sizes), torch.randn(2, *sizes, 2, 3, dtype=torch.float64)
    mixed = einsum(FROM_ROWS, apply_fused(maps, einsum(TO_ROWS, v)))
    torch.testing.assert_close(mixed, apply_sequential(maps, v))


def plainly_weighted(maps, v, weight):
    weight = weight.unsqueeze(-1)
    return apply_sequential(maps, v * weight) / apply_sequential(maps, weight)


def test_weighted_maps_average_by_the_weights_of_the_keys():
    maps, v = random_maps(SIZES), torch.randn(2, *SIZES, 2, 3, dtype=torch.float64)
    weight = torch.rand(2, *SIZES, 2, dtype=torch.float64) + 0.01
    full = full_map(maps) * einsum("bsknh -> bhskn", weight)[:, :, None, None, None]
    full = full / full.sum(dim=(-3, -2, -1), keepdim=True)
    torch.testing.assert_close(apply_weighted(maps, v, weight), einsum(JOINT_APPLY, full, v))
    ones = torch.ones_like(v)
    torch.testing.assert_close(apply_weighted(maps, ones, weight), ones)


def test_the_gradients_of_weighted_averages_are_those_of_the_plain_equation():
    results = []
    for average in (apply_weighted, plainly_weighted):
        maps = {axis: a.requires_grad_() for axis, a in random_maps(SIZES).items()}
        rng = torch.Generator().manual_seed(4)
        v, weight = (
            torch.rand(2, *SIZES, 2, *last, generator=rng, dtype=torch.float64).requires_grad_()
            for last in ((3,), ())
        )
        average(maps, v, weight + 0.01).pow(2).sum().backward()
        results.append((v.grad, weight.grad, *(a.grad for a in maps.values())))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("limit", [kernels.MAX_MASK_PAIRS, 0])
@pytest.mark.parametrize("mask_mode", ["none", "diagonal", "causal"])
@pytest.mark.parametrize("d_v", [2, 3, 6])  # narrower than, as wide as and wider than the keys
def test_joint_attention_is_its_map_applied_to_the_values(mask_mode, d_v, limit, monkeypatch):
    monkeypatch.setattr(kernels, "MAX_MASK_PAIRS", limit)
    sizes, results = (5, 4, 3), []
    plain = lambda q, k, v, mode: einsum(JOINT_APPLY, joint_map(q, k, mode), v)  # noqa: E731
    for attend in (joint_attention, plain):
        torch.manual_seed(3)
        q, k = (torch.randn(2, *sizes, 2, 3).double().requires_grad_() for _ in range(2))
        v = torch.randn(2, *sizes, 2, d_v).double().requires_grad_()
        y = attend(q, k, v, mask_mode)
        y.pow(2).sum().backward()
        results.append((y.detach(), q.grad, k.grad, v.grad))
    torch.testing.assert_close(*results)
