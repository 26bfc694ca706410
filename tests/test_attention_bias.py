"""The initial preferences of attention maps."""

import pytest
import torch

from cdsa.nn.attention_bias import AttentionBias
from cdsa.nn.types import Sizes
from contexts import window_context

SIZES = Sizes(7, 5, 3)
SITES = torch.rand(5, 2, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def context():
    context = window_context(SIZES, distance=torch.cdist(SITES, SITES))
    return context._replace(station_similarity=torch.zeros(5, 5))


def test_near_steps_near_stations_and_the_same_measurement_are_preferred(context):
    bias = AttentionBias(2, SIZES.measurements)(SIZES.steps, context)
    lags = bias["time"][0]
    assert (lags.diff(dim=-1)[0] < 0).all() and torch.equal(lags, lags.mT)
    nearest = context.distance.clone().fill_diagonal_(9).argmin(dim=1)
    others = bias["location"][0].clone().fill_diagonal_(-99)
    assert torch.equal(others.argmax(dim=1), nearest)
    assert (bias["measurement"][0].argmax(dim=1) == torch.arange(3)).all()


def test_similar_stations_are_preferred_without_coordinates(context):
    half = torch.rand(5, 5, generator=torch.Generator().manual_seed(1))
    similarity = half @ half.mT / 5
    context = context._replace(distance=None, station_similarity=similarity)
    bias = AttentionBias(2, SIZES.measurements)(SIZES.steps, context)["location"]
    assert (bias.diff(dim=-1).sign() == similarity.diff(dim=-1).sign()).all()


def test_correlated_measurements_are_preferred_to_others(context):
    correlation = torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.3], [0.1, 0.3, 1.0]])
    layer = AttentionBias(2, SIZES.measurements)
    plain = layer(SIZES.steps, context)["measurement"]
    for similarity in (correlation, correlation.expand(4, 3, 3)):
        aware = context._replace(measurement_similarity=similarity)
        bonus = layer(SIZES.steps, aware)["measurement"] - plain
        assert bonus.shape[-3:] == (2, 3, 3)
        assert (bonus[..., 0, 1] > bonus[..., 0, 2]).all() and (bonus[..., 0, 2] > 0).all()


def test_slopes_stay_positive_whatever_is_trained(context):
    layer = AttentionBias(2, SIZES.measurements)
    layer.time_slope.data.fill_(-50.0)
    layer.distance_slope.data.fill_(-50.0)
    bias = layer(SIZES.steps, context)
    assert all((bias[axis] <= 0).all() for axis in ("time", "location"))
