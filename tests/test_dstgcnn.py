"""The baseline 'dst-gcnn': a predicted graph, and causal convolutions over time."""

import torch

from cdsa.methods.neural.dstgcnn import DstGcnnConfig, PredictedGraph, TimeConvolution
from cdsa.nn.types import Sizes


def test_a_graph_is_predicted_for_every_step_on_the_given_edges():
    torch.manual_seed(0)
    static = torch.tensor([[1.0, 0.5, 0], [0.5, 1, 0.2], [0, 0.2, 1]])
    graph = PredictedGraph(6)(torch.randn(2, 5, 3, 6), static)
    assert graph.shape == (2, 5, 3, 3)
    torch.testing.assert_close(graph.sum(dim=-1), torch.ones(2, 5, 3))
    assert (graph[..., 0, 2] == 0).all() and (graph[..., 0, 1] > 0).all()
    assert not torch.allclose(graph[:, 0], graph[:, 4])


def test_a_convolution_over_time_is_causal():
    torch.manual_seed(0)
    convolution, x = TimeConvolution(4, 4), torch.randn(1, 6, 2, 4)
    changed = x.clone()
    changed[:, 4:] += 5
    assert torch.equal(convolution(x)[:, :4], convolution(changed)[:, :4])


def test_dilations_stay_within_the_context():
    model = DstGcnnConfig(d_model=4, n_layers=7).build(Sizes(15, 2, 1), 3, 0)
    assert [layer.temporal.dilation for layer in model.layers] == [1, 2, 4, 1, 2, 4, 1]
