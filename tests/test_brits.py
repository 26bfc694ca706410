"""The rival 'brits': its equations."""

import torch

from cdsa.method.brits import BritsConfig, Direction
from cdsa.models.axes import Sizes
from cdsa.models.recurrence import steps_since


def test_steps_since_a_series_was_last_seen():
    seen = torch.tensor([1.0, 0, 0, 1, 1, 0])[None, :, None]
    assert steps_since(seen).flatten().tolist() == [0, 1, 2, 3, 1, 1]


def test_a_series_is_never_told_from_itself():
    torch.manual_seed(0)
    direction = Direction(3, 4)
    values, observed = torch.randn(1, 5, 3), torch.ones(1, 5, 3, dtype=torch.bool)
    changed = values.clone()
    changed[0, 2, 1] += 10
    before, after = direction(values, observed).filled, direction(changed, observed).filled
    assert torch.equal(before[0, :2], after[0, :2])
    assert before[0, 2, 1] == after[0, 2, 1] and before[0, 2, 0] != after[0, 2, 0]


def test_nothing_behind_a_gap_gets_in():
    torch.manual_seed(0)
    model = BritsConfig(hidden=4).build(Sizes(6, 2, 2), 0, 0)
    observed = torch.rand(2, 6, 2, 2) < 0.5
    values = torch.randn(2, 6, 2, 2)
    other = torch.where(observed, values, 99.0)
    shown = [torch.where(observed, v, 0.0) for v in (values, other)]
    assert torch.equal(*(model(v, observed) for v in shown))
    assert torch.equal(*(model.lesson(v, observed) for v in shown))


def test_the_two_directions_are_each_others_mirror():
    torch.manual_seed(0)
    model = BritsConfig(hidden=4).build(Sizes(6, 2, 2), 0, 0)
    model.backwards.load_state_dict(model.forwards.state_dict())
    observed = torch.rand(2, 6, 2, 2) < 0.5
    values = torch.where(observed, torch.randn(2, 6, 2, 2), 0.0)
    turned = model(values.flip(1), observed.flip(1)).flip(1)
    torch.testing.assert_close(model(values, observed), turned)
