"""Labelled arrays: read as cubes, and written with gaps filled."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cdsa
from cdsa.errors import ConfigError, TableError
from cdsa.io.source import open_source
from small_sources import GAPPY, HOURS, NAN, RISING, dataset, panel, round_trip


def test_flags_never_replace_a_variable():
    data = dataset(pm=GAPPY, pm_source=RISING + 200.5)
    result = round_trip(data)
    assert np.array_equal(result["pm_source"], data["pm_source"])
    assert (
        result["pm"].attrs["ancillary_variables"] == "pm_source_2"
        and result["pm_source_2"].dtype == np.int8
    )


def test_filling_does_not_change_the_dataset():
    data = dataset(pm=GAPPY)
    before = data.copy(deep=True)
    round_trip(data)
    assert data.identical(before)


def test_variables_that_were_not_read_get_no_values():
    data = dataset(pm=GAPPY, temp=RISING).isel(time=[0, 1, 2, 4, 5])
    result = round_trip(data, measurements=["pm"])
    assert result["pm"].notnull().all() and result["temp"][3].isnull().all()
    assert np.array_equal(result["temp"].isel(time=[0, 1, 2, 4, 5]), data["temp"])


def test_an_unsorted_time_axis_is_sorted():
    data = dataset(pm=GAPPY)
    result = round_trip(data.isel(time=[3, 1, 0, 5, 4, 2]))
    assert np.array_equal(result["pm"], round_trip(data)["pm"])


def test_integer_variables_are_rounded():
    data = dataset(pm=[1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 4, 4]).astype(int).isel(time=[0, 1, 2, 5])
    result = round_trip(data)
    assert result["pm"].dtype == int and result["pm"][:, 0].values.tolist() == [1, 1, 2, 3, 3, 4]


def test_packed_variables_keep_unfillable_gaps(tmp_path):
    data = dataset(pm=GAPPY, never=np.full(12, NAN))
    packing = {"dtype": "int16", "scale_factor": 0.1, "missing_value": -999}
    data.to_netcdf(tmp_path / "in.nc", encoding={"never": {**packing, "_FillValue": None}})
    source = open_source(tmp_path / "in.nc")
    source.save(cdsa.fill(source.cube, "linear", check=False), tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc") as out:
        assert out["never"].isnull().all()


def test_packed_values_are_preserved_to_the_bit(tmp_path):
    data = dataset(pm=GAPPY)
    packing = {"dtype": "int16", "scale_factor": 0.1, "add_offset": 5.0, "_FillValue": -32768}
    data.to_netcdf(tmp_path / "in.nc", encoding={"pm": packing})
    source = open_source(tmp_path / "in.nc")
    source.save(cdsa.fill(source.cube, "linear", check=False), tmp_path / "out.nc")
    with (
        xr.open_dataset(tmp_path / "in.nc", mask_and_scale=False) as old,
        xr.open_dataset(tmp_path / "out.nc", mask_and_scale=False) as new,
    ):
        measured = old["pm"].values != -32768
        assert np.array_equal(old["pm"].values[measured], new["pm"].values[measured])
        assert new["pm"].dtype == np.int16


def test_duplicate_directions_get_their_circular_mean():
    data = dataset(wd=[350.0] * 2 + [10.0] * 2 + [0.0] * 8)
    duplicated = data.assign_coords(time=[HOURS[0], HOURS[0], *HOURS[1:5]])
    cube = cdsa.open_cube(duplicated, duplicates="mean", directions="wd")
    assert min(cube[0, 0, 0].item(), 360 - cube[0, 0, 0].item()) == pytest.approx(0, abs=1e-9)


def test_durations_are_not_measurements():
    data = dataset(pm=GAPPY)
    data["age"] = (
        ("time", "station"),
        np.full((6, 2), np.timedelta64(1, "h")).astype("timedelta64[ns]"),
    )
    assert cdsa.open_cube(data)["measurement"].values.tolist() == ["pm"]


def test_the_default_fill_value_of_netcdf_is_missing():
    data = dataset(pm=np.where(RISING == 4, 9.969209968386869e36, RISING).astype(np.float32))
    assert int(cdsa.open_cube(data).isnull().sum()) == 1


def test_existing_attributes_are_kept():
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
    assert source.filled(cdsa.fill(source.cube, "linear", check=False))["pm"].dims == ("time",)


def test_axes_may_have_any_order_and_name():
    data = dataset(pm=GAPPY).rename(time="valid_time", station="site").transpose()
    result = round_trip(data)
    assert result["pm"].dims == ("site", "valid_time") and result["pm"].notnull().all()


def test_measurements_can_be_selected_along_an_axis():
    cube = cdsa.open_cube(dataset(pm=GAPPY, temp=RISING))
    assert cdsa.open_cube(cube, measurements="temp")["measurement"].values.tolist() == ["temp"]
    with pytest.raises(TableError, match="did you mean 'temp'"):
        cdsa.open_cube(cube, measurements="tmp")


def test_cells_filled_before_are_warned_about_and_can_be_filled_again(tmp_path):
    source = open_source(dataset(pm=GAPPY))
    source.save(cdsa.fill(source.cube, "linear", check=False), tmp_path / "out.nc")
    reopened = open_source(tmp_path / "out.nc")
    assert (
        reopened.cube.notnull().all() and "1 cell filled by an earlier run" in reopened.warnings[0]
    )
    assert int(cdsa.open_cube(tmp_path / "out.nc", refill=True).isnull().sum()) == 1


def test_a_direction_written_to_netcdf_is_read_as_one(tmp_path):
    source = open_source(panel(wd=[350.0, NAN, 10.0, 20.0, 30.0, 40.0]), directions="wd")
    source.save(cdsa.fill(source.cube, "linear", check=False), tmp_path / "out.nc")
    assert cdsa.open_cube(tmp_path / "out.nc")["is_direction"].item() is True


@pytest.mark.parametrize(
    "names", [("a/b", "a_b"), ("pm", "pm_source"), ("value", "source"), ("lat", "time")]
)
def test_measurements_with_clashing_names_are_all_written(names, tmp_path):
    frame = pd.DataFrame({"t": HOURS, names[0]: GAPPY[:6], names[1]: RISING[:6] + 100})
    frame = frame.melt("t", var_name="variable", value_name="number")
    source = open_source(frame, time="t", measurement="variable", value="number", layout="long")
    source.save(cdsa.fill(source.cube, "linear", check=False), tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc") as out:
        known = [v for v in out.data_vars.values() if "long_name" in v.attrs and v.dtype == float]
        assert {v.attrs["long_name"] for v in known} == set(names)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_a_zero_never_becomes_the_fill_value(dtype, tmp_path):
    data = dataset(pm=[0, 0, 1, 0, 2, 0, 0, 2, 4, 4, 4, 4]).isel(time=[0, 1, 2, 4, 5])
    packed = data.astype(dtype)
    packed["pm"].attrs["scale_factor"] = 0.5
    packed.to_netcdf(tmp_path / "in.nc")
    source = open_source(tmp_path / "in.nc")
    source.save(cdsa.fill(source.cube, "linear", check=False), tmp_path / "out.nc")
    out = cdsa.open_cube(tmp_path / "out.nc")
    assert out.notnull().all()
    assert np.array_equal(out.isel(time=[0, 1, 2, 4, 5], measurement=0) * 2, data["pm"])


def test_no_filled_value_becomes_the_fill_value(tmp_path):
    data = dataset(pm=[1, 1, NAN, NAN, -1, -1, 1, 1, 1, 1, 1, 1])
    data.to_netcdf(tmp_path / "in.nc", encoding={"pm": {"dtype": "int16", "_FillValue": 0}})
    source = open_source(tmp_path / "in.nc")
    source.save(cdsa.fill(source.cube, "linear", check=False), tmp_path / "out.nc")
    assert cdsa.open_cube(tmp_path / "out.nc").notnull().all()


def test_large_integers_keep_their_last_bit():
    data = dataset(pm=RISING).astype("int64") + 2**53 + 1
    assert np.array_equal(round_trip(data)["pm"], data["pm"])
    incomplete = data.isel(time=[0, 1, 2, 4, 5])
    assert np.array_equal(round_trip(incomplete)["pm"].isel(time=[0, 1, 2, 4, 5]), incomplete["pm"])


def test_missing_codes_that_cannot_be_filled_are_kept():
    data = dataset(pm=RISING, never=np.full(12, -999.0)).astype(int)
    result = round_trip(data, missing=[-999])
    assert (result["never"] == -999).all() and result["never"].dtype == int


def test_cells_filled_before_stay_marked(tmp_path):
    source = open_source(dataset(pm=GAPPY))
    first = source.filled(cdsa.fill(source.cube, "linear", check=False)).copy(deep=True)
    first["pm"][4, 1] = NAN
    second = round_trip(first)
    assert int((second["pm_source"] == 1).sum()) == 2 and "pm_source_2" not in second
    assert int(cdsa.open_cube(second, refill=True).isnull().sum()) == 2


def test_one_measurement_of_a_cube_can_be_filled_again():
    cube = cdsa.open_cube(dataset(pm=GAPPY, temp=GAPPY))
    source = open_source(cube)
    filled = source.filled(cdsa.fill(source.cube, "linear", check=False))
    assert int(cdsa.open_cube(filled, measurements="temp", refill=True).isnull().sum()) == 1
    selected = open_source(filled, measurements="temp", refill=True)
    assert selected.filled(cdsa.fill(selected.cube, "linear", check=False))["value"].shape == (
        6,
        2,
        1,
    )


def test_a_third_axis_beside_stations_is_that_of_measurements():
    data = xr.DataArray(GAPPY.reshape(6, 2, 1), dims=("time", "station", "channel"), name="x",
                        coords={"time": HOURS, "station": ["A", "B"]})  # fmt: skip
    assert cdsa.open_cube(data).shape == (6, 2, 1)


def test_options_of_tables_are_refused_for_arrays():
    with pytest.raises(ConfigError, match="--location is for tables"):
        cdsa.open_cube(dataset(pm=GAPPY), location="x")
