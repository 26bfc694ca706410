"""Cells outside of the lifetime of a station, of what it never had, and in long gaps stay open."""

import numpy as np
import pandas as pd
import pytest

import cdsa
from cdsa.core.cube import LEFT_OPEN
from cdsa.core.scope import left_open, steps_in
from cdsa.errors import ConfigError
from commands import refused, run
from conftest import network

OUTSIDE, NEVER, TOO_LONG = "outside_lifetime", "never_measured", "gap_too_long"


@pytest.fixture
def cube():
    """S0 is complete but for two gaps, S1 begins late, S2 ends early and has no temp."""
    cube = network(steps=60, stations=3, missing=0.0)
    cube[10:13, 0] = np.nan
    cube[30:40, 0, 0] = np.nan
    cube[:20, 1] = np.nan
    cube[25, 1, 0] = np.nan
    cube[50:, 2] = np.nan
    cube[:, 2, 1] = np.nan
    return cube


def words(codes):
    return np.array(["", *LEFT_OPEN])[codes]


def test_stations_have_a_lifetime(cube):
    reasons = words(left_open(cube))
    assert (reasons[:20, 1] == OUTSIDE).all() and (reasons[20:, 1] == "").all()
    assert (reasons[50:, 2, 0] == OUTSIDE).all() and (reasons[:50, 2, 0] == "").all()
    assert (reasons[:, 2, 1] == NEVER).all()
    assert (reasons[:, 0] == "").all()  # gaps


def test_all_but_long_gaps_are_filled_if_extended(cube):
    assert not left_open(cube, extend=True).any()
    reasons = words(left_open(cube, extend=True, max_steps=3))
    assert (reasons[30:40, 0, 0] == TOO_LONG).all() and (reasons[10:13, 0] == "").all()
    assert (reasons[:20, 1] == TOO_LONG).all()


def test_sites_without_a_sensor_are_filled(cube):
    cube[:, 1] = np.nan
    assert not left_open(cube, max_steps=3)[:, 1].any()


def test_a_measured_value_is_never_left_out(cube):
    for extend in (False, True):
        codes = left_open(cube, extend=extend, max_steps=1)
        assert not codes[cube.notnull().to_numpy()].any()


def test_a_fill_says_why_cells_are_open(cube):
    result = cdsa.fill(cube, "linear", max_gap="5h")
    source, value = result["source"].to_numpy(), result["value"]
    assert (source[:20, 1] == OUTSIDE).all() and (source[:, 2, 1] == NEVER).all()
    assert (source[30:40, 0, 0] == TOO_LONG).all() and (source[10:13, 0] == "filled").all()
    is_open = np.isin(source, LEFT_OPEN)
    assert (value.isnull().to_numpy() == is_open).all()
    assert result["lower"].isnull().to_numpy()[is_open].all()
    assert cdsa.fill(cube, "linear", extend=True)["value"].notnull().all()


def test_no_rows_are_added_where_nothing_is_filled(cube, tmp_path):
    frame = cube.to_series().unstack("measurement").dropna(how="all").reset_index()
    frame = frame.rename(columns={"location": "station"})
    frame.to_csv(tmp_path / "in.csv", index=False)
    text = run("fill", tmp_path / "in.csv", "-o", tmp_path / "o.csv", "--method", "linear")
    filled = pd.read_csv(tmp_path / "o.csv", parse_dates=["time"])
    first = filled.groupby("station")["time"].agg(["min", "max", "size"])
    assert first["size"].tolist() == [60, 40, 50]
    assert filled.loc[filled["station"] == "S2", "temp"].isnull().all()
    assert "before the first or after the last value of their station" in " ".join(text.split())
    assert "--extend fills them" in " ".join(text.split())
    run("fill", tmp_path / "in.csv", "-o", tmp_path / "all.csv", "--method", "linear", "--extend")
    assert len(pd.read_csv(tmp_path / "all.csv").dropna()) == 180


def test_the_words_are_flags_of_files(cube, tmp_path):
    path = tmp_path / "o.nc"
    source = cdsa.open_source(cube.to_dataset("measurement"))
    source.save(cdsa.fill(source.cube, "linear"), path)
    again = cdsa.open_source(path).cube
    assert int(again.isnull().sum()) == int((left_open(cube) > 0).sum())
    refilled = cdsa.open_source(path, refill=True).cube
    np.testing.assert_array_equal(refilled.isnull(), cube.transpose(*refilled.dims).isnull())


def test_the_longest_gap_is_a_duration(cube, tmp_path):
    assert steps_in("6h", cube) == 6 and steps_in("90min", cube) == 1 and steps_in("2d", cube) == 48
    with pytest.raises(ConfigError, match="a duration such as 6h or 2d, but found '6'"):
        steps_in("6", cube)
    with pytest.raises(ConfigError, match="at least one time step"):
        steps_in("10min", cube)
    with pytest.raises(ConfigError, match="in the same unit"):
        steps_in("1month", cube)
    cube.to_series().unstack("measurement").reset_index().to_csv(tmp_path / "in.csv", index=False)
    words = ("fill", tmp_path / "in.csv", "-o", tmp_path / "o.csv", "--method", "linear")
    assert "such as 6h or 2d" in refused(*words, "--max-gap", "long")
