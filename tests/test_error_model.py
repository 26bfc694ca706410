"""The error to expect of a filled cell follows from what is measured around it."""

import numpy as np
import pytest

from cdsa.core.masks import Bursts
from cdsa.methods.calibration import ConformalFiller
from cdsa.methods.error_model import ErrorModel
from cdsa.methods.registry import build_method
from conftest import network


@pytest.fixture
def walk(rng):
    """Random walks, whose errors grow with the distance to the nearest value."""
    cube = network(steps=3000, stations=3, measurements=1, missing=0.0)
    return cube.copy(data=rng.normal(size=cube.shape).cumsum(axis=0))


def fit(truth, share=0.3):
    visible = truth.where(~Bursts(share=share)(truth, np.random.default_rng(0)))
    filled = build_method("linear").fit(visible).fill(visible)
    return ErrorModel.fit(filled, truth, visible), filled, visible


def test_widths_grow_into_a_gap(walk):
    model, *_ = fit(walk)
    gap = walk.copy()
    gap[1000:1041, 0] = np.nan
    filled = build_method("linear").fit(gap).fill(gap)
    widths = model.widths(filled, gap).to_numpy()[1000:1041, 0, 0]
    assert widths[20] > 2 * widths[0] > 0
    assert (np.diff(widths[:15]) > 0).mean() > 0.8
    assert not model.widths(filled, gap)[:1000].any()  # measured values have none


def test_widths_rank_the_errors(walk):
    model, filled, visible = fit(walk)
    gaps = visible.isnull().to_numpy()
    error, width = (x.to_numpy()[gaps] for x in (abs(filled - walk), model.widths(filled, visible)))
    small, large = np.array_split(error[np.argsort(width)], 2)
    assert large.mean() > 1.5 * small.mean()
    assert width.mean() == pytest.approx(error.mean(), rel=0.1)


def test_widths_are_larger_where_values_vary_more(rng):
    cube = network(steps=2000, stations=3, measurements=1, missing=0.0)
    size = np.where(np.arange(2000) // 200 % 2, 1.0, 10.0)[:, None, None]
    model, filled, visible = fit(cube.copy(data=size * rng.normal(size=cube.shape)))
    width = model.widths(filled, visible).where(visible.isnull()).to_numpy()
    calm, wild = (np.nanmean(width[size[:, 0, 0] == s]) for s in (1.0, 10.0))
    assert wild > 3 * calm


def test_a_constant_has_no_width_and_nothing_is_asked_of_few_cells():
    cube = network(steps=300, stations=2, measurements=1, missing=0.0)
    model, filled, visible = fit(cube * 0 + 5.0)
    assert not model.widths(filled, visible).any() and (filled == 5).all()
    few, filled, visible = fit(cube[:60])
    assert not few.slopes.any()
    assert float(few.widths(filled, visible).max()) > 0


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_intervals_have_the_unit_of_the_values(walk, factor):
    def interval(truth):
        visible = truth.where(~Bursts(share=0.3)(truth, np.random.default_rng(0)))
        linear = build_method("linear").fit(visible)
        conformal = ConformalFiller.fit(linear, linear.fill(visible), truth, visible)
        _, ((low, high),) = conformal.fill_intervals(visible, [0.9])
        return low.to_numpy(), high.to_numpy()

    for plain, scaled in zip(interval(walk), interval(factor * walk), strict=True):
        np.testing.assert_allclose(scaled / factor, plain, rtol=1e-6, atol=1e-6)


def test_one_spike_does_not_widen_the_intervals_of_others(walk):
    spiked = walk.copy()
    spiked[1500, 1, 0] = 1e9
    widths = []
    for truth in (walk, spiked):
        model, filled, visible = fit(truth)
        widths.append(float(model.widths(filled, visible).where(visible.isnull()).median()))
    assert widths[1] == pytest.approx(widths[0], rel=0.2)
