"""The baseline 'dcrnn': its gates, its defaults by task, and how it fills."""

import numpy as np
import pytest
import torch

from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.methods.neural.dcrnn import Dcrnn, DcrnnConfig
from cdsa.methods.registry import build_method
from cdsa.nn.types import Sizes
from contexts import window_context

SIZES = Sizes(6, 3, 2)


def test_the_bias_of_the_gates_starts_at_one_as_published():
    cell = DcrnnConfig(d_model=4, n_layers=2).cell(3)
    assert all((gate.linear.bias == 1).all() for gate in cell.gates)
    assert not any((candidate.linear.bias == 1).any() for candidate in cell.candidate)


def test_a_missing_cell_starts_from_the_last_observation_on_either_side():
    torch.manual_seed(0)
    model = DcrnnConfig(d_model=4, diffusion_steps=1).build(SIZES, 0, 0)
    context = window_context(SIZES, distance=1e3 * (1 - torch.eye(3)))._replace(bandwidth=1.0)
    with torch.no_grad():  # the prediction is the mean of the two observations
        model.head.linear.weight.zero_()
        model.head.linear.bias.zero_()
        for m in range(2):
            model.head.linear.weight[m, [8 + m, 10 + m]] = 0.5
    values, observed = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    observed[:, 2:4] = False
    prediction = model(torch.where(observed, values, 0.0), observed, context)
    mean = (values[:, 1] + values[:, 4]) / 2
    torch.testing.assert_close(prediction[:, 2], mean)
    torch.testing.assert_close(prediction[:, 3], mean)
    torch.testing.assert_close(prediction[:, 1], values[:, 1])


def test_defaults_depend_on_the_task_and_what_was_set_is_kept():
    assert Dcrnn().with_horizon(12).resolve().window == 12
    assert Dcrnn(window=48).with_horizon(12).resolve().window == 48
    assert Dcrnn(stride=6).with_horizon(3).resolve().stride == 6
    fill, forecast = Dcrnn().resolve(), Dcrnn().with_horizon(12).resolve()
    assert (fill.model.d_model, fill.model.n_layers, fill.train.batch_size) == (32, 1, 8)
    assert (forecast.model.d_model, forecast.model.n_layers) == (64, 2)
    assert forecast.train.batch_size == 32 and Dcrnn(horizon=12).resolve() == forecast
    narrow = Dcrnn(model=fill.model, train=fill.train, window=36).with_horizon(12).resolve()
    assert (narrow.model, narrow.train.batch_size, narrow.window) == (fill.model, 8, 36)
    assert build_method("dcrnn@small", horizon=6).resolve().model.n_layers == 1


def test_a_stride_of_zero_is_refused():
    with pytest.raises(ConfigError, match="stride lies between 1 and the steps of a window"):
        Dcrnn(stride=0)


def test_without_coordinates_or_a_graph_it_says_what_it_needs():
    times = np.datetime64("2020-01-01") + np.arange(80).astype("timedelta64[h]")
    cube = make_cube(np.zeros((80, 3, 1)), times, list("ABC"), ["x"])
    with pytest.raises(ConfigError, match="needs the graph of the stations"):
        build_method("dcrnn@small").fit(cube)
