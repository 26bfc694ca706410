"""The baseline 'iin': temporal and spatial terms, and rounds that read the last prediction."""

import pytest
import torch

from cdsa.methods.engine.persistence import load_filler, save_filler
from cdsa.methods.neural.iin import IinConfig, neighbour_mean, neighbour_weights
from cdsa.methods.registry import build_method
from cdsa.nn.types import Sizes
from conftest import network
from contexts import window_context

SIZES = Sizes(6, 3, 2)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def zeroed(*weights):
    with torch.no_grad():
        for weight in weights:
            weight.zero_()


def test_the_temporal_term_is_the_mean_of_the_neighbouring_steps():
    x = torch.tensor([1.0, 2.0, 4.0])[None, :, None, None]
    assert neighbour_mean(x).flatten().tolist() == [1.5, 2.5, 3.0]


def test_the_spatial_term_weights_near_stations_or_all_without_coordinates():
    values = torch.zeros(2, *SIZES)
    without_coordinates = neighbour_weights(values, window_context(SIZES))
    torch.testing.assert_close(without_coordinates, (1 - torch.eye(3)) / 2)
    position = torch.tensor([0.0, 1.0, 50.0])
    distance = (position[:, None] - position).abs()
    weights = neighbour_weights(values, window_context(SIZES, distance=distance))
    assert weights[0, 1] == 1 and weights[2].sum() == 0


def test_the_terms_are_part_of_the_prediction_and_leave_out_the_cell_itself():
    model = IinConfig(d_model=4, n_rounds=1).build(SIZES, 0, 0)
    zeroed(*model.lstm.parameters(), *model.head.parameters())
    values, observed = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    spatial = (values.sum(dim=2, keepdim=True) - values) / 2
    prediction = model(values, observed, window_context(SIZES))
    torch.testing.assert_close(prediction, (neighbour_mean(values) + spatial) / 2)
    with torch.no_grad():
        model.series_weights.fill_(0.25)
    others = values.sum(dim=(2, 3), keepdim=True) - values
    learnt = model(values, observed, window_context(SIZES)) - prediction
    torch.testing.assert_close(learnt, others / 8)


def test_the_rounds_start_from_a_linear_interpolation():
    model = IinConfig(d_model=4, n_rounds=1).build(SIZES, 0, 0)
    zeroed(*model.lstm.parameters(), *model.head.parameters(), model.term_weights[1])
    with torch.no_grad():
        model.term_weights[0] = 1  # the temporal term alone
    values = torch.arange(6.0).unflatten(0, (1, 6, 1, 1)).expand(2, *SIZES)
    observed = torch.ones(2, *SIZES, dtype=torch.bool)
    observed[:, 2:4] = False
    prediction = model(torch.where(observed, values, 99.0), observed, window_context(SIZES))
    torch.testing.assert_close(prediction[:, 1:5], values[:, 1:5])


@pytest.mark.parametrize("n_rounds", [1, 3])
def test_missing_values_have_no_influence(n_rounds):
    model = IinConfig(d_model=4, n_rounds=n_rounds).build(SIZES, 0, 0)
    values, observed = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    observed[:, 2, 0] = False
    changed = torch.where(observed, values, 99.0)
    context = window_context(SIZES)
    assert torch.equal(*(model(x, observed, context) for x in (values, changed)))


def test_later_rounds_read_the_predictions_of_earlier_ones():
    model = IinConfig(d_model=4).build(SIZES, 0, 0)
    values, observed = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    observed[:, 2, 0] = False
    predictions = []
    for n_rounds in (1, 4):
        model.n_rounds = n_rounds
        predictions.append(model(values, observed, window_context(SIZES)))
    assert not torch.allclose(*predictions)


def test_a_network_tied_to_its_stations_is_saved_and_loaded(tmp_path):
    cube = network(steps=80, stations=4)
    filler = build_method("iin@small").fit(cube)
    save_filler(filler, tmp_path / "net")
    loaded = load_filler(tmp_path / "net").fill(cube)
    assert loaded.equals(filler.fill(cube)) and not filler.network.inductive
