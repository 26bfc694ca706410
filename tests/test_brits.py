"""The rival 'brits': its equations, and that it learns from other series in long gaps."""

from dataclasses import replace

import numpy as np
import torch

from cdsa.cube import make_cube
from cdsa.method.brits import Brits, BritsConfig, Direction, steps_since
from cdsa.models.axes import Sizes
from cdsa.scoring import score


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


def test_it_beats_the_straight_line_in_long_gaps_of_series_that_go_together():
    rng = np.random.default_rng(0)
    common = np.convolve(rng.normal(size=700), np.ones(3) / 2, "valid")[:600, None]
    values = common * np.array([1.0, -1.0, 0.7, 1.3]) + 0.1 * rng.normal(size=(600, 4))
    times = np.datetime64("2020-01-01") + np.arange(600).astype("timedelta64[h]")
    cube = make_cube(values[..., None], times, list("ABCD"), ["x"])
    method = replace(Brits(), steps=24, stride=6, model=BritsConfig(hidden=16))
    method = replace(method, train=replace(method.train, minutes=None, epochs=12, rate=5e-3))
    ours, line = (score(m, cube, "bursts:0.2").errors.overall()["mae"] for m in (method, "linear"))
    assert ours < 0.7 * line
