"""The baseline 'brits': its equations."""

from dataclasses import replace

import pytest
import torch

from cdsa.methods.neural.brits import BritsConfig, Rits
from cdsa.nn.interpolation import last_observed, steps_since_observed
from cdsa.nn.types import Sizes
from cdsa.training.loop import TrainConfig, training_loss
from cdsa.training.masking import Task, make_generator
from cdsa.training.windows import Window


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_steps_are_counted_since_the_last_observation():
    seen = torch.tensor([1.0, 0, 0, 1, 1, 0])[None, :, None]
    assert steps_since_observed(seen).flatten().tolist() == [0, 1, 2, 3, 1, 1]


def test_the_last_observation_is_carried_forward():
    seen = torch.tensor([False, True, False, True, False])[None, :, None, None]
    values = torch.tensor([9.0, 2, 9, 4, 9])[None, :, None, None]
    assert last_observed(values, seen).flatten().tolist() == [0, 2, 2, 4, 4]


def test_a_series_is_never_estimated_from_itself():
    rits = Rits(3, 4)
    values, observed = torch.randn(1, 5, 3), torch.ones(1, 5, 3, dtype=torch.bool)
    changed = values.clone()
    changed[0, 2, 1] += 10
    before, after = (rits(x, observed, observed)[0] for x in (values, changed))
    assert torch.equal(before[0, :2], after[0, :2])
    assert before[0, 2, 1] == after[0, 2, 1] and before[0, 2, 0] != after[0, 2, 0]


def test_missing_values_have_no_influence():
    model = BritsConfig(d_model=4).build(Sizes(6, 2, 2), 0, 0)
    observed = torch.rand(2, 6, 2, 2) < 0.5
    values = torch.randn(2, 6, 2, 2)
    changed = torch.where(observed, values, 99.0)
    zeroed = [torch.where(observed, x, 0.0) for x in (values, changed)]
    assert torch.equal(*(model(x, observed) for x in zeroed))
    assert torch.equal(*(model.loss(x, observed, observed) for x in zeroed))


def test_the_two_directions_mirror_each_other():
    model = BritsConfig(d_model=4).build(Sizes(6, 2, 2), 0, 0)
    model.backwards.load_state_dict(model.forwards.state_dict())
    observed = torch.rand(2, 6, 2, 2) < 0.5
    values = torch.where(observed, torch.randn(2, 6, 2, 2), 0.0)
    mirrored = model(values.flip(1), observed.flip(1)).flip(1)
    torch.testing.assert_close(model(values, observed), mirrored)


def test_the_directions_must_agree_in_gaps_but_not_in_the_horizon():
    model = BritsConfig(d_model=4).build(Sizes(6, 2, 2), 2, 0)
    values, observed = torch.randn(2, 6, 2, 2), torch.ones(2, 6, 2, 2, dtype=torch.bool)
    visible = observed.clone()
    visible[:, 4:] = False
    forth, back, error = model._read(values, observed, visible)
    assert not torch.allclose(forth[:, 4:], back[:, 4:])
    torch.testing.assert_close(model.loss(values, observed, visible), error)
    visible[:, 1] = False
    forth, back, error = model._read(values, observed, visible)
    # one of the four steps before the horizon
    consistency = (forth - back)[:, 1].abs().mean() / 4
    expected = error + 0.1 * consistency / 6
    torch.testing.assert_close(model.loss(values, observed, visible), expected)


def test_the_horizon_counts_in_the_loss_but_is_not_read():
    model = BritsConfig(d_model=4).build(Sizes(6, 2, 1), 2, 0)
    values, observed = torch.randn(3, 6, 2, 1), torch.ones(3, 6, 2, 1, dtype=torch.bool)
    window = Window(values, observed, values, ~observed, torch.arange(6).expand(3, 6))
    changed = values.clone()
    changed[:, 4:] += 100  # an error of 100 in a third of the cells, of three estimates each
    losses = [
        training_loss(
            model, replace(window, values=x), TrainConfig(), make_generator(1), task
        ).item()
        for x in (values, changed)
        for task in (Task(horizon=2), Task())
    ]
    assert losses[2] - losses[0] == pytest.approx(2 * 3 * 100 / 3, rel=0.05)
    assert losses[3] - losses[1] != pytest.approx(2 * 3 * 100 / 3, rel=0.05)


def test_the_horizon_is_predicted_by_the_forward_direction_alone():
    model = BritsConfig(d_model=4).build(Sizes(6, 2, 1), 2, 0)
    observed = torch.ones(3, 6, 2, 1, dtype=torch.bool)
    observed[:, 4:] = False
    values = torch.where(observed, torch.randn(3, 6, 2, 1), 0.0)
    before = model(values, observed)
    with torch.no_grad():
        model.backwards.history.bias += 1
    after = model(values, observed)
    assert torch.equal(before[:, 4:], after[:, 4:])
    assert not torch.isclose(before[:, :4], after[:, :4]).any()
