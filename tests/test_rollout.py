"""Attention rollout: shares of a cell passed back through the layers."""

import pytest
import torch

from cdsa.nn.rollout import LayerTrace, one_hot_cell, residual_share, rollout
from cdsa.nn.types import AXES, Sizes
from maps import full_map

SIZES = Sizes(6, 4, 2)


def random_trace(weighted: bool) -> LayerTrace:
    torch.manual_seed(0)
    maps = {axis: torch.rand(1, 3, n, n).softmax(-1) for axis, n in zip(AXES, SIZES, strict=True)}
    key_weight = torch.rand(1, *SIZES, 3) + 0.1 if weighted else None
    return LayerTrace(maps, torch.rand(1, *SIZES), key_weight)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_layer_distributes_a_share_as_its_full_map_does(weighted):
    trace, cell = random_trace(weighted), (2, 1, 1)
    row = full_map(trace.maps)[0, :, 2, 1, 1]  # (h, s, k, n)
    if trace.key_weight is not None:
        row = row * torch.einsum("sknh -> hskn", trace.key_weight[0])
        row = row / row.flatten(1).sum(dim=1).unflatten(0, (-1, 1, 1, 1))
    shares = trace.distribute(one_hot_cell(trace.residual, cell))[0]
    torch.testing.assert_close(shares, row.mean(dim=0))
    joint = LayerTrace({"cells": full_map(trace.maps)}, trace.residual)
    unweighted = trace._replace(key_weight=None)
    share = torch.rand(1, *SIZES)
    torch.testing.assert_close(joint.distribute(share), unweighted.distribute(share))


def test_rollout_keeps_the_sum_of_the_shares():
    traces = [random_trace(True), random_trace(False), random_trace(True)]
    shares = rollout(traces, one_hot_cell(traces[0].residual, (0, 3, 0)))
    assert shares.sum() == pytest.approx(1)


def test_the_residual_counts_by_its_norm():
    before, added = torch.ones(1, 1, 1, 1, 4), torch.zeros(1, 1, 1, 1, 4)
    assert residual_share(before, added).item() == 1
    assert residual_share(before, before).item() == 0.5
