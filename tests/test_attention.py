"""The paper's equations, each compared with its definition, in float64."""

import math
from dataclasses import replace
from itertools import permutations

import pytest
import torch
from torch import einsum
from torch.utils._python_dispatch import TorchDispatchMode

from cdsa.errors import ConfigError
from cdsa.nn import kernels
from cdsa.nn.attention import (
    JOINT_APPLY,
    AttentionScope,
    apply_sequential,
    make_attention,
    shared_map,
)
from cdsa.nn.types import AXES, AttentionConfig, AxisConfig, Sizes
from maps import full_map

SIZES = Sizes(5, 4, 3)
MASK_MODES = ("none", "diagonal", "causal")
CONFIG = AttentionConfig(
    d_model=2, n_heads=2, d_qk=3, d_v=4, time=AxisConfig(d_qk=3), location=AxisConfig(d_qk=5)
)


@pytest.fixture
def x():
    return torch.randn(2, *SIZES, 2, dtype=torch.float64, generator=generator())


def generator():
    return torch.Generator().manual_seed(0)


def make_layer(manner, mask_mode="none", memory=None, sizes=SIZES, **changes):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = replace(CONFIG, manner=manner, **changes)
        return make_attention(config, AttentionScope(sizes, memory, mask_mode)).double()


def values_of(layer, x):
    return layer.value(x).unflatten(-1, (layer.n_heads, -1))


@pytest.mark.parametrize("mask_mode", MASK_MODES)
def test_decomposed_is_joint_attention_with_a_kronecker_map(x, mask_mode):
    layer = make_layer("decomposed", mask_mode)
    maps = [layer.axes[axis](x, x) for axis in AXES]
    if mask_mode == "causal":
        full = einsum("bhts, bhtlk, bhtmn -> bhtlmskn", *maps)
    else:
        full = torch.stack(
            [
                torch.stack(
                    [torch.kron(torch.kron(*a[:2]), a[2]) for a in zip(*window, strict=True)]
                )
                for window in zip(*maps, strict=True)
            ]
        ).reshape(2, 2, *SIZES, *SIZES)
    expected = layer.out(einsum(JOINT_APPLY, full, values_of(layer, x)).flatten(-2))
    torch.testing.assert_close(layer(x, x), expected)
    torch.testing.assert_close(full_map(layer.maps(x, x)), full)


@pytest.mark.parametrize("manner", ["decomposed", "shared"])
def test_all_six_orders_of_the_maps_give_the_same_output_and_gradients(x, manner):
    layer = make_layer(manner)
    results = []
    for order in permutations(AXES):
        layer.zero_grad()
        inputs = x.clone().requires_grad_()
        y = layer.out(
            apply_sequential(layer.maps(inputs, inputs), values_of(layer, inputs), order).flatten(
                -2
            )
        )
        y.pow(2).sum().backward()
        results.append([y.detach(), inputs.grad, *(p.grad.clone() for p in layer.parameters())])
    assert len(results) == 6
    for result in results[1:]:
        torch.testing.assert_close(result, results[0])


@pytest.mark.parametrize("mask_mode", MASK_MODES)
@pytest.mark.parametrize("manner", ["decomposed", "shared", "joint"])
def test_every_row_of_every_map_sums_to_one(x, manner, mask_mode):
    maps = make_layer(manner, mask_mode).maps(x, x)
    full = full_map(maps)
    torch.testing.assert_close(full.flatten(-3).sum(-1), torch.ones(2, 2, *SIZES).double())
    if manner != "joint":
        for axis in AXES:
            rows = maps[axis].sum(-1)
            torch.testing.assert_close(rows, torch.ones_like(rows))
    assert (full >= 0).all()


def test_shared_is_its_definition_written_out(x):
    layer = make_layer("shared")
    (b, t, l, m), h, d = x.shape[:4], 2, 3  # noqa: E741
    q, k = (f(x).reshape(b, t, l, m, h, d) for f in (layer.query, layer.key))
    v = values_of(layer, x)
    expected = torch.zeros(b, t, l, m, h, 4, dtype=torch.float64)
    for window in range(b):
        for head in range(h):
            q_, k_ = q[window, :, :, :, head], k[window, :, :, :, head]  # (T, L, M, d)
            rows = {
                "T": lambda z: z.reshape(t, l * m * d),
                "L": lambda z: z.permute(1, 2, 0, 3).reshape(l, m * t * d),
                "M": lambda z: z.permute(2, 0, 1, 3).reshape(m, t * l * d),
            }
            a_t, a_l, a_m = (
                torch.softmax(f(q_) @ f(k_).T / math.sqrt(f(q_).shape[1]), dim=1)
                for f in rows.values()
            )
            for p0 in torch.cartesian_prod(*map(torch.arange, (t, l, m))).tolist():
                weights = (
                    a_t[p0[0]][:, None, None] * a_l[p0[1]][None, :, None] * a_m[p0[2]][None, None]
                )
                expected[window, *p0, head] = (weights[..., None] * v[window, :, :, :, head]).sum(
                    (0, 1, 2)
                )
    torch.testing.assert_close(layer(x, x), layer.out(expected.flatten(-2)))


def test_the_map_of_each_axis_comes_from_its_flattened_slices(x):
    layer = make_layer("decomposed")
    rows = {
        "time": x.flatten(2),
        "location": x.permute(0, 2, 1, 3, 4).flatten(2),
        "measurement": x.permute(0, 3, 1, 2, 4).flatten(2),
    }
    for axis in AXES:
        q, k = (
            rows[axis] @ w.flatten(0, 2).flatten(1)
            for w in (layer.axes[axis].w_q, layer.axes[axis].w_k)
        )
        q, k = (z.unflatten(-1, (2, -1)).transpose(1, 2) for z in (q, k))
        expected = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
        torch.testing.assert_close(layer.maps(x, x)[axis], expected)


class Largest(TorchDispatchMode):
    """Records the size of the largest tensor that is created, without views."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // 8)
        return out


@pytest.mark.parametrize("mask_mode", MASK_MODES)
def test_the_joint_manner_never_builds_its_map(mask_mode, monkeypatch):
    monkeypatch.setattr(kernels, "MAX_MASK_PAIRS", 0)
    sizes = Sizes(30, 20, 2)
    layer = make_layer("joint", mask_mode, sizes=sizes)
    x = torch.randn(1, *sizes, 2, dtype=torch.float64, requires_grad=True)
    with Largest() as largest:
        layer(x, x).sum().backward()
    assert largest.numbers < sizes.cells**2 / 30  # nothing is cells x cells
    with Largest() as explicit:
        layer.maps(x, x)
    assert explicit.numbers >= 2 * sizes.cells**2


@pytest.mark.parametrize("mask_mode", MASK_MODES)
def test_the_joint_manner_applies_its_map(x, mask_mode):
    layer = make_layer("joint", mask_mode)
    plain = einsum(JOINT_APPLY, layer.maps(x, x)["cells"], values_of(layer, x))
    torch.testing.assert_close(layer(x, x), layer.out(plain.flatten(-2)))


@pytest.mark.parametrize("manner", ["decomposed", "shared", "joint"])
def test_a_causal_mask_hides_all_later_steps(x, manner):
    layer = make_layer(manner, "causal")
    changed = x.clone()
    changed[:, 3:] += 10
    torch.testing.assert_close(
        layer(changed, changed)[:, :3], layer(x, x)[:, :3], rtol=0, atol=1e-12
    )
    assert not torch.allclose(layer(changed, changed)[:, 3:], layer(x, x)[:, 3:])


@pytest.mark.parametrize("manner", ["decomposed", "shared", "joint"])
def test_with_a_diagonal_mask_no_step_attends_to_itself(x, manner):
    layer = make_layer(manner, "diagonal")
    full = full_map(layer.maps(x, x))
    diagonal = einsum("bhtlmtkn -> bhtlmkn", full)
    assert (diagonal == 0).all() and (full > 0).any()


@pytest.mark.parametrize("manner", ["decomposed", "shared", "joint"])
def test_a_single_step_attends_to_itself(manner):
    layer = make_layer(manner, "diagonal", sizes=Sizes(1, 4, 3))
    assert layer(*[torch.ones(1, 1, 4, 3, 2).double()] * 2).isfinite().all()


@pytest.mark.parametrize("manner", ["decomposed", "joint"])
def test_the_memory_of_cross_attention_may_have_another_number_of_steps(x, manner):
    memory = torch.randn(2, 7, 4, 3, 2, dtype=torch.float64)
    layer = make_layer(manner, "causal", memory=Sizes(7, 4, 3))
    changed = x.clone()
    changed[:, 3:] += 10
    assert layer(x, memory).shape == x.shape
    torch.testing.assert_close(
        layer(changed, memory)[:, :3], layer(x, memory)[:, :3], rtol=0, atol=1e-12
    )
    last = memory.clone()
    last[:, -1] += 1  # the memory is never masked
    assert not torch.allclose(layer(x, last)[:, 0], layer(x, memory)[:, 0])
    full = full_map(layer.maps(x, memory)).flatten(-3)
    torch.testing.assert_close(full.sum(-1), torch.ones_like(full[..., 0]))


@pytest.mark.parametrize("mask_mode", MASK_MODES)
@pytest.mark.parametrize("manner", ["decomposed", "shared"])
@pytest.mark.parametrize("sizes", [Sizes(5, 4, 1), Sizes(5, 1, 3), Sizes(5, 1, 1)])
def test_an_axis_of_one_position_has_a_map_of_ones_and_no_weights(manner, mask_mode, sizes):
    x = torch.randn(2, *sizes, 2, dtype=torch.float64)
    layer = make_layer(manner, mask_mode, sizes=sizes)
    full = full_map(layer.maps(x, x))
    torch.testing.assert_close(full.flatten(-3).sum(-1), torch.ones(2, 2, *sizes).double())
    expected = layer.out(einsum(JOINT_APPLY, full, values_of(layer, x)).flatten(-2))
    torch.testing.assert_close(layer(x, x), expected)
    if manner == "decomposed":
        assert list(layer.axes) == [axis for axis in AXES if sizes.along(axis) > 1]


def test_shared_cross_attention_needs_a_memory_with_the_same_number_of_steps(x):
    layer = make_layer("shared", "causal", memory=SIZES)
    assert layer(x, x.flip(1)).shape == x.shape
    with pytest.raises(ConfigError, match="they have 5 and 7"):
        make_layer("shared", "causal", memory=Sizes(7, 4, 3))


def test_the_weights_of_the_shared_manner_fit_any_size(x):
    layer = make_layer("shared")
    assert layer(x[:, :3, :2], x[:, :3, :2]).shape == (2, 3, 2, 3, 2)


def test_the_shared_map_is_scaled_by_the_root_of_the_number_of_terms():
    ones = torch.ones(1, *SIZES, 1, 4, dtype=torch.float64)
    half = ones.clone()
    half[:, 0] = 0
    # the score of a step is L M d / sqrt(L M d), that of the step with zero keys 0
    expected = torch.tensor([0.0] + [math.sqrt(4 * 3 * 4)] * 4).double().softmax(0)
    torch.testing.assert_close(
        shared_map("time", ones, half, AttentionScope(SIZES))[0, 0, 1], expected
    )


@pytest.mark.parametrize("manner", ["joint", "decomposed"])
def test_only_the_shared_manner_takes_a_bias_and_present_stations(x, manner):
    for option in ("bias", "present"):
        with pytest.raises(TypeError, match=option):
            make_layer(manner).maps(x, x, **{option: torch.ones(2, 4, dtype=torch.bool)})


def test_a_causal_layer_refuses_a_bias_and_present_stations(x):
    layer, present = make_layer("shared", "causal"), torch.ones(2, 4, dtype=torch.bool)
    for options in ({"bias": {"time": x[0, 0]}}, {"present": present}):
        with pytest.raises(ConfigError, match="causal mask"):
            layer.maps(x, x, **options)


def test_absent_stations_are_not_attended_to_without_weights_either(x):
    present = torch.tensor([True, False, True, True]).expand(2, -1)
    changed = x.clone()
    changed[:, :, 1] += 10
    layer = make_layer("shared")
    first, second = (
        apply_sequential(layer.maps(y, y, present=present), values_of(layer, y))
        for y in (x, changed)
    )
    torch.testing.assert_close(first[:, :, [0, 2, 3]], second[:, :, [0, 2, 3]])
    assert not torch.allclose(layer.merge_heads(first), layer(x, x))


def test_the_independent_manner_is_no_layer():
    with pytest.raises(ConfigError, match="Streams"):
        make_layer("independent")


def test_sizes_below_one_and_unknown_manners_are_refused():
    with pytest.raises(ConfigError, match="heads must be at least 1, but found 0"):
        AttentionConfig(n_heads=0)
    with pytest.raises(ConfigError, match="did you mean 'joint'"):
        AttentionConfig(manner="jont")
