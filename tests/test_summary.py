import numpy as np

from cdsa.core.summary import missing_over_time, summarise_cube
from conftest import network


def test_gaps_are_counted_and_the_longest_are_named():
    cube = network(missing=0.0)
    cube[10:14, 1, 0] = np.nan
    cube[30, 1, 0] = np.nan
    summary = summarise_cube(cube)
    row = summary.measurements.loc["pm25"]
    assert (row["missing"], row["gaps"], row["longest"]) == (5, 2, 4)
    first = summary.longest_gaps.iloc[0]
    assert (first["location"], first["measurement"], first["steps"]) == ("S1", "pm25", 4)
    assert (
        str(first["first"]) == "2020-01-01 10:00:00" and str(first["last"]) == "2020-01-01 13:00:00"
    )


def test_a_cube_without_gaps_has_no_longest_gaps():
    assert len(summarise_cube(network(missing=0.0)).longest_gaps) == 0


def test_missing_shares_are_by_time_bin():
    cube = network(steps=60, missing=0.0)
    cube[30:, :, 1] = np.nan
    shares = missing_over_time(cube, "measurement", 6)
    assert shares.tolist() == [[0] * 6, [0, 0, 0, 1, 1, 1]]


def test_there_are_no_more_bins_than_steps():
    assert missing_over_time(network(steps=4), "location", 60).shape == (3, 4)
