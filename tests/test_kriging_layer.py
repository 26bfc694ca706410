"""Kriging of interpolated lines, step by step."""

import math

import pytest
import torch

from cdsa.nn.context import WindowContext
from cdsa.nn.interpolation import interpolate
from cdsa.nn.kriging_layer import MEAN_PRECISION, MIN_NUGGET, NUGGET, KrigingLayer, KrigingSolve

STEPS, STATIONS, VARIABLES = 6, 5, 2


def make_context(**changes) -> WindowContext:
    rng = torch.Generator().manual_seed(0)
    sites = torch.rand(STATIONS, 2, generator=rng, dtype=torch.float64)
    context = WindowContext(
        calendar=torch.zeros(1, STEPS, 0).double(),
        climatology=torch.zeros(1, STEPS, STATIONS, VARIABLES).double(),
        distance=torch.cdist(sites, sites),
        station_similarity=0.5 * torch.eye(STATIONS).double(),
        step_variance=torch.tensor([0.1, 0.4]).double(),
        variable_ids=torch.arange(VARIABLES),
    )
    return context._replace(**changes)


def make_window():
    rng = torch.Generator().manual_seed(1)
    values = torch.randn(1, STEPS, STATIONS, VARIABLES, generator=rng, dtype=torch.float64)
    observed = torch.rand(values.shape, generator=rng) < 0.6
    observed[:, :, 4] = False  # an unmonitored site
    return torch.where(observed, values, 0.0), observed


def bridge_of(lines, context):
    return context.step_variance * lines.bridge_variance


def krige(values, observed, context, *, use_similarity=False, n_variables=VARIABLES):
    layer = KrigingLayer(n_variables, use_similarity=use_similarity).to(values)
    lines = interpolate(values, observed)
    return layer(lines.line, lines.has_observation, bridge_of(lines, context), context).detach()


@pytest.mark.parametrize("use_similarity", [False, True])
def test_the_layer_is_ordinary_kriging_with_the_noise_of_a_random_bridge(use_similarity):
    context, (values, observed) = make_context(), make_window()
    lines = interpolate(values, observed)
    kriged = krige(values, observed, context, use_similarity=use_similarity)
    layer = KrigingLayer(VARIABLES, use_similarity=use_similarity).double()
    kernel = layer.kernel(context)[0].detach()
    assert use_similarity == (kernel.diagonal(dim1=1, dim2=2) < 1 - 1e-9).any()
    for t in range(STEPS):
        for m in range(VARIABLES):
            valid = lines.has_observation[0, t, :, m]
            noise = NUGGET + context.step_variance[m] * lines.bridge_variance[0, t, valid, m]
            inverse = torch.linalg.inv(kernel[m][valid][:, valid] + noise.diag())
            y = lines.line[0, t, valid, m]
            mean = (inverse @ y).sum() / (inverse.sum() + MEAN_PRECISION)
            expected = mean + kernel[m][:, valid] @ inverse @ (y - mean)
            torch.testing.assert_close(kriged[0, t, :, m], expected)


def test_a_station_counts_near_its_observations_and_its_neighbours_far_from_them():
    context = make_context(
        climatology=torch.zeros(1, 40, 2, 1).double(),
        distance=torch.tensor([[0.0, 0.01], [0.01, 0.0]]).double(),
        station_similarity=torch.zeros(2, 2).double(),
        step_variance=torch.tensor([0.1]).double(),
        variable_ids=torch.arange(1),
    )
    values = torch.ones(1, 40, 2, 1).double()
    values[:, :, 1] = -1.0
    observed = torch.zeros_like(values, dtype=torch.bool)
    observed[:, [0, 39], 0], observed[:, :, 1] = True, True
    values = torch.where(observed, values, 0.0)
    series = krige(values, observed, context, n_variables=1)[0, :, 0, 0]
    assert series[0] > 0 > series[20] and (series[:20].diff() < 0).all()
    assert series[20] < -0.8


def test_without_observations_the_prediction_is_zero():
    values, observed = make_window()
    assert (krige(values * 0, torch.zeros_like(observed), make_context()) == 0).all()


@pytest.mark.parametrize("use_similarity", [False, True])
def test_a_value_that_all_stations_share_is_predicted_everywhere(use_similarity):
    _, observed = make_window()
    kriged = krige(observed.double() * 3.0, observed, make_context(), use_similarity=use_similarity)
    torch.testing.assert_close(kriged, torch.full_like(kriged, 3.0), rtol=0.01, atol=0)


def test_without_coordinates_similarity_alone_decides():
    similarity = torch.eye(STATIONS).double() * 1e-3
    similarity[:2, :2] += 1.0
    context = make_context(distance=None, station_similarity=similarity)
    values = torch.arange(STATIONS).double().expand(1, STEPS, STATIONS).unsqueeze(-1)
    values = values.expand(-1, -1, -1, VARIABLES).clone()
    observed = torch.ones_like(values, dtype=torch.bool)
    values[:, :, 1], observed[:, :, 1] = 0.0, False
    prediction = krige(values, observed, context, use_similarity=True)[0, 0, 1, 0]
    assert prediction < 1.0  # nearer to 0 at the similar station than to the mean of all, 2.25


@pytest.mark.parametrize("nugget", [0.02, 0.003])
def test_many_stations_are_solved_in_single_precision(nugget):
    rng, stations = torch.Generator().manual_seed(3), 200
    sites = 2 * torch.rand(stations, 2, generator=rng)
    values = torch.randn(1, 4, stations, 1, generator=rng)
    observed = torch.rand(values.shape, generator=rng) < 0.7
    results = []
    for dtype in (torch.float32, torch.float64):
        context = make_context(
            climatology=torch.zeros(1, 4, stations, 1, dtype=dtype),
            distance=torch.cdist(sites, sites).to(dtype),
            station_similarity=torch.eye(stations, dtype=dtype),
            step_variance=torch.tensor([0.1], dtype=dtype),
            variable_ids=torch.arange(1),
        )
        layer = KrigingLayer(1, use_similarity=False).to(dtype)
        layer.nugget.data.fill_(math.log(nugget - MIN_NUGGET))
        lines = interpolate(torch.where(observed, values, 0.0).to(dtype), observed)
        kriged = layer(lines.line, lines.has_observation, bridge_of(lines, context), context)
        kriged.square().sum().backward()
        results.append((kriged.detach().double(), layer.slope.grad.double()))
    (single, gradient), (exact, exact_gradient) = results
    assert (single - exact).abs().max() < 0.005
    torch.testing.assert_close(gradient, exact_gradient, rtol=1e-3, atol=0)


@pytest.mark.parametrize("n_kernels", [1, 2])
def test_the_gradient_of_the_solve_is_that_of_its_equations(n_kernels):
    rng = torch.Generator().manual_seed(4)
    half, precision, rhs = (
        torch.randn(shape, generator=rng, dtype=torch.float64)
        for shape in ((n_kernels, 2, 4, 4), (2, 2, 3, 4), (2, 2, 3, 4, 2))
    )
    precision = precision.abs()
    precision[0, 0, 0, :2] = 0.0

    def solve(half, precision, rhs):
        return KrigingSolve.apply(half @ half.mT, precision, rhs)

    weights = solve(half, precision, rhs)
    kernel = (half @ half.mT).expand(2, -1, -1, -1)
    covered = torch.einsum("bmlk, bmtkr -> bmtlr", kernel, weights)
    torch.testing.assert_close(weights, precision.unsqueeze(-1) * (rhs - covered))
    precision = precision + 0.1  # at zero there is no gradient to compare with
    assert torch.autograd.gradcheck(solve, [x.requires_grad_() for x in (half, precision, rhs)])
