import numpy as np
import pytest

from cdsa.core.scaler import Scaler
from conftest import network


def test_scaled_values_have_mean_0_and_standard_deviation_1(cube):
    scaled = Scaler.fit(cube).normalise(cube)
    assert np.allclose(scaled.mean(("time", "location")), 0) and np.allclose(
        scaled.std(("time", "location")), 1
    )


def test_each_series_can_have_its_own_scale(cube):
    scaled = Scaler.fit(cube, per_location=True).normalise(cube)
    assert np.allclose(scaled.mean("time"), 0) and np.allclose(scaled.std("time"), 1)


def test_hidden_cells_do_not_reach_the_scaler(cube):
    hidden = cube.notnull() & (cube["time"] > cube["time"][30])
    changed = cube.where(~hidden, 1e6)
    first, second = (Scaler.fit(c.where(~hidden)) for c in (cube, changed))
    assert first.mean.identical(second.mean) and first.std.identical(second.std)


def test_a_constant_sensor_becomes_zero(cube):
    cube[:, 0, :] = 7.0
    scaled = Scaler.fit(cube, per_location=True).normalise(cube)
    assert (scaled[:, 0] == 0).all()


def test_an_empty_series_stays_missing(cube):
    cube[:, 0, :] = np.nan
    assert Scaler.fit(cube, per_location=True).normalise(cube)[:, 0].isnull().all()


def test_an_unknown_location_is_named():
    with pytest.raises(ValueError, match="S2"):
        Scaler.fit(network(stations=2), per_location=True).normalise(network(stations=3))
