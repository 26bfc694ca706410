"""Timestamps in two columns are read together and written apart."""

import datetime

import numpy as np
import pandas as pd
import pytest

import cdsa
from cdsa.errors import TableError
from cdsa.io.source import open_source
from small_sources import round_trip

DAYS = ["2020-01-31", "2020-01-31", "2020-01-31", "2020-02-01"]
VALUES = [1.0, np.nan, 4.0, 5.0]
FIRST, LAST = "2020-01-31T21:00", "2020-02-01T01:00"


@pytest.mark.parametrize(
    ("date", "time", "new"),
    [
        (DAYS, ["21:00", "22:00", "23:00", "01:00"], ("2020-02-01", "00:00")),
        (DAYS, ["21", "22", "23", "1"], ("2020-02-01", "0")),
        (DAYS, ["21", "22", "23", "01"], ("2020-02-01", "00")),
        (DAYS, [21, 22, 23, 1], ("2020-02-01", 0)),
        (
            ["31.01.2020"] * 3 + ["01.02.2020"],
            ["21:00:00", "22:00:00", "23:00:00", "01:00:00"],
            ("01.02.2020", "00:00:00"),
        ),
        (
            pd.to_datetime(DAYS),
            [datetime.time(hour) for hour in (21, 22, 23, 1)],
            (pd.Timestamp("2020-02-01"), datetime.time(0)),
        ),
    ],
    ids=["clock", "hours", "padded hours", "numbers", "days first", "objects"],
)
@pytest.mark.parametrize("names", [("date", "time"), ("Date", "Hour")])
def test_a_date_and_a_time_of_day_are_one_timestamp(date, time, new, names):
    frame = pd.DataFrame({names[0]: date, names[1]: time, "site": "A", "x": VALUES})
    source = open_source(frame)
    times = source.cube["time"].to_numpy()
    assert times[0] == np.datetime64(FIRST) and times[-1] == np.datetime64(LAST)
    assert any("two columns" in note for note in source.notes)
    filled = round_trip(frame)
    assert filled["x"].tolist() == [1, 2.5, 4, 4.5, 5]
    assert tuple(filled.loc[3, list(names)]) == new
    kept = filled.drop(index=3).reset_index(drop=True)
    assert kept[list(names)].astype(str).equals(frame[list(names)].astype(str))


def test_the_two_columns_can_be_named():
    frame = pd.DataFrame({"Tag": DAYS, "Uhr": ["21", "22", "23", "1"], "site": "A", "x": VALUES})
    cube = cdsa.open_cube(frame, time="Tag,Uhr")
    assert cube["time"].to_numpy()[0] == np.datetime64(FIRST) and cube.sizes["time"] == 5
    with pytest.raises(TableError, match="--time: there is no column 'Ur'"):
        cdsa.open_cube(frame, time="Tag,Ur")


def test_an_hour_24_is_refused():
    frame = pd.DataFrame({"date": DAYS, "hour": [21, 22, 24, 1], "x": VALUES})
    with pytest.raises(TableError, match="a day ends before 24:00"):
        open_source(frame)


def test_a_daily_table_with_another_column_of_hours_is_read_by_its_dates():
    frame = pd.DataFrame({"date": ["2020-01-01", "2020-01-02"], "site": "A", "hour": [3, 4]})
    assert open_source(frame.assign(x=1.0)).cube["time"].dt.hour.to_numpy().tolist() == [0, 0]
