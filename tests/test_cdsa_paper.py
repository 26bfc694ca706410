"""The paper's two networks, their settings and presets."""

from dataclasses import replace

import pytest
import torch

from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa_paper import (
    CdsaPaper,
    CdsaPaperForecast,
    PaperConfig,
    PaperForecaster,
    PaperImputer,
)
from cdsa.nn.types import AXES, MANNERS, AxisConfig, Sizes
from maps import full_map
from small_networks import paper_preset

SIZES = Sizes(6, 4, 3)
NARROW = PaperConfig(
    n_layers=3, n_heads=2, d_qk=3, d_v=2, d_ff=4,
    time=AxisConfig(d_qk=3, d_v=3, n_layers=2, d_ff=5),
    location=AxisConfig(d_qk=3, d_v=3, n_layers=3, d_ff=5),
    measurement=AxisConfig(d_qk=3, d_v=3, n_layers=1, d_ff=5),
)  # fmt: skip
WIDE = replace(NARROW, d_model=4, position_embedding=True, mask_channel=True, norm_over="cell")


@pytest.fixture
def window():
    rng = torch.Generator().manual_seed(0)
    observed = torch.rand(2, *SIZES, generator=rng) < 0.7
    values = torch.randn(2, *SIZES, generator=rng, dtype=torch.float64)
    return torch.where(observed, values, 0.0), observed


def build(kind, config, *size):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return kind(config, *size).double()


@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["one channel", "wide"])
@pytest.mark.parametrize("manner", MANNERS)
def test_every_cell_has_a_prediction_and_every_weight_a_gradient(window, manner, config):
    config = replace(config, manner=manner)
    for model in (build(PaperImputer, config, SIZES), build(PaperForecaster, config, SIZES, 3)):
        forward = model.forward_teacher_forced if model.teacher_forced else model
        prediction = forward(*window)
        assert prediction.shape == window[0].shape and prediction.isfinite().all()
        prediction[:, -3:].pow(2).sum().backward()
        for name, weight in model.named_parameters():
            assert weight.grad is not None and weight.grad.isfinite().all(), name


def test_the_streams_are_independent_until_they_are_fused(window):
    model = build(PaperImputer, replace(WIDE, manner="independent"), SIZES)
    x = model.embedding(*window)
    outputs = model.encoder.outputs(x)
    for axis in AXES:
        for parameter in model.encoder.parameters():
            parameter.grad = None
        model.encoder.outputs(x)[axis].pow(2).sum().backward(retain_graph=True)
        weights = model.encoder.named_parameters()
        assert {n.split(".")[1] for n, weight in weights if weight.grad is not None} == {axis}
    fused = sum(model.encoder.fusion[axis] * outputs[axis] for axis in AXES)
    torch.testing.assert_close(model.encoder(x), fused)


def test_each_stream_has_an_axis_and_a_depth_of_its_own(window):
    model = build(PaperImputer, replace(NARROW, manner="independent"), SIZES)
    maps = model.maps(*window)
    assert [next(iter(m)) for m in maps] == ["time"] * 2 + ["location"] * 3 + ["measurement"]
    sizes = dict(zip(AXES, SIZES, strict=True))
    for layer in maps:
        ((axis, a),) = layer.items()
        assert a.shape[-2:] == (sizes[axis], sizes[axis])
        torch.testing.assert_close(a.sum(-1), torch.ones_like(a[..., 0]))


@pytest.mark.parametrize("manner", ["joint", "decomposed", "shared"])
def test_the_maps_of_every_layer_are_available(window, manner):
    config = replace(WIDE, manner=manner)
    layers = build(PaperImputer, config, SIZES).maps(*window)
    assert len(layers) == config.n_layers
    for maps in layers:
        rows = full_map(maps).flatten(-3).sum(-1)
        torch.testing.assert_close(rows, torch.ones_like(rows))


@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["one channel", "wide"])
@pytest.mark.parametrize("manner", MANNERS)
def test_the_decoder_does_not_see_later_steps(window, manner, config):
    values, observed = window
    observed = torch.ones_like(observed)
    model = build(PaperForecaster, replace(config, manner=manner), SIZES, 3)
    before = model.forward_teacher_forced(values, observed)
    changed = values.clone()
    changed[:, 4:] += 10  # the second and third step of the horizon
    after = model.forward_teacher_forced(changed, observed)
    torch.testing.assert_close(after[:, 3:5], before[:, 3:5], rtol=0, atol=1e-12)
    assert not torch.allclose(after[:, 5], before[:, 5])  # it depends on the step before


@pytest.mark.parametrize("manner", MANNERS)
def test_a_forecast_continues_from_its_own_predictions(window, manner):
    values, observed = window
    model = build(PaperForecaster, replace(WIDE, manner=manner), SIZES, 3)
    observed[:, 3:] = False
    prediction = model(values, observed)
    torch.testing.assert_close(prediction[:, :3], values[:, :3])
    known = observed.clone()
    known[:, 3:] = True  # given its own predictions, it predicts the same
    again = model.forward_teacher_forced(prediction, known)
    torch.testing.assert_close(again[:, 3:], prediction[:, 3:])


def test_a_forecast_uses_values_that_are_known_in_the_horizon(window):
    values, observed = window
    model = build(PaperForecaster, WIDE, SIZES, 3)
    observed[:, 3:] = False
    known = observed.clone()
    known[:, 3, 0, 0] = True
    without, with_known = model(values, observed), model(values, known)
    torch.testing.assert_close(with_known[:, 3, 0, 0], values[:, 3, 0, 0])
    assert not torch.allclose(without[:, 4:], with_known[:, 4:])


@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["one channel", "wide"])
@pytest.mark.parametrize("manner", MANNERS)
def test_the_values_of_unobserved_cells_have_no_effect(window, manner, config):
    values, observed = window
    for kind, size in ((PaperImputer, (SIZES,)), (PaperForecaster, (SIZES, 3))):
        model = build(kind, replace(config, manner=manner), *size)
        first, second = (
            model(torch.where(observed, values, behind), observed) for behind in (0.0, 1e6)
        )
        assert torch.equal(first, second)


def test_one_channel_has_no_embedding_and_weights_for_two_maps():
    model = PaperImputer(PaperConfig(), Sizes(432, 186, 1))
    assert not list(model.embedding.parameters())
    attention = 12 * 2 * (6 * 186 + 14 * 432) + (3 * 12 * 2) + (36 + 1)
    block = attention + 2 * 2 + (8 + 8 + 8 + 1)
    assert sum(p.numel() for p in model.parameters()) == 7 * block + attention + (8 + 8 + 8 + 1)


def test_a_norm_over_a_single_number_is_refused():
    with pytest.raises(ConfigError, match="norm_over=cell needs several channels"):
        PaperConfig(norm_over="cell")
    with pytest.raises(ConfigError, match="Set d_model=2 or more"):
        PaperImputer(PaperConfig(manner="independent"), Sizes(36, 1, 1))
    with pytest.raises(ConfigError, match="Set d_model=2 or more"):
        PaperForecaster(PaperConfig(), Sizes(24, 1, 1), 12)
    with pytest.raises(ConfigError, match="Set d_model=2 or more"):  # a horizon of one step
        PaperForecaster(PaperConfig(manner="independent"), Sizes(13, 3, 1), 1)
    with pytest.raises(ConfigError, match="position_embedding=true needs several channels"):
        PaperConfig(position_embedding=True)


def test_a_horizon_without_context_is_refused():
    with pytest.raises(ConfigError, match="between 1 and 5, but horizon=6"):
        PaperForecaster(WIDE, SIZES, 6)


def test_every_preset_builds_its_network():
    for kind in (CdsaPaper, CdsaPaperForecast):
        for name, method in kind.PRESETS.items():
            sizes = Sizes(method.window + method.horizon, 3, 2)
            with torch.device("meta"):
                method.model.build(sizes, method.horizon)
            assert kind().with_preset(name) is method
    with pytest.raises(ConfigError, match="no preset 'papr'; did you mean 'paper'"):
        paper_preset("papr")


def test_the_general_preset_has_widths_and_a_learning_rate_for_each_manner():
    for forecast in (False, True):
        general = paper_preset("paper", forecast=forecast)
        joint = general.with_manner("joint")
        assert (joint.model.n_heads, joint.train.lr) == (2, 1e-3)
        assert joint.model.n_layers == general.model.n_layers and joint.train.minutes == 5
        assert joint.with_manner("decomposed") == general
        custom = replace(general, model=replace(general.model, n_heads=7))
        assert custom.with_manner("joint").model == replace(custom.model, manner="joint")


def test_the_authors_settings():
    nyc = paper_preset("paper-nyc")
    assert (nyc.window, nyc.stride, nyc.model.n_heads, nyc.model.d_v) == (432, 2, 12, 3)
    assert (nyc.model.time.d_qk, nyc.model.location.d_qk, nyc.model.d_ff) == (6, 14, 8)
    assert nyc.model.mask_diagonal and nyc.model.d_model == 1 and nyc.model.n_layers == 8
    train = nyc.train
    assert (train.batch_size, train.epochs, train.grad_clip, train.loss) == (19, 100, 5.0, "rmse")
    assert (train.schedule, train.loss_on, train.lr) == ("steps", "visible", 1e-3)
    assert paper_preset("paper-metr-la", forecast=True).model.n_layers == 9
