"""The baseline 'idw': inverse-distance weighting."""

import numpy as np
import pytest

from cdsa.core.cube import make_cube
from cdsa.errors import ConfigError
from cdsa.methods.baselines.idw import Idw
from conftest import network


def test_at_twice_the_distance_a_station_weighs_a_quarter():
    values = np.array([[[np.nan], [10.0], [40.0]]])
    times = np.array(["2020-01-01"], dtype="datetime64[ns]")
    cube = make_cube(values, times, ["A", "B", "C"], ["x"], lat=[0, 0, 0], lon=[0, 1, 2])
    filled = Idw().fit(cube).fill(cube)
    np.testing.assert_allclose(filled.values[0, 0, 0], (10 * 4 + 40) / 5, rtol=1e-3)


def test_stations_without_coordinates_are_refused():
    with pytest.raises(ConfigError, match="no coordinates"):
        Idw().fit(network(places=False))
