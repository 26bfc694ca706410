"""The baseline 'mtsi': generator, critic, and the search for the noise of a window."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cdsa.methods.neural.brits import Brits
from cdsa.methods.neural.mtsi import DecayingCell, Mtsi, MtsiConfig
from cdsa.methods.registry import build_method
from cdsa.nn.types import Network, Sizes
from cdsa.training.loop import train, training_loss
from cdsa.training.masking import Task, make_generator
from cdsa.training.windows import Window, cut
from conftest import network

SIZES = Sizes(6, 3, 2)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def small(**settings):
    return MtsiConfig(d_model=8, d_noise=8, **settings).build(SIZES, 0, 0)


def largest_weight(critic) -> torch.Tensor:
    return max(weight.abs().max() for weight in critic.parameters())


def test_the_state_decays_with_the_steps_since_the_last_observation():
    cell, h = DecayingCell(3, 4), torch.ones(1, 4)
    with torch.no_grad():
        cell.decay.weight.fill_(0.5)
        cell.decay.bias.zero_()
        for weight in cell.gru.parameters():
            weight.zero_()  # then a unit keeps half of its state
    decay = cell.decay_factor(torch.tensor([[1.0, 2.0, 3.0]]))
    torch.testing.assert_close(cell(torch.zeros(1, 3), decay, h), h * np.exp(-3.0) / 2)


def test_generator_and_critic_are_trained_in_turns_and_the_critic_is_clipped():
    config = MtsiConfig(
        d_model=4, d_noise=3, pretrain_steps=1, critic_steps=2, search_steps=2, weight_clip=0.05
    )
    model = config.build(SIZES, 0, 0)
    values, observed = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    trained = []
    for _ in range(4):
        model.zero_grad()
        model.loss(values, observed, observed).backward()
        trained.append(
            "".join(
                letter
                for letter, module in (("g", model.generator), ("c", model.critic))
                if any(weight.grad is not None for weight in module.parameters())
            )
        )
    assert trained == ["g", "c", "c", "g"]
    assert largest_weight(model.critic) <= 0.05


def test_without_validation_the_newest_weights_of_an_adversarial_network_are_kept():
    class WithCritic(Network):
        custom_loss = adversarial = True

        def __init__(self):
            super().__init__()
            self.weight, self.n_updates = torch.nn.Parameter(torch.zeros(())), 0

        def loss(self, values, observed, visible):
            self.n_updates += 1
            return self.weight + self.n_updates  # grows, since each network has its own loss

    windows = cut(network(steps=40, places=False), 12, 4)
    config = replace(build_method("mtsi@small").train, validate_every=1)
    state = train(WithCritic(), windows, windows.keep(torch.arange(0)), config, seed=0)
    assert state.best_step == state.step > 1


def test_the_seed_hides_cells_from_the_search_and_components_of_a_direction_together():
    class Spy(Network):
        custom_loss = True

        def loss(self, values, observed, visible):
            self.visible = visible
            return values.sum()

    values, observed = torch.randn(9, 6, 3, 3), torch.rand(9, 6, 3, 3) < 0.8
    window = Window(values, observed, values, observed, torch.zeros(9, 6))
    task, spy, masks = Task(mask_groups=torch.tensor([0, 0, 1])), Spy(), []
    for seed in (1, 2, 1):
        training_loss(spy, window, Mtsi().train, make_generator(seed), task)
        masks.append(spy.visible)
    hidden = observed & ~masks[0]
    assert 0.1 < hidden.sum() / observed.sum() < 0.5 and not (masks[0] & ~observed).any()
    both = observed[..., 0] & observed[..., 1]
    assert torch.equal(hidden[..., 0][both], hidden[..., 1][both])
    assert torch.equal(masks[0], masks[2]) and not torch.equal(masks[0], masks[1])
    training_loss(spy, window, Brits().train, make_generator(1), task)
    assert torch.equal(spy.visible, observed)


def test_weights_from_before_the_critic_started_are_not_kept():
    method, cube = build_method("mtsi@small"), network(steps=48)
    model = replace(method.model, pretrain_steps=3, weight_clip=0.05, search_steps=1)
    config = replace(method.train, epochs=3, validate_every=2)
    predictor = replace(method, model=model, train=config).fit(cube).network
    assert predictor.train_state.best_step > 3 and predictor.model.critic_active
    assert largest_weight(predictor.model.critic) <= 0.05
    short = replace(method, model=model, train=replace(config, epochs=1, batch_size=64))
    assert short.fit(cube).network.train_state.best_step == 1  # nothing else could be kept


def test_the_score_of_the_critic_depends_on_how_long_each_series_was_missing():
    model = small()
    window, complete = model.generator(torch.randn(1, 8), 6).detach(), torch.ones(1, 6, 6)
    gappy = complete.clone()
    gappy[:, 1:3] = 0
    window = window * gappy  # missing values are zero either way
    assert not torch.allclose(
        model.critic(window, complete), model.critic(window, gappy), atol=1e-6
    )


def test_the_critic_sees_the_same_gaps_in_training_and_in_the_search():
    model = small(pretrain_steps=0, critic_steps=1, search_steps=2)
    masks, forward = [], model.critic.forward
    model.critic.forward = lambda x, mask: masks.append(mask) or forward(x, mask)
    values, observed = torch.randn(2, *SIZES), torch.rand(2, *SIZES) < 0.7
    model.loss(values, observed, observed)
    model.loss(values, observed, observed)
    model(values, observed)
    expected = observed.flatten(2).float()
    assert len(masks) == 4  # its own training step, the generator's, and two of the search
    assert all(torch.equal(part, expected) for mask in masks for part in mask.split(2))


def test_the_search_approaches_the_observations():
    few, many = (
        MtsiConfig(d_model=8, d_noise=8, search_steps=n_steps, critic_weight=0.0)
        for n_steps in (1, 60)
    )
    model, values = few.build(SIZES, 0, 0), torch.randn(2, *SIZES)
    observed = torch.rand(values.shape) < 0.9
    errors = []
    for config in (few, many):
        model.config = config
        errors.append(((model(values, observed) - values)[observed] ** 2).mean())
    assert errors[1] < 0.95 * errors[0]


def test_the_search_sees_only_its_mask_and_the_generator_is_trained_through_it():
    model = small().train()
    x, mask = torch.randn(2, 6, 6), (torch.rand(2, 6, 6) < 0.5).float()
    noise = model.first_noise(x, mask)
    assert torch.equal(noise, model.first_noise(torch.where(mask > 0, x, 99.0), mask))
    assert not torch.equal(noise, model.first_noise(x + 1, mask))
    noise.square().sum().backward()
    gradients = [weight.grad for weight in model.generator.head.parameters()]
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in gradients)
    model.zero_grad()
    model.eval().first_noise(x, mask).sum().backward()  # a search that fills trains nothing
    assert all(weight.grad is None for weight in model.generator.parameters())


def test_the_horizon_counts_in_the_loss_but_is_hidden_from_the_search():
    model = MtsiConfig(d_model=8, d_noise=8).build(SIZES, 2, 0).train()
    values, observed = torch.randn(2, *SIZES), torch.ones(2, *SIZES, dtype=torch.bool)
    visible = observed.clone()
    visible[:, 4:] = False
    masks, losses = [], []
    model.first_noise = lambda x, mask: masks.append(mask) or x.new_zeros(2, 8)
    for offset in (0.0, 5.0):
        model.n_updates.zero_()
        changed = values.clone()
        changed[:, 4:] += offset
        losses.append(model.loss(changed, observed, visible))
    assert all((mask[:, 4:] == 0).all() for mask in masks) and losses[1] > losses[0] + 1


def test_the_prediction_of_a_window_does_not_depend_on_its_batch():
    model = small(search_steps=10)
    values, observed = torch.randn(3, *SIZES), torch.ones(3, *SIZES, dtype=torch.bool)
    torch.testing.assert_close(model(values, observed)[1:2], model(values[1:2], observed[1:2]))
