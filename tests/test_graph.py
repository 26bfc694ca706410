"""The graph of stations: from distances or given, and networks that look along it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.methods.engine.persistence import load_filler, save_filler
from cdsa.methods.neural.dcrnn import Dcrnn
from cdsa.methods.registry import build_method
from cdsa.nn.graph import (
    DiffusionConvolution,
    GraphCell,
    adjacency_of_context,
    adjacency_of_distances,
    diffusion_matrices,
)
from conftest import network


def noise(names: str = "ABC", n_steps: int = 50):
    """White noise at stations without coordinates."""
    times = np.datetime64("2020-01-01") + np.arange(n_steps).astype("timedelta64[h]")
    values = np.random.default_rng(0).normal(size=(n_steps, len(names), 1))
    return make_cube(values, times, list(names), ["x"])


def on_edges(*edges, name: str = "dcrnn", horizon: int = 0):
    """A method on a graph, trained for one epoch and without validation."""
    method = build_method(f"{name}@small", horizon=horizon).with_graph(edges)
    return replace(method, train=replace(method.train, epochs=1, holdout_share=1e-6))


def adjacency_of(filler, cube) -> torch.Tensor:
    """The adjacency that a network uses to fill a cube."""
    predictor = filler.network.adapt_to(cube)
    window = predictor.windows(predictor.align(cube)).take(torch.arange(1))
    return adjacency_of_context(window.context, window.values, "dcrnn")


def test_near_stations_are_joined_and_far_ones_are_not():
    adjacency = adjacency_of_distances(torch.tensor([[0.0, 1, 9], [1, 0, 9], [9, 9, 0]]))
    assert adjacency[0, 1] > 0.5 and adjacency[0, 2] == 0


def test_stations_at_equal_distances_are_joined():
    assert adjacency_of_distances(torch.tensor([[0.0, 5.0], [5.0, 0.0]]))[0, 1] > 0.3
    assert adjacency_of_distances(torch.zeros(1, 1)).item() == 1


def test_diffusion_matrices_are_powers_of_the_transition_matrix():
    adjacency = adjacency_of_distances(torch.tensor([[0.0, 1, 9], [1, 0, 9], [9, 9, 0]]))
    matrices = diffusion_matrices(adjacency, 2)
    assert matrices.shape == (2, 3, 3)  # distances are symmetric
    torch.testing.assert_close(matrices.sum(dim=2), torch.ones(2, 3))
    torch.testing.assert_close(matrices[1], matrices[0] @ matrices[0])
    along, against = diffusion_matrices(torch.tensor([[1.0, 1, 0], [0, 1, 1], [0, 0, 1]]), 1)
    assert along[0, 1] > 0 == along[1, 0] and against[1, 0] > 0 == against[0, 1]


def test_on_a_symmetric_graph_both_directions_are_computed_once():
    torch.manual_seed(0)
    convolution, x = DiffusionConvolution(2, 3, 4), torch.randn(2, 5, 3)
    sites = torch.rand(5, 2)
    adjacency = adjacency_of_distances((sites.unsqueeze(0) - sites.unsqueeze(1)).norm(dim=-1))
    matrices = diffusion_matrices(adjacency, 2)
    assert len(matrices) == 2
    twice = torch.cat([matrices, matrices])
    torch.testing.assert_close(convolution(x, matrices), convolution(x, twice))


def test_a_convolution_diffuses_along_and_against_the_edges():
    torch.manual_seed(0)
    convolution, x, adjacency = (
        DiffusionConvolution(2, 3, 4),
        torch.randn(2, 5, 3),
        torch.rand(5, 5),
    )
    stay, out_1, out_2, in_1, in_2 = convolution.linear.weight.split(3, dim=1)
    along = torch.diag(1 / adjacency.sum(dim=1)) @ adjacency
    against = torch.diag(1 / adjacency.sum(dim=0)) @ adjacency.T
    expected = x @ stay.T + along @ x @ out_1.T + along @ along @ x @ out_2.T
    expected = expected + against @ x @ in_1.T + against @ against @ x @ in_2.T
    expected = expected + convolution.linear.bias
    torch.testing.assert_close(convolution(x, diffusion_matrices(adjacency, 2)), expected)


def test_on_a_graph_without_edges_a_cell_is_a_plain_gru():
    torch.manual_seed(0)
    # of one channel: there r * (W h), as PyTorch has it, is W (r * h)
    cell, gru = GraphCell(partial(DiffusionConvolution, 1), 3, 1, 1), torch.nn.GRUCell(3, 1)
    with torch.no_grad():  # without edges a walk stays, and its weights add up
        gates, candidate = (
            sum(part.linear.weight.split(4, dim=1)) for part in (*cell.gates, *cell.candidate)
        )
        gru.weight_ih.copy_(torch.cat([gates[:, :3], candidate[:, :3]]))
        gru.weight_hh.copy_(torch.cat([gates[:, 3:], candidate[:, 3:]]))
        gru.bias_ih.copy_(torch.cat([cell.gates[0].linear.bias, cell.candidate[0].linear.bias]))
        gru.bias_hh.zero_()
    x, h = torch.randn(2, 5, 3), torch.randn(2, 5, 1)
    state, _ = cell(x, (h,), diffusion_matrices(torch.eye(5), 1))
    torch.testing.assert_close(state, gru(x.flatten(0, 1), h.flatten(0, 1)).view_as(state))


def test_a_given_graph_replaces_distances_and_is_saved(tmp_path):
    cube = noise()
    cube[40:, 0] = np.nan
    edges = (("B", "A", 2.0), ("A", "C", 1.0), ("X", "A", 1.0))
    filler = on_edges(*edges).fit(cube)
    expected = torch.tensor([[1.0, 2, 0], [0, 1, 0], [1, 0, 1]])
    torch.testing.assert_close(adjacency_of(filler, cube), expected)
    save_filler(filler, tmp_path / "net")
    loaded = load_filler(tmp_path / "net")
    assert loaded.method.edges == edges
    np.testing.assert_array_equal(loaded.fill(cube), filler.fill(cube))


def test_a_gap_is_filled_from_the_stations_that_a_given_graph_joins():
    cube = noise()
    cube[40:, 0] = np.nan
    filler = on_edges(("B", "A", 2.0)).fit(cube)
    joined, other = cube.copy(), cube.copy()
    joined[30:, 1] += 3
    other[30:, 2] += 3
    filled, by_joined, by_other = (filler.fill(c)[45, 0].item() for c in (cube, joined, other))
    assert by_joined != filled == by_other


@pytest.mark.parametrize("name", ["dcrnn", "gaan", "dst-gcnn"])
def test_a_forecast_depends_on_the_stations_that_a_given_graph_joins(name):
    cube = noise(n_steps=32)
    filler, origins = on_edges(("B", "A", 1.0), name=name, horizon=6).fit(cube), np.array([26])
    joined, other = cube.copy(), cube.copy()
    joined[:26, 1] += 3
    other[:26, 2] += 3
    lengths = {"context": filler.context_length, "horizon": 6}
    forecast, by_joined, by_other = (
        filler.forecast_from(c, origins, **lengths)[2][0, 0].item() for c in (cube, joined, other)
    )
    assert forecast == pytest.approx(by_other, rel=1e-8) != by_joined


def test_some_of_the_stations_are_joined_as_among_all_of_them(tmp_path):
    cube = network(steps=48, stations=8)
    cube["lat"][:], cube["lon"][:] = 40 + np.arange(8) ** 2 / 100, 116.0
    save_filler(on_edges().fit(cube), tmp_path / "net")
    filler, few = load_filler(tmp_path / "net"), [0, 1, 2, 6]
    expected, adjacency = (adjacency_of(filler, c) for c in (cube, cube.isel(location=few)))
    torch.testing.assert_close(adjacency, expected[few][:, few])


def test_a_station_without_observations_keeps_its_place_in_the_graph():
    cube = noise()
    cube[:, 1] = np.nan
    filler = on_edges(("A", "B", 1.0), ("B", "C", 1.0)).fit(cube)
    expected = torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 1, 1]])
    torch.testing.assert_close(adjacency_of(filler, cube), expected)


def test_a_station_that_is_added_later_has_its_edges_in_the_graph(tmp_path, caplog):
    cube = noise("ABX")
    edges = ("A", "B", 1.0), ("X", "A", 0.5), ("B", "B", 3.0)
    save_filler(on_edges(*edges).fit(cube.isel(location=[0, 1])), tmp_path / "net")
    filler = load_filler(tmp_path / "net")
    expected = torch.tensor([[1.0, 0, 0.5], [1, 3, 0], [0, 0, 1]])  # with the loop of B as given
    torch.testing.assert_close(adjacency_of(filler, cube), expected)
    cube[:, 2] = np.nan
    filler.fill(cube)
    assert "no other station tells of it" not in caplog.text
    filler.fill(cube.assign_coords(location=["A", "B", "Q"]))
    assert "the graph has no edge with Q" in caplog.text


def test_stations_without_edges_are_reported_in_training(caplog):
    on_edges(("S0", "S1", 1.0), ("S2", "S2", 1.0)).fit(network(steps=40, stations=7))
    assert "the graph has no edge with S2, S3, S4 and 2 more" in caplog.text


def test_edges_that_join_no_station_or_are_given_twice_are_refused():
    with pytest.raises(ConfigError, match="none of its edges does, such as X -> Y"):
        Dcrnn(edges=(("X", "Y", 1.0),)).edges_for(np.array(["A", "B"]))
    with pytest.raises(ConfigError, match="given once, but A -> B is given 2 times"):
        Dcrnn(edges=(("A", "B", 1.0), ("B", "A", 1.0), ("A", "B", 2.0)))
    with pytest.raises(ConfigError, match="greater than 0, but found -1 for A -> B"):
        Dcrnn(edges=(("A", "B", -1.0),))
