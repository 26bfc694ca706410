"""The training loop, on networks small enough to learn in a moment."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa_paper import PaperConfig, PaperForecaster
from cdsa.methods.registry import build_method
from cdsa.nn.types import Network, Sizes
from cdsa.training.loop import TrainConfig, masks_for, train, training_loss, validation_error
from cdsa.training.loss import LOSSES, learning_rate, masked_loss
from cdsa.training.masking import Task, mask_cells, random_source
from cdsa.training.state import StateError, TrainingStore
from cdsa.training.windows import cut
from conftest import network

CONFIG = TrainConfig(epochs=4, batch_size=4, lr=0.01, validate_every=3, patience=0)


class Mean(Network):
    """A network with two weights: each cell is told from the mean of what is shown."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.0))
        self.shift = nn.Parameter(torch.tensor(0.5))

    def forward(self, values, observed, context=None):
        shown = observed.sum((1, 2, 3), keepdim=True).clamp(min=1)
        mean = values.sum((1, 2, 3), keepdim=True) / shown
        return self.weight * mean + self.shift + torch.zeros_like(values)


class Spy(Mean):
    """Writes down what it is shown."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, values, observed, context=None):
        self.seen.append((values.clone(), observed.clone()))
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
def exam(scaled, hidden):
    return cut(scaled, 12, 12, target=hidden)


def weights(model):
    return {name: part.clone() for name, part in model.state_dict().items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_losses_count_the_asked_cells_only():
    guess = torch.tensor([1.0, 2.0, 9.0, -3.0])
    truth = torch.tensor([0.0, 0.0, 0.0, 0.0])
    asked = torch.tensor([True, True, False, True])
    told = {kind: masked_loss(kind, guess, truth, asked).item() for kind in LOSSES}
    assert told["mae"] == pytest.approx(2)
    assert told["mse"] == pytest.approx(14 / 3)
    assert told["rmse"] == pytest.approx((14 / 3) ** 0.5)
    assert told["rmse+mae"] == pytest.approx(((14 / 3) ** 0.5 + 2) / 2)


@pytest.mark.parametrize("kind", LOSSES)
def test_a_loss_without_asked_cells_or_error_has_a_slope(kind):
    for asked in (torch.zeros(3).bool(), torch.ones(3).bool()):
        guess = torch.zeros(3, requires_grad=True)
        masked_loss(kind, guess, torch.zeros(3), asked).backward()
        assert guess.grad.isfinite().all()


def test_the_authors_schedule():
    rates = {epoch: learning_rate("steps", 1e-3, epoch, 0.5) for epoch in (0, 19, 20, 34, 35, 99)}
    assert rates[0] == rates[19] == 1e-3
    assert rates[20] == rates[34] == pytest.approx(3e-4)
    assert rates[35] == pytest.approx(9e-5) and rates[99] == 1e-6


def test_the_cosine_schedule_rises_then_falls():
    rates = [learning_rate("cosine", 1.0, 0, done) for done in (0, 0.02, 0.05, 0.5, 1.0)]
    assert rates[0] < rates[1] < rates[2] == pytest.approx(1.0)
    assert rates[2] > rates[3] > rates[4] == pytest.approx(0.01)


@pytest.mark.parametrize("kind", ["random", "bursts", "mixed"])
def test_only_observed_cells_are_hidden_and_about_half_of_the_most(kind):
    observed = torch.rand(200, 40, 3, 2, generator=random_source(1)) < 0.8
    hidden = mask_cells(observed, kind, 0.8, random_source(2))
    assert not (hidden & ~observed).any()
    assert hidden.float().mean() / observed.float().mean() == pytest.approx(0.4, abs=0.08)
    by_window = hidden.flatten(1).float().mean(1)
    assert by_window.max() > 0.5 and by_window.min() < 0.1


def test_bursts_are_gaps_in_time():
    observed = torch.ones(100, 40, 3, 2).bool()
    edges = {
        kind: (mask_cells(observed, kind, 0.5, random_source(3)).int().diff(dim=1) == 1).sum()
        for kind in ("random", "bursts")
    }
    assert edges["bursts"] * 3 < edges["random"]


def test_measurements_that_belong_together_are_hidden_together():
    observed = torch.ones(50, 20, 3, 4).bool()
    for kind in ("random", "bursts", "mixed"):
        hidden = mask_cells(observed, kind, 0.5, random_source(4), torch.tensor([0, 1, 2, 1]))
        assert torch.equal(hidden[..., 1], hidden[..., 3])
        assert not torch.equal(hidden[..., 0], hidden[..., 1])


def test_it_learns(windows, exam):
    model = Mean()
    before = validation_error(model, exam, CONFIG)
    place = train(model, windows, exam, replace(CONFIG, epochs=40), seed=0)
    assert validation_error(model, exam, CONFIG) == place.best < before


@pytest.mark.parametrize("learn_from", ["visible", "hidden", "both"])
def test_the_network_is_never_shown_a_validation_cell(windows, exam, learn_from):
    model = Spy()
    train(model, windows, exam, replace(CONFIG, loss_on=learn_from), seed=0)
    forbidden = exam.values[exam.target]  # zero: nothing stands there
    assert (forbidden == 0).all() and len(forbidden)
    truth = set(exam.truth[exam.target].tolist())
    for values, observed in model.seen:
        assert not truth & set(values[observed].tolist())
        assert (values[~observed] == 0).all()


def test_changing_validation_cells_changes_no_weight_before_they_are_looked_at(scaled, hidden):
    trained = []
    for cube in (scaled, scaled.where(~hidden, 50.0)):
        model = Mean()
        learnt = cut(cube.where(~hidden), 12, 6)
        nothing = learnt.keep(torch.zeros(0, dtype=torch.long))
        train(model, learnt, nothing, CONFIG, seed=0)
        trained.append(weights(model))
    assert same(*trained)


def test_what_a_rival_looks_back_on_to_foresee_is_whole_while_it_learns(windows):
    window, task, spy = windows.take(torch.arange(8)), Task(horizon=4), Spy()
    for kind in ("visible", "hidden"):
        training_loss(spy, window, replace(CONFIG, loss_on=kind), random_source(1), task)
    (_, whole), (_, gaps) = spy.seen
    assert torch.equal(whole, masks_for(window, task)[0])
    assert gaps.sum() < whole.sum() and not (gaps & ~whole).any()
    assert build_method("dst-gcnn").train.loss_on == "visible"  # the others have own lessons


def test_hidden_cells_are_asked_for_and_not_shown(windows):
    window = windows.take(torch.arange(4))
    spy = Spy()
    training_loss(spy, window, replace(CONFIG, loss_on="hidden"), random_source(1))
    ((_, shown),) = spy.seen
    assert shown.sum() < window.observed.sum() and not (shown & ~window.observed).any()
    changed = replace(window, truth=torch.where(shown, 7.0, window.truth))
    first, second = (
        training_loss(Mean(), w, replace(CONFIG, loss_on="hidden"), random_source(1))
        for w in (window, changed)
    )
    assert first == second  # what is shown is not asked for


def test_the_same_seed_gives_the_same_weights_and_another_does_not(windows, exam):
    trained = []
    for seed in (0, 0, 1):
        model = Mean()
        train(model, windows, exam, CONFIG, seed=seed)
        trained.append(weights(model))
    assert same(*trained[:2]) and not same(*trained[1:])


@pytest.mark.parametrize("moment", [1, 2, 3, 5, 8, 9])
def test_a_run_that_was_stopped_goes_on_to_the_same_weights(windows, exam, tmp_path, moment):
    whole = Mean()
    train(whole, windows, exam, CONFIG, seed=0)
    store = TrainingStore(tmp_path / "run", "this", every=0)
    steps = []
    stopped = Mean()
    train(
        stopped, windows, exam, CONFIG, seed=0, store=store,
        on_progress=lambda report: steps.append(report.step),
        should_stop=lambda: len(steps) == moment,
    )  # fmt: skip
    assert steps[-1] == moment
    again = Mean()
    place = train(again, windows, exam, CONFIG, seed=0, store=store)
    assert same(weights(whole), weights(again))
    assert place.step == 4 * 3  # eleven windows, four at a time, four times


def test_a_run_about_something_else_is_not_gone_on_with(windows, exam, tmp_path):
    store = TrainingStore(tmp_path / "run", "this", every=0)
    train(Mean(), windows, exam, CONFIG, seed=0, store=store)
    with pytest.raises(StateError, match="other settings or other data"):
        train(Mean(), windows, exam, CONFIG, seed=0, store=replace(store, fingerprint="that"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-40],
        lambda b: b[:10],
        lambda b: b"\x80" * 50,
        lambda b: b[:-1] + bytes([b[-1] ^ 1]),
    ],
    ids=["cut", "cut in the head", "something else", "a bit turned"],
)
def test_a_damaged_run_is_refused(windows, exam, tmp_path, damage):
    path = tmp_path / "run"
    train(Mean(), windows, exam, CONFIG, seed=0, store=TrainingStore(path, "this", every=0))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StateError, match="Remove it to start over"):
        train(Mean(), windows, exam, CONFIG, seed=0, store=TrainingStore(path, "this"))


def test_it_stops_early_and_keeps_the_best(windows, exam):
    model = Mean()
    config = replace(CONFIG, epochs=400, lr=0.5, patience=3, schedule="constant")
    place = train(model, windows, exam, config, seed=0)
    assert place.step < 400 * 3 and place.best_step < place.step
    assert validation_error(model, exam, config) == place.best


def test_it_stops_when_the_minutes_are_over(windows, exam):
    seconds = []
    config = replace(CONFIG, epochs=None, minutes=0.5 / 60)
    train(Mean(), windows, exam, config, seed=0, on_progress=lambda r: seconds.append(r.seconds))
    assert 0.4 < seconds[-1] < 5


def test_a_loss_that_is_no_number_is_told(windows, exam):
    with pytest.raises(ConfigError, match="Lower the learning rate"):
        train(Mean(), windows, exam, replace(CONFIG, lr=1e30, loss="mse", grad_clip=1e30), seed=0)


def test_reports_tell_how_far_it_is(windows, exam):
    reports = []
    train(Mean(), windows, exam, CONFIG, seed=0, on_progress=reports.append)
    assert [r.step for r in reports] == list(range(1, 13)) and reports[-1].fraction == 1
    assert reports[1].validation is None and reports[2].validation is not None
    assert all(np.isfinite(r.loss) for r in reports)


def test_nothing_to_learn_from_is_no_crash(windows, exam):
    nothing = windows.keep(torch.zeros(0, dtype=torch.long))
    model = Mean()
    place = train(model, nothing, exam, CONFIG, seed=0)
    assert place.step == 0 and model.weight == 0


def test_a_forecaster_is_asked_for_what_lies_ahead_and_examined_without_it(windows):
    config = PaperConfig(n_layers=1, n_heads=1, d_qk=2, d_v=2, d_model=2, norm_over="cell")
    model = PaperForecaster(config, Sizes(12, 3, 2), 4)
    window = windows.take(torch.arange(3))
    task = Task(horizon=4)
    shown, asked = masks_for(window, task)
    assert not shown[:, 8:].any() and not asked[:, :8].any()
    assert torch.equal(shown | asked, window.observed)
    past = replace(window, truth=torch.where(asked, window.truth, 99.0))
    losses = {
        training_loss(model, w, CONFIG, random_source(1), task).item() for w in (window, past)
    }
    assert len(losses) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"batch_size": -1}, "batch_size must be at least 0"),
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
def test_settings_that_cannot_be_are_refused(change, told):
    with pytest.raises(ConfigError, match=told):
        replace(CONFIG, **change)
