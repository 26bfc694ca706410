"""The rival 'brits': its equations."""

from dataclasses import replace

import pytest
import torch

from cdsa.methods.neural.brits import BritsConfig, Direction
from cdsa.nn.interpolation import last_seen, steps_since
from cdsa.nn.types import Sizes
from cdsa.training.loop import TrainConfig, training_loss
from cdsa.training.masking import Task, random_source
from cdsa.training.windows import Window


def test_steps_since_a_series_was_last_seen():
    seen = torch.tensor([1.0, 0, 0, 1, 1, 0])[None, :, None]
    assert steps_since(seen).flatten().tolist() == [0, 1, 2, 3, 1, 1]


def test_the_last_value_that_was_seen():
    seen = torch.tensor([False, True, False, True, False])[None, :, None, None]
    values = torch.tensor([9.0, 2, 9, 4, 9])[None, :, None, None]
    assert last_seen(values, seen).flatten().tolist() == [0, 2, 2, 4, 4]


def test_a_series_is_never_told_from_itself():
    torch.manual_seed(0)
    direction = Direction(3, 4)
    values, observed = torch.randn(1, 5, 3), torch.ones(1, 5, 3, dtype=torch.bool)
    changed = values.clone()
    changed[0, 2, 1] += 10
    before, after = (direction(x, observed, observed).filled for x in (values, changed))
    assert torch.equal(before[0, :2], after[0, :2])
    assert before[0, 2, 1] == after[0, 2, 1] and before[0, 2, 0] != after[0, 2, 0]


def test_nothing_behind_a_gap_gets_in():
    torch.manual_seed(0)
    model = BritsConfig(d_model=4).build(Sizes(6, 2, 2), 0, 0)
    observed = torch.rand(2, 6, 2, 2) < 0.5
    values = torch.randn(2, 6, 2, 2)
    other = torch.where(observed, values, 99.0)
    shown = [torch.where(observed, v, 0.0) for v in (values, other)]
    assert torch.equal(*(model(v, observed) for v in shown))
    assert torch.equal(*(model.loss(v, observed, observed) for v in shown))


def test_the_two_directions_are_each_others_mirror():
    torch.manual_seed(0)
    model = BritsConfig(d_model=4).build(Sizes(6, 2, 2), 0, 0)
    model.backwards.load_state_dict(model.forwards.state_dict())
    observed = torch.rand(2, 6, 2, 2) < 0.5
    values = torch.where(observed, torch.randn(2, 6, 2, 2), 0.0)
    turned = model(values.flip(1), observed.flip(1)).flip(1)
    torch.testing.assert_close(model(values, observed), turned)


def test_the_directions_need_not_agree_on_what_lies_ahead():
    torch.manual_seed(0)
    model = BritsConfig(d_model=4).build(Sizes(6, 2, 2), 2, 0)
    values, observed = torch.randn(2, 6, 2, 2), torch.ones(2, 6, 2, 2, dtype=torch.bool)
    shown = observed.clone()
    shown[:, 4:] = False
    one, other = model._read(values, observed, shown)
    assert not torch.allclose(one.filled[:, 4:], other.filled[:, 4:])
    torch.testing.assert_close(model.loss(values, observed, shown), one.error + other.error)
    shown[:, 1] = False  # in a gap of the past they should
    one, other = model._read(values, observed, shown)
    apart = (one.filled - other.filled)[:, 1].abs().mean() / 4  # one of the four steps of the past
    told = one.error + other.error + 0.1 * apart / 6
    torch.testing.assert_close(model.loss(values, observed, shown), told)


def test_to_foresee_it_learns_what_it_may_not_read():
    torch.manual_seed(0)
    model = BritsConfig(d_model=4).build(Sizes(6, 2, 1), 2, 0)
    values, observed = torch.randn(3, 6, 2, 1), torch.ones(3, 6, 2, 1, dtype=torch.bool)
    window = Window(values, observed, values, ~observed, torch.arange(6).expand(3, 6))
    changed = values.clone()
    changed[:, 4:] += 100  # a mean error of so much in a third of the cells, each told thrice
    losses = [
        training_loss(
            model, replace(window, values=x), TrainConfig(), random_source(1), task
        ).item()
        for x in (values, changed)
        for task in (Task(horizon=2), Task())
    ]
    assert losses[2] - losses[0] == pytest.approx(2 * 3 * 100 / 3, rel=0.05)
    assert losses[3] - losses[1] != pytest.approx(2 * 3 * 100 / 3, rel=0.05)


def test_what_lies_ahead_is_told_by_the_direction_that_has_read_something():
    torch.manual_seed(0)
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
