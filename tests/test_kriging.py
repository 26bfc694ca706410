"""The easy answer of places: lines kriged moment by moment."""

import math

import numpy as np
import pytest
import torch

from cdsa.methods.engine.context import MAX_STEP_VARIANCE, nearest_psd, step_variance
from cdsa.methods.neural.cdsa import CdsaNetwork, CdsaNetworkConfig
from cdsa.nn.context import WindowContext
from cdsa.nn.interpolation import interpolate
from cdsa.nn.kriging_layer import MEAN_PRECISION, MIN_NUGGET, NUGGET, KrigingLayer, KrigingSolve
from cdsa.nn.types import Sizes

STEPS, PLACES, KINDS = 6, 5, 2


def around(**changes) -> WindowContext:
    source = torch.Generator().manual_seed(0)
    at = torch.rand(PLACES, 2, generator=source, dtype=torch.float64)
    told = WindowContext(
        calendar=torch.zeros(1, STEPS, 0).double(),
        climatology=torch.zeros(1, STEPS, PLACES, KINDS).double(),
        distance=torch.cdist(at, at),
        station_similarity=0.5 * torch.eye(PLACES).double(),
        step_variance=torch.tensor([0.1, 0.4]).double(),
        variable_ids=torch.arange(KINDS),
    )
    return told._replace(**changes)


def window():
    source = torch.Generator().manual_seed(1)
    values = torch.randn(1, STEPS, PLACES, KINDS, generator=source, dtype=torch.float64)
    observed = torch.rand(values.shape, generator=source) < 0.6
    observed[:, :, 4] = False  # a place without a sensor
    return torch.where(observed, values, 0.0), observed


def kriged(values, observed, told, *, alike=False, kinds=KINDS):
    easy = interpolate(values, observed)
    return (
        KrigingLayer(kinds, use_similarity=alike)
        .to(values)(easy.line, easy.has_observation, easy, told)
        .detach()
    )


@pytest.mark.parametrize("alike", [False, True])
def test_it_is_ordinary_kriging_of_the_lines_with_the_noise_of_a_walk_between_observations(alike):
    told, module = around(), KrigingLayer(KINDS, use_similarity=alike).double()
    values, observed = window()
    easy, answer = interpolate(values, observed), kriged(values, observed, told, alike=alike)
    kernel = module.kernel(told)[0].detach()
    assert alike == (kernel.diagonal(dim1=1, dim2=2) < 1 - 1e-9).any()
    for t in range(STEPS):
        for m in range(KINDS):
            there = easy.has_observation[0, t, :, m]
            noise = NUGGET + told.step_variance[m] * easy.bridge_variance[0, t, there, m]
            inverse = torch.linalg.inv(kernel[m][there][:, there] + noise.diag()).detach()
            y = easy.line[0, t, there, m]
            mean = (inverse @ y).sum() / (inverse.sum() + MEAN_PRECISION)
            expected = mean + kernel[m][:, there] @ inverse @ (y - mean)
            torch.testing.assert_close(answer[0, t, :, m], expected)


def test_a_station_is_believed_near_its_observations_and_its_neighbours_far_from_them():
    close = torch.tensor([[0.0, 0.01], [0.01, 0.0]]).double()
    told = around(
        climatology=torch.zeros(1, 40, 2, 1).double(),
        distance=close,
        station_similarity=torch.eye(2).double() * 0,
        step_variance=torch.tensor([0.1]).double(),
        variable_ids=torch.arange(1),
    )
    values = torch.ones(1, 40, 2, 1).double()
    values[:, :, 1] = -1.0
    observed = torch.zeros_like(values, dtype=torch.bool)
    observed[:, [0, 39], 0], observed[:, :, 1] = True, True
    own = kriged(torch.where(observed, values, 0.0), observed, told, kinds=1)[0, :, 0, 0]
    assert own[0] > 0 > own[20] and (own[:20].diff() < 0).all()
    assert own[20] < -0.8


def test_where_nobody_reports_it_says_nothing():
    values, observed = window()
    assert (kriged(values * 0, torch.zeros_like(observed), around()) == 0).all()


def test_what_all_say_is_said_of_a_place_without_a_sensor():
    _, observed = window()
    for alike in (False, True):
        told = kriged(observed.double() * 3.0, observed, around(), alike=alike)
        torch.testing.assert_close(told, torch.full_like(told, 3.0), rtol=0.01, atol=0)


def test_places_are_told_by_likeness_alone_without_coordinates():
    alike = torch.zeros(PLACES, PLACES).double()
    alike[:2, :2] = 1.0
    told = around(distance=None, station_similarity=alike + torch.eye(PLACES).double() * 1e-3)
    values = torch.arange(PLACES).double().expand(1, STEPS, PLACES).unsqueeze(-1)
    values = values.expand(-1, -1, -1, KINDS).clone()
    observed = torch.ones_like(values, dtype=torch.bool)
    values[:, :, 1], observed[:, :, 1] = 0.0, False
    answer = kriged(values, observed, told, alike=True)[0, 0, 1, 0]
    assert answer < 1.0  # nearer to the 0 of the one it resembles than to the mean of all, 2.25


@pytest.mark.parametrize("nugget", [0.02, 0.003])
def test_many_stations_are_solved_in_single_precision(nugget):
    source, many = torch.Generator().manual_seed(3), 200
    at = 2 * torch.rand(many, 2, generator=source)
    values = torch.randn(1, 4, many, 1, generator=source)
    observed = torch.rand(values.shape, generator=source) < 0.7
    found = []
    for kind in (torch.float32, torch.float64):
        told = around(
            climatology=torch.zeros(1, 4, many, 1, dtype=kind),
            distance=torch.cdist(at, at).to(kind),
            station_similarity=torch.eye(many, dtype=kind),
            step_variance=torch.tensor([0.1], dtype=kind),
            variable_ids=torch.arange(1),
        )
        module = KrigingLayer(1, use_similarity=False).to(kind)
        module.nugget.data.fill_(math.log(nugget - MIN_NUGGET))
        easy = interpolate(torch.where(observed, values, 0.0).to(kind), observed)
        answer = module(easy.line, easy.has_observation, easy, told)
        answer.square().sum().backward()
        found.append((answer.detach().double(), module.slope.grad.double()))
    (rough, slope), (exact, exact_slope) = found
    assert (rough - exact).abs().max() < 0.005
    torch.testing.assert_close(slope, exact_slope, rtol=1e-3, atol=0)


@pytest.mark.parametrize("kernels", [1, 2])
def test_the_gradient_of_the_pull_is_that_of_its_equations(kernels):
    source = torch.Generator().manual_seed(4)
    parts, trust, sides = (
        torch.randn(shape, generator=source, dtype=torch.float64)
        for shape in ((kernels, 2, 4, 4), (2, 2, 3, 4), (2, 2, 3, 4, 2))
    )
    trust = trust.abs()
    trust[0, 0, 0, :2] = 0.0

    def pull(parts, trust, sides):
        return KrigingSolve.apply(parts @ parts.mT, trust, sides)

    told = pull(parts, trust, sides)
    heard = torch.einsum("bmlk, bmtkr -> bmtlr", (parts @ parts.mT).expand(2, -1, -1, -1), told)
    torch.testing.assert_close(told, trust.unsqueeze(-1) * (sides - heard))
    trust = trust + 0.1  # beside zero there is no slope to compare with
    assert torch.autograd.gradcheck(pull, [x.requires_grad_() for x in (parts, trust, sides)])


def test_a_station_of_which_nothing_is_usual_says_nothing_of_what_is_unusual():
    told = around(climatology=torch.full((1, STEPS, PLACES, KINDS), 2.0).double())
    told.climatology[:, :, 1:3] = torch.nan
    model = CdsaNetwork(
        CdsaNetworkConfig(d_model=8, n_heads=2, n_layers=1), Sizes(6, 5, 2), 0
    ).double()
    values = torch.full((1, STEPS, PLACES, KINDS), 2.0).double()
    observed = torch.ones_like(values, dtype=torch.bool)
    observed[:, :, 4] = False
    seen = []
    model.anomaly_kriging.register_forward_hook(lambda module, given, answer: seen.append(answer))
    model(torch.where(observed, values, 0.0), observed, told)
    torch.testing.assert_close(seen[0][:, :, 4], torch.zeros(1, STEPS, KINDS).double())


def test_likenesses_that_cannot_be_true_together_are_mended():
    odd = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    mended = nearest_psd(odd)
    assert np.linalg.eigvalsh(odd).min() < 0 <= np.linalg.eigvalsh(mended).min() + 1e-12
    fine = np.array([[1.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(nearest_psd(fine), fine)


def test_roughness_is_the_squared_difference_of_what_stands_side_by_side():
    values = np.full((5, 1, 3), np.nan)
    values[:, 0, 0] = [0.0, 0.5, np.nan, 0.0, 0.5]
    values[::2, 0, 1] = 1.0
    values[:, 0, 2] = 1.0
    np.testing.assert_allclose(step_variance(values), [0.25, MAX_STEP_VARIANCE, 1e-5])
