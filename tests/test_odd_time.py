"""Times that once were read or written wrongly."""

import numpy as np
import pandas as pd
import pytest

import cdsa
from cdsa.errors import CdsaError, TableError
from cdsa.io.source import open_source
from oddities import HOURS, NAN, RISING, panel, round_trip, stamps_written, write_csv


def test_a_zone_given_for_stamps_that_have_one_changes_none(tmp_path):
    path = write_csv(tmp_path, *(f"2020-07-01T0{h}:00:00Z" for h in (0, 1, 3, 4)))
    assert stamps_written(path, tz="Europe/Berlin")[2] == "2020-07-01T02:00:00Z"


SERIES = {
    "2020-01-01 00:00:00.0 .1 .2 .4": ("2020-01-01 00:00:00", ".0", ".1", ".2", ".4", ".3"),
    "compact": ("20200101T0", "00000Z", "10000Z", "20000Z", "40000Z", "30000Z"),
    "months": ("2020-0", "1", "2", "3", "5", "4"),
    "unpadded": ("1/13/2020 ", "1:00", "2:00", "3:00", "5:00", "4:00"),
    "month ends": ("2020-0", "1-31", "2-29", "3-31", "5-31", "4-30"),
    "hours with a zone": ("2020-01-01T0", "0Z", "1Z", "2Z", "4Z", "3Z"),
}


@pytest.mark.parametrize("series", SERIES)
def test_new_stamps_are_written_like_the_others(series, tmp_path):
    stem, *ends = SERIES[series]
    *given, last, new = [stem + end for end in ends]
    assert stamps_written(write_csv(tmp_path, *given, last)) == [*given, new, last]


def test_the_doubled_hour_of_a_long_table_is_one_hour_per_measurement():
    local = [f"2020-10-25 0{h}:00" for h in (1, 2, 2, 3)]
    frame = pd.DataFrame(
        {
            "time": np.repeat(local, 2),
            "station": "A",
            "variable": ["a", "b"] * 4,
            "value": RISING[:8],
        }
    )
    cube = cdsa.open_cube(frame, tz="Europe/Berlin")
    assert cube.shape == (4, 1, 2) and cube[:, 0, 0].values.tolist() == [0, 2, 4, 6]


def test_the_doubled_hour_survives_the_way_to_parquet(tmp_path):
    path = write_csv(tmp_path, *(f"2020-10-25 0{h}:00" for h in (1, 2, 2, 3)))
    source = open_source(path, tz="Europe/Berlin")
    source.save(cdsa.fill(source.cube, "linear"), tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["time"].is_unique


def test_milliseconds_are_not_taken_for_seconds():
    frame = pd.DataFrame(
        {"time": 1577836800000 + 3600000 * np.arange(4), "station": "A", "x": RISING[:4]}
    )
    with pytest.raises(TableError, match="unix-ms"):
        cdsa.open_cube(frame, time_format="unix")
    assert cdsa.open_cube(frame, time_format="unix-ms")["time"][0] == np.datetime64("2020-01-01")


def test_seconds_beyond_all_numbers_are_refused():
    frame = pd.DataFrame({"time": [0.0, 1.0, 1e308], "station": "A", "x": RISING[:3]})
    with pytest.raises(TableError, match="row 2 has 1e\\+308"):
        cdsa.open_cube(frame, time_format="unix")


def test_milliseconds_make_no_further_step():
    for seed in range(50):
        start = np.datetime64("2020-01-01") + np.timedelta64(seed * 7_919_113, "ms")
        frame = pd.DataFrame(
            {"time": start + np.arange(20) * np.timedelta64(1, "ms"), "station": "A", "x": 1.0}
        )
        assert cdsa.open_cube(frame).sizes["time"] == 20


def test_the_step_may_be_rarer_than_its_double():
    frame = pd.DataFrame({"time": HOURS[[0, 2, 3, 5]], "station": "A", "x": RISING[:4]})
    assert cdsa.open_cube(frame).sizes["time"] == 6


def test_months_can_be_joined_to_quarters():
    frame = pd.DataFrame(
        {"time": pd.date_range("2020-01-01", periods=6, freq="MS"), "station": "A", "x": RISING[:6]}
    )
    assert cdsa.open_cube(frame, step="3months", duplicates="mean").values.ravel().tolist() == [
        1,
        4,
    ]


def test_seconds_may_be_told_where_there_are_any(tmp_path):
    path = write_csv(tmp_path, "13/01/2020 00:00", "13/01/2020 01:00:05", "13/01/2020 02:00")
    assert cdsa.open_cube(path, step="1h").sizes["time"] == 3


def test_months_keep_their_day_whatever_the_first_is(tmp_path):
    ends = ["2019-02-28", "2019-03-31", "2019-05-31", "2019-06-30"]
    assert "2019-04-30" in stamps_written(write_csv(tmp_path, *ends))
    zoned = [f"2021-0{month}-01T00:00+01:00" for month in (3, 4, 6)]
    assert "2021-05-01T00:00+01:00" in stamps_written(write_csv(tmp_path, *zoned))


@pytest.mark.parametrize("freq", ["D", "MS"])
def test_days_and_months_are_those_of_the_clock_on_the_wall(freq):
    days = pd.date_range(
        "2020-03-01", periods=60 if freq == "D" else 6, freq=freq, tz="Europe/Berlin"
    )
    frame = pd.DataFrame({"time": days, "station": "A", "x": np.arange(len(days), dtype=float)})
    result = round_trip(frame.drop(index=[3]))
    assert result["time"].tolist() == days.tolist() and result["x"].tolist() == frame["x"].tolist()


def test_a_zone_in_the_format_is_written_again(tmp_path):
    path = write_csv(tmp_path, *(f"01/02/2020 0{h}:00 +0100" for h in (0, 1, 3, 4)))
    written = stamps_written(path, time_format="%d/%m/%Y %H:%M %z")
    assert written[2] == "01/02/2020 02:00 +0100"


def test_dates_may_be_numbers_of_eight_digits():
    frame = pd.DataFrame({"time": [20200101, 20200102, 20200104], "station": "A", "x": [1.0, 2, 4]})
    assert round_trip(frame, time_format="%Y%m%d")["time"].tolist() == [
        20200101,
        20200102,
        20200103,
        20200104,
    ]


def test_years_out_of_reach_are_refused(tmp_path):
    with pytest.raises(TableError, match="between 1678 and 2261"):
        cdsa.open_cube(write_csv(tmp_path, "9999-12-30", "9999-12-31"))


def test_a_station_on_the_equator_is_not_missing():
    frame = panel(x=[1.0, 0.0, 3.0, 4.0, 5.0, 6.0], lat=0.0, lon=10.0)
    assert cdsa.open_cube(frame, missing=[0])["lat"].item() == 0


def test_the_unit_and_place_of_a_new_row_are_known():
    frame = panel(variable="pm", unit="ug/m3", value=RISING[:6], lat=40.0, lon=116.0).drop(index=3)
    frame.loc[1, "lat"] = NAN
    result = round_trip(frame)
    assert result["unit"].eq("ug/m3").all() and result["lat"].iloc[3] == 40.0


def test_empty_text_of_a_frame_is_null():
    result = round_trip(panel(x=RISING[:6], note=["a", None, "b", "c", "d", "e"]).drop(index=3))
    assert result["note"].isna().tolist() == [False, True, False, True, False, False]


def test_a_skipped_hour_is_named_by_its_line(tmp_path):
    path = write_csv(tmp_path, "2020-03-29 01:00", "2020-03-29 02:00", "2020-03-29 03:00")
    with pytest.raises(TableError, match="02:00:00 in line 3 was skipped"):
        cdsa.open_cube(path, tz="Europe/Berlin")


def test_a_repeated_night_hour_points_to_the_time_zone(tmp_path):
    path = write_csv(tmp_path, *(f"2020-10-25 0{h}:00" for h in (1, 2, 2, 3)))
    with pytest.raises(TableError, match="If the clocks went back that night, give --tz"):
        cdsa.open_cube(path)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"time_format": "%Q"}, "is not a time format"),
        ({"time_format": "%Y%Y"}, "'%Y%Y' is not a time format"),
        ({"time_format": 1}, "time_format is given as text, but found 1"),
        ({"step": "0.5month"}, "whole number of months"),
        ({"step": "0.0000000001s"}, "longer than zero"),
        ({"step": "99999999999d"}, "is too long"),
        ({"step": "9" * 190 + "month"}, "is too long"),
        ({"step": "9" * 400 + "month"}, "is too long"),
        ({"encoding": "undefined"}, "'undefined' is not a character encoding; try utf-8"),
        ({"encoding": "a\0b"}, "is not a character encoding"),
        ({"encoding": "base64"}, "is not a character encoding"),
        ({"encoding": "punycode"}, "must be punycode text, but line 1 is not"),
        ({"separator": "\n"}, "one ASCII character"),
        ({"bounds": {"x": ("a", None)}}, "a lowest and a highest"),
        ({"units": "K"}, "by measurement"),
        ({"location": "time"}, "one role, but .time. was given for two"),
        ({"directions": "y"}, "no measurement 'y'"),
    ],
)
def test_impossible_options_are_refused(options, match, tmp_path):
    path = write_csv(tmp_path, "2020-01-01", "2020-01-02", "2020-01-03")
    with pytest.raises(CdsaError, match=match):
        cdsa.open_cube(path, **options)


def test_options_that_say_nothing_are_as_if_not_given():
    assert (
        cdsa.open_cube(
            panel(x=RISING[:6]), directions=None, measurements=None, bounds=[("x", 0, None)]
        ).size
        == 6
    )
