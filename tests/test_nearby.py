"""Inverse-distance weighting."""

import numpy as np
import pytest

from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.methods.baselines.idw import Idw
from conftest import network


def test_twice_as_far_counts_a_quarter():
    values = np.array([[[np.nan], [10.0], [40.0]]])
    times = np.array(["2020-01-01"], dtype="datetime64[ns]")
    cube = make_cube(values, times, ["A", "B", "C"], ["x"], lat=[0, 0, 0], lon=[0, 1, 2])
    filled = Idw().fit(cube).fill(cube)
    np.testing.assert_allclose(filled.values[0, 0, 0], (10 * 4 + 40) / 5, rtol=1e-3)


def test_it_says_what_it_needs():
    with pytest.raises(ConfigError, match="no coordinates"):
        Idw().fit(network(places=False))
