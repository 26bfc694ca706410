"""Tables of any layout become cubes, and filled cubes become the same tables."""

import numpy as np
import pandas as pd
import pytest

import cdsa
from cdsa.errors import ConfigError, TableError
from cdsa.io.source import open_source
from conftest import network
from frames import long, panel, wide


@pytest.fixture
def stations(cube):
    return pd.DataFrame({"id": cube["location"], "lat": cube["lat"], "lon": cube["lon"]})


def drop_coords(cube):
    return cube.drop_vars([n for n in cube.coords if n not in cube.dims])


@pytest.mark.parametrize(("make_frame", "layout"), [(panel, "panel"), (long, "long")])
def test_layouts_are_detected(make_frame, layout, cube):
    source = open_source(make_frame(cube))
    assert source.layout.startswith(layout)
    assert drop_coords(source.cube).sel(measurement=cube["measurement"]).equals(drop_coords(cube))


def test_a_wide_table_takes_its_coordinates_from_a_table_of_stations(cube, stations):
    source = open_source(wide(cube), locations=stations, measurements="pm25")
    assert (
        source.layout.startswith("wide")
        and source.cube["lat"].values.tolist() == cube["lat"].values.tolist()
    )
    assert drop_coords(source.cube).equals(drop_coords(cube[:, :, :1]))


def test_columns_of_one_station_are_measurements_in_the_panel_layout(cube):
    frame = wide(cube)
    assert open_source(frame).cube.sizes["location"] == 3
    single = open_source(frame, layout="panel").cube
    assert single.sizes["measurement"] == 3 and single["location"].item() == "station"


def test_columns_can_be_named(cube):
    frame = panel(cube).rename(
        columns={"time": "wann", "station": "wo", "lat": "breite", "lon": "laenge"}
    )
    opened = cdsa.open_cube(frame, time="wann", location="wo", lat="breite", lon="laenge")
    assert drop_coords(opened).equals(drop_coords(cube)) and "lat" in opened.coords


def test_an_unknown_column_is_refused_with_the_nearest_name(cube):
    with pytest.raises(
        TableError, match="--location: there is no column 'staton'; did you mean 'station'"
    ):
        cdsa.open_cube(panel(cube), location="staton")


def test_a_time_index_is_preserved(cube):
    frame = wide(cube).set_index("time")
    source = open_source(frame)
    result = source.filled(cdsa.fill(source.cube, "linear"))
    pd.testing.assert_index_equal(result.index, frame.index)
    assert result.notna().all().all() and list(result.columns) == list(frame.columns)


@pytest.mark.parametrize("make_frame", [panel, long, wide])
def test_column_order_dtypes_and_measured_values_are_preserved(make_frame, cube):
    frame = make_frame(cube)
    before = frame.copy(deep=True)
    source = open_source(frame)
    result = source.filled(cdsa.fill(source.cube, "linear"))
    assert result.columns.tolist() == frame.columns.tolist()
    assert result.dtypes.tolist() == frame.dtypes.tolist()
    measured = frame.notna().to_numpy()
    assert (result.to_numpy(dtype=object)[measured] == frame.to_numpy(dtype=object)[measured]).all()
    pd.testing.assert_frame_equal(frame, before)


def test_missing_rows_are_added_in_the_order_of_the_table(cube):
    frame = panel(cube).sort_values(["station", "time"], ignore_index=True)
    incomplete = frame.drop(index=[3, 4, 70]).reset_index(drop=True)
    source = open_source(incomplete)
    result = source.filled(cdsa.fill(source.cube, "linear"))
    pd.testing.assert_frame_equal(
        result[["time", "station", "lat", "lon"]], frame[["time", "station", "lat", "lon"]]
    )


def test_missing_timestamps_are_counted(cube):
    frame = panel(cube)
    source = open_source(frame[frame["time"] != frame["time"].iloc[30]])
    assert any("1 of 60 time steps had no timestamp" in note for note in source.notes)


def test_unsorted_rows_keep_their_order_and_new_ones_come_last(cube):
    shuffled = panel(cube).sample(frac=1, random_state=1, ignore_index=True).drop(index=[5])
    source = open_source(shuffled)
    result = source.filled(cdsa.fill(source.cube, "linear"))
    assert (
        result["time"].iloc[:-1].tolist() == shuffled["time"].tolist()
        and len(result) == len(shuffled) + 1
    )


def test_other_columns_are_passed_through(cube):
    frame = panel(cube)
    frame["name"] = "Station " + frame["station"]
    frame["remark"] = np.where(np.arange(len(frame)) == 7, "broken", "")
    source = open_source(frame.drop(index=[10]))
    result = source.filled(cdsa.fill(source.cube, "linear"))
    assert (result["name"] == "Station " + result["station"]).all()
    assert (result["remark"] == "broken").sum() == 1 and any(
        "remark" in note for note in source.notes
    )


def test_integer_columns_stay_integer(cube):
    frame = panel(cube)
    frame["pm25"] = frame["pm25"].round().astype("Int64")
    source = open_source(frame)
    result = source.filled(cdsa.fill(source.cube, "linear"))
    assert result["pm25"].dtype == "Int64" and result["pm25"].notna().all()


def test_float32_columns_are_preserved_to_the_bit(cube):
    frame = panel(cube).astype({"pm25": np.float32})
    source = open_source(frame)
    result = source.filled(cdsa.fill(source.cube, "linear"))
    measured = frame["pm25"].notna()
    assert result["pm25"].dtype == np.float32
    assert (
        result["pm25"][measured].to_numpy().tobytes()
        == frame["pm25"][measured].to_numpy().tobytes()
    )


def test_numbers_and_words_can_mean_missing(cube):
    frame = panel(cube).fillna(-999.0)
    frame["temp"] = frame["temp"].astype(str).replace("-999.0", "broken")
    assert drop_coords(cdsa.open_cube(frame, missing=[-999, "broken"])).equals(drop_coords(cube))


def test_a_likely_missing_code_is_warned_about_but_kept(cube):
    source = open_source(panel(cube).fillna(-999.0))
    assert (
        any("--missing -999" in warning for warning in source.warnings)
        and source.cube.notnull().all()
    )


def test_unfillable_cells_keep_their_entries(cube):
    frame = panel(cube)
    frame["temp"] = "NA"
    source = open_source(frame)
    assert (source.filled(cdsa.fill(source.cube, "linear"))["temp"] == "NA").all()


def test_duplicate_rows_are_refused_and_located(cube):
    frame = panel(cube)
    with pytest.raises(
        TableError,
        match=r"2020-01-01 01:00:00 of 'S0' is in row 3 and again in row 180.*--duplicates",
    ):
        cdsa.open_cube(pd.concat([frame, frame.iloc[[3]]], ignore_index=True))


def test_duplicate_rows_are_combined_on_request():
    frame = pd.DataFrame(
        {"time": ["2020-01-01"] * 2 + ["2020-01-02"], "station": "A", "x": [1.0, 3.0, 5.0]}
    )
    assert cdsa.open_cube(frame, duplicates="mean").values.ravel().tolist() == [2, 5]
    assert cdsa.open_cube(frame, duplicates="first").values.ravel().tolist() == [1, 5]


def test_duplicate_directions_get_their_circular_mean():
    frame = pd.DataFrame(
        {"time": ["2020-01-01"] * 2 + ["2020-01-02"], "station": "A", "d": [350.0, 10.0, 5.0]}
    )
    mean = cdsa.open_cube(frame, duplicates="mean", directions="d").values[0].item()
    assert min(mean, 360 - mean) == pytest.approx(0, abs=1e-9)


def test_a_station_with_two_positions_is_refused(cube):
    frame = panel(cube)
    frame.loc[100, "lat"] = 50.0
    with pytest.raises(
        TableError, match=r"'S1' has lat 40.1 in row 1 and 50 in row 100.*--no-coordinates"
    ):
        cdsa.open_cube(frame)
    assert "lat" not in cdsa.open_cube(frame, coordinates=False).coords


def test_a_station_missing_from_the_locations_is_refused(cube, stations):
    with pytest.raises(TableError, match="'S2' is not in the locations table"):
        cdsa.open_cube(wide(cube), locations=stations[:2])


def test_only_the_given_measurements_are_read(cube):
    for make_frame in (panel, long):
        assert cdsa.open_cube(make_frame(cube), measurements=["temp"])[
            "measurement"
        ].values.tolist() == ["temp"]


def test_units_of_a_long_table_are_read(cube):
    frame = long(cube)
    frame["unit"] = frame["measurement"].map({"pm25": "ug/m3", "temp": "degC"})
    assert cdsa.open_cube(frame)["units"].values.tolist() == ["ug/m3", "degC"]


def test_station_numbers_become_names_and_are_written_as_numbers(cube):
    frame = panel(cube)
    frame["station"] = frame["station"].map({"S0": 1001, "S1": 1002, "S2": 1003})
    source = open_source(frame.drop(index=[4]))
    assert source.cube["location"].values.tolist() == ["1001", "1002", "1003"]
    assert (
        source.filled(cdsa.fill(source.cube, "linear"))["station"].tolist()
        == frame["station"].tolist()
    )


def test_a_row_without_a_station_is_refused_and_located(cube):
    frame = panel(cube)
    frame.loc[7, "station"] = None
    with pytest.raises(TableError, match="row 7 has none"):
        cdsa.open_cube(frame)


def test_the_time_zone_of_a_frame_is_preserved(cube):
    frame = panel(cube)
    frame["time"] = frame["time"].dt.tz_localize("Asia/Shanghai")
    source = open_source(frame.drop(index=[4]))
    result = source.filled(cdsa.fill(source.cube, "linear"))
    assert source.cube["time"][0] == np.datetime64("2019-12-31T16:00")
    pd.testing.assert_series_equal(result["time"], frame["time"])


def test_other_types_are_refused():
    with pytest.raises(TableError, match="found a list"):
        cdsa.open_cube([1, 2, 3])


def test_a_misspelt_option_is_refused_with_the_nearest_name(cube):
    with pytest.raises(cdsa.errors.ConfigError, match="did you mean 'missing'"):
        cdsa.open_cube(panel(cube), mising=-999)


def test_a_cube_is_opened_unchanged(cube):
    assert drop_coords(cdsa.open_cube(cube)).equals(drop_coords(cube))


def test_a_network_without_coordinates_can_be_filled():
    cube = network(places=False)
    assert cdsa.fill(cdsa.open_cube(long(cube)), "linear")["value"].notnull().all()


@pytest.mark.parametrize("separator", ["", ";;", "é", '"', "\n"])
def test_a_separator_is_one_ascii_character(tmp_path, separator):
    (tmp_path / "a.csv").write_text("time;station;v\n2020-01-01;A;1\n")
    with pytest.raises(ConfigError, match="one ASCII character"):
        open_source(tmp_path / "a.csv", separator=separator)


def test_a_large_table_with_few_values_is_refused():
    n_rows = 4000
    frame = pd.DataFrame(
        {
            "time": pd.date_range("2020-01-01", periods=n_rows, freq="min"),
            "station": [f"S{n}" for n in range(n_rows)],
            "measurement": ["a", "b"] * (n_rows // 2),
            "value": 1.0,
        }
    )
    with pytest.raises(TableError, match="values for most of its cells"):
        open_source(frame)
    with pytest.raises(TableError, match="a table may have at most 10 cells here"):
        open_source(frame[:20], max_cells=10)
