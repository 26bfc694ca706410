import numpy as np
import pytest

from cdsa.core.circular import angle_difference
from cdsa.core.cube import (
    RENAMED_COORDS,
    append_locations,
    append_times,
    assign_metadata,
    check_cube,
    stated_range,
)
from cdsa.errors import CubeError
from conftest import network


def refused(cube, match):
    with pytest.raises(CubeError, match=match):
        check_cube(cube)


def test_a_good_cube_passes(cube):
    check_cube(cube)


def test_empty_steps_can_be_appended(cube):
    longer = append_times(cube, 3)
    check_cube(longer)
    assert longer[:-3].equals(cube) and longer[-3:].isnull().all()
    with pytest.raises(CubeError, match="at least one step"):
        append_times(cube, 0)
    with pytest.raises(CubeError, match="cannot be inferred from one timestamp"):
        append_times(cube[:1], 2)


def test_dimensions_in_another_order_are_refused(cube):
    refused(cube.transpose("location", "time", "measurement"), "in this order")


def test_whole_numbers_are_refused(cube):
    refused(cube.fillna(0).astype(int), "floating-point numbers")


def test_decreasing_time_is_named_by_step_and_timestamp(cube):
    refused(cube.isel(time=[0, 2, 1]), r"step 2 \(2020-01-01 01:00:00\) does not come after step 1")


def test_an_irregular_grid_is_named_by_step_and_timestamp(cube):
    refused(
        cube.isel(time=[0, 1, 2, 5]), r"step 3 \(2020-01-01 05:00:00\) is 0 days 03:00:00 after"
    )


def test_a_duplicate_location_is_named(cube):
    refused(cube.assign_coords(location=["a", "b", "a"]), "'a' occurs twice")


def test_infinity_is_named_by_its_cell(cube):
    cube[1, 0, 0] = np.inf
    refused(cube, "must be finite, but found inf at 2020-01-01 01:00:00, S0, pm25")


def test_a_number_too_large_to_square_is_named(cube):
    cube[1, 0, 0] = 1e308
    refused(cube, r"smaller than 1e\+100 in magnitude, but found 1e\+308")


def test_latitude_91_is_named(cube):
    refused(cube.assign_coords(lat=("location", [0.0, 91.0, 0.0])), "'S1' has 91")


def test_a_station_without_coordinates_is_named(cube):
    refused(cube.assign_coords(lat=("location", [0.0, np.nan, 0.0])), "'S1' has none")


def test_half_a_coordinate_is_refused(cube):
    refused(cube.drop_vars("lon"), "only 'lat'")


def test_a_cube_without_coordinates_is_fine(cube):
    check_cube(cube.drop_vars(["lat", "lon"]))


@pytest.mark.parametrize(("old", "new"), RENAMED_COORDS.items())
def test_an_old_coordinate_name_is_answered_with_the_new_one(cube, old, new):
    values = stated_range(cube)[0]
    refused(cube.assign_coords({old: ("measurement", values)}), f"'{old}' is called '{new}' now")
    check_cube(cube.assign_coords({old: ("location", np.zeros(3))}))  # a coordinate of the user's


def test_metadata_of_an_unknown_measurement_is_refused(cube):
    with pytest.raises(CubeError, match="'humidity'.*pm25, temp"):
        assign_metadata(cube, directions=["humidity"])


def test_a_unit_of_direction_marks_a_direction(cube):
    cube = assign_metadata(cube, units={"temp": "degrees of direction"})
    assert cube["is_direction"].values.tolist() == [False, True]


def test_the_lower_bound_must_not_exceed_the_upper(cube):
    with pytest.raises(CubeError, match="must not exceed"):
        assign_metadata(cube, bounds={"temp": (1, 0)})


def test_angle_differences_are_the_short_way_round():
    assert angle_difference(
        np.array([1.0, 359.0, 90.0]), np.array([359.0, 1.0, 45.0])
    ).tolist() == [2, -2, 45]


def test_added_sites_need_new_names_and_stations_with_coordinates():
    with pytest.raises(CubeError, match="already a station 'S1'"):
        append_locations(network(), ["S1"], [1.0], [1.0])
    with pytest.raises(CubeError, match="have none"):
        append_locations(network(places=False), ["new"], [1.0], [1.0])


def test_bounds_that_no_value_can_have_are_refused(cube):
    for bounds in ((1e308, np.inf), (-np.inf, -1e200)):
        with pytest.raises(CubeError, match="at most 1e\\+100 in magnitude, but found"):
            assign_metadata(cube, bounds={"temp": bounds})
