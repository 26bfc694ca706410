"""The forecasters 'dcrnn', 'fc-lstm', 'gaan' and 'dst-gcnn': what they have in common."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.methods.neural.dcrnn import Dcrnn, DcrnnConfig
from cdsa.methods.neural.dstgcnn import DstGcnn, DstGcnnConfig
from cdsa.methods.neural.fclstm import FcLstm, FcLstmConfig
from cdsa.methods.neural.gaan import Gaan, GaanConfig
from cdsa.methods.registry import build_method
from cdsa.nn.types import Sizes
from contexts import on_a_line, window_context

SIZES, PAST = Sizes(7, 4, 2), 4
CONFIGS = {
    "dcrnn": DcrnnConfig(d_model=8, n_layers=2, sampling_decay=5.0),
    "fc-lstm": FcLstmConfig(d_model=8, n_layers=2, sampling_decay=5.0),
    "gaan": GaanConfig(d_model=8, n_layers=2, n_heads=2, d_qk=4, d_gate=4, sampling_decay=5.0),
    "dst-gcnn": DstGcnnConfig(d_model=8, n_layers=2),
}
SAMPLED = [name for name in CONFIGS if name != "dst-gcnn"]
"""Those that are trained with scheduled sampling."""


def build(name, sizes=SIZES, batch=2):
    """The network with a horizon of three steps, and its context."""
    torch.manual_seed(0)
    context = window_context(sizes, batch, on_a_line(sizes.locations))
    return CONFIGS[name].build(sizes, 3, 0), () if name == "fc-lstm" else (context,)


def window():
    return torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_horizon_is_not_read_and_the_context_is_returned(name):
    model, context = build(name)
    values, observed = window()
    observed[:, PAST:] = False
    changed = values.clone()
    changed[:, PAST:] = 99.0
    forecast = model(values, observed, *context)
    assert torch.equal(forecast, model(changed, observed, *context))
    assert torch.equal(forecast[:, :PAST], values[:, :PAST])


@pytest.mark.parametrize("name", SAMPLED)
def test_true_values_are_fed_less_and_less_often_in_training(name):
    model, context = build(name)
    shares = []
    for n_updates in (0, 10, 40):
        model.n_updates.fill_(n_updates)
        shares.append(model.truth_probability())
    assert shares[0] > 0.8 > shares[1] > shares[2] and shares[2] < 0.01
    values, observed = window()
    past = observed.clone()
    past[:, PAST:] = False
    late = model.forward_teacher_forced(values, observed, *context)  # its own predictions alone
    torch.testing.assert_close(late, model(values, past, *context))
    assert model.n_updates == 41
    model.n_updates.fill_(0)
    early = model.forward_teacher_forced(values, observed, *context)
    assert torch.equal(early[:, PAST], late[:, PAST])
    assert not torch.allclose(early[:, 6], late[:, 6])


@pytest.mark.parametrize("name", SAMPLED)
def test_where_the_truth_is_missing_the_prediction_is_fed(name):
    model, context = build(name)
    values, observed = window()
    observed[:, PAST:, 1] = False
    changed = values.clone()
    changed[:, PAST:, 1] = 99.0
    assert model.truth_probability() > 0.8
    forecast = model.forward_teacher_forced(values, observed, *context)
    model.n_updates.fill_(0)
    assert torch.equal(forecast, model.forward_teacher_forced(changed, observed, *context))


def test_the_seed_decides_at_which_steps_the_truth_is_fed():
    (model, _), (values, observed) = build("fc-lstm"), window()
    forecasts = []
    for dice in range(20):
        model.sampling_seed = dice
        model.n_updates.fill_(5)
        forecasts.append(model.forward_teacher_forced(values, observed))
    assert len({tuple(forecast.flatten().tolist()) for forecast in forecasts}) > 2
    assert build("fc-lstm")[0].sampling_seed == build("fc-lstm")[0].sampling_seed
    torch.manual_seed(1)
    assert CONFIGS["fc-lstm"].build(SIZES, 3, 0).sampling_seed != build("fc-lstm")[0].sampling_seed


@pytest.mark.parametrize("past", [1, 4, 12, 24, 40])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_forecast_depends_on_the_first_step_of_the_context(name, past):
    sizes = Sizes(past + 3, 2, 1)
    model, context = build(name, sizes, batch=1)
    model = model.double()
    values, observed = torch.randn(1, *sizes).double(), torch.ones(1, *sizes, dtype=torch.bool)
    observed[:, past:] = False
    changed = values.clone()
    changed[:, 0] += 3
    difference = model(values, observed, *context) - model(changed, observed, *context)
    assert difference[:, past:].abs().max() > 0


@pytest.mark.parametrize("name", [*CONFIGS, "brits", "mtsi"])
def test_known_covariates_are_refused(name):
    with pytest.raises(ConfigError, match=f"'{name}' does not use values known in advance"):
        build_method(name, horizon=3, known_covariates=["x"])


def diffusion(n_steps=400, side=4):
    """Heat that enters at random and spreads over a square of stations."""
    rng = np.random.default_rng(0)
    lat, lon = (degrees.ravel() / 10 for degrees in np.mgrid[:side, :side])
    distance = np.hypot(lat[:, None] - lat, lon[:, None] - lon)
    near = (distance < 0.11) & (distance > 0)
    spread = near / near.sum(axis=1, keepdims=True)
    heat, values = np.zeros(side**2), []
    for _ in range(n_steps):
        heat = 0.45 * heat + 0.5 * spread @ heat
        heat[rng.integers(side**2)] += rng.exponential(3.0)
        values.append(heat + 0.02 * rng.normal(size=side**2))
    times = np.datetime64("2020-01-01") + np.arange(n_steps).astype("timedelta64[h]")
    names = [f"S{n:02}" for n in range(side**2)]
    return make_cube(np.array(values)[..., None], times, names, ["heat"], lat=lat, lon=lon)


def forecast_error(method, cube, origins):
    train = replace(method.train, minutes=None, epochs=8, batch_size=16, lr=5e-3)
    filler = replace(method, train=train).fit(cube[:300])
    forecasts = filler.forecast_from(cube, origins, context=4, horizon=3)
    truth = cube.to_numpy()
    errors = [np.abs(step.to_numpy() - truth[origins + n]) for n, step in enumerate(forecasts)]
    return np.mean(errors)


@pytest.mark.slow
def test_networks_on_the_graph_beat_one_without_on_a_diffusion():
    cube, origins = diffusion(), np.arange(304, 397)
    short = {"window": 4, "horizon": 3, "stride": 1}
    without = FcLstm(model=FcLstmConfig(d_model=32, n_layers=1, sampling_decay=50.0), **short)
    limit = 0.9 * forecast_error(without, cube, origins)
    gaan = GaanConfig(d_model=16, n_layers=1, n_heads=2, d_qk=8, d_gate=8, sampling_decay=50.0)
    for method in (
        Dcrnn(model=DcrnnConfig(d_model=16, n_layers=1, sampling_decay=50.0), **short),
        Gaan(model=gaan, **short),
        DstGcnn(model=DstGcnnConfig(d_model=16, n_layers=1), **short),
    ):
        assert forecast_error(method, cube, origins) < limit, method.name
