"""Neural rivals that fill: 'mtsi' and 'iin' by their parts; each learns from other series."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cdsa.core.cube import make_cube
from cdsa.methods.engine.fit import build_network
from cdsa.methods.engine.persistence import load_filler, save_filler
from cdsa.methods.neural.brits import Brits, BritsConfig
from cdsa.methods.neural.dcrnn import Dcrnn, DcrnnConfig
from cdsa.methods.neural.iin import Iin, IinConfig, nearness, next_to
from cdsa.methods.neural.mtsi import DecayingUnit, Mtsi, MtsiConfig
from cdsa.methods.registry import REGISTRY, make_method
from cdsa.nn.context import WindowContext
from cdsa.nn.types import Sizes
from cdsa.training.loop import train, training_loss
from cdsa.training.masking import Task, random_source
from cdsa.training.windows import Window, cut
from cdsa.workflows.score import score
from conftest import network

SIZES = Sizes(6, 3, 2)


def around(distance: torch.Tensor | None = None) -> WindowContext:
    return WindowContext(
        calendar=torch.zeros(2, 6, 0),
        climatology=torch.zeros(2, *SIZES),
        distance=distance,
        station_similarity=torch.eye(3),
        step_variance=torch.ones(2),
        variable_ids=torch.arange(2),
    )


def test_the_state_decays_the_longer_nothing_was_seen():
    torch.manual_seed(0)
    unit, h = DecayingUnit(3, 4), torch.ones(1, 4)
    with torch.no_grad():
        unit.decay.weight.fill_(0.5)
        unit.decay.bias.zero_()
        for part in unit.cell.parameters():
            part.zero_()  # then a unit keeps half of its state
    stays = unit.stays(torch.tensor([[1.0, 2.0, 3.0]]))
    torch.testing.assert_close(unit(torch.zeros(1, 3), stays, h), h * np.exp(-3.0) / 2)


@pytest.mark.parametrize(
    ("name", "ahead"),
    [(name, 0 if "fill" in info.task else 4) for name, info in REGISTRY.items() if info.trains]
    + [("dcrnn", 4)],
)
def test_every_weight_learns(name, ahead):
    method = make_method(f"{name}@small", ahead=ahead)[1]
    if name == "mtsi":  # a round of both networks, one after the other
        method = replace(method, model=replace(method.model, pretrain_steps=1, critic_steps=1))
    cube = network(steps=60, stations=4)
    learnt = method.fit(cube).network
    sizes = Sizes(learnt.window, len(learnt.locations), len(learnt.measurements))
    initial = build_network(method, sizes, learnt.horizon, learnt.context_builder)
    first = dict(initial.named_parameters())
    same = [n for n, part in learnt.model.named_parameters() if torch.equal(part, first[n])]
    assert not same


def test_of_generator_and_critic_one_learns_at_a_time_and_the_critic_is_cut_off():
    torch.manual_seed(0)
    config = MtsiConfig(
        d_model=4, d_noise=3, pretrain_steps=1, critic_steps=2, search_steps=2, weight_clip=0.05
    )
    model = config.build(SIZES, 0, 0)
    values, seen = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    learning = []
    for _ in range(4):
        model.zero_grad()
        model.loss(values, seen, seen).backward()
        learning.append(
            "".join(
                name
                for name, part in (("g", model.generator), ("c", model.critic))
                if any(p.grad is not None for p in part.parameters())
            )
        )
    assert learning == ["g", "c", "c", "g"]
    assert max(part.abs().max() for part in model.critic.parameters()) <= 0.05


def test_without_an_exam_the_newest_weights_of_a_network_that_is_judged_are_kept():
    class Judged(torch.nn.Module):
        critic_active = True

        def __init__(self):
            super().__init__()
            self.weight, self.lessons = torch.nn.Parameter(torch.zeros(())), 0

        def loss(self, values, observed, shown):
            self.lessons += 1
            return self.weight + self.lessons  # grows, for each of two tells another loss

        def clip_critic(self):
            pass

    windows = cut(network(steps=40, places=False), 12, 4)
    model, config = Judged(), replace(Mtsi().by_preset("small").train, validate_every=1)
    place = train(model, windows, windows.keep(torch.arange(0)), config, seed=0)
    assert place.best_step == place.step > 1


def test_cells_are_hidden_from_the_search_by_the_seed_and_a_direction_as_one():
    class Spy(torch.nn.Module):
        def loss(self, values, observed, shown):
            self.shown = shown
            return values.sum()

    values, observed = torch.randn(9, 6, 3, 3), torch.rand(9, 6, 3, 3) < 0.8
    window = Window(values, observed, values, observed, torch.zeros(9, 6))
    task, spy, found = Task(tied_variables=torch.tensor([0, 0, 1])), Spy(), []
    for seed in (1, 2, 1):
        training_loss(spy, window, Mtsi().train, random_source(seed), task)
        found.append(spy.shown)
    hidden = observed & ~found[0]
    assert 0.1 < hidden.sum() / observed.sum() < 0.5 and not (found[0] & ~observed).any()
    both = observed[..., 0] & observed[..., 1]
    assert torch.equal(hidden[..., 0][both], hidden[..., 1][both])
    assert torch.equal(found[0], found[2]) and not torch.equal(found[0], found[1])
    training_loss(spy, window, Brits().train, random_source(1), task)
    assert torch.equal(spy.shown, observed)


def test_a_network_that_is_judged_is_not_kept_from_before_its_judge_began():
    method = Mtsi().by_preset("small")
    model = replace(method.model, pretrain_steps=7, weight_clip=0.05)
    train = replace(method.train, epochs=3, validate_every=2)
    learnt = replace(method, model=model, train=train).fit(network(steps=90)).network
    assert learnt.train_state.best_step > 7 and learnt.model.critic_active
    assert max(part.abs().max() for part in learnt.model.critic.parameters()) <= 0.05
    short = replace(method, model=model, train=replace(train, epochs=1, batch_size=64))
    assert short.fit(network(steps=90)).network.train_state.best_step == 1  # or nothing would be


def test_what_the_critic_says_depends_on_how_long_each_series_was_not_seen():
    torch.manual_seed(0)
    model = MtsiConfig(d_model=8, d_noise=8).build(SIZES, 0, 0)
    made, seen = model.generator(torch.randn(1, 8), 6).detach(), torch.ones(1, 6, 6)
    longer = seen.clone()
    longer[:, 1:3] = 0
    made = made * longer  # what is not seen is zero either way
    assert not torch.allclose(model.critic(made, seen), model.critic(made, longer), atol=1e-6)


def test_the_critic_is_asked_in_the_search_about_what_it_was_taught_on():
    torch.manual_seed(0)
    model = MtsiConfig(
        d_model=8, d_noise=8, pretrain_steps=0, critic_steps=1, search_steps=2
    ).build(SIZES, 0, 0)
    asked, critic = [], model.critic.forward
    model.critic.forward = lambda x, seen: asked.append(seen) or critic(x, seen)
    values, observed = torch.randn(2, *SIZES), torch.rand(2, *SIZES) < 0.7
    model.loss(values, observed, observed)
    model.loss(values, observed, observed)
    model(values, observed)
    gaps = observed.flatten(2).float()
    assert len(asked) == 4  # by its own lesson, the generator's, and twice by the search
    assert all(torch.equal(seen, gaps) for part in asked for seen in part.split(2))


def test_the_search_comes_nearer_to_what_was_observed():
    torch.manual_seed(0)
    few, many = (
        MtsiConfig(d_model=8, d_noise=8, search_steps=search, critic_weight=0.0)
        for search in (1, 60)
    )
    model, values = few.build(SIZES, 0, 0), torch.randn(2, *SIZES)
    seen = torch.rand(values.shape) < 0.9
    off = []
    for config in (few, many):
        model.config = config
        off.append(((model(values, seen) - values)[seen] ** 2).mean())
    assert off[1] < 0.95 * off[0]


def test_a_search_sees_only_what_is_shown_and_the_generator_learns_through_it():
    torch.manual_seed(0)
    model = MtsiConfig(d_model=8, d_noise=8).build(SIZES, 0, 0).train()
    x, seen = torch.randn(2, 6, 6), (torch.rand(2, 6, 6) < 0.5).float()
    noise = model.found(x, seen)
    assert torch.equal(noise, model.found(torch.where(seen > 0, x, 99.0), seen))
    assert not torch.equal(noise, model.found(x + 1, seen))
    noise.square().sum().backward()
    slopes = [part.grad for part in model.generator.tell.parameters()]
    assert all(slope is not None and slope.abs().max() > 0 for slope in slopes)
    model.zero_grad()
    model.eval().found(x, seen).sum().backward()  # a search that fills teaches nobody
    assert all(part.grad is None for part in model.generator.parameters())


def test_what_lies_ahead_is_learnt_and_hidden_from_the_search():
    torch.manual_seed(0)
    model = MtsiConfig(d_model=8, d_noise=8).build(SIZES, 2, 0).train()
    values, seen = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    shown = seen.clone()
    shown[:, 4:] = False
    searched = []
    model.found = lambda x, there: searched.append(there) or x.new_zeros(2, 8)
    losses = []
    for more in (0.0, 5.0):
        model.lessons.zero_()
        ahead = values.clone()
        ahead[:, 4:] += more
        losses.append(model.loss(ahead, seen, shown))
    assert all((there[:, 4:] == 0).all() for there in searched) and losses[1] > losses[0] + 1


def test_a_window_is_filled_the_same_whatever_others_are_filled_with_it():
    torch.manual_seed(0)
    model = MtsiConfig(d_model=8, d_noise=8, search_steps=10).build(SIZES, 0, 0)
    values, seen = torch.randn(3, *SIZES), torch.ones(3, *SIZES, dtype=torch.bool)
    torch.testing.assert_close(model(values, seen)[1:2], model(values[1:2], seen[1:2]))


def test_terms_of_time_and_space():
    whole = torch.tensor([1.0, 2.0, 4.0])[None, :, None, None]
    assert next_to(whole).flatten().tolist() == [1.5, 2.5, 3.0]
    values = torch.zeros(2, *SIZES)
    everyone = nearness(values, around())
    torch.testing.assert_close(everyone, (1 - torch.eye(3)) / 2)
    at = torch.tensor([0.0, 1.0, 50.0])
    near = nearness(values, around((at[:, None] - at).abs()))
    assert near[0, 1] == 1 and near[2].sum() == 0


def test_terms_are_part_of_what_is_told_and_none_is_told_from_itself():
    model = IinConfig(d_model=4, n_rounds=1).build(SIZES, 0, 0)
    with torch.no_grad():
        for part in (*model.read.parameters(), *model.tell.parameters()):
            part.zero_()
    values, seen = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    beside = (values.sum(dim=2, keepdim=True) - values) / 2
    told = model(values, seen, around())
    torch.testing.assert_close(told, (next_to(values) + beside) / 2)
    with torch.no_grad():  # what more the series say of each other
        model.others.fill_(0.25)
    more = values.sum(dim=(2, 3), keepdim=True) - values
    torch.testing.assert_close(model(values, seen, around()) - told, more / 8)


def test_what_is_guessed_again_and_again_starts_from_a_straight_line():
    model = IinConfig(d_model=4, n_rounds=1).build(SIZES, 0, 0)
    with torch.no_grad():  # of all that a cell is told from, the term of time
        for part in (*model.read.parameters(), *model.tell.parameters(), model.shares[1]):
            part.zero_()
        model.shares[0] = 1
    values = torch.arange(6.0).unflatten(0, (1, 6, 1, 1)).expand(2, *SIZES)
    seen = torch.ones(2, *SIZES, dtype=torch.bool)
    seen[:, 2:4] = False
    told = model(torch.where(seen, values, 99.0), seen, around())
    torch.testing.assert_close(told[:, 1:5], values[:, 1:5])


def test_what_diffuses_to_fill_starts_from_the_last_value_on_either_side():
    torch.manual_seed(0)
    model = DcrnnConfig(d_model=4, diffusion_steps=1).build(SIZES, 0, 0)
    apart = around(1e3 * (1 - torch.eye(3)))._replace(bandwidth=1.0)  # nobody is near
    with torch.no_grad():  # of all that a cell is told from, the two values
        model.tell.mix.weight.zero_()
        model.tell.mix.bias.zero_()
        for m in range(2):
            model.tell.mix.weight[m, [8 + m, 10 + m]] = 0.5
    values, seen = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    seen[:, 2:4] = False
    told = model(torch.where(seen, values, 0.0), seen, apart)
    middle = (values[:, 1] + values[:, 4]) / 2
    torch.testing.assert_close(told[:, 2], middle)
    torch.testing.assert_close(told[:, 3], middle)
    torch.testing.assert_close(told[:, 1], values[:, 1])


@pytest.mark.parametrize("rounds", [1, 3])
def test_guesses_are_read_again(rounds):
    torch.manual_seed(0)
    model = IinConfig(d_model=4, n_layers=1, n_rounds=rounds).build(SIZES, 0, 0)
    values, seen = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    seen[:, 2, 0] = False
    other = torch.where(seen, values, 99.0)
    assert torch.equal(*(model(v, seen, around()) for v in (values, other)))
    model.rounds = 4
    again = torch.allclose(model(values, seen, around()), _once(model, values, seen))
    assert not again


def test_one_that_is_tied_to_its_stations_and_told_the_time_comes_back_as_it_was(tmp_path):
    cube = network(steps=80, stations=4)
    filler = Iin().by_preset("small").fit(cube)
    save_filler(filler, tmp_path / "net")
    told = load_filler(tmp_path / "net").fill(cube)
    assert told.equals(filler.fill(cube)) and not filler.network.inductive


def _once(model, values, seen):
    model.rounds = 1
    return model(values, seen, around())


def together(steps=600):
    """Four series that go together, which a straight line knows nothing of."""
    rng = np.random.default_rng(0)
    common = np.convolve(rng.normal(size=steps + 100), np.ones(3) / 2, "valid")[:steps, None]
    values = common * np.array([1.0, 0.8, 0.7, 1.3]) + 0.1 * rng.normal(size=(steps, 4))
    times = np.datetime64("2020-01-01") + np.arange(steps).astype("timedelta64[h]")
    at = np.arange(4) / 10
    return make_cube(values[..., None], times, list("ABCD"), ["x"], lat=at, lon=at)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "epochs", "rate"),
    [
        (Brits(model=BritsConfig(d_model=16)), 12, 5e-3),
        (Iin(model=IinConfig(d_model=16, n_layers=1, n_rounds=2)), 25, 1e-2),
        (Dcrnn(model=DcrnnConfig(d_model=16, n_layers=1, diffusion_steps=1)), 25, 1e-2),
        pytest.param(
            Mtsi(
                model=MtsiConfig(
                    d_model=64, d_noise=48, pretrain_steps=150, critic_steps=1, search_steps=40
                )
            ),
            30,
            5e-3,
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_each_beats_the_straight_line_in_long_gaps_of_series_that_go_together(method, epochs, rate):
    cube = together()
    train = replace(method.train, minutes=None, epochs=epochs, rate=rate, validate_every=100)
    method = replace(method, window=12, stride=3, train=train)
    ours, line = (score(m, cube, "bursts:0.2").errors.overall()["mae"] for m in (method, "linear"))
    assert ours < 0.8 * line
