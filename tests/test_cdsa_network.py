"""The default network: windows of any size, with context and quantiles."""

from dataclasses import replace

import pytest
import torch

from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa_network import MIN_LOW_PRECISION, CdsaNetwork, CdsaNetworkConfig
from cdsa.nn.attention import apply_weighted
from cdsa.nn.context import RECORD_FEATURES, WindowContext
from cdsa.nn.quantile_head import QUANTILES, split_point_quantiles
from cdsa.nn.types import Sizes

CONFIG = CdsaNetworkConfig(d_model=8, n_heads=2, n_layers=2, d_ff=16)
SIZES = Sizes(7, 5, 3)


def make_context(sizes: Sizes = SIZES, batch: int = 2, seed: int = 0) -> WindowContext:
    rng = torch.Generator().manual_seed(seed)
    sites = torch.rand(sizes.locations, 2, generator=rng, dtype=torch.float64)
    calendar = torch.randn(batch, sizes.steps, 2, generator=rng, dtype=torch.float64)
    climatology = torch.randn(batch, *sizes, generator=rng, dtype=torch.float64)
    half = torch.rand(sizes.locations, sizes.locations, generator=rng, dtype=torch.float64)
    return WindowContext(
        calendar=calendar,
        climatology=climatology,
        distance=torch.cdist(sites, sites),
        station_similarity=half @ half.mT / sizes.locations,
        step_variance=torch.full((sizes.measurements,), 0.1, dtype=torch.float64),
        variable_ids=torch.arange(sizes.measurements),
    )


def make_window(sizes: Sizes = SIZES, batch: int = 2, seed: int = 1):
    rng = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, *sizes, generator=rng, dtype=torch.float64)
    observed = torch.rand(values.shape, generator=rng) < 0.6
    return values, observed


@pytest.fixture
def model() -> CdsaNetwork:
    torch.manual_seed(0)
    model = CdsaNetwork(CONFIG, SIZES, 2).double().eval()
    for weight in model.parameters():  # away from the initial weights, where much is zero
        weight.data += 0.3 * torch.randn_like(weight)
    return model


def test_the_same_weights_serve_windows_of_any_size(model):
    for sizes in (Sizes(1, 1, 3), Sizes(12, 1, 3), Sizes(5, 9, 3), Sizes(30, 2, 3)):
        output = model(*make_window(sizes), make_context(sizes))
        assert output.shape == (2, *sizes, 1 + len(QUANTILES)) and output.isfinite().all()


def test_some_of_the_measurements_are_found_by_their_number(model):
    values, observed = make_window(Sizes(7, 5, 2))
    context = make_context(Sizes(7, 5, 2))
    first = model(values, observed, context._replace(variable_ids=torch.tensor([0, 2])))
    flipped = context._replace(
        variable_ids=torch.tensor([2, 0]), climatology=context.climatology.flip(-1)
    )
    second = model(values.flip(-1), observed.flip(-1), flipped)
    torch.testing.assert_close(first, second.flip(3))
    other = model(values, observed, context._replace(variable_ids=torch.tensor([0, 1])))
    assert not torch.allclose(first, other)


def test_a_new_station_has_no_vector_of_its_own(model):
    (values, observed), context = make_window(), make_context()
    known = context._replace(station_ids=torch.arange(SIZES.locations))
    new = context._replace(station_ids=torch.full((SIZES.locations,), -1))
    without = model(values, observed, context)
    torch.testing.assert_close(model(values, observed, new), without)
    assert not torch.allclose(model(values, observed, known), without)
    everyone = torch.ones(2, SIZES.locations, dtype=torch.bool)
    torch.testing.assert_close(model(values, observed, known.forget_stations(everyone)), without)


@pytest.mark.parametrize("distance", [11.0, 600.0])
def test_an_unmonitored_site_may_be_far_away(model, distance):
    values, observed = make_window()
    observed[:, :, 4] = False
    context = make_context()
    distances = context.distance.clone()
    distances[4, :4] = distances[:4, 4] = distance
    output = model(values, observed, context._replace(distance=distances))
    output.sum().backward()
    assert output.isfinite().all()
    assert all(w.grad.isfinite().all() for w in model.parameters() if w.grad is not None)
    near = model(values, observed, context)
    torch.testing.assert_close(output[:, :, :4], near[:, :, :4])  # no station attends to it


def test_the_order_of_stations_does_not_matter(model):
    values, observed = make_window()
    context, order = make_context(), torch.tensor([3, 0, 4, 1, 2])
    reordered = context._replace(
        climatology=context.climatology[:, :, order],
        distance=context.distance[order][:, order],
        station_similarity=context.station_similarity[order][:, order],
    )
    torch.testing.assert_close(
        model(values[:, :, order], observed[:, :, order], reordered),
        model(values, observed, context)[:, :, order],
    )


def test_the_prediction_at_a_site_does_not_depend_on_other_unmonitored_sites(model):
    values, observed = make_window()
    observed[:, :, 3:] = False
    unmonitored = torch.tensor([[False, False, False, True, True]] * 2)
    context = make_context().without_stations(unmonitored)
    output = model(values, observed, context)
    for sites in ([0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 4]):
        selected = context._replace(
            climatology=context.climatology[:, :, sites],
            distance=context.distance[sites][:, sites],
            station_similarity=context.station_similarity[:, sites][:, :, sites],
        )
        torch.testing.assert_close(
            model(values[:, :, sites], observed[:, :, sites], selected), output[:, :, sites]
        )


def test_the_values_of_unobserved_cells_have_no_effect(model):
    (values, observed), context = make_window(), make_context()
    changed = torch.where(observed, values, 1e6)
    torch.testing.assert_close(model(values, observed, context), model(changed, observed, context))


@pytest.mark.parametrize("observed_cells", ["none", "one station", "one step"])
def test_windows_with_few_observations_have_finite_predictions(model, observed_cells):
    values, observed = make_window()
    match observed_cells:
        case "none":
            observed = torch.zeros_like(observed)
        case "one station":
            observed[:, :, 1:] = False
        case "one step":
            observed[:, 1:] = False
    assert model(values, observed, make_context()).isfinite().all()


def test_coordinates_are_optional(model):
    context = make_context()._replace(distance=None)
    assert model(*make_window(), context).isfinite().all()


def test_quantiles_never_cross():
    output = CdsaNetwork(CONFIG, SIZES, 2).double()(*make_window(), make_context())
    assert (split_point_quantiles(output)[1].diff(dim=-1) >= 0).all()


def test_the_maps_are_those_that_are_applied(model):
    (values, observed), context = make_window(), make_context()
    maps = model.maps(values, observed, context)
    assert len(maps) == CONFIG.n_layers
    block = model.blocks[0]
    x, *_ = model._embed(values, observed, context)
    v = block.attention.value(block.norm(x)).unflatten(-1, (CONFIG.n_heads, -1))
    mixed = apply_weighted(maps[0], v, block.key_weight(observed))
    attended = x + block.attention.out(mixed.flatten(-2))
    expected = attended + block.feed_forward(block.feed_forward_norm(attended))
    torch.testing.assert_close(block(x, observed, context), expected)


def test_stations_without_climatology_have_no_effect_on_the_kriging_of_anomalies():
    sizes = Sizes(6, 5, 2)
    model = CdsaNetwork(CONFIG, sizes, 2).double()
    context = make_context(sizes, batch=1)
    context = context._replace(climatology=torch.full_like(context.climatology, 2.0))
    context.climatology[:, :, 1:3] = torch.nan
    values = torch.full((1, *sizes), 2.0).double()
    observed = torch.ones_like(values, dtype=torch.bool)
    observed[:, :, 4] = False
    outputs = []
    model.anomaly_kriging.register_forward_hook(lambda *call: outputs.append(call[-1]))
    model(torch.where(observed, values, 0.0), observed, context)
    torch.testing.assert_close(outputs[0][:, :, 4], torch.zeros(1, 6, 2).double())


def test_a_width_that_does_not_split_into_heads_is_refused():
    with pytest.raises(ConfigError, match="the next size that does is d_model=32"):
        replace(CONFIG, d_model=30, n_heads=8)


def test_without_its_difference_a_network_predicts_the_smoothed_mean(model):
    values, observed = make_window()
    rng = torch.Generator().manual_seed(5)
    smoothed = torch.rand(*values.shape, len(RECORD_FEATURES), generator=rng).double()
    context = make_context()._replace(record=smoothed)
    kept = split_point_quantiles(model(values, observed, context))[0]
    model.shrinkage.copy_(torch.tensor([0.0, 0.5, 1.0]))
    point = split_point_quantiles(model(values, observed, context))[0]
    torch.testing.assert_close(point[..., 0], smoothed[..., 0, 0])
    torch.testing.assert_close(point[..., 1], (kept[..., 1] + smoothed[..., 1, 0]) / 2)
    torch.testing.assert_close(point[..., 2], kept[..., 2])


def test_training_in_low_precision_is_close_to_training_in_single_precision(monkeypatch):
    torch.manual_seed(0)
    config = CdsaNetworkConfig(d_model=MIN_LOW_PRECISION, n_heads=4, n_layers=2, d_ff=16)
    model = CdsaNetwork(config, SIZES, 2).train()
    values, observed = make_window()
    context = make_context()
    single = {
        name: part.float()
        for name, part in context._asdict().items()
        if part is not None and part.is_floating_point()
    }
    outputs, gradients = [], []
    for is_fast in (lambda device: True, lambda device: False):
        monkeypatch.setattr("cdsa.methods.neural.cdsa_network.has_fast_bfloat16", is_fast)
        model.zero_grad()
        output = model(values.float(), observed, context._replace(**single))
        output.square().mean().backward()
        outputs.append(output.detach())
        gradients.append(model.embed.weight.grad.clone())
    assert not torch.equal(*outputs)
    torch.testing.assert_close(*outputs, rtol=0.02, atol=0.02)
    assert torch.cosine_similarity(*(g.flatten() for g in gradients), dim=0) > 0.99
