"""The demo data that ship with the package."""

import numpy as np

import cdsa
from cdsa.datasets import nyc_weather


def test_the_demo_is_the_weather_of_three_airports_in_2013():
    cube = cdsa.open_demo()
    assert cube.shape == (8730, 3, 8) and cube["location"].values.tolist() == ["EWR", "JFK", "LGA"]
    assert str(cube["time"].values[0]) == "2013-01-01T06:00:00.000000000"


def test_impossible_wind_is_removed_and_natural_gaps_are_kept():
    cube = cdsa.open_demo()
    assert float(cube.sel(measurement="wind_speed").max()) < 100
    assert np.isnan(
        cube.sel(time="2013-02-12T08:00", location="EWR", measurement="wind_speed").item()
    )
    assert int(cube.isnull().sum()) == 3797


def test_the_wind_direction_is_a_direction():
    cube = cdsa.open_demo()
    assert cube["measurement"].values[cube["is_direction"].values].tolist() == ["wind_dir"]


def test_the_file_is_small():
    from importlib.resources import files

    assert len((files("cdsa") / "data" / "nyc_weather.csv.gz").read_bytes()) < 400 * 1024


def test_every_measurement_has_units():
    assert set(nyc_weather.UNITS) == set(cdsa.open_demo()["measurement"].values)
