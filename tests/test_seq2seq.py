"""The rivals 'fc-lstm' and 'dcrnn': encoder, decoder, scheduled sampling, walks on the graph."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cdsa.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.filling import forecasts_from
from cdsa.method.dcrnn import Dcrnn, DcrnnConfig, graph_of, walks_of
from cdsa.method.fclstm import FcLstm, FcLstmConfig
from cdsa.models.axes import Sizes
from cdsa.models.surroundings import Surroundings

SIZES = Sizes(7, 4, 2)


def around(batch=2) -> Surroundings:
    at = torch.arange(4.0)
    return Surroundings(
        clock=torch.zeros(batch, 7, 0),
        usual=torch.zeros(batch, *SIZES),
        distance=(at[:, None] - at).abs(),
        likeness=torch.eye(4),
        roughness=torch.ones(2),
        kinds=torch.arange(2),
    )


def networks():
    torch.manual_seed(0)
    diffusing = DcrnnConfig(hidden=8, layers=2, fading=5.0).build(SIZES, 3, 0)
    connected = FcLstmConfig(hidden=8, layers=2, fading=5.0).build(SIZES, 3, 0)
    return [(diffusing, (around(),)), (connected, ())]


@pytest.mark.parametrize("number", [0, 1])
def test_the_future_is_told_step_by_step_and_never_seen(number):
    model, told = networks()[number]
    values = torch.randn(2, *SIZES)
    seen = torch.ones(2, *SIZES, dtype=torch.bool)
    seen[:, 4:] = False
    changed = values.clone()
    changed[:, 4:] = 99.0
    assert torch.equal(model(values, seen, *told), model(changed, seen, *told))
    assert torch.equal(model(values, seen, *told)[:, :4], values[:, :4])


@pytest.mark.parametrize("number", [0, 1])
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
    taught = model.teach(values, seen, *told)  # by now from its own guesses alone
    torch.testing.assert_close(taught, model(values, past, *told))
    assert model.lessons == 41
    model.lessons.fill_(0)
    first = model.teach(values, seen, *told)
    assert torch.equal(first[:, 4], taught[:, 4]) and not torch.allclose(first[:, 6], taught[:, 6])


def test_walks_stay_on_the_graph_and_lose_nothing():
    distance = torch.tensor([[0.0, 1, 9], [1, 0, 9], [9, 9, 0]])
    weight = graph_of(distance)
    assert weight[0, 1] > 0.5 and weight[0, 2] == 0
    walks = walks_of(2)(around()._replace(distance=distance), torch.zeros(1))
    assert walks.shape == (3, 3, 3)
    torch.testing.assert_close(walks.sum(dim=2), torch.ones(3, 3))
    torch.testing.assert_close(walks[2], walks[1] @ walks[1])


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


def test_a_network_that_knows_the_graph_beats_one_that_does_not_on_a_diffusion():
    cube = diffusion()
    few = {"steps": 4, "horizon": 3}
    graph = Dcrnn(model=DcrnnConfig(hidden=16, layers=1, fading=50.0), **few)
    plain = FcLstm(model=FcLstmConfig(hidden=32, layers=1, fading=50.0), **few)
    origins = np.arange(304, 397)
    errors = []
    for method in (graph, plain):
        train = replace(method.train, minutes=None, epochs=8, batch=16, rate=5e-3)
        filler = replace(method, train=train).fit(cube[:300])
        told = forecasts_from(filler, cube, origins, past=4, ahead=3)
        off = [
            np.abs(part.to_numpy() - cube.to_numpy()[origins + h]) for h, part in enumerate(told)
        ]
        errors.append(np.mean(off))
    assert errors[0] < 0.9 * errors[1]
