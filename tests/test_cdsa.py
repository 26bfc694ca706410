"""The paper's two networks."""

from dataclasses import replace

import pytest
import torch

from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa_paper import PaperConfig, PaperForecaster, PaperImputer
from cdsa.nn.attention import full_map
from cdsa.nn.types import AXES, MANNERS, AxisConfig, Sizes

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
def test_both_networks_answer_every_cell_and_every_weight_takes_part(window, manner, config):
    config = replace(config, manner=manner)
    for model in (build(PaperImputer, config, SIZES), build(PaperForecaster, config, SIZES, 3)):
        guess = (
            model.forward_teacher_forced(*window)
            if isinstance(model, PaperForecaster)
            else model(*window)
        )
        assert guess.shape == window[0].shape and guess.isfinite().all()
        guess[:, -3:].pow(2).sum().backward()
        for name, weight in model.named_parameters():
            assert weight.grad is not None and weight.grad.isfinite().all(), name


def test_the_streams_never_see_each_other_before_they_are_fused(window):
    model = build(PaperImputer, replace(WIDE, manner="independent"), SIZES)
    x = model.embedding(*window)
    parts = model.encoder.outputs(x)
    for axis in AXES:
        for parameter in model.encoder.parameters():
            parameter.grad = None
        model.encoder.outputs(x)[axis].pow(2).sum().backward(retain_graph=True)
        touched = {
            n.split(".")[1] for n, p in model.encoder.named_parameters() if p.grad is not None
        }
        assert touched == {axis}
    fused = sum(model.encoder.fusion[axis] * parts[axis] for axis in AXES)
    torch.testing.assert_close(model.encoder(x), fused)


def test_each_stream_looks_along_its_own_axis_with_its_own_depth(window):
    model = build(PaperImputer, replace(NARROW, manner="independent"), SIZES)
    maps = model.maps(*window)
    assert [next(iter(m)) for m in maps] == ["time"] * 2 + ["location"] * 3 + ["measurement"]
    sizes = dict(zip(AXES, SIZES, strict=True))
    for found in maps:
        ((axis, a),) = found.items()
        assert a.shape[-2:] == (sizes[axis], sizes[axis])
        torch.testing.assert_close(a.sum(-1), torch.ones_like(a[..., 0]))


@pytest.mark.parametrize("manner", ["joint", "decomposed", "shared"])
def test_every_layer_shows_its_maps(window, manner):
    config = replace(WIDE, manner=manner)
    found = build(PaperImputer, config, SIZES).maps(*window)
    assert len(found) == config.n_layers
    for maps in found:
        whole = full_map(maps).flatten(-3)
        torch.testing.assert_close(whole.sum(-1), torch.ones_like(whole[..., 0]))
    both = build(PaperForecaster, config, SIZES, 3).maps(*window)
    assert len(both) == 3 * config.n_layers  # the encoder's; of the decoder two each


@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["one channel", "wide"])
@pytest.mark.parametrize("manner", MANNERS)
def test_the_decoder_sees_nothing_of_the_future(window, manner, config):
    values, observed = window
    observed = torch.ones_like(observed)
    model = build(PaperForecaster, replace(config, manner=manner), SIZES, 3)
    before = model.forward_teacher_forced(values, observed)
    changed = values.clone()
    changed[:, 4:] += 10  # the second and third step ahead
    after = model.forward_teacher_forced(changed, observed)
    torch.testing.assert_close(after[:, 3:5], before[:, 3:5], rtol=0, atol=1e-12)
    assert not torch.allclose(after[:, 5], before[:, 5])  # it does build on the step before


@pytest.mark.parametrize("manner", MANNERS)
def test_a_forecast_goes_on_from_its_own_guesses(window, manner):
    values, observed = window
    model = build(PaperForecaster, replace(WIDE, manner=manner), SIZES, 3)
    observed[:, 3:] = False
    guess = model(values, observed)
    torch.testing.assert_close(guess[:, :3], values[:, :3])
    told = observed.clone()
    told[:, 3:] = True  # being told its own guesses, it says the same again
    torch.testing.assert_close(model.forward_teacher_forced(guess, told)[:, 3:], guess[:, 3:])


def test_a_forecast_uses_what_is_known_ahead(window):
    values, observed = window
    model = build(PaperForecaster, WIDE, SIZES, 3)
    observed[:, 3:] = False
    known = observed.clone()
    known[:, 3, 0, 0] = True
    free, told = model(values, observed), model(values, known)
    torch.testing.assert_close(told[:, 3, 0, 0], values[:, 3, 0, 0])
    assert not torch.allclose(free[:, 4:], told[:, 4:])


@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["one channel", "wide"])
@pytest.mark.parametrize("manner", MANNERS)
def test_a_network_cannot_see_a_hidden_cell(window, manner, config):
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


def test_what_a_norm_would_wipe_out_is_refused():
    with pytest.raises(ConfigError, match="norm_over=cell needs several channels"):
        PaperConfig(norm_over="cell")
    with pytest.raises(ConfigError, match="Set d_model=2 or more"):
        PaperImputer(PaperConfig(manner="independent"), Sizes(36, 1, 1))
    with pytest.raises(ConfigError, match="Set d_model=2 or more"):
        PaperForecaster(PaperConfig(), Sizes(24, 1, 1), 12)
    with pytest.raises(ConfigError, match="Set d_model=2 or more"):  # one step ahead
        PaperForecaster(PaperConfig(manner="independent"), Sizes(13, 3, 1), 1)
    with pytest.raises(ConfigError, match="position_embedding=true needs several channels"):
        PaperConfig(position_embedding=True)


def test_a_horizon_leaves_something_to_look_back_on():
    with pytest.raises(ConfigError, match="between 1 and 5, but horizon=6"):
        PaperForecaster(WIDE, SIZES, 6)
