"""The training loop, on networks small enough to train in a moment."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa_paper import PaperConfig, PaperForecaster
from cdsa.methods.neural.dstgcnn import DstGcnn
from cdsa.nn.types import Network, Sizes
from cdsa.training.loop import TrainConfig, masks_for, train, training_loss, validation_error
from cdsa.training.masking import Task, make_generator
from cdsa.training.state import StateError, TrainingStore
from cdsa.training.windows import cut
from conftest import network

CONFIG = TrainConfig(epochs=4, batch_size=4, lr=0.01, validate_every=3, patience=0)


class Mean(Network):
    """A network with two weights: each cell is predicted from the mean of the visible ones."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.0))
        self.shift = nn.Parameter(torch.tensor(0.5))

    def forward(self, values, observed, context=None):
        n_visible = observed.sum((1, 2, 3), keepdim=True).clamp(min=1)
        mean = values.sum((1, 2, 3), keepdim=True) / n_visible
        return self.weight * mean + self.shift + torch.zeros_like(values)


class Spy(Mean):
    """Records what it sees."""

    def __init__(self):
        super().__init__()
        self.inputs = []

    def forward(self, values, observed, context=None):
        self.inputs.append((values.clone(), observed.clone()))
        return super().forward(values, observed)


@pytest.fixture
def scaled():
    cube = network(steps=72)
    return (cube - cube.mean()) / cube.std()


@pytest.fixture
def hidden(scaled):
    return scaled.notnull() & (np.random.default_rng(5).random(scaled.shape) < 0.1)


@pytest.fixture
def windows(scaled, hidden):
    return cut(scaled.where(~hidden), 12, 6)


@pytest.fixture
def validation(scaled, hidden):
    return cut(scaled, 12, 12, target=hidden)


def weights(model):
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_training_lowers_the_validation_error(windows, validation):
    model = Mean()
    before = validation_error(model, validation, CONFIG)
    state = train(model, windows, validation, replace(CONFIG, epochs=40), seed=0)
    assert validation_error(model, validation, CONFIG) == state.best < before


@pytest.mark.parametrize("loss_on", ["visible", "hidden", "both"])
def test_the_network_never_sees_a_validation_cell(windows, validation, loss_on):
    model = Spy()
    train(model, windows, validation, replace(CONFIG, loss_on=loss_on), seed=0)
    held_out = validation.values[validation.target]
    assert (held_out == 0).all() and len(held_out)
    truth = set(validation.truth[validation.target].tolist())
    for values, observed in model.inputs:
        assert not truth & set(values[observed].tolist())
        assert (values[~observed] == 0).all()


def test_weights_do_not_depend_on_hidden_values(scaled, hidden):
    trained = []
    for cube in (scaled, scaled.where(~hidden, 50.0)):
        model = Mean()
        windows = cut(cube.where(~hidden), 12, 6)
        train(model, windows, windows.keep(torch.zeros(0, dtype=torch.long)), CONFIG, seed=0)
        trained.append(weights(model))
    assert same(*trained)


def test_the_context_of_a_forecaster_has_no_added_gaps_with_a_loss_on_visible_cells(windows):
    window, task, spy = windows.take(torch.arange(8)), Task(horizon=4), Spy()
    for loss_on in ("visible", "hidden"):
        training_loss(spy, window, replace(CONFIG, loss_on=loss_on), make_generator(1), task)
    (_, complete), (_, with_gaps) = spy.inputs
    assert torch.equal(complete, masks_for(window, task)[0])
    assert with_gaps.sum() < complete.sum() and not (with_gaps & ~complete).any()
    assert DstGcnn().train.loss_on == "visible"


def test_hidden_cells_are_the_target_and_not_visible(windows):
    window, spy = windows.take(torch.arange(4)), Spy()
    config = replace(CONFIG, loss_on="hidden")
    training_loss(spy, window, config, make_generator(1))
    ((_, visible),) = spy.inputs
    assert visible.sum() < window.observed.sum() and not (visible & ~window.observed).any()
    changed = replace(window, truth=torch.where(visible, 7.0, window.truth))
    first, second = (
        training_loss(Mean(), batch, config, make_generator(1)) for batch in (window, changed)
    )
    assert first == second  # visible cells are no target


def test_the_same_seed_gives_the_same_weights_and_another_does_not(windows, validation):
    trained = []
    for seed in (0, 0, 1):
        model = Mean()
        train(model, windows, validation, CONFIG, seed=seed)
        trained.append(weights(model))
    assert same(*trained[:2]) and not same(*trained[1:])


@pytest.mark.parametrize("stop_at", [1, 2, 3, 5, 8, 9])
def test_a_stopped_run_resumes_to_the_same_weights(windows, validation, tmp_path, stop_at):
    uninterrupted, stopped, resumed = Mean(), Mean(), Mean()
    train(uninterrupted, windows, validation, CONFIG, seed=0)
    store, steps = TrainingStore(tmp_path / "run", "fingerprint", every=0), []
    train(
        stopped, windows, validation, CONFIG, seed=0, store=store,
        on_progress=lambda progress: steps.append(progress.step),
        should_stop=lambda: len(steps) == stop_at,
    )  # fmt: skip
    assert steps[-1] == stop_at
    state = train(resumed, windows, validation, CONFIG, seed=0, store=store)
    assert same(weights(uninterrupted), weights(resumed))
    assert state.step == 4 * 3  # eleven windows, four at a time, four times


def test_a_run_with_another_fingerprint_is_not_resumed(windows, validation, tmp_path):
    store = TrainingStore(tmp_path / "run", "fingerprint", every=0)
    train(Mean(), windows, validation, CONFIG, seed=0, store=store)
    other = replace(store, fingerprint="other")
    with pytest.raises(StateError, match="other settings or other data"):
        train(Mean(), windows, validation, CONFIG, seed=0, store=other)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-40],
        lambda content: content[:10],
        lambda content: b"\x80" * 50,
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    ],
    ids=["truncated", "truncated header", "another file", "a flipped bit"],
)
def test_a_damaged_run_is_refused(windows, validation, tmp_path, damage):
    store = TrainingStore(tmp_path / "run", "fingerprint", every=0)
    train(Mean(), windows, validation, CONFIG, seed=0, store=store)
    store.path.write_bytes(damage(store.path.read_bytes()))
    with pytest.raises(StateError, match="Remove it to start over"):
        train(Mean(), windows, validation, CONFIG, seed=0, store=store)


def test_a_run_stops_early_and_keeps_the_best_weights(windows, validation):
    model = Mean()
    config = replace(CONFIG, epochs=400, lr=0.5, patience=3, schedule="constant")
    state = train(model, windows, validation, config, seed=0)
    assert state.step < 400 * 3 and state.best_step < state.step
    assert validation_error(model, validation, config) == state.best


def test_a_run_stops_after_its_minutes(windows, validation):
    seconds = []
    config = replace(CONFIG, epochs=None, minutes=0.5 / 60)
    train(
        Mean(), windows, validation, config, seed=0,
        on_progress=lambda progress: seconds.append(progress.seconds),
    )  # fmt: skip
    assert 0.4 < seconds[-1] < 5


def test_a_loss_that_is_not_finite_is_reported(windows, validation):
    config = replace(CONFIG, lr=1e30, loss="mse", grad_clip=1e30)
    with pytest.raises(ConfigError, match="Lower the learning rate"):
        train(Mean(), windows, validation, config, seed=0)


def test_every_step_reports_its_progress(windows, validation):
    reports = []
    train(Mean(), windows, validation, CONFIG, seed=0, on_progress=reports.append)
    assert [report.step for report in reports] == list(range(1, 13)) and reports[-1].fraction == 1
    assert reports[1].validation is None and reports[2].validation is not None
    assert all(np.isfinite(report.loss) for report in reports)


def test_without_windows_the_weights_stay_as_they_are(windows, validation):
    model = Mean()
    empty = windows.keep(torch.zeros(0, dtype=torch.long))
    state = train(model, empty, validation, CONFIG, seed=0)
    assert state.step == 0 and model.weight == 0


def test_the_target_of_a_forecaster_is_its_horizon(windows):
    config = PaperConfig(n_layers=1, n_heads=1, d_qk=2, d_v=2, d_model=2, norm_over="cell")
    model = PaperForecaster(config, Sizes(12, 3, 2), 4)
    window, task = windows.take(torch.arange(3)), Task(horizon=4)
    visible, target = masks_for(window, task)
    assert not visible[:, 8:].any() and not target[:, :8].any()
    assert torch.equal(visible | target, window.observed)
    changed = replace(window, truth=torch.where(target, window.truth, 99.0))
    losses = {
        training_loss(model, batch, CONFIG, make_generator(1), task).item()
        for batch in (window, changed)
    }
    assert len(losses) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": -1}, "batch_size must not be negative"),
        ({"lr": 0.0}, "lr must be greater than 0"),
        ({"minutes": -1.0}, "minutes must be greater than 0"),
        ({"max_mask_ratio": 1.5}, "max_mask_ratio is a share between 0 and 1"),
        ({"patience": -1}, "patience must not be negative"),
        ({"loss": "huber"}, "no loss 'huber'"),
        ({"masking": "burst"}, "did you mean 'bursts'"),
        ({"loss_on": "hiden"}, "did you mean 'hidden'"),
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(CONFIG, **change)
