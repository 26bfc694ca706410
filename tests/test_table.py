"""Odd tables: types, indexes, further columns, warnings."""

import datetime
from decimal import Decimal

import pandas as pd
import pytest

import cdsa
from cdsa.errors import OutputError, TableError
from cdsa.io.source import open_source, save_all
from small_sources import (
    GAPPY,
    HOURS,
    NAN,
    RISING,
    panel,
    round_trip,
    write_csv,
    written_timestamps,
)


@pytest.mark.parametrize(
    ("entries", "filled"),
    [
        ([1.0, None, 3.0, 4.0, 5.0, 6.0], 2.0),
        ([Decimal("1.00"), None, *[Decimal("3.50")] * 4], Decimal("2.25")),
        (["1", "", "3", "4", "5", "6"], "2"),
    ],
)
def test_entries_are_filled_in_their_own_type(entries, filled):
    frame = panel(x=pd.Series(entries, dtype=object))
    result = round_trip(frame)["x"].iloc[1]
    assert result == filled and type(result) is type(filled)


def test_categories_are_widened():
    frame = panel(x=pd.Categorical([1.0, NAN, 3.0, 4.0, 5.0, 6.0]))
    result = round_trip(frame)["x"]
    assert result.iloc[1] == 2.0 and isinstance(result.dtype, pd.CategoricalDtype)


def test_small_integers_do_not_wrap():
    frame = panel(
        x=pd.array([100, 110, 120, 126, 127, None], dtype="Int8"), y=[1.0, 2, 3, 4, 5, 60]
    )
    result = round_trip(frame, "mice")["x"]
    assert (
        result.dtype == "Int8"
        and (result.iloc[:5] == frame["x"].iloc[:5]).all()
        and result.iloc[5] > 0
    )


def test_a_boolean_of_a_new_row_is_missing():
    result = round_trip(panel(x=RISING[:6], ok=True).drop(index=3))
    assert result["ok"].isna().sum() == 1 and result["ok"].dropna().all()


def test_a_remark_is_not_copied_onto_new_rows():
    result = round_trip(panel(x=RISING[:6], qc="checked").drop(index=3))
    assert result["qc"].isna().tolist() == [False] * 3 + [True] + [False] * 2


def test_lists_are_passed_through():
    frame = panel(x=GAPPY[:6], parts=[[1, 2]] * 6).drop(index=3)
    assert round_trip(frame)["parts"].notna().sum() == 5


def test_dates_in_an_object_column_stay_dates():
    days = [datetime.date(2020, 1, d) for d in (1, 2, 4, 5)]
    result = round_trip(pd.DataFrame({"time": days, "station": "A", "x": [1.0, 2, 4, 5]}))
    assert result["time"].tolist() == [datetime.date(2020, 1, d) for d in range(1, 6)]


def test_a_long_table_keeps_the_rows_of_other_measurements():
    frame = panel(pm=GAPPY[:6], no2=RISING[:6]).melt(["time", "station"], var_name="variable")
    result = round_trip(frame, measurements=["pm"])
    assert len(result) == len(frame) and result["value"].notna().all()
    pd.testing.assert_frame_equal(
        result[result["variable"] == "no2"], frame[frame["variable"] == "no2"]
    )


@pytest.mark.parametrize("index", [pd.RangeIndex(6, name="line"), pd.Index([5, 7, 9, 11, 13, 15])])
def test_an_index_of_neither_times_nor_stations_is_preserved(index):
    frame = panel(x=GAPPY[:6]).set_axis(index, axis=0)
    source = open_source(frame)
    assert source.cube["measurement"].values.tolist() == ["x"]
    pd.testing.assert_index_equal(source.filled(cdsa.fill(source.cube, "linear")).index, index)


def test_an_unnamed_text_index_is_the_stations():
    frame = panel(x=GAPPY[:6]).drop(columns="station").set_axis(["A"] * 6, axis=0)
    assert open_source(frame).layout.startswith("panel")


def test_an_unnamed_time_index_stays_unnamed_and_numbers_stay_column_names():
    frame = pd.DataFrame({1001: GAPPY[:6], 1002: RISING[:6]}, index=HOURS)
    result = round_trip(frame)
    assert result.index.name is None and result.columns.tolist() == [1001, 1002]


def test_an_unnamed_multi_index_is_read():
    index = pd.MultiIndex.from_product([HOURS, ["A", "B"]])
    result = round_trip(pd.DataFrame({"x": GAPPY}, index=index))
    assert result.index.names == [None, None] and result["x"].notna().all()


def test_row_numbers_of_another_program_are_not_a_measurement():
    frame = panel(x=RISING[:6])
    frame.insert(0, "Unnamed: 0", range(6))
    result = round_trip(frame.drop(index=3))
    assert cdsa.open_cube(frame)["measurement"].values.tolist() == ["x"]
    assert result["Unnamed: 0"].tolist() == [0, 1, 2, 6, 4, 5]


def test_columns_without_a_name_stay_without_one(tmp_path):
    text = "time,station,x,,\n2020-01-01,A,1,,\n2020-01-02,A,,,\n2020-01-04,A,4,,\n"
    (tmp_path / "in.csv").write_text(text)
    source = open_source(tmp_path / "in.csv")
    source.save(cdsa.fill(source.cube, "linear"), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == (
        "time,station,x,,\n2020-01-01,A,1,,\n2020-01-02,A,2,,\n2020-01-03,A,3,,\n2020-01-04,A,4,,\n"
    )


@pytest.mark.parametrize("column", ["time", "x"])
def test_text_columns_of_parquet_stay_text(column, tmp_path):
    frame = panel(x=GAPPY[:6]).drop(index=1)
    frame[column] = frame[column].astype(str).replace("nan", "")
    frame.to_parquet(tmp_path / "in.parquet", index=False)
    source = open_source(tmp_path / "in.parquet")
    source.save(cdsa.fill(source.cube, "linear"), tmp_path / "out.parquet")
    out = pd.read_parquet(tmp_path / "out.parquet")
    assert (
        pd.api.types.is_string_dtype(out[column].dtype)
        and len(out) == 6
        and (out != "").all().all()
    )


def test_decimals_of_parquet_stay_decimals(tmp_path):
    frame = panel(x=[Decimal("1.00"), None, *[Decimal("3.50")] * 4])
    frame.to_parquet(tmp_path / "in.parquet")
    source = open_source(tmp_path / "in.parquet")
    source.save(cdsa.fill(source.cube, "linear"), tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["x"].tolist()[1] == Decimal("2.25")


def test_a_decimal_point_is_refused_beside_decimal_commas(tmp_path):
    (tmp_path / "in.csv").write_text("time;station;x\n2020-01-01;A;1.234\n2020-01-02;A;1,5\n")
    with pytest.raises(TableError, match="'1.234' in line 2"):
        cdsa.open_cube(tmp_path / "in.csv", decimal=",")


def test_line_numbers_count_line_breaks_within_quotes(tmp_path):
    rows = ['2020-01-01,A,1,"two\nlines"', "2020-01-02,A,x,"]
    (tmp_path / "in.csv").write_text("\n".join(["time,station,v,note", *rows, ""]))
    with pytest.raises(TableError, match="'x' in line 4"):
        cdsa.open_cube(tmp_path / "in.csv", measurements="v")


def test_a_broken_archive_is_refused(tmp_path):
    import gzip

    compressed = bytearray(gzip.compress(b"time,station,x\n" + b"2020-01-01,A,1\n" * 500))
    compressed[20] ^= 0xFF
    (tmp_path / "in.csv.gz").write_bytes(bytes(compressed))
    with pytest.raises(TableError):
        cdsa.open_cube(tmp_path / "in.csv.gz")


def test_two_names_of_one_output_file_are_refused(tmp_path):
    source = open_source(panel(x=GAPPY[:6]))
    same = tmp_path / ".." / tmp_path.name / "out.csv"
    with pytest.raises(OutputError, match="two outputs cannot both be"):
        save_all(source, cdsa.fill(source.cube, "linear"), tmp_path / "out.csv", detail=same)
    assert list(tmp_path.iterdir()) == []


def test_if_one_output_cannot_be_replaced_the_other_is_restored(tmp_path, monkeypatch):
    from pathlib import Path

    (tmp_path / "out.csv").write_text("mine")
    source = open_source(panel(x=GAPPY[:6]))
    replace = Path.replace

    def refuse(self, target):
        if Path(target).name == "detail.csv":
            raise OSError(13, "Permission denied")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputError, match="Nothing was changed"):
        save_all(
            source,
            cdsa.fill(source.cube, "linear"),
            tmp_path / "out.csv",
            detail=tmp_path / "detail.csv",
            overwrite=True,
        )
    assert (tmp_path / "out.csv").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


def test_new_timestamps_between_two_zones_are_in_the_given_zone(tmp_path):
    path = write_csv(tmp_path, "2020-01-01 00:00Z", "2020-01-01 02:00+01:00", "2020-01-01 03:00Z")
    assert written_timestamps(path, tz="UTC")[2] == "2020-01-01 02:00Z"


def test_a_missing_code_does_not_hide_a_likely_direction():
    warnings = open_source(panel(wind_dir=[10.0, 350.0, -999.0, 20.0, 30.0, 40.0])).warnings
    assert any("--direction wind_dir" in warning for warning in warnings)


DEGREES = [10.0, 350.0, 200.0, 20.0, 30.0, 40.0]


@pytest.mark.parametrize("name", ["wd", "WD", "wdir", "WindDir", "DD", "Windrichtung", "wd_10m"])
def test_usual_names_of_directions_are_warned_about(name):
    assert any(
        f"--direction {name}" in warning
        for warning in open_source(panel(**{name: DEGREES})).warnings
    )


@pytest.mark.parametrize("name", ["width", "add", "wide", "indirect_light"])
def test_other_names_are_not_taken_for_directions(name):
    assert not any(
        "--direction" in warning for warning in open_source(panel(**{name: DEGREES})).warnings
    )


def test_stations_that_report_at_different_minutes_are_warned_about():
    rows = [
        (f"2024-03-{1 + hour // 24:02}T{hour % 24:02}:{minute:02}", station, hour)
        for hour in range(48)
        for station, minute in (("A", 0), ("B", 5), ("C", 10))
    ]
    frame = pd.DataFrame(rows, columns=["time", "station", "v"])
    assert any("give --step 1h" in warning for warning in open_source(frame).warnings)
    assert not any("--step" in warning for warning in open_source(frame, step="1h").warnings)
    sparse = frame.assign(time=frame["time"].str[:14] + "00").sample(frac=0.5, random_state=0)
    assert not any("--step" in warning for warning in open_source(sparse).warnings)


def test_columns_that_are_constant_at_each_station_are_likely_coordinates():
    rows = [
        (f"2024-03-01T{n:02}:00", "AB"[k], 50 + k, 8.5 + k, n) for n in range(9) for k in (0, 1)
    ]
    frame = pd.DataFrame(rows, columns=["time", "station", "Breite", "Laenge", "v"])
    warnings = open_source(frame).warnings
    assert sum("never changes at a station" in warning for warning in warnings) == 2
    assert not open_source(frame, lat="Breite", lon="Laenge").warnings
