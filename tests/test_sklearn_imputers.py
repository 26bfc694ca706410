"""The baselines 'knn' and 'mice' find the relation they are made for."""

import numpy as np
import pytest

from cdsa.methods.baselines import sklearn_imputers
from cdsa.methods.baselines.sklearn_imputers import Knn, Mice
from conftest import network


@pytest.fixture
def daily():
    """A daily wave that repeats exactly: the same hour of another day is the best donor."""
    cube = network(steps=24 * 12, stations=3, measurements=1, missing=0.0)
    hour = cube["time"].dt.hour.values
    waves = np.stack([np.sin((hour + n) * 2 * np.pi / 24) for n in range(3)], axis=1)
    truth = cube.copy(data=waves[..., None])
    gappy = truth.copy(deep=True)
    gappy[100:110, 0] = np.nan
    return truth, gappy


@pytest.fixture
def related(rng):
    """A series that is a linear function of two others."""
    cube = network(steps=300, stations=3, measurements=1, missing=0.0)
    a, b = rng.normal(size=300), rng.normal(size=300)
    truth = cube.copy(data=np.stack([a, b, 2 * a - b + 1], axis=1)[..., None])
    gappy = truth.copy(deep=True)
    gappy[50:80, 2] = np.nan
    return truth, gappy


def test_knn_averages_the_most_similar_time_steps(daily):
    truth, gappy = daily
    assert np.allclose(Knn().fit(gappy).fill(gappy), truth, atol=1e-6)


def test_mice_finds_a_linear_relation(related):
    truth, gappy = related
    assert np.allclose(Mice().fit(gappy).fill(gappy), truth, atol=1e-2)


def test_knn_searches_fewer_time_steps_in_a_large_table(daily, monkeypatch):
    monkeypatch.setattr(sklearn_imputers, "MIN_STEPS", 50)
    monkeypatch.setattr(sklearn_imputers, "MAX_COMPARISONS", 288 * 3 * 100)
    truth, gappy = daily
    assert Knn()._donors(gappy.to_numpy()[..., 0]).shape == (100, 3)
    assert np.allclose(Knn(n_neighbors=3).fit(gappy).fill(gappy), truth, atol=1e-6)


def test_mice_of_a_large_table_is_fitted_on_a_sample_in_fewer_rounds(related, monkeypatch):
    truth, gappy = related
    rows = gappy.to_numpy()[..., 0]
    assert Mice()._sample(rows) is rows
    monkeypatch.setattr(sklearn_imputers, "MIN_STEPS", 50)
    monkeypatch.setattr(sklearn_imputers, "MAX_REGRESSIONS", 6)
    mice = Mice(max_cells=300)
    assert mice._sample(rows).shape == (100, 3)
    assert np.allclose(mice.fit(gappy).fill(gappy), truth, atol=1e-2)
