"""Rivals that forecast, 'fc-lstm', 'dcrnn', 'gaan' and 'dst-gcnn': what each is made of, and that
those that know the graph make use of it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.methods.engine.persistence import load_filler, save_filler
from cdsa.methods.neural import gaan
from cdsa.methods.neural.dcrnn import Dcrnn, DcrnnConfig
from cdsa.methods.neural.dstgcnn import DstGcnn, DstGcnnConfig, PredictedGraph, TimeConvolution
from cdsa.methods.neural.fclstm import FcLstm, FcLstmConfig
from cdsa.methods.neural.gaan import Gaan, GaanConfig, GatedAttention
from cdsa.methods.registry import make_method
from cdsa.nn.context import WindowContext
from cdsa.nn.graph import (
    DiffusionConvolution,
    GraphCell,
    adjacency_of_distances,
    diffusion_matrices,
)
from cdsa.nn.types import Sizes
from cdsa.training.loop import TrainConfig
from cdsa.workflows.forecast import forecasts_from
from conftest import network

SIZES = Sizes(7, 4, 2)


def around(batch=2, sizes=SIZES) -> WindowContext:
    at = torch.arange(float(sizes.locations))
    return WindowContext(
        calendar=torch.zeros(batch, sizes.steps, 0),
        climatology=torch.zeros(batch, *sizes),
        distance=(at[:, None] - at).abs(),
        station_similarity=torch.eye(sizes.locations),
        step_variance=torch.ones(sizes.measurements),
        variable_ids=torch.arange(sizes.measurements),
    )


def networks():
    torch.manual_seed(0)
    diffusing = DcrnnConfig(d_model=8, n_layers=2, fading=5.0).build(SIZES, 3, 0)
    connected = FcLstmConfig(d_model=8, n_layers=2, fading=5.0).build(SIZES, 3, 0)
    attending = GaanConfig(d_model=8, n_layers=2, n_heads=2, d_qk=4, d_gate=4, fading=5.0).build(
        SIZES, 3, 0
    )
    convolving = DstGcnnConfig(d_model=8, n_layers=2).build(SIZES, 3, 0)
    graph = (around(),)
    return [(diffusing, graph), (connected, ()), (attending, graph), (convolving, graph)]


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_the_future_is_told_step_by_step_and_never_seen(number):
    model, told = networks()[number]
    values = torch.randn(2, *SIZES)
    seen = torch.ones(2, *SIZES, dtype=torch.bool)
    seen[:, 4:] = False
    changed = values.clone()
    changed[:, 4:] = 99.0
    assert torch.equal(model(values, seen, *told), model(changed, seen, *told))
    assert torch.equal(model(values, seen, *told)[:, :4], values[:, :4])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_while_it_learns_a_step_starts_from_the_truth_less_and_less_often(number):
    model, told = networks()[number]
    shares = []
    for lesson in (0, 10, 40):
        model.lessons.fill_(lesson)
        shares.append(model.truth_share())
    assert shares[0] > 0.8 > shares[1] > shares[2] and shares[2] < 0.01
    values, seen = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    past = seen.clone()
    past[:, 4:] = False
    taught = model.forward_teacher_forced(values, seen, *told)  # by now from its own guesses alone
    torch.testing.assert_close(taught, model(values, past, *told))
    assert model.lessons == 41
    model.lessons.fill_(0)
    first = model.forward_teacher_forced(values, seen, *told)
    assert torch.equal(first[:, 4], taught[:, 4]) and not torch.allclose(first[:, 6], taught[:, 6])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_is_missing_in_the_truth_stays_as_it_was_guessed(number):
    model, told = networks()[number]
    values, seen = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    seen[:, 4:, 1] = False
    changed = values.clone()
    changed[:, 4:, 1] = 99.0
    assert model.truth_share() > 0.8
    first = model.forward_teacher_forced(values, seen, *told)
    model.lessons.fill_(0)
    assert torch.equal(first, model.forward_teacher_forced(changed, seen, *told))


def test_other_seeds_start_from_the_truth_at_other_steps():
    values, seen = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    model, told = networks()[1]
    model.lessons.fill_(5)
    taught = []
    for dice in range(20):
        model.dice = dice
        taught.append(model.forward_teacher_forced(values, seen, *told))
        model.lessons.fill_(5)
    assert len({tuple(one.flatten().tolist()) for one in taught}) > 2
    assert networks()[1][0].dice == networks()[1][0].dice
    torch.manual_seed(1)
    other = FcLstmConfig(d_model=8, n_layers=2, fading=5.0).build(SIZES, 3, 0)
    assert other.dice != networks()[1][0].dice


@pytest.mark.parametrize("past", [1, 4, 12, 24, 40])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_what_is_foreseen_depends_on_the_first_step_looked_back_on(number, past):
    torch.manual_seed(0)
    configs = [
        (DcrnnConfig(d_model=8), True),
        (FcLstmConfig(d_model=8), False),
        (GaanConfig(d_model=8, n_heads=2, d_qk=4, d_gate=4), True),
        (DstGcnnConfig(d_model=8), True),
    ]
    sizes = Sizes(past + 3, 2, 1)
    config, on_graph = configs[number]
    model = config.build(sizes, 3, 0).double()
    told = (around(1, sizes),) if on_graph else ()
    values, seen = torch.randn(1, *sizes).double(), torch.ones(1, *sizes, dtype=torch.bool)
    seen[:, past:] = False
    changed = values.clone()
    changed[:, 0] += 3
    assert (model(values, seen, *told) - model(changed, seen, *told))[:, past:].abs().max() > 0


def test_walks_stay_on_the_graph_and_lose_nothing():
    distance = torch.tensor([[0.0, 1, 9], [1, 0, 9], [9, 9, 0]])
    weight = adjacency_of_distances(distance)
    assert weight[0, 1] > 0.5 and weight[0, 2] == 0
    walks = diffusion_matrices(weight, 2)
    assert walks.shape == (2, 3, 3)  # distances are the same both ways
    torch.testing.assert_close(walks.sum(dim=2), torch.ones(2, 3))
    torch.testing.assert_close(walks[1], walks[0] @ walks[0])
    one_way = diffusion_matrices(torch.tensor([[1.0, 1, 0], [0, 1, 1], [0, 0, 1]]), 1)
    assert one_way[0, 0, 1] > 0 == one_way[0, 1, 0] and one_way[1, 1, 0] > 0 == one_way[1, 0, 1]


def test_walks_that_are_the_same_both_ways_are_walked_once():
    torch.manual_seed(0)
    look, x = DiffusionConvolution(2, 3, 4), torch.randn(2, 5, 3)
    spots = torch.rand(5, 2)
    walks = diffusion_matrices(
        adjacency_of_distances((spots.unsqueeze(0) - spots.unsqueeze(1)).norm(dim=-1)), 2
    )
    assert len(walks) == 2
    torch.testing.assert_close(look(x, walks), look(x, torch.cat([walks, walks])))


def test_a_convolution_walks_along_and_against_the_edges_of_a_graph():
    torch.manual_seed(0)
    look, x, weight = DiffusionConvolution(2, 3, 4), torch.randn(2, 5, 3), torch.rand(5, 5)
    stay, one, two, back, twice_back = look.mix.weight.split(3, dim=1)
    out_of = torch.diag(1 / weight.sum(dim=1)) @ weight
    into = torch.diag(1 / weight.sum(dim=0)) @ weight.T
    expected = x @ stay.T + out_of @ x @ one.T + out_of @ out_of @ x @ two.T
    expected = expected + into @ x @ back.T + into @ into @ x @ twice_back.T + look.mix.bias
    torch.testing.assert_close(look(x, diffusion_matrices(weight, 2)), expected)


def test_on_a_graph_without_edges_units_are_those_of_a_plain_network():
    torch.manual_seed(0)
    # of one channel: there r * (W h), as PyTorch has it, is W (r * h)
    cell, plain = GraphCell(partial(DiffusionConvolution, 1), 3, 1, 1), torch.nn.GRUCell(3, 1)
    with torch.no_grad():  # who walks nowhere stays: the weights of both count
        both, new = (
            sum(part.mix.weight.split(4, dim=1)) for part in (*cell.gates, *cell.candidate)
        )
        plain.weight_ih.copy_(torch.cat([both[:, :3], new[:, :3]]))
        plain.weight_hh.copy_(torch.cat([both[:, 3:], new[:, 3:]]))
        plain.bias_ih.copy_(torch.cat([cell.gates[0].mix.bias, cell.candidate[0].mix.bias]))
        plain.bias_hh.zero_()
    x, h = torch.randn(2, 5, 3), torch.randn(2, 5, 1)
    told, _ = cell(x, (h,), diffusion_matrices(torch.eye(5), 1))
    torch.testing.assert_close(told, plain(x.flatten(0, 1), h.flatten(0, 1)).view_as(told))


def test_gates_that_diffuse_begin_open_as_published():
    cell = DcrnnConfig(d_model=4, n_layers=2).cell(3)
    assert all((gate.mix.bias == 1).all() for gate in cell.gates)
    assert not any((fresh.mix.bias == 1).any() for fresh in cell.candidate)


def test_stations_that_are_all_as_far_apart_have_a_graph_too():
    assert adjacency_of_distances(torch.tensor([[0.0, 5.0], [5.0, 0.0]]))[0, 1] > 0.3
    assert adjacency_of_distances(torch.zeros(1, 1)).item() == 1


def test_neighbours_alone_are_attended_to_and_each_head_has_a_gate():
    torch.manual_seed(0)
    look = GatedAttention(GaanConfig(n_heads=2, d_qk=4, d_gate=4), 5, 3)
    neighbours = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.bool)
    x = torch.randn(2, 3, 5)
    far = x.clone()
    far[:, 2] += 10
    *_, nearby, own, beside, _ = look.project(x).split(look.sizes, dim=-1)
    gates = look.gates(nearby, own, beside, neighbours)
    assert gates.shape == (2, 3, 2) and ((gates > 0) & (gates < 1)).all()
    told, changed = look(x, neighbours), look(far, neighbours)
    assert torch.equal(told[:, 0], changed[:, 0]) and not torch.allclose(told[:, 1], changed[:, 1])
    with torch.no_grad():  # with its gates closed, a location hears of nobody
        look.project.bias[sum(look.sizes[:4]) :][:2] = -100.0
    torch.testing.assert_close(look(x, neighbours)[:, 1], look(far, neighbours)[:, 1])


def test_the_largest_among_neighbours_is_told_with_its_gradient_and_little_is_kept(monkeypatch):
    torch.manual_seed(0)
    x = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    neighbours = (torch.rand(9, 9) < 0.4) | torch.eye(9, dtype=torch.bool)
    plain = x.unsqueeze(1).masked_fill(~neighbours.unsqueeze(-1), -torch.inf).amax(dim=2)
    (slope,) = torch.autograd.grad(plain.square().sum(), x)
    monkeypatch.setattr(gaan, "AT_ONCE", 4 * x.numel())
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda one: kept.append(one.numel()) or one, lambda one: one
    ):
        told = gaan.most_of(x, neighbours)
    assert torch.equal(told, plain) and max(kept) <= x.numel()
    torch.testing.assert_close(torch.autograd.grad(told.square().sum(), x)[0], slope)


def test_the_more_stations_the_smaller_the_batch_of_one_that_attends():
    batches = [Gaan().settled(stations).train.batch_size for stations in (10, 36, 100, 207, 1000)]
    assert batches[:2] == [32, 32] and batches == sorted(batches, reverse=True)
    assert (
        batches[-1] == 1
        and Gaan(train=TrainConfig(batch_size=5)).settled(207).train.batch_size == 5
    )


def test_the_graph_is_predicted_for_every_step_on_the_edges_there_are():
    torch.manual_seed(0)
    graph = torch.tensor([[1.0, 0.5, 0], [0.5, 1, 0.2], [0, 0.2, 1]])
    graphs = PredictedGraph(6)(torch.randn(2, 5, 3, 6), graph)
    assert graphs.shape == (2, 5, 3, 3)
    torch.testing.assert_close(graphs.sum(dim=-1), torch.ones(2, 5, 3))
    assert (graphs[..., 0, 2] == 0).all() and (graphs[..., 0, 1] > 0).all()
    assert not torch.allclose(graphs[:, 0], graphs[:, 4])


def test_a_convolution_over_time_looks_back_only():
    torch.manual_seed(0)
    over, x = TimeConvolution(4, 4), torch.randn(1, 6, 2, 4)
    later = x.clone()
    later[:, 4:] += 5
    assert torch.equal(over(x)[:, :4], over(later)[:, :4])


@pytest.mark.parametrize("name", ["dst-gcnn", "dcrnn", "gaan", "fc-lstm", "brits", "mtsi"])
def test_what_is_not_learnt_to_be_looked_at_is_refused(name):
    with pytest.raises(ConfigError, match=f"'{name}' makes no use of what is known in advance"):
        make_method(name, ahead=3, known=["x"])


def test_one_that_is_tied_to_its_stations_is_told_the_time_too(tmp_path):
    cube = network(steps=96, stations=4)
    filler = FcLstm().by_preset("small").fit(cube)
    assert filler.network.context_builder.n_calendar_features == 2 and not filler.network.inductive
    later = cube.assign_coords(time=cube["time"] + np.timedelta64(7, "h"))
    origins = np.array([60])
    now, then = (filler.foresee(c, origins)[5].to_numpy() for c in (cube, later))
    assert not np.allclose(now, then)
    save_filler(filler, tmp_path / "net")
    kept = load_filler(tmp_path / "net")
    np.testing.assert_array_equal(kept.foresee(cube, origins)[5].to_numpy(), now)
    # whoever is left, and in whatever order: each has its place, and who is gone was not seen
    some, gone = cube.isel(location=[2, 0]), cube["location"].to_numpy()[[1, 3]]
    silent = cube.where(~cube["location"].isin(gone))
    told, same = (filler.foresee(c, origins)[5] for c in (some, silent))
    np.testing.assert_array_equal(told, same.sel(location=some["location"]))


def test_what_was_set_is_kept_when_it_is_to_foresee():
    assert Dcrnn().foreseeing(12).settled().window == 12
    assert Dcrnn(window=48).foreseeing(12).settled().window == 48
    assert Dcrnn(stride=6).foreseeing(3).settled().stride == 6
    to_fill, ahead = Dcrnn().settled(), Dcrnn().foreseeing(12).settled()
    assert (to_fill.model.d_model, to_fill.model.n_layers, to_fill.train.batch_size) == (32, 1, 8)
    assert (ahead.model.d_model, ahead.model.n_layers, ahead.train.batch_size) == (64, 2, 32)
    assert Dcrnn(horizon=12).settled() == ahead
    narrow = Dcrnn(model=to_fill.model, train=to_fill.train, window=36).foreseeing(12).settled()
    assert (narrow.model, narrow.train.batch_size, narrow.window) == (to_fill.model, 8, 36)
    assert Dcrnn().by_preset("small").foreseeing(6).settled().model.n_layers == 1
    with pytest.raises(ConfigError, match="stride lies between 1 and the steps of a window"):
        Dcrnn(stride=0)


def test_layers_look_no_further_than_the_window():
    many = DstGcnnConfig(d_model=4, n_layers=7).build(Sizes(15, 2, 1), 3, 0)
    assert [layer.over.apart for layer in many.layers] == [1, 2, 4, 1, 2, 4, 1]


def test_without_a_graph_it_says_why_it_cannot_run():
    times = np.datetime64("2020-01-01") + np.arange(80).astype("timedelta64[h]")
    cube = make_cube(np.zeros((80, 3, 1)), times, list("ABC"), ["x"])
    with pytest.raises(ConfigError, match="needs the graph of the stations"):
        Dcrnn().by_preset("small").fit(cube)


def diffusion(steps=400, side=4):
    """Heat that comes in at random places and spreads over a square of stations."""
    rng = np.random.default_rng(0)
    lat, lon = (part.ravel() / 10 for part in np.mgrid[:side, :side])
    apart = np.hypot(lat[:, None] - lat, lon[:, None] - lon)
    near = (apart < 0.11) & (apart > 0)
    spread = near / near.sum(axis=1, keepdims=True)
    heat, found = np.zeros(side**2), []
    for _ in range(steps):
        heat = 0.45 * heat + 0.5 * spread @ heat
        heat[rng.integers(side**2)] += rng.exponential(3.0)
        found.append(heat + 0.02 * rng.normal(size=side**2))
    times = np.datetime64("2020-01-01") + np.arange(steps).astype("timedelta64[h]")
    names = [f"S{n:02}" for n in range(side**2)]
    return make_cube(np.array(found)[..., None], times, names, ["heat"], lat=lat, lon=lon)


def error_of(method, cube, origins):
    train = replace(method.train, minutes=None, epochs=8, batch=16, rate=5e-3)
    filler = replace(method, train=train).fit(cube[:300])
    told = forecasts_from(filler, cube, origins, past=4, ahead=3)
    truth = cube.to_numpy()
    return np.mean([np.abs(part.to_numpy() - truth[origins + h]) for h, part in enumerate(told)])


@pytest.mark.slow
def test_networks_that_know_the_graph_beat_one_that_does_not_on_a_diffusion():
    cube, few, origins = diffusion(), {"steps": 4, "horizon": 3, "stride": 1}, np.arange(304, 397)
    plain = FcLstm(model=FcLstmConfig(d_model=32, n_layers=1, fading=50.0), **few)
    most = 0.9 * error_of(plain, cube, origins)
    for method in (
        Dcrnn(model=DcrnnConfig(d_model=16, n_layers=1, fading=50.0), **few),
        Gaan(
            model=GaanConfig(d_model=16, n_layers=1, n_heads=2, d_qk=8, d_gate=8, fading=50.0),
            **few,
        ),
        DstGcnn(model=DstGcnnConfig(d_model=16, n_layers=1), **few),
    ):
        assert error_of(method, cube, origins) < most, method.name
