"""A trained network is shrunk towards its baseline where validation cells say so."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cdsa.nn.types import Network
from cdsa.training.loop import TrainConfig, validation_error
from cdsa.training.masking import IMPUTATION
from cdsa.training.shrinkage import shrink
from cdsa.training.windows import cut
from conftest import network

CONFIG = TrainConfig(batch_size=4)


class Shrinkable(Network):
    """Predicts zero plus a difference that is right in the first measurement and a bad guess in the
    second."""

    def __init__(self, truth):
        super().__init__()
        self.truth = truth
        self.register_buffer("shrinkage", torch.ones(2))

    def forward(self, values, observed, context=None):
        difference = torch.stack([self.truth[..., 0], 3 - self.truth[..., 1]], dim=-1)
        return self.shrinkage * difference[: len(values)]


@pytest.fixture
def validation():
    cube = network(steps=48, stations=300, missing=0.0)
    scaled = (cube - cube.mean("time")) / cube.std()
    hidden = scaled.notnull() & (np.random.default_rng(0).random(scaled.shape) < 0.3)
    return cut(scaled, 48, 48, target=hidden)


def test_a_difference_that_is_right_is_kept_and_a_bad_one_is_not(validation):
    model = Shrinkable(next(validation.batches(1)).truth)
    before = validation_error(model, validation, CONFIG)
    shrink(model, model.shrinkage, validation, CONFIG, IMPUTATION)
    assert model.shrinkage[0] == 1.0 and model.shrinkage[1] < 0.2
    assert validation_error(model, validation, CONFIG) < before


@pytest.mark.parametrize(("n_stations", "factor"), [(300, 0.55), (5, 1.0)])
def test_a_measurement_with_few_cells_is_shrunk_like_the_others(validation, n_stations, factor):
    truth = next(validation.batches(1)).truth
    target = validation.target.clone()
    target[:, n_stations:, 1] = False
    model = Shrinkable(truth)
    doubled = torch.tensor([1.0, 1.9])  # half of the second difference is right
    model.forward = lambda values, observed, context=None: model.shrinkage * doubled * truth
    shrink(model, model.shrinkage, replace(validation, target=target), CONFIG, IMPUTATION)
    assert model.shrinkage.tolist() == pytest.approx([1.0, factor])


def test_a_network_is_never_worse_than_its_baseline_on_validation_cells(validation):
    model = Shrinkable(torch.randn_like(next(validation.batches(1)).truth))
    shrink(model, model.shrinkage, validation, CONFIG, IMPUTATION)
    error = validation_error(model, validation, CONFIG)
    model.shrinkage.zero_()
    assert error <= validation_error(model, validation, CONFIG)


def test_without_validation_cells_everything_is_kept(validation):
    model = Shrinkable(next(validation.batches(1)).truth)
    nothing = replace(validation, steps=validation.steps[:0])
    shrink(model, model.shrinkage, nothing, CONFIG, IMPUTATION)
    assert model.shrinkage.tolist() == [1.0, 1.0]
