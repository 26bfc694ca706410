"""A network accepts data like those it was trained on."""

import numpy as np
import pytest

from cdsa.core.cube import assign_metadata
from cdsa.errors import ConfigError
from cdsa.methods.engine.signature import DataSignature
from conftest import network


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.assign_coords(location=["S0", "S1", "X"]), "stations S0.* does not know X"),
        (lambda c: c.assign_coords(measurement=["pm25", "co"]), "measurements.*does not know co"),
        (lambda c: c.isel(time=slice(None, None, 2)), "steps of 1 h, but .* steps of 2 h"),
        (lambda c: assign_metadata(c, directions=["temp"]), "'temp' was not a direction"),
    ],
)
def test_other_data_are_refused_with_the_difference(cube, change, message):
    with pytest.raises(ConfigError, match=message):
        DataSignature.of(cube).check(change(cube))


def test_stations_and_measurements_may_be_left_unchecked(cube):
    other = cube.assign_coords(location=["S0", "S1", "X"], measurement=["pm25", "co"])
    DataSignature.of(cube).check(other, stations=False, measurements=False)


def test_another_unit_is_refused(cube):
    signature = DataSignature.of(assign_metadata(cube, units={"temp": "degC"}))
    with pytest.raises(ConfigError, match="'temp' in degC, but here it is in degF"):
        signature.check(assign_metadata(cube, units={"temp": "degF"}))
    signature.check(cube)  # without a unit it may be the same


def test_fewer_stations_and_another_time_are_accepted(cube):
    later = cube["time"].to_numpy()[:30] + np.timedelta64(400, "D")
    DataSignature.of(cube).check(network(steps=30, stations=2).assign_coords(time=later))


def test_long_lists_of_names_are_shortened():
    signature = DataSignature.of(network(stations=20))
    with pytest.raises(ConfigError, match="S7 and 12 more, and does not know X"):
        signature.check(network(stations=1).assign_coords(location=["X"]))
