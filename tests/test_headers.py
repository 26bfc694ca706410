"""Headers say what a column holds: a unit, a station, a measurement, a flag."""

import numpy as np
import pandas as pd
import pytest

import cdsa
from cdsa.errors import ConfigError, TableError
from cdsa.io.headers import Header, detect_pattern, parse_header, split_unit
from cdsa.io.source import open_source
from small_sources import HOURS, panel, round_trip

LEVELS = [1.0, np.nan, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Level [cm]", ("Level", "cm")),
        ("Temp (°C)", ("Temp", "°C")),
        ("Wind speed(m/s)", ("Wind speed", "m/s")),
        ("Pressure (hPa)", ("Pressure", "hPa")),
        ("Temp (2 m above ground)", ("Temp (2 m above ground)", "")),
        ("flow (raw)", ("flow (raw)", "")),
        ("[cm]", ("[cm]", "")),
        ("level", ("level", "")),
        ("a []", ("a []", "")),
    ],
)
def test_a_unit_is_split_from_its_header(header, expected):
    assert split_unit(header) == expected


def test_units_in_headers_become_units_and_columns_keep_their_headers():
    frame = panel(**{"Level [cm]": LEVELS, "Temp (°C)": LEVELS})
    source = open_source(frame)
    assert source.cube["measurement"].to_numpy().tolist() == ["Level", "Temp"]
    assert source.cube["units"].to_numpy().tolist() == ["cm", "°C"]
    filled = source.filled(cdsa.fill(source.cube, "linear", check=False))
    assert filled.columns.tolist() == frame.columns.tolist()
    assert filled["Level [cm]"].tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", ["Level", "Level [cm]"])
def test_a_measurement_is_selected_with_or_without_its_unit(name):
    source = open_source(panel(**{"Level [cm]": LEVELS, "b": LEVELS}), measurements=[name])
    assert source.cube["measurement"].to_numpy().tolist() == ["Level"]


def test_measurements_that_differ_by_their_unit_only_keep_it_in_their_names():
    cube = cdsa.open_cube(panel(**{"Level [m]": LEVELS, "Level [cm]": LEVELS}))
    assert cube["measurement"].to_numpy().tolist() == ["Level [m]", "Level [cm]"]


def pairs(**columns) -> pd.DataFrame:
    return pd.DataFrame({"time": HOURS, **columns})


def test_columns_of_pairs_are_stations_and_measurements():
    frame = pairs(P1_level=LEVELS, P1_rain=0.5, P2_level=2.0, P2_rain=LEVELS)
    source = open_source(frame)
    assert source.cube["location"].to_numpy().tolist() == ["P1", "P2"]
    assert source.cube["measurement"].to_numpy().tolist() == ["level", "rain"]
    assert source.cube[:, 1, 1].to_numpy().tolist()[2:] == LEVELS[2:]
    assert any("{station}_{measurement}" in warning for warning in source.warnings)
    filled = round_trip(frame)
    assert filled["P1_level"].tolist() == filled["P2_rain"].tolist() == [1, 2, 3, 4, 5, 6]


def test_measurements_may_come_first_in_the_headers_of_pairs():
    cube = cdsa.open_cube(pairs(no2_A=1.0, o3_A=2.0, no2_B=3.0, o3_B=4.0))
    assert float(cube.sel(location="B", measurement="no2")[0]) == 3.0


def test_pairs_of_unknown_names_are_stations_until_their_pattern_is_given():
    frame = pairs(**{"a.P1 [cm]": 1.0, "b.P1": 2.0, "a.P2 [cm]": 3.0, "b.P2": 4.0, "x": 5.0})
    source = open_source(frame)
    assert source.cube.sizes["location"] == 5
    source = open_source(frame, column_pattern="{measurement}.{station}")
    assert source.cube.sizes == {"time": 6, "location": 2, "measurement": 2}
    assert float(source.cube.sel(location="P2", measurement="a")[0]) == 3.0
    assert source.cube["units"].to_numpy().tolist() == ["cm", ""]
    assert source.passthrough == ("x",)
    chosen = open_source(frame, column_pattern="{measurement}.{station}", measurements="b")
    assert chosen.cube["measurement"].to_numpy().tolist() == ["b"]


def test_the_pattern_of_a_grid_is_suggested():
    frame = pairs(P1_x=1.0, P1_y=2.0, P2_x=3.0, P2_y=4.0)
    hint = "--column-pattern '{station}_{measurement}'"
    assert any(hint in warning for warning in open_source(frame).warnings)


@pytest.mark.parametrize(
    "pattern",
    [
        "{station}",
        "{station}{measurement}",
        "a_b",
        "{station}_{measurement}_{station}",
        "{0}_{station}_{measurement}",
    ],
)
def test_a_pattern_has_both_names_and_a_mark_between_them(pattern):
    with pytest.raises(ConfigError, match="something in between"):
        open_source(pairs(P1_x=1.0), column_pattern=pattern)


def test_a_pattern_that_no_column_has_is_refused():
    with pytest.raises(TableError, match="no column of numbers has the pattern"):
        open_source(pairs(P1_x=1.0), column_pattern="{station}/{measurement}")


def test_a_mark_within_a_station_belongs_to_its_name():
    assert parse_header("st_1_level", "{station}_{measurement}") == Header("st_1", "level", "")


def test_names_that_are_no_grid_have_no_pattern():
    assert detect_pattern(["NO_1", "SE_2", "DK_3", "FI_4"]) is None
    assert detect_pattern(["A", "B"]) is None


def test_a_site_without_a_sensor_gets_a_column_of_each_measurement():
    frame = pairs(P1_level=LEVELS, P1_rain=0.5, P2_level=2.0, P2_rain=1.0)
    stations = pd.DataFrame({"id": ["P1", "P2"], "la": [50.0, 50.1], "lo": [8.0, 8.1]})
    source = open_source(frame, locations=stations, lat="la", lon="lo")
    assert source.cube["lat"].to_numpy().tolist() == [50.0, 50.1]
    source = source.with_sites(pd.DataFrame({"name": ["P3"], "lat": [50.05], "lon": [8.05]}))
    filled = source.filled(cdsa.fill(source.cube, "idw", check=False))
    assert filled.columns.tolist()[-2:] == ["P3_level", "P3_rain"]
    assert filled[["P3_level", "P3_rain"]].notna().all().all()


def test_columns_with_units_or_usual_names_are_of_one_station():
    source = open_source(pairs(temp=LEVELS, rh=50.0, battery=12.0))
    assert source.cube.sizes == {"time": 6, "location": 1, "measurement": 3}
    assert any("--layout wide" in warning for warning in source.warnings)
    assert cdsa.open_cube(pairs(temp=LEVELS, rh=50.0), layout="wide").sizes["location"] == 2


def test_flags_do_not_count_among_the_columns_of_one_station():
    flags = {"QC": [0, 9, 0, 0, 1, 0], "Flag B": [0, 0, 0, 0, 0, 9]}
    cube = cdsa.open_cube(pairs(temp=LEVELS, **flags))
    assert cube["measurement"].to_numpy().tolist() == ["temp"]


@pytest.mark.parametrize("name", ["pm25_flag", "QC", "Flag no2", "quality"])
def test_a_numeric_flag_column_is_no_measurement(name):
    frame = panel(pm25=LEVELS, **{name: [0, 9, 0, 0, 1, 0]})
    source = open_source(frame)
    assert source.cube["measurement"].to_numpy().tolist() == ["pm25"]
    assert any("quality flags" in note for note in source.notes)
    filled = source.filled(cdsa.fill(source.cube, "linear", check=False))
    assert filled[name].tolist() == frame[name].tolist()
    read = open_source(frame, measurements=["pm25", name])
    assert read.cube.sizes["measurement"] == 2


def test_a_measurement_with_fractions_is_no_flag():
    cube = cdsa.open_cube(panel(pm25=LEVELS, water_quality=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    assert cube.sizes["measurement"] == 2
