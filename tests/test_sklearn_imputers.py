"""The baselines 'knn' and 'mice' find the relation they are made for."""

import numpy as np

from cdsa.methods.baselines.sklearn_imputers import Knn, Mice
from conftest import network


def test_knn_averages_the_most_similar_time_steps():
    # a daily wave repeats exactly: the same hour of another day is the best donor
    cube = network(steps=24 * 12, stations=3, measurements=1, missing=0.0)
    hour = cube["time"].dt.hour.values
    waves = np.stack([np.sin((hour + n) * 2 * np.pi / 24) for n in range(3)], axis=1)
    truth = cube.copy(data=waves[..., None])
    gappy = truth.copy(deep=True)
    gappy[100:110, 0] = np.nan
    assert np.allclose(Knn().fit(gappy).fill(gappy), truth, atol=1e-6)


def test_mice_finds_a_linear_relation():
    rng = np.random.default_rng(0)
    cube = network(steps=300, stations=3, measurements=1, missing=0.0)
    a, b = rng.normal(size=300), rng.normal(size=300)
    truth = cube.copy(data=np.stack([a, b, 2 * a - b + 1], axis=1)[..., None])
    gappy = truth.copy(deep=True)
    gappy[50:80, 2] = np.nan
    assert np.allclose(Mice().fit(gappy).fill(gappy), truth, atol=1e-2)
