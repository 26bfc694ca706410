"""A graph that is given: read from a table, kept by name, and looked along."""

import numpy as np
import pytest
import torch

from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError, TableError
from cdsa.io.sidecars import read_graph
from cdsa.methods.engine.persistence import load_filler, save_filler
from cdsa.methods.neural.dcrnn import Dcrnn
from cdsa.methods.registry import make_method
from cdsa.nn.graph import adjacency_of_context
from conftest import network


def test_a_graph_that_is_given_takes_the_place_of_distances(tmp_path):
    times = np.datetime64("2020-01-01") + np.arange(80).astype("timedelta64[h]")
    rng = np.random.default_rng(0)
    cube = make_cube(rng.normal(size=(80, 3, 1)), times, list("ABC"), ["x"])
    cube[70:, 0] = np.nan
    file = tmp_path / "graph.csv"
    file.write_text("from,to,weight\nB,A,2\nA,C,1\nX,A,1\n")
    edges = read_graph(file)
    assert edges == (("B", "A", 2.0), ("A", "C", 1.0), ("X", "A", 1.0))
    filler = Dcrnn().by_preset("small").on_graph(edges).fit(cube)
    expected = torch.tensor([[1.0, 2, 0], [0, 1, 0], [1, 0, 1]])
    torch.testing.assert_close(graph_of_cube(filler, cube), expected)
    apart = filler.method.on_graph((("B", "A", 2.0),)).fit(cube)
    near, far = (cube.copy() for _ in range(2))  # now A is joined to B, and to C no more
    near[60:, 1] += 3
    far[60:, 2] += 3
    own = apart.fill(cube)[75, 0].item()
    assert apart.fill(near)[75, 0].item() != own == apart.fill(far)[75, 0].item()
    own = filler.fill(cube)[75, 0].item()
    save_filler(filler, tmp_path / "net")
    kept = load_filler(tmp_path / "net")
    assert kept.method.edges == edges and kept.fill(cube)[75, 0].item() == own


@pytest.mark.parametrize("name", ["dcrnn", "gaan", "dst-gcnn"])
def test_a_forecaster_hears_of_those_that_a_given_graph_joins_it_to(name):
    times = np.datetime64("2020-01-01") + np.arange(80).astype("timedelta64[h]")
    cube = make_cube(np.random.default_rng(0).normal(size=(80, 3, 1)), times, list("ABC"), ["x"])
    method = make_method(f"{name}@small", ahead=6)[1].on_graph((("B", "A", 1.0),))
    filler, now = method.fit(cube), np.array([60])
    near, far = cube.copy(), cube.copy()
    near[:60, 1] += 3
    far[:60, 2] += 3
    own, by_near, by_far = (filler.foresee(c, now)[2][0, 0].item() for c in (cube, near, far))
    assert by_near != own == by_far


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\nA,B\n", "the columns from, to"),
        ("from,to,weight\nA,B,0\n", "greater than 0, but found 0 in row 1"),
        ("from,to\n", "0 rows"),
    ],
)
def test_a_bad_graph_is_refused(tmp_path, text, words):
    (tmp_path / "graph.csv").write_text(text)
    with pytest.raises(TableError, match=words):
        read_graph(tmp_path / "graph.csv")


def test_a_part_of_the_stations_is_joined_as_among_all_of_them(tmp_path):
    cube = network(steps=80, stations=8)
    cube["lat"][:], cube["lon"][:] = 40 + np.arange(8) ** 2 / 100, 116.0
    save_filler(Dcrnn().by_preset("small").fit(cube), tmp_path / "net")
    filler = load_filler(tmp_path / "net")

    few = [0, 1, 2, 6]
    whole, part = (graph_of_cube(filler, of) for of in (cube, cube.isel(location=few)))
    torch.testing.assert_close(part, whole[few][:, few])


def test_a_silent_station_keeps_its_place_in_the_graph():
    times = np.datetime64("2020-01-01") + np.arange(80).astype("timedelta64[h]")
    cube = make_cube(np.random.default_rng(0).normal(size=(80, 3, 1)), times, list("ABC"), ["x"])
    cube[:, 1] = np.nan
    edges = (("A", "B", 1.0), ("B", "C", 1.0))
    filler = Dcrnn().by_preset("small").on_graph(edges).fit(cube)
    expected = torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 1, 1]])
    torch.testing.assert_close(graph_of_cube(filler, cube), expected)


def test_a_station_that_joins_later_has_its_edges_in_the_graph(tmp_path, caplog):
    times = np.datetime64("2020-01-01") + np.arange(80).astype("timedelta64[h]")
    cube = make_cube(np.random.default_rng(0).normal(size=(80, 3, 1)), times, list("ABX"), ["x"])
    edges = (("A", "B", 1.0), ("X", "A", 0.5), ("B", "B", 3.0))
    save_filler(
        Dcrnn().by_preset("small").on_graph(edges).fit(cube.isel(location=[0, 1])), tmp_path / "net"
    )
    filler = load_filler(tmp_path / "net")
    expected = torch.tensor([[1.0, 0, 0.5], [1, 3, 0], [0, 0, 1]])  # its own weight, if it is given
    torch.testing.assert_close(graph_of_cube(filler, cube), expected)
    cube[:, 2] = np.nan
    filler.fill(cube)
    assert "no other station tells of it" not in caplog.text
    filler.fill(cube.assign_coords(location=["A", "B", "Q"]))
    assert "the graph has no edge with Q" in caplog.text


def test_a_station_that_the_graph_forgot_is_pointed_out_when_it_is_learnt(caplog):
    cube = network(steps=60, stations=7)
    Dcrnn().by_preset("small").on_graph((("S0", "S1", 1.0), ("S2", "S2", 1.0))).fit(cube)
    assert "the graph has no edge with S2, S3, S4 and 2 more" in caplog.text


def graph_of_cube(filler, cube) -> torch.Tensor:
    """The graph that a network looks along when it fills a cube."""
    learnt = filler.network.adapt_to(cube)
    window = learnt.windows(learnt.align(cube)).take(torch.arange(1))
    return adjacency_of_context(window.context, window.values, "dcrnn")


def test_a_graph_of_other_stations_is_refused():
    with pytest.raises(ConfigError, match="none of the edges does, such as X -> Y"):
        Dcrnn(edges=(("X", "Y", 1.0),)).edges_for(np.array(["A", "B"]))
    with pytest.raises(ConfigError, match="given once, but A -> B is there 2 times"):
        Dcrnn(edges=(("A", "B", 1.0), ("B", "A", 1.0), ("A", "B", 2.0)))
    with pytest.raises(ConfigError, match="greater than 0, but found -1 for A -> B"):
        Dcrnn(edges=(("A", "B", -1.0),))
