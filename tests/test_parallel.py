"""A batch that is split over cores gives the predictions and gradients of the whole batch."""

import threading

import pytest
import torch
from torch import nn

from cdsa.methods.neural.cdsa_network import CdsaNetwork, CdsaNetworkConfig
from cdsa.nn.context import WindowContext
from cdsa.nn.types import Network, Sizes
from cdsa.training.parallel import data_parallel


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Spy(Network):
    """Records the thread, its number of cores and the number of windows of each call."""

    data_parallel = True

    def __init__(self):
        super().__init__()
        self.weight, self.unused = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(1.0))
        self.calls = []

    def forward(self, values, observed, context):
        self.calls.append((threading.current_thread(), torch.get_num_threads(), len(values)))
        return torch.where(observed, self.weight * values, 0.0)


class SequentialSpy(Spy):
    data_parallel = False


def make_batch(windows):
    rng = torch.Generator().manual_seed(windows)
    values = torch.randn(windows, 6, 4, 2, generator=rng)
    observed = torch.rand(values.shape, generator=rng) < 0.6
    sites = torch.rand(4, 2, generator=rng)
    context = WindowContext(
        calendar=torch.randn(windows, 6, 2, generator=rng),
        climatology=torch.randn(values.shape, generator=rng),
        distance=torch.cdist(sites, sites),
        station_similarity=torch.eye(4).repeat(windows, 1, 1)
        * torch.rand(windows, 1, 1, generator=rng),
        step_variance=torch.tensor([0.1, 0.2]),
        variable_ids=torch.arange(2),
    )
    return values, observed, context


@pytest.mark.parametrize("windows", [2, 3, 7])
@pytest.mark.parametrize("per_window", [True, False], ids=["similarity by window", "one for all"])
def test_predictions_and_gradients_are_those_of_the_whole_batch(two_threads, windows, per_window):
    torch.manual_seed(0)
    config = CdsaNetworkConfig(d_model=8, n_heads=2, n_layers=2, d_ff=16)
    model = CdsaNetwork(config, Sizes(6, 4, 2), 2)
    values, observed, context = make_batch(windows)
    if not per_window:
        context = context._replace(station_similarity=context.station_similarity[0])
    predictions, gradients = [], []
    for forward in (model, lambda *batch: data_parallel(model, *batch)):
        prediction = forward(values, observed, context)
        model.zero_grad()
        (prediction.square().mean() + prediction[0].abs().max()).backward()
        predictions.append(prediction.detach())
        gradients.append({name: weight.grad for name, weight in model.named_parameters()})
    torch.testing.assert_close(*predictions)
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-6, msg=name)
    with torch.no_grad():
        again = data_parallel(model, values, observed, context)
    torch.testing.assert_close(again, predictions[0])


def test_each_shard_has_a_core_of_its_own(two_threads):
    model = Spy()
    values, observed, _ = make_batch(5)
    data_parallel(model, values, observed, None).sum().backward()
    threads, cores, windows = zip(*model.calls, strict=True)
    assert sorted(windows) == [2, 3] and cores == (1, 1)
    assert threading.current_thread() not in threads
    assert torch.get_num_threads() == 2  # the threads of the caller stay as they are
    assert model.weight.grad == values[observed].sum()
    assert model.unused.grad is None


def test_a_batch_is_not_split_where_that_is_of_no_use(two_threads):
    values, observed, _ = make_batch(4)
    for model, batch in ((SequentialSpy(), values), (Spy(), values[:1])):
        data_parallel(model, batch, observed[: len(batch)], None)
        assert model.calls == [(threading.current_thread(), 2, len(batch))]
    torch.set_num_threads(1)
    model = Spy()
    data_parallel(model, values, observed, None)
    assert model.calls == [(threading.current_thread(), 1, 4)]


def test_an_error_in_a_shard_is_raised(two_threads):
    class Broken(Network):
        data_parallel = True

        def forward(self, values, observed, context):
            raise ValueError("no such window")

    values, observed, _ = make_batch(2)
    with pytest.raises(ValueError, match="no such window"), torch.no_grad():
        data_parallel(Broken(), values, observed, None)
