"""A batch that is worked on in parts is answered, and learnt from, as if it were one."""

import threading

import pytest
import torch
from torch import nn

from cdsa.methods.neural.cdsa import CdsaNetwork, CdsaNetworkConfig
from cdsa.nn.context import WindowContext
from cdsa.nn.types import Network, Sizes
from cdsa.training.parallel import data_parallel


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Watched(Network):
    """A network that notes on which threads it is asked, and for how many windows."""

    def __init__(self, *, apart: bool):
        super().__init__()
        self.weight, self.idle = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(1.0))
        self.asked = []
        self.data_parallel = apart

    def forward(self, values, observed, context):
        self.asked.append((threading.current_thread(), torch.get_num_threads(), len(values)))
        return torch.where(observed, self.weight * values, 0.0)


def batch(windows):
    source = torch.Generator().manual_seed(windows)
    values = torch.randn(windows, 6, 4, 2, generator=source)
    observed = torch.rand(values.shape, generator=source) < 0.6
    spots = torch.rand(4, 2, generator=source)
    around = WindowContext(
        calendar=torch.randn(windows, 6, 2, generator=source),
        climatology=torch.randn(values.shape, generator=source),
        distance=torch.cdist(spots, spots),
        station_similarity=torch.eye(4).repeat(windows, 1, 1)
        * torch.rand(windows, 1, 1, generator=source),
        step_variance=torch.tensor([0.1, 0.2]),
        variable_ids=torch.arange(2),
    )
    return values, observed, around


@pytest.mark.parametrize("windows", [2, 3, 7])
@pytest.mark.parametrize("own", [True, False], ids=["likeness by window", "one likeness"])
def test_answers_and_gradients_are_those_of_the_whole_batch(two_threads, windows, own):
    torch.manual_seed(0)
    model = CdsaNetwork(
        CdsaNetworkConfig(d_model=8, n_heads=2, n_layers=2, d_ff=16), Sizes(6, 4, 2), 2
    )
    values, observed, around = batch(windows)
    if not own:
        around = around._replace(station_similarity=around.station_similarity[0])
    told, slopes = [], []
    for answer in (model(values, observed, around), data_parallel(model, values, observed, around)):
        model.zero_grad()
        (answer.square().mean() + answer[0].abs().max()).backward()
        told.append(answer.detach())
        slopes.append({name: part.grad for name, part in model.named_parameters()})
    torch.testing.assert_close(*told)
    assert slopes[0].keys() == slopes[1].keys()
    for name, slope in slopes[0].items():
        torch.testing.assert_close(slopes[1][name], slope, rtol=1e-4, atol=1e-6, msg=name)
    with torch.no_grad():
        torch.testing.assert_close(data_parallel(model, values, observed, around), told[0])


def test_each_part_has_a_core_of_its_own(two_threads):
    model = Watched(apart=True)
    values, observed, _ = batch(5)
    data_parallel(model, values, observed, None).sum().backward()
    threads, cores, windows = zip(*model.asked, strict=True)
    assert sorted(windows) == [2, 3] and cores == (1, 1)
    assert threading.current_thread() not in threads
    assert torch.get_num_threads() == 2  # the caller's own threads stay as they are
    assert model.weight.grad == values[observed].sum()
    assert model.idle.grad is None  # as of a weight that has no part in an answer


def test_a_batch_is_taken_whole_where_parts_are_of_no_use(two_threads):
    values, observed, _ = batch(4)
    for model, taken in ((Watched(apart=False), values), (Watched(apart=True), values[:1])):
        data_parallel(model, taken, observed[: len(taken)], None)
        assert model.asked == [(threading.current_thread(), 2, len(taken))]
    torch.set_num_threads(1)
    model = Watched(apart=True)
    data_parallel(model, values, observed, None)
    assert model.asked == [(threading.current_thread(), 1, 4)]


def test_what_goes_wrong_in_a_part_is_told(two_threads):
    class Broken(Network):
        data_parallel = True

        def forward(self, values, observed, context):
            raise ValueError("no such window")

    values, observed, _ = batch(2)
    with pytest.raises(ValueError, match="no such window"), torch.no_grad():
        data_parallel(Broken(), values, observed, None)
