"""What all neural baselines have in common: every weight is trained, and each learns something."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cdsa import score
from cdsa.core.cube import make_cube
from cdsa.methods.engine.fit import build_network
from cdsa.methods.neural.brits import Brits, BritsConfig
from cdsa.methods.neural.dcrnn import Dcrnn, DcrnnConfig
from cdsa.methods.neural.iin import Iin, IinConfig
from cdsa.methods.neural.mtsi import Mtsi, MtsiConfig
from cdsa.methods.registry import REGISTRY, build_method
from cdsa.nn.types import Sizes
from conftest import network


@pytest.mark.parametrize(
    ("name", "horizon"),
    [(name, 0 if "fill" in info.task else 4) for name, info in REGISTRY.items() if info.trains]
    + [("dcrnn", 4)],
)
def test_every_weight_is_trained(name, horizon):
    method = build_method(f"{name}@small", horizon=horizon)
    if name == "mtsi":  # a round of both networks, one after the other
        method = replace(method, model=replace(method.model, pretrain_steps=1, critic_steps=1))
    predictor = method.fit(network(steps=60, stations=4)).network
    sizes = Sizes(predictor.window, len(predictor.locations), len(predictor.measurements))
    untrained = build_network(method, sizes, predictor.horizon, predictor.context_builder)
    initial = dict(untrained.named_parameters())
    trained = predictor.model.named_parameters()
    assert not [part for part, weight in trained if torch.equal(weight, initial[part])]


def correlated(n_steps=600):
    """Four correlated series that linear interpolation cannot follow."""
    rng = np.random.default_rng(0)
    common = np.convolve(rng.normal(size=n_steps + 100), np.ones(3) / 2, "valid")[:n_steps, None]
    values = common * np.array([1.0, 0.8, 0.7, 1.3]) + 0.1 * rng.normal(size=(n_steps, 4))
    times = np.datetime64("2020-01-01") + np.arange(n_steps).astype("timedelta64[h]")
    degrees = np.arange(4) / 10
    return make_cube(values[..., None], times, list("ABCD"), ["x"], lat=degrees, lon=degrees)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "epochs", "lr"),
    [
        (Brits(model=BritsConfig(d_model=16)), 12, 5e-3),
        (Iin(model=IinConfig(d_model=16, n_layers=1, n_rounds=2)), 25, 1e-2),
        (Dcrnn(model=DcrnnConfig(d_model=16, n_layers=1, diffusion_steps=1)), 25, 1e-2),
        (
            Mtsi(model=MtsiConfig(d_model=64, d_noise=48, pretrain_steps=150, search_steps=40)),
            30,
            5e-3,
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_each_beats_linear_interpolation_in_bursts_of_correlated_series(method, epochs, lr):
    cube = correlated()
    train = replace(method.train, minutes=None, epochs=epochs, lr=lr, validate_every=100)
    method = replace(method, window=12, stride=3, train=train)
    ours, line = (score(cube, m, "bursts:0.2").errors.overall()["mae"] for m in (method, "linear"))
    assert ours < 0.8 * line
