import numpy as np
import pandas as pd
import pytest

from cdsa.core.times import (
    Clock,
    format_step,
    is_regular,
    next_times,
    parse_step,
    regular_grid,
)
from cdsa.errors import ConfigError, TableError


def line(row: int) -> str:
    return f"line {row + 2}"


def grid(timestamps, step=None):
    return regular_grid(pd.to_datetime(timestamps).to_numpy("datetime64[ns]"), line, step)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("text", ["-1", "1600-01-01", "9999-12-31", "", "noon", None, [1]])
def test_an_impossible_time_is_refused(text, zone):
    with pytest.raises(ConfigError, match="written as 2024-03-01T12:00 and lies between 1678 and"):
        Clock(zone=zone).parse(text)


def test_the_step_is_inferred_and_absent_timestamps_become_steps():
    times, position = grid(
        ["2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:00", "2020-01-01 05:00"]
    )
    assert len(times) == 6 and position.tolist() == [0, 1, 2, 5]


def test_a_timestamp_off_the_grid_is_named_with_the_option_that_helps():
    timestamps = ["2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:07", "2020-01-01 03:00"]
    timestamps += ["2020-01-01 04:00", "2020-01-01 05:00"]
    with pytest.raises(TableError, match=r"2020-01-01 02:07:00 in line 4 .*--step 1h"):
        grid(timestamps)
    assert grid(timestamps, "1h")[1].tolist() == [0, 1, 2, 3, 4, 5]


def test_timestamps_at_half_past_stay_on_their_phase():
    times, _ = grid(["2020-01-01 00:30", "2020-01-01 01:30", "2020-01-01 03:30"], "1h")
    assert times[0] == np.datetime64("2020-01-01T00:30")


def test_months_are_a_step():
    times, position = grid(["2020-01-01", "2020-02-01", "2020-05-01"])
    assert len(times) == 5 and is_regular(times) and position.tolist() == [0, 1, 4]


def test_one_timestamp_needs_an_explicit_step():
    with pytest.raises(TableError, match="--step"):
        grid(["2020-01-01 00:30"])
    assert len(grid(["2020-01-01 00:30"], "1h")[0]) == 1


def test_a_mistyped_year_is_not_taken_for_a_long_gap():
    with pytest.raises(
        TableError, match=r"1970-01-01 00:00:00 \(line 4\).*Correct a mistyped timestamp"
    ):
        grid(["2020-01-01 00:00", "2020-01-01 01:00", "1970-01-01 00:00"])


@pytest.mark.parametrize(
    ("text", "expected"), [("5min", "5 min"), ("h", "1 h"), ("1d", "1 d"), ("3months", "3 months")]
)
def test_a_step_is_parsed_and_formatted(text, expected):
    assert format_step(parse_step(text)) == expected


def test_a_step_of_zero_is_refused():
    with pytest.raises(TableError, match="longer than zero"):
        parse_step("0h")


@pytest.mark.parametrize(
    ("timestamps", "expected"),
    [
        (["2020-01-01T00", "2020-01-01T01"], ["2020-01-01T02", "2020-01-01T03"]),
        (["2020-02-28", "2020-02-29"], ["2020-03-01", "2020-03-02"]),
        (["2020-01-15", "2020-02-15"], ["2020-03-15", "2020-04-15"]),
        (["2019-12-31", "2020-01-31", "2020-02-29"], ["2020-03-31", "2020-04-30"]),
        (["2020-04-30", "2020-06-30"], ["2020-08-31", "2020-10-31"]),
        (["2020-01-01", "2020-04-01"], ["2020-07-01", "2020-10-01"]),
    ],
    ids=["hours", "days", "months", "ends of months", "every second end", "quarters"],
)
def test_next_times_continue_the_grid(timestamps, expected):
    times = next_times(np.array(timestamps, dtype="datetime64[ns]"), 2)
    assert list(times) == list(np.array(expected, dtype="datetime64[ns]"))
