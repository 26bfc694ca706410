"""Timestamps of any format: parsed, and written the same way."""

import numpy as np
import pandas as pd
import pytest

import cdsa
from cdsa.errors import CdsaError, TableError
from cdsa.io.source import open_source
from cdsa.io.timestamps import parse_timestamps
from small_sources import HOURS, NAN, RISING, panel, round_trip, write_csv, written_timestamps


def parse(timestamps, **options):
    column = pd.Series(timestamps, name="time")
    return parse_timestamps(column, lambda row: f"line {row + 2}", **options)


@pytest.mark.parametrize(
    "timestamps",
    [
        ["2020-01-01T00:00:00Z", "2020-01-01T01:00:00Z"],
        ["2020-01-01 00:00+01:00", "2020-01-01 01:00+01:00"],
        ["2020-01-01 00:00:00 UTC", "2020-01-01 01:00:00 UTC"],
        ["2020-01-01", "2020-01-02"],
        ["2020/01/01 00:00", "2020/01/01 01:00"],
        ["31.01.2020 00:00", "31.01.2020 01:00"],
        ["31/01/2020 00:00", "01/02/2020 01:00"],
        ["20200101", "20200102"],
        ["2020-01-01 00:00:00.500000", "2020-01-01 00:00:01.000000"],
    ],
)
def test_timestamps_are_written_as_they_were_parse(timestamps):
    times, clock = parse(timestamps)
    assert clock.format(times) == timestamps


def test_timestamps_with_an_offset_become_utc():
    times, clock = parse(["2020-01-01T08:00+08:00"])
    assert times[0] == np.datetime64("2020-01-01T00:00") and clock.zone == "+08:00"


def test_two_time_zones_are_refused_and_named():
    with pytest.raises(
        TableError, match=r"line 3 is in \+02:00 while .* line 2 is in \+01:00.*--tz"
    ):
        parse(["2020-01-01 00:00+01:00", "2020-01-01 01:00+02:00"])


def test_timestamps_with_and_without_a_zone_are_refused_and_named():
    with pytest.raises(TableError, match=r"line 3 is in UTC .* without a zone.*--tz"):
        parse(["2020-01-01 00:00", "2020-01-01 01:00Z"])


def test_tz_resolves_two_time_zones():
    times, _ = parse(["2020-01-01 00:00+01:00", "2020-01-01 01:00"], tz="Europe/Berlin")
    assert times.tolist() == [
        np.datetime64(t, "ns").item() for t in ("2019-12-31T23", "2020-01-01T00")
    ]


def test_the_second_of_a_repeated_hour_is_winter_time():
    timestamps = ["2020-10-25 02:00", "2020-10-25 02:00"]
    times, _ = parse(timestamps, tz="Europe/Berlin", is_repeat=np.array([False, True]))
    assert (times[1] - times[0]) == np.timedelta64(1, "h")


def test_a_skipped_hour_is_refused():
    with pytest.raises(TableError, match="skipped when the clocks went forward"):
        parse(["2020-03-29 02:30"], tz="Europe/Berlin")


def test_a_misspelt_zone_is_refused():
    with pytest.raises(TableError, match="'Europe/Berln' is not a time zone"):
        parse(["2020-03-29 02:30"], tz="Europe/Berln")


@pytest.mark.parametrize(
    "zone", ["dateutil//etc/hostname", "dateutil//no/such", "tzlocal()", "../etc", "+25:00", ""]
)
def test_a_zone_is_a_name_or_an_offset_and_never_a_path(zone):
    with pytest.raises(TableError, match="is not a time zone. Use a name such as UTC"):
        parse(["2020-03-29 02:30"], tz=zone)


@pytest.mark.parametrize(
    ("zone", "hour"),
    [("-0530", "17:30"), ("-05:30", "17:30"), ("+08", "04:00"), ("utc", "12:00"), ("Z", "12:00")],
)
def test_an_offset_is_read_in_every_form(zone, hour):
    assert parse(["2020-03-01 12:00"], tz=zone)[0][0] == np.datetime64(f"2020-03-01T{hour}")


@pytest.mark.parametrize("offset", ["+99:00", "+24:00", "-00:99"])
def test_an_impossible_offset_is_named(offset):
    with pytest.raises(
        TableError, match=rf"every row needs.*'2020-01-01T00:00\{offset}' in line 2"
    ):
        parse([f"2020-01-01T00:00{offset}", f"2020-01-01T01:00{offset}"])


def test_ambiguous_dates_are_refused():
    with pytest.raises(TableError, match="day first or month first.*--time-format"):
        parse(["01/02/2020 00:00", "01/02/2020 01:00"])


def test_an_unreadable_timestamp_is_named():
    with pytest.raises(TableError, match=r"'yesterday' in line 3"):
        parse(["2020-01-01", "yesterday"])


def test_unix_times_are_read_with_their_format():
    times, clock = parse([0, 3600], time_format="unix")
    assert times[1] == np.datetime64("1970-01-01T01:00") and clock.format(times) == ["0", "3600"]


def test_numbers_without_a_format_are_refused():
    with pytest.raises(TableError, match="--time-format unix"):
        parse([1577836800, 1577840400])


def test_a_given_zone_does_not_change_timestamps_with_a_zone(tmp_path):
    path = write_csv(tmp_path, *(f"2020-07-01T0{h}:00:00Z" for h in (0, 1, 3, 4)))
    assert written_timestamps(path, tz="Europe/Berlin")[2] == "2020-07-01T02:00:00Z"


SERIES = {
    "2020-01-01 00:00:00.0 .1 .2 .4": ("2020-01-01 00:00:00", ".0", ".1", ".2", ".4", ".3"),
    "compact": ("20200101T0", "00000Z", "10000Z", "20000Z", "40000Z", "30000Z"),
    "months": ("2020-0", "1", "2", "3", "5", "4"),
    "unpadded": ("1/13/2020 ", "1:00", "2:00", "3:00", "5:00", "4:00"),
    "month ends": ("2020-0", "1-31", "2-29", "3-31", "5-31", "4-30"),
    "hours with a zone": ("2020-01-01T0", "0Z", "1Z", "2Z", "4Z", "3Z"),
}


@pytest.mark.parametrize("series", SERIES)
def test_new_timestamps_are_written_like_the_others(series, tmp_path):
    stem, *ends = SERIES[series]
    *old, last, new = [stem + end for end in ends]
    assert written_timestamps(write_csv(tmp_path, *old, last)) == [*old, new, last]


def test_the_repeated_hour_of_a_long_table_is_repeated_per_measurement():
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


def test_the_repeated_hour_is_preserved_in_parquet(tmp_path):
    path = write_csv(tmp_path, *(f"2020-10-25 0{h}:00" for h in (1, 2, 2, 3)))
    source = open_source(path, tz="Europe/Berlin")
    source.save(cdsa.fill(source.cube, "linear"), tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["time"].is_unique


def test_milliseconds_are_not_read_as_seconds():
    frame = pd.DataFrame(
        {"time": 1577836800000 + 3600000 * np.arange(4), "station": "A", "x": RISING[:4]}
    )
    with pytest.raises(TableError, match="unix-ms"):
        cdsa.open_cube(frame, time_format="unix")
    assert cdsa.open_cube(frame, time_format="unix-ms")["time"][0] == np.datetime64("2020-01-01")


def test_huge_seconds_are_refused():
    frame = pd.DataFrame({"time": [0.0, 1.0, 1e308], "station": "A", "x": RISING[:3]})
    with pytest.raises(TableError, match="row 2 has 1e\\+308"):
        cdsa.open_cube(frame, time_format="unix")


def test_steps_of_a_millisecond_are_exact():
    for seed in range(50):
        start = np.datetime64("2020-01-01") + np.timedelta64(seed * 7_919_113, "ms")
        frame = pd.DataFrame(
            {"time": start + np.arange(20) * np.timedelta64(1, "ms"), "station": "A", "x": 1.0}
        )
        assert cdsa.open_cube(frame).sizes["time"] == 20


def test_the_step_may_be_rarer_than_twice_the_step():
    frame = pd.DataFrame({"time": HOURS[[0, 2, 3, 5]], "station": "A", "x": RISING[:4]})
    assert cdsa.open_cube(frame).sizes["time"] == 6


def test_months_can_be_combined_to_quarters():
    frame = pd.DataFrame(
        {"time": pd.date_range("2020-01-01", periods=6, freq="MS"), "station": "A", "x": RISING[:6]}
    )
    assert cdsa.open_cube(frame, step="3months", duplicates="mean").values.ravel().tolist() == [
        1,
        4,
    ]


def test_only_some_timestamps_may_have_seconds(tmp_path):
    path = write_csv(tmp_path, "13/01/2020 00:00", "13/01/2020 01:00:05", "13/01/2020 02:00")
    assert cdsa.open_cube(path, step="1h").sizes["time"] == 3


def test_months_keep_their_day_of_the_month(tmp_path):
    ends = ["2019-02-28", "2019-03-31", "2019-05-31", "2019-06-30"]
    assert "2019-04-30" in written_timestamps(write_csv(tmp_path, *ends))
    zoned = [f"2021-0{month}-01T00:00+01:00" for month in (3, 4, 6)]
    assert "2021-05-01T00:00+01:00" in written_timestamps(write_csv(tmp_path, *zoned))


@pytest.mark.parametrize("freq", ["D", "MS"])
def test_days_and_months_are_in_local_time(freq):
    days = pd.date_range(
        "2020-03-01", periods=60 if freq == "D" else 6, freq=freq, tz="Europe/Berlin"
    )
    frame = pd.DataFrame({"time": days, "station": "A", "x": np.arange(len(days), dtype=float)})
    result = round_trip(frame.drop(index=[3]))
    assert result["time"].tolist() == days.tolist() and result["x"].tolist() == frame["x"].tolist()


def test_a_zone_in_the_format_is_written_too(tmp_path):
    path = write_csv(tmp_path, *(f"01/02/2020 0{h}:00 +0100" for h in (0, 1, 3, 4)))
    written = written_timestamps(path, time_format="%d/%m/%Y %H:%M %z")
    assert written[2] == "01/02/2020 02:00 +0100"


def test_dates_may_be_integers():
    frame = pd.DataFrame({"time": [20200101, 20200102, 20200104], "station": "A", "x": [1.0, 2, 4]})
    assert round_trip(frame, time_format="%Y%m%d")["time"].tolist() == [
        20200101,
        20200102,
        20200103,
        20200104,
    ]


def test_years_out_of_range_are_refused(tmp_path):
    with pytest.raises(TableError, match="between 1678 and 2261"):
        cdsa.open_cube(write_csv(tmp_path, "9999-12-30", "9999-12-31"))


def test_missing_codes_do_not_apply_to_coordinates():
    frame = panel(x=[1.0, 0.0, 3.0, 4.0, 5.0, 6.0], lat=0.0, lon=10.0)
    assert cdsa.open_cube(frame, missing=[0])["lat"].item() == 0


def test_new_rows_have_the_unit_and_coordinates():
    frame = panel(variable="pm", unit="ug/m3", value=RISING[:6], lat=40.0, lon=116.0).drop(index=3)
    frame.loc[1, "lat"] = NAN
    result = round_trip(frame)
    assert result["unit"].eq("ug/m3").all() and result["lat"].iloc[3] == 40.0


def test_empty_text_of_a_frame_is_null():
    result = round_trip(panel(x=RISING[:6], note=["a", None, "b", "c", "d", "e"]).drop(index=3))
    assert result["note"].isna().tolist() == [False, True, False, True, False, False]


def test_a_skipped_hour_is_located(tmp_path):
    path = write_csv(tmp_path, "2020-03-29 01:00", "2020-03-29 02:00", "2020-03-29 03:00")
    with pytest.raises(TableError, match="02:00:00 in line 3 was skipped"):
        cdsa.open_cube(path, tz="Europe/Berlin")


def test_a_repeated_hour_at_night_points_to_the_time_zone(tmp_path):
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
        ({"encoding": "punycode"}, "must be punycode text, but it is not"),
        ({"separator": "\n"}, "one ASCII character"),
        ({"bounds": {"x": ("a", None)}}, "a lowest and a highest"),
        ({"units": "K"}, "by measurement"),
        ({"location": "time"}, "one role, but .time. was given for two"),
        ({"directions": "y"}, "no measurement 'y'"),
    ],
)
def test_invalid_options_are_refused(options, match, tmp_path):
    path = write_csv(tmp_path, "2020-01-01", "2020-01-02", "2020-01-03")
    with pytest.raises(CdsaError, match=match):
        cdsa.open_cube(path, **options)


def test_none_means_not_given():
    assert (
        cdsa.open_cube(
            panel(x=RISING[:6]), directions=None, measurements=None, bounds=[("x", 0, None)]
        ).size
        == 6
    )


def dated(texts) -> str:
    rows = [f"{text},A,{number}" for number, text in enumerate(texts)]
    return "\n".join(["time,station,x", *rows]) + "\n"


def test_steps_that_the_timestamps_cannot_express_are_refused(tmp_path):
    (tmp_path / "in.csv").write_text(dated(f"2024-01-{day:02}" for day in range(1, 20)))
    with pytest.raises(
        TableError, match="column 'time' would have '2024-01-01' for 2024-01-01 12:00:00"
    ):
        cdsa.open_cube(tmp_path / "in.csv", step="12h")
    dates = pd.date_range("2024-01-01", periods=9).date
    frame = pd.DataFrame({"time": dates, "station": "A", "x": 1.0})
    with pytest.raises(TableError, match="steps of 6 h column"):
        cdsa.open_cube(frame, step="6h")
    assert cdsa.open_cube(tmp_path / "in.csv", step="1d").sizes["time"] == 19


@pytest.mark.parametrize("time_format", ["mixed", "ISO8601"])
def test_what_is_written_with_a_format_of_pandas_is_read_again(tmp_path, time_format):
    hours = pd.date_range("2024-01-01", periods=30, freq="h").delete([3, 11])
    texts = [f"{hour:%Y-%m-%d %H:%M}" if n % 2 else f"{hour:%Y-%m-%dT%H:%M}"
             for n, hour in enumerate(hours)]  # fmt: skip
    (tmp_path / "in.csv").write_text(dated(texts))
    source = cdsa.open_source(tmp_path / "in.csv", time_format=time_format)
    source.save(cdsa.fill(source.cube, "linear"), tmp_path / "o.csv")
    again = cdsa.open_cube(tmp_path / "o.csv", time_format=time_format)
    np.testing.assert_array_equal(again["time"], source.cube["time"])
    assert again.notnull().all()


def test_a_timestamp_of_thousands_of_characters_is_refused_at_once(tmp_path):
    (tmp_path / "in.csv").write_text(dated(["2024-01-01 00:00", "0:00" * 10_000]))
    with pytest.raises(TableError, match="at most 100 characters.* has 40,000 in line 3"):
        cdsa.open_cube(tmp_path / "in.csv")
