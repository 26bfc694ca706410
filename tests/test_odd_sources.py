"""Sources that once were read or written wrongly."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cdsa
from cdsa.errors import CdsaError, ConfigError, OutputError, TableError
from cdsa.sources.files import open_source, save_all

HOURS = pd.date_range("2020-01-01", periods=6, freq="h")
NAN = float("nan")


def round_trip(data, method="linear", **options):
    source = open_source(data, **options)
    return source.filled(cdsa.fill(source.cube, method))


def panel(**columns) -> pd.DataFrame:
    """One station, six hours."""
    return pd.DataFrame({"time": HOURS, "station": "A", **columns})


def dataset(**variables) -> xr.Dataset:
    """Six hours at two stations."""
    parts = {
        name: (("time", "station"), np.array(v, dtype=float).reshape(6, 2))
        for name, v in variables.items()
    }
    return xr.Dataset(parts, {"time": HOURS, "station": ["A", "B"]})


RISING = np.arange(12.0)
GAPPY = np.where(RISING == 4, NAN, RISING)


# arrays


def test_flags_never_take_the_place_of_a_variable():
    data = dataset(pm=GAPPY, pm_source=RISING + 200.5)
    result = round_trip(data)
    assert np.array_equal(result["pm_source"], data["pm_source"])
    assert (
        result["pm"].attrs["ancillary_variables"] == "pm_source_2"
        and result["pm_source_2"].dtype == np.int8
    )


def test_filling_leaves_the_users_data_set_alone():
    data = dataset(pm=GAPPY)
    before = data.copy(deep=True)
    round_trip(data)
    assert data.identical(before)


def test_variables_that_were_not_asked_for_get_no_invented_values():
    data = dataset(pm=GAPPY, temp=RISING).isel(time=[0, 1, 2, 4, 5])
    result = round_trip(data, measurements=["pm"])
    assert result["pm"].notnull().all() and result["temp"][3].isnull().all()
    assert np.array_equal(result["temp"].isel(time=[0, 1, 2, 4, 5]), data["temp"])


def test_an_unsorted_time_axis_is_sorted():
    data = dataset(pm=GAPPY)
    result = round_trip(data.isel(time=[3, 1, 0, 5, 4, 2]))
    assert np.array_equal(result["pm"], round_trip(data)["pm"])


def test_whole_number_variables_are_rounded_not_cut():
    data = dataset(pm=[1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 4, 4]).astype(int).isel(time=[0, 1, 2, 5])
    result = round_trip(data)
    assert result["pm"].dtype == int and result["pm"][:, 0].values.tolist() == [1, 1, 2, 3, 3, 4]


def test_packed_variables_keep_gaps_that_cannot_be_filled(tmp_path):
    data = dataset(pm=GAPPY, never=np.full(12, NAN))
    packing = {"dtype": "int16", "scale_factor": 0.1, "missing_value": -999}
    data.to_netcdf(tmp_path / "in.nc", encoding={"never": {**packing, "_FillValue": None}})
    source = open_source(tmp_path / "in.nc")
    source.save(cdsa.fill(source.cube), tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc") as out:
        assert out["never"].isnull().all()


def test_packed_values_come_back_to_the_bit(tmp_path):
    data = dataset(pm=GAPPY)
    packing = {"dtype": "int16", "scale_factor": 0.1, "add_offset": 5.0, "_FillValue": -32768}
    data.to_netcdf(tmp_path / "in.nc", encoding={"pm": packing})
    source = open_source(tmp_path / "in.nc")
    source.save(cdsa.fill(source.cube), tmp_path / "out.nc")
    with (
        xr.open_dataset(tmp_path / "in.nc", mask_and_scale=False) as old,
        xr.open_dataset(tmp_path / "out.nc", mask_and_scale=False) as new,
    ):
        measured = old["pm"].values != -32768
        assert np.array_equal(old["pm"].values[measured], new["pm"].values[measured])
        assert new["pm"].dtype == np.int16


def test_duplicate_directions_in_arrays_are_averaged_on_the_circle():
    data = dataset(wd=[350.0] * 2 + [10.0] * 2 + [0.0] * 8)
    twice = data.assign_coords(time=[HOURS[0], HOURS[0], *HOURS[1:5]])
    cube = cdsa.open_cube(twice, duplicates="mean", angles="wd")
    assert min(cube[0, 0, 0].item(), 360 - cube[0, 0, 0].item()) == pytest.approx(0, abs=1e-9)


def test_durations_are_no_measurements():
    data = dataset(pm=GAPPY)
    data["age"] = (
        ("time", "station"),
        np.full((6, 2), np.timedelta64(1, "h")).astype("timedelta64[ns]"),
    )
    assert cdsa.open_cube(data)["measurement"].values.tolist() == ["pm"]


def test_what_netcdf_leaves_where_nothing_was_written_is_missing():
    data = dataset(pm=np.where(RISING == 4, 9.969209968386869e36, RISING).astype(np.float32))
    assert int(cdsa.open_cube(data).isnull().sum()) == 1


def test_attributes_that_are_there_stay():
    data = dataset(pm=GAPPY)
    data.attrs = {"Conventions": "CF-1.6, ACDD-1.3", "title": "mine"}
    data["pm"].attrs = {"ancillary_variables": "pm_qc", "units": "ug m-3"}
    result = round_trip(data)
    assert result.attrs["Conventions"] == "CF-1.6, ACDD-1.3" and result.attrs["title"] == "mine"
    assert result["pm"].attrs == {"ancillary_variables": "pm_qc pm_source", "units": "ug m-3"}


def test_station_names_in_bytes_are_text():
    data = dataset(pm=GAPPY).assign_coords(station=np.array([b"A ", b"B "]))
    assert cdsa.open_cube(data)["location"].values.tolist() == ["A", "B"]


def test_one_station_needs_no_station_axis():
    data = dataset(pm=GAPPY).isel(station=0, drop=True).assign_coords(lat=40.0, lon=116.0)
    source = open_source(data)
    assert source.cube.shape == (6, 1, 1) and source.cube["lat"].item() == 40.0
    assert source.filled(cdsa.fill(source.cube))["pm"].dims == ("time",)


def test_axes_may_have_any_order_and_name():
    data = dataset(pm=GAPPY).rename(time="valid_time", station="site").transpose()
    result = round_trip(data)
    assert result["pm"].dims == ("site", "valid_time") and result["pm"].notnull().all()


def test_a_cube_with_a_measurement_axis_can_be_narrowed():
    cube = cdsa.open_cube(dataset(pm=GAPPY, temp=RISING))
    assert cdsa.open_cube(cube, measurements="temp")["measurement"].values.tolist() == ["temp"]
    with pytest.raises(TableError, match="did you mean 'temp'"):
        cdsa.open_cube(cube, measurements="tmp")


def test_cells_filled_before_are_remarked_on_and_can_be_filled_anew(tmp_path):
    source = open_source(dataset(pm=GAPPY))
    source.save(cdsa.fill(source.cube), tmp_path / "out.nc")
    again = open_source(tmp_path / "out.nc")
    assert again.cube.notnull().all() and "filled before, 1 in all" in again.doubts[0]
    assert int(cdsa.open_cube(tmp_path / "out.nc", refill=True).isnull().sum()) == 1


def test_a_direction_written_to_netcdf_is_one_when_read_again(tmp_path):
    source = open_source(panel(wd=[350.0, NAN, 10.0, 20.0, 30.0, 40.0]), angles="wd")
    source.save(cdsa.fill(source.cube), tmp_path / "out.nc")
    assert cdsa.open_cube(tmp_path / "out.nc")["angle"].item() is True


@pytest.mark.parametrize(
    "names", [("a/b", "a_b"), ("pm", "pm_source"), ("value", "source"), ("lat", "time")]
)
def test_no_measurement_is_lost_to_another_ones_name(names, tmp_path):
    frame = pd.DataFrame({"t": HOURS, names[0]: GAPPY[:6], names[1]: RISING[:6] + 100})
    frame = frame.melt("t", var_name="variable", value_name="number")
    source = open_source(frame, time="t", measurement="variable", value="number", layout="long")
    source.save(cdsa.fill(source.cube), tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc") as out:
        known = [v for v in out.data_vars.values() if "long_name" in v.attrs and v.dtype == float]
        assert {v.attrs["long_name"] for v in known} == set(names)


@pytest.mark.parametrize("kind", ["uint8", "int16"])
def test_a_zero_is_never_taken_for_a_mark(kind, tmp_path):
    data = dataset(pm=[0, 0, 1, 0, 2, 0, 0, 2, 4, 4, 4, 4]).isel(time=[0, 1, 2, 4, 5])
    packed = data.astype(kind)
    packed["pm"].attrs["scale_factor"] = 0.5
    packed.to_netcdf(tmp_path / "in.nc")
    source = open_source(tmp_path / "in.nc")
    source.save(cdsa.fill(source.cube), tmp_path / "out.nc")
    out = cdsa.open_cube(tmp_path / "out.nc")
    assert out.notnull().all()
    assert np.array_equal(out.isel(time=[0, 1, 2, 4, 5], measurement=0) * 2, data["pm"])


def test_no_filled_value_is_taken_for_a_mark(tmp_path):
    data = dataset(pm=[1, 1, NAN, NAN, -1, -1, 1, 1, 1, 1, 1, 1])
    data.to_netcdf(tmp_path / "in.nc", encoding={"pm": {"dtype": "int16", "_FillValue": 0}})
    source = open_source(tmp_path / "in.nc")
    source.save(cdsa.fill(source.cube), tmp_path / "out.nc")
    assert cdsa.open_cube(tmp_path / "out.nc").notnull().all()


def test_large_whole_numbers_keep_their_last_bit():
    data = dataset(pm=RISING).astype("int64") + 2**53 + 1
    assert np.array_equal(round_trip(data)["pm"], data["pm"])
    gone = data.isel(time=[0, 1, 2, 4, 5])
    assert np.array_equal(round_trip(gone)["pm"].isel(time=[0, 1, 2, 4, 5]), gone["pm"])


def test_codes_that_cannot_be_filled_stay():
    data = dataset(pm=RISING, never=np.full(12, -999.0)).astype(int)
    result = round_trip(data, missing=[-999])
    assert (result["never"] == -999).all() and result["never"].dtype == int


def test_what_was_filled_once_stays_marked(tmp_path):
    source = open_source(dataset(pm=GAPPY))
    first = source.filled(cdsa.fill(source.cube)).copy(deep=True)
    first["pm"][5, 1] = NAN
    second = round_trip(first)
    assert int((second["pm_source"] == 1).sum()) == 2 and "pm_source_2" not in second
    assert int(cdsa.open_cube(second, refill=True).isnull().sum()) == 2


def test_a_part_of_a_cube_can_be_filled_anew():
    cube = cdsa.open_cube(dataset(pm=GAPPY, temp=GAPPY))
    source = open_source(cube)
    done = source.filled(cdsa.fill(source.cube))
    assert int(cdsa.open_cube(done, measurements="temp", refill=True).isnull().sum()) == 1
    part = open_source(done, measurements="temp", refill=True)
    assert part.filled(cdsa.fill(part.cube))["value"].shape == (6, 2, 1)


def test_a_third_axis_beside_stations_is_the_measurements():
    data = xr.DataArray(GAPPY.reshape(6, 2, 1), dims=("time", "station", "channel"), name="x",
                        coords={"time": HOURS, "station": ["A", "B"]})  # fmt: skip
    assert cdsa.open_cube(data).shape == (6, 2, 1)


def test_options_of_tables_are_refused_for_arrays():
    with pytest.raises(ConfigError, match="--location is for tables"):
        cdsa.open_cube(dataset(pm=GAPPY), location="x")


# tables


@pytest.mark.parametrize(
    ("entries", "filled"),
    [
        ([1.0, None, 3.0, 4.0, 5.0, 6.0], 2.0),
        ([Decimal("1.00"), None, *[Decimal("3.50")] * 4], Decimal("2.25")),
        (["1", "", "3", "4", "5", "6"], "2"),
    ],
)
def test_entries_are_filled_in_their_own_kind(entries, filled):
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


def test_yes_and_no_of_a_new_row_is_neither():
    result = round_trip(panel(x=RISING[:6], ok=True).drop(index=3))
    assert result["ok"].isna().sum() == 1 and result["ok"].dropna().all()


def test_a_remark_is_not_copied_onto_new_rows():
    result = round_trip(panel(x=RISING[:6], qc="checked").drop(index=3))
    assert result["qc"].isna().tolist() == [False] * 3 + [True] + [False] * 2


def test_lists_are_carried_along():
    frame = panel(x=GAPPY[:6], parts=[[1, 2]] * 6).drop(index=3)
    assert round_trip(frame)["parts"].notna().sum() == 5


def test_dates_in_an_object_column_stay_dates():
    days = [datetime.date(2020, 1, d) for d in (1, 2, 4, 5)]
    result = round_trip(pd.DataFrame({"time": days, "station": "A", "x": [1.0, 2, 4, 5]}))
    assert result["time"].tolist() == [datetime.date(2020, 1, d) for d in range(1, 6)]


def test_a_long_table_keeps_the_rows_that_were_not_asked_for():
    frame = panel(pm=GAPPY[:6], no2=RISING[:6]).melt(["time", "station"], var_name="variable")
    result = round_trip(frame, measurements=["pm"])
    assert len(result) == len(frame) and result["value"].notna().all()
    pd.testing.assert_frame_equal(
        result[result["variable"] == "no2"], frame[frame["variable"] == "no2"]
    )


@pytest.mark.parametrize("index", [pd.RangeIndex(6, name="line"), pd.Index([5, 7, 9, 11, 13, 15])])
def test_an_index_that_says_nothing_of_time_or_place_comes_back(index):
    frame = panel(x=GAPPY[:6]).set_axis(index, axis=0)
    source = open_source(frame)
    assert source.cube["measurement"].values.tolist() == ["x"]
    pd.testing.assert_index_equal(source.filled(cdsa.fill(source.cube)).index, index)


def test_an_unnamed_index_of_names_is_the_stations():
    frame = panel(x=GAPPY[:6]).drop(columns="station").set_axis(["A"] * 6, axis=0)
    assert open_source(frame).layout.startswith("panel")


def test_an_unnamed_time_index_stays_unnamed_and_numbers_stay_names():
    frame = pd.DataFrame({1001: GAPPY[:6], 1002: RISING[:6]}, index=HOURS)
    result = round_trip(frame)
    assert result.index.name is None and result.columns.tolist() == [1001, 1002]


def test_an_unnamed_double_index_is_understood():
    index = pd.MultiIndex.from_product([HOURS, ["A", "B"]])
    result = round_trip(pd.DataFrame({"x": GAPPY}, index=index))
    assert result.index.names == [None, None] and result["x"].notna().all()


def test_row_numbers_of_another_program_are_no_measurement():
    frame = panel(x=RISING[:6])
    frame.insert(0, "Unnamed: 0", range(6))
    result = round_trip(frame.drop(index=3))
    assert cdsa.open_cube(frame)["measurement"].values.tolist() == ["x"]
    assert result["Unnamed: 0"].tolist() == [0, 1, 2, 6, 4, 5]


def test_columns_without_a_name_come_back_without_one(tmp_path):
    text = "time,station,x,,\n2020-01-01,A,1,,\n2020-01-02,A,,,\n2020-01-04,A,4,,\n"
    (tmp_path / "in.csv").write_text(text)
    source = open_source(tmp_path / "in.csv")
    source.save(cdsa.fill(source.cube), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == (
        "time,station,x,,\n2020-01-01,A,1,,\n2020-01-02,A,2,,\n2020-01-03,A,3,,\n2020-01-04,A,4,,\n"
    )


@pytest.mark.parametrize("column", ["time", "x"])
def test_text_columns_of_parquet_stay_text(column, tmp_path):
    frame = panel(x=GAPPY[:6]).drop(index=1)
    frame[column] = frame[column].astype(str).replace("nan", "")
    frame.to_parquet(tmp_path / "in.parquet", index=False)
    source = open_source(tmp_path / "in.parquet")
    source.save(cdsa.fill(source.cube), tmp_path / "out.parquet")
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
    source.save(cdsa.fill(source.cube), tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["x"].tolist()[1] == Decimal("2.25")


def test_decimal_commas_are_read_strictly(tmp_path):
    (tmp_path / "in.csv").write_text("time;station;x\n2020-01-01;A;1.234\n2020-01-02;A;1,5\n")
    with pytest.raises(TableError, match="'1.234' in line 2"):
        cdsa.open_cube(tmp_path / "in.csv", decimal=",")


def test_lines_are_counted_through_quoted_line_ends(tmp_path):
    rows = ['2020-01-01,A,1,"two\nlines"', "2020-01-02,A,x,"]
    (tmp_path / "in.csv").write_text("\n".join(["time,station,v,note", *rows, ""]))
    with pytest.raises(TableError, match="'x' in line 4"):
        cdsa.open_cube(tmp_path / "in.csv", measurements="v")


def test_a_broken_archive_is_refused(tmp_path):
    import gzip

    packed = bytearray(gzip.compress(b"time,station,x\n" + b"2020-01-01,A,1\n" * 500))
    packed[20] ^= 0xFF
    (tmp_path / "in.csv.gz").write_bytes(bytes(packed))
    with pytest.raises(TableError):
        cdsa.open_cube(tmp_path / "in.csv.gz")


def test_two_outputs_under_two_names_of_one_file_are_refused(tmp_path):
    source = open_source(panel(x=GAPPY[:6]))
    same = tmp_path / ".." / tmp_path.name / "out.csv"
    with pytest.raises(OutputError, match="two outputs cannot both be"):
        save_all(source, cdsa.fill(source.cube), tmp_path / "out.csv", detail=same)
    assert list(tmp_path.iterdir()) == []


def test_if_one_output_cannot_be_placed_the_other_is_as_before(tmp_path, monkeypatch):
    from pathlib import Path

    (tmp_path / "out.csv").write_text("mine")
    source = open_source(panel(x=GAPPY[:6]))
    real = Path.replace

    def refuse(self, target):
        if Path(target).name == "detail.csv":
            raise OSError(13, "Permission denied")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputError, match="Nothing was changed"):
        save_all(
            source,
            cdsa.fill(source.cube),
            tmp_path / "out.csv",
            detail=tmp_path / "detail.csv",
            overwrite=True,
        )
    assert (tmp_path / "out.csv").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


# time


def write_csv(tmp_path, *stamps: str) -> pd.DataFrame:
    lines = [f"{stamp},A,{n}" for n, stamp in enumerate(stamps)]
    (tmp_path / "in.csv").write_text("\n".join(["time,station,x", *lines, ""]))
    return tmp_path / "in.csv"


def stamps_written(path, **options) -> list[str]:
    return round_trip(path, **options)["time"].tolist()


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
    source.save(cdsa.fill(source.cube), tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["time"].is_unique


def test_milliseconds_are_not_taken_for_seconds():
    frame = pd.DataFrame(
        {"time": 1577836800000 + 3600000 * np.arange(4), "station": "A", "x": RISING[:4]}
    )
    with pytest.raises(TableError, match="unix-ms"):
        cdsa.open_cube(frame, time_format="unix")
    assert cdsa.open_cube(frame, time_format="unix-ms")["time"][0] == np.datetime64("2020-01-01")


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
    with pytest.raises(TableError, match="If clocks went back that night, give --tz"):
        cdsa.open_cube(path)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"time_format": "%Q"}, "no way to write a time"),
        ({"step": "0.5month"}, "counted whole"),
        ({"step": "0.0000000001s"}, "longer than nothing"),
        ({"step": "99999999999d"}, "longer than any time"),
        ({"separator": "\n"}, "one character"),
        ({"bounds": {"x": ("a", None)}}, "a lowest and a highest"),
        ({"units": "K"}, "by measurement"),
        ({"location": "time"}, "two parts"),
        ({"angles": "y"}, "no measurement 'y'"),
    ],
)
def test_impossible_options_are_refused(options, match, tmp_path):
    path = write_csv(tmp_path, "2020-01-01", "2020-01-02", "2020-01-03")
    with pytest.raises(CdsaError, match=match):
        cdsa.open_cube(path, **options)


def test_options_that_say_nothing_are_as_if_not_given():
    assert (
        cdsa.open_cube(
            panel(x=RISING[:6]), angles=None, measurements=None, bounds=[("x", 0, None)]
        ).size
        == 6
    )


# scores


def test_a_sensor_that_never_changes_does_not_outweigh_the_others():
    # the standard deviation of many times 0.1 is a rounding error, not zero
    frame = panel(x=GAPPY[:6], still=0.1)
    scored = cdsa.score("mean", cdsa.open_cube(frame), "random:0.4", seed=1)
    assert scored.table()["mae"].item() < 5


def test_a_measurement_called_all_is_one_of_its_own():
    frame = panel(x=RISING[:6], **{"all": RISING[:6] * 2})
    records = cdsa.score("linear", cdsa.open_cube(frame), "random:0.4").records()
    assert [(r["measurement"], r["overall"]) for r in records] == [
        ("x", False),
        ("all", False),
        ("all", True),
    ]


def test_the_unit_is_that_of_what_was_scored():
    frame = panel(a=np.full(6, NAN), b=RISING[:6])
    cube = cdsa.open_cube(frame, units={"a": "K", "b": "hPa"})
    assert cdsa.score("linear", cube, "random:0.7").records("location")[0]["unit"] == "hPa"


def test_the_relative_error_over_all_is_relative_to_the_values():
    rng = np.random.default_rng(0)
    frame = panel(a=1000 + 0.3 * rng.normal(size=6), b=500 + 0.1 * rng.normal(size=6))
    scored = cdsa.score("mean", cdsa.open_cube(frame), "random:0.4")
    assert scored.table()["mre"].item() < 0.01


def test_a_score_with_no_answer_can_be_summed_up():
    from cdsa.scoring import summarise

    class Silent:
        def fit(self, cube):
            return self

        def fill(self, cube):
            return cube

    scored = cdsa.score(Silent(), cdsa.open_cube(panel(x=RISING[:6])), "random:0.4")
    assert len(summarise([scored])) == 1 and scored.repeat == 0


def test_gap_classes_stand_in_order():
    cube = cdsa.open_demo()[:2000]
    order = cdsa.score("linear", cube, "bursts:0.5").table("gap").index.tolist()
    assert order == [name for name in ("1", "2-5", "6-23", "24-71", "72+") if name in order]


def test_several_methods_in_one_score_are_refused_in_words():
    with pytest.raises(ConfigError, match="once for each"):
        cdsa.score(["linear", "mean"], cdsa.open_cube(panel(x=RISING[:6])))


def test_sources_and_scores_show_themselves_in_a_line():
    source = open_source(panel(x=GAPPY[:6]))
    assert repr(source).startswith("<Source DataFrame: panel") and len(repr(source)) < 200
    assert repr(cdsa.score("linear", source.cube, "random:0.4")).startswith("<Score linear: MAE")


def test_doubts_are_logged_for_those_who_open_a_cube(caplog):
    cdsa.open_cube(panel(wind_dir=[10.0, 350.0, -999.0, 20.0, 30.0, 40.0]))
    assert "--missing -999" in caplog.text
    cdsa.open_cube(panel(wind_dir=[10.0, 350.0, 20.0, 20.0, 30.0, 40.0]))
    assert "--angle wind_dir" in caplog.text


def test_filled_values_have_no_rounding_noise():
    result = round_trip(panel(x=[0.1, NAN, 0.3, 12.1, NAN, 12.692]))
    assert [repr(v) for v in result["x"]][1::3] == ["0.2", "12.396"]
