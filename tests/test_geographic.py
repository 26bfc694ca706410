"""The default network: any size, told where and when, quantiles in order."""

import math
from dataclasses import replace

import pytest
import torch
from torch import einsum

from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa import CdsaNetwork, CdsaNetworkConfig
from cdsa.nn.attention import (
    JOINT_APPLY,
    apply_sequential,
    apply_weighted,
    full_map,
)
from cdsa.nn.context import WindowContext
from cdsa.nn.interpolation import interpolate
from cdsa.nn.kernels import MAX_FUSED_COLUMNS, apply_fused
from cdsa.nn.quantile_head import (
    QUANTILES,
    interpolate_quantiles,
    monotone_quantiles,
    pinball_loss,
    split_point_quantiles,
)
from cdsa.nn.types import AXES, Sizes

CONFIG = CdsaNetworkConfig(d_model=8, n_heads=2, n_layers=2, d_ff=16)
SIZES = Sizes(7, 5, 3)


def _alike(places: int, source: torch.Generator) -> torch.Tensor:
    half = torch.rand(places, places, generator=source, dtype=torch.float64)
    return half @ half.mT / places


def around(sizes: Sizes = SIZES, batch: int = 2, seed: int = 0) -> WindowContext:
    source = torch.Generator().manual_seed(seed)
    places = torch.rand(sizes.locations, 2, generator=source, dtype=torch.float64)
    return WindowContext(
        calendar=torch.randn(batch, sizes.steps, 2, generator=source, dtype=torch.float64),
        climatology=torch.randn(batch, *sizes, generator=source, dtype=torch.float64),
        distance=torch.cdist(places, places),
        station_similarity=_alike(sizes.locations, source),
        step_variance=torch.full((sizes.measurements,), 0.1, dtype=torch.float64),
        variable_ids=torch.arange(sizes.measurements),
    )


def window(sizes: Sizes = SIZES, batch: int = 2, seed: int = 1):
    source = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, *sizes, generator=source, dtype=torch.float64)
    observed = torch.rand(values.shape, generator=source) < 0.6
    return values, observed


@pytest.fixture
def model() -> CdsaNetwork:
    torch.manual_seed(0)
    model = CdsaNetwork(CONFIG, SIZES, 2).double().eval()
    for part in model.parameters():  # away from the first weights, where much is zero
        part.data += 0.3 * torch.randn_like(part)
    return model


def some_maps(sizes: Sizes, heads: int = 2):
    source = torch.Generator().manual_seed(2)
    return {
        axis: torch.randn(2, heads, n, n, generator=source, dtype=torch.float64).softmax(-1)
        for axis, n in zip(AXES, sizes, strict=True)
    }


@pytest.mark.parametrize("sizes", [SIZES, Sizes(4, 1, 6), Sizes(3, 8, 1), Sizes(2, 24, 12)])
def test_mixing_at_once_is_mixing_in_turn(sizes):
    assert (sizes.locations * sizes.measurements > MAX_FUSED_COLUMNS) == (sizes.steps == 2)
    maps, v = some_maps(sizes), torch.randn(2, *sizes, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(apply_fused(maps, v), apply_sequential(maps, v))


def test_weighted_mixing_is_a_mean_over_what_carries_information():
    maps, v = some_maps(SIZES), torch.randn(2, *SIZES, 2, 3, dtype=torch.float64)
    weight = torch.rand(2, *SIZES, 2, dtype=torch.float64) + 0.01
    whole = full_map(maps) * einsum("bsknh -> bhskn", weight)[:, :, None, None, None]
    whole = whole / whole.sum(dim=(-3, -2, -1), keepdim=True)
    torch.testing.assert_close(apply_weighted(maps, v, weight), einsum(JOINT_APPLY, whole, v))
    one = torch.ones_like(v)
    torch.testing.assert_close(apply_weighted(maps, one, weight), one)


def test_the_same_weights_serve_any_size(model):
    for sizes in (Sizes(1, 1, 3), Sizes(12, 1, 3), Sizes(5, 9, 3), Sizes(30, 2, 3)):
        answer = model(*window(sizes), around(sizes))
        assert answer.shape == (2, *sizes, 1 + len(QUANTILES)) and answer.isfinite().all()


def test_a_part_of_the_measurements_is_found_by_number(model):
    values, observed = window(Sizes(7, 5, 2))
    told = around(Sizes(7, 5, 2))
    first = model(values, observed, told._replace(variable_ids=torch.tensor([0, 2])))
    turned = model(
        values.flip(-1),
        observed.flip(-1),
        told._replace(variable_ids=torch.tensor([2, 0]), climatology=told.climatology.flip(-1)),
    )
    torch.testing.assert_close(first, turned.flip(3))
    other = model(values, observed, told._replace(variable_ids=torch.tensor([0, 1])))
    assert not torch.allclose(first, other)


@pytest.mark.parametrize("units", [11.0, 600.0])
def test_a_silent_place_may_be_as_far_away_as_it_likes(model, units):
    values, observed = window()
    observed = observed.clone()
    observed[:, :, 4] = False
    told = around()
    distance = told.distance.clone()
    distance[4, :4] = distance[:4, 4] = units
    answer = model(values, observed, told._replace(distance=distance))
    answer.sum().backward()
    assert answer.isfinite().all()
    assert all(w.grad.isfinite().all() for w in model.parameters() if w.grad is not None)
    near = model(values, observed, told)
    torch.testing.assert_close(answer[:, :, :4], near[:, :, :4])  # nobody listens to it


def test_the_order_of_stations_does_not_matter(model):
    values, observed = window()
    told, turned = around(), torch.tensor([3, 0, 4, 1, 2])
    again = told._replace(
        climatology=told.climatology[:, :, turned],
        distance=told.distance[turned][:, turned],
        station_similarity=told.station_similarity[turned][:, turned],
    )
    torch.testing.assert_close(
        model(values[:, :, turned], observed[:, :, turned], again),
        model(values, observed, told)[:, :, turned],
    )


def test_what_is_said_of_a_place_does_not_depend_on_what_other_places_are_asked_for(model):
    values, observed = window()
    observed[:, :, 3:] = False  # two places without a sensor
    told = around().without_stations(torch.tensor([[False, False, False, True, True]] * 2))
    whole = model(values, observed, told)
    for kept in ([0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 4]):
        part = told._replace(
            climatology=told.climatology[:, :, kept],
            distance=told.distance[kept][:, kept],
            station_similarity=told.station_similarity[:, kept][:, :, kept],
        )
        torch.testing.assert_close(
            model(values[:, :, kept], observed[:, :, kept], part), whole[:, :, kept]
        )


def test_nothing_behind_a_hidden_cell_gets_in(model):
    values, observed = window()
    changed = torch.where(observed, values, 1e6)
    torch.testing.assert_close(
        model(values, observed, around()), model(changed, observed, around())
    )


@pytest.mark.parametrize("part", ["nothing", "one station", "one step"])
def test_windows_with_hardly_anything_in_them_are_fine(model, part):
    values, observed = window()
    match part:
        case "nothing":
            observed = torch.zeros_like(observed)
        case "one station":
            observed[:, :, 1:] = False
        case "one step":
            observed[:, 1:] = False
    assert model(values, observed, around()).isfinite().all()


def test_it_works_without_coordinates(model):
    values, observed = window()
    told = around()._replace(distance=None)
    assert model(values, observed, told).isfinite().all()
    alike = model.blocks[0].attention_bias(7, told)["location"]
    assert (alike.diff(dim=-1).sign() == told.station_similarity.diff(dim=-1).sign()).all()


def test_maps_lean_to_what_is_near(model):
    told = around()._replace(station_similarity=torch.zeros(5, 5).double())
    fresh = CdsaNetwork(CONFIG, SIZES, 2).double().blocks[0].attention_bias(7, told)
    lags = fresh["time"][0]
    assert (lags.diff(dim=-1)[0] < 0).all() and torch.equal(lags, lags.mT)
    near = around().distance.fill_diagonal_(9).argmin(dim=1)
    away = fresh["location"][0].clone().fill_diagonal_(-99)
    assert torch.equal(away.argmax(dim=1), near)
    assert (fresh["measurement"][0].argmax(dim=1) == torch.arange(3)).all()


def test_slopes_stay_positive_whatever_is_learnt(model):
    for block in model.blocks:
        block.attention_bias.time_slope.data.fill_(-50.0)
        block.attention_bias.distance_slope.data.fill_(-50.0)
        told = around()._replace(station_similarity=torch.zeros(5, 5).double())
        assert all((part <= 0).all() for name, part in block.attention_bias(7, told).items()
                   if name != "measurement")  # fmt: skip


def test_quantiles_never_cross():
    raw = 20 * torch.randn(200, len(QUANTILES))
    assert (monotone_quantiles(raw).diff(dim=-1) >= 0).all()
    answer = CdsaNetwork(CONFIG, SIZES, 2).double()(*window(), around())
    assert (split_point_quantiles(answer)[1].diff(dim=-1) >= 0).all()


def test_levels_between_quantiles_lie_between_them():
    quantiles = torch.tensor([float(n) for n in range(len(QUANTILES))]).expand(3, -1)
    wanted = torch.tensor([0.05, 0.075, 0.5, 0.01, 0.99])
    expected = torch.tensor([0.0, 0.5, 9.0, 0.0, 18.0]).expand(3, -1)
    torch.testing.assert_close(interpolate_quantiles(quantiles, wanted), expected)


def test_the_pinball_loss_of_a_point_is_its_absolute_error():
    point, truth = torch.tensor([1.0, -2.0]), torch.tensor([3.0, -2.5])
    same = point.unsqueeze(-1).expand(-1, len(QUANTILES))
    torch.testing.assert_close(pinball_loss(same, truth), (point - truth).abs())


def test_the_easy_answer_is_the_straight_line():
    nan = math.nan
    series = torch.tensor([nan, 2.0, nan, nan, 8.0, nan])[None, :, None, None]
    easy = interpolate(torch.nan_to_num(series), ~series.isnan())
    assert easy.line.flatten().tolist() == [2, 2, 4, 6, 8, 8]
    expected = [0, 1, 1 / 2, 1 / 3, 1, 1 / 2]
    torch.testing.assert_close(easy.proximity_before.flatten(), torch.tensor(expected))
    expected = [1 / 2, 1, 1 / 3, 1 / 2, 1, 0]
    torch.testing.assert_close(easy.proximity_after.flatten(), torch.tensor(expected))
    nothing = interpolate(torch.zeros(1, 3, 1, 1), torch.zeros(1, 3, 1, 1, dtype=torch.bool))
    assert all((part == 0).all() for part in nothing)


def test_the_maps_are_those_it_mixes_with(model):
    (values, observed), told = window(), around()
    maps = model.maps(values, observed, told)
    assert len(maps) == CONFIG.n_layers
    first = model.blocks[0]
    x, *_ = model._embed(values, observed, told)
    v = first.attention.value(first.norm(x)).unflatten(-1, (CONFIG.n_heads, -1))
    mixed = apply_weighted(maps[0], v, first.key_weight(observed))
    torch.testing.assert_close(
        x + first.attention.out(mixed.flatten(-2)),
        first(x, observed, told) - first.feed_forward(first.feed_forward_norm(
            x + first.attention.out(mixed.flatten(-2)))),
    )  # fmt: skip


def test_widths_that_do_not_split_are_answered():
    with pytest.raises(ConfigError, match="the next size that does is d_model=32"):
        replace(CONFIG, d_model=30, n_heads=8)
