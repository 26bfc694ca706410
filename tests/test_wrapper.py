"""What the wrapper adds to a method's own prediction."""

import numpy as np

from cdsa.core.cube import assign_metadata, make_cube
from cdsa.methods.baselines.simple import Linear
from conftest import network


def test_a_station_without_observations_gets_the_mean_of_the_others_at_that_step():
    cube = network(stations=3, measurements=1, missing=0.0)
    cube[:, 0] = np.nan
    filled = Linear().fit(cube).fill(cube)
    assert np.allclose(filled[:, 0], cube[:, 1:].mean("location"))


def test_a_direction_just_before_north_is_rounded_to_north():
    times = np.datetime64("2024-01-01") + np.arange(3).astype("timedelta64[h]")
    before = np.arange(181.0, 360.0)  # opposite sides of north: two pairs round to 360
    values = np.stack([before, np.full_like(before, np.nan), 360 - before])[..., None]
    names = [f"S{n}" for n in range(len(before))]
    cube = assign_metadata(make_cube(values, times, names, ["wind"]), directions=["wind"])
    filled = Linear().fit(cube).fill(cube)
    assert (filled >= 0).all() and (filled < 360).all()
