"""Public datasets: found, read in their publishers' formats, compared with what was published."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from cdsa.core.cube import is_direction, units_of
from cdsa.datasets.fetch import cache_folder, data_folders
from cdsa.datasets.nyc_traffic import mean_counts
from cdsa.datasets.registry import DATASETS, get_dataset, list_datasets, open_dataset
from cdsa.errors import ConfigError, TableError
from publishers import (
    traffic,
    write_cube,
    write_kdd2018,
    write_pm25,
    write_stations,
    write_traffic,
    write_urban_air,
)


@pytest.fixture(autouse=True)
def no_data_on_this_machine(monkeypatch, tmp_path_factory):
    """Hide the datasets of this machine."""
    monkeypatch.delenv("CDSA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_is_described(name):
    spec = get_dataset(name)
    assert spec.name == name
    assert all((spec.title, spec.origin, spec.licence, spec.manual_steps, spec.missing_codes))
    names = [file_set.name for file_set in spec.file_sets]
    assert len(set(names)) == len(names) >= 1


def test_a_misspelt_dataset_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="did you mean 'kdd2018'"):
        open_dataset("kdd-2018")


def test_a_missing_dataset_is_refused_with_its_files_and_advice(tmp_path):
    with pytest.raises(ConfigError, match=r"pm25_ground.txt.*cdsa data get kdd2015-pm25.*--data"):
        open_dataset("kdd2015-pm25", tmp_path)


def test_the_demo_ships_with_the_package():
    opened = open_dataset("nyc-weather")
    assert opened.cube.sizes == {"time": 8730, "location": 3, "measurement": 8}
    assert opened.remarks == ()


# ------------------------------------------------------------------ where files are searched


def test_the_folder_takes_precedence_over_the_variable_and_the_cache(tmp_path, monkeypatch):
    folder, variable = tmp_path / "folder", tmp_path / "variable"
    folder.mkdir()
    variable.mkdir()
    assert data_folders() == [cache_folder()]
    monkeypatch.setenv("CDSA_DATA", str(variable))
    assert data_folders() == [variable, cache_folder()]
    assert data_folders(folder) == [folder]


def test_files_are_found_in_a_folder_or_its_subfolders(tmp_path):
    (tmp_path / "kdd2015").mkdir()
    write_pm25(tmp_path / "kdd2015")
    assert open_dataset("kdd2015-pm25", tmp_path).cube.sizes["location"] == 3
    assert open_dataset("kdd2015-pm25", tmp_path / "kdd2015").cube.sizes["location"] == 3


def test_a_missing_folder_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="--data must be a folder"):
        data_folders(tmp_path / "no")
    monkeypatch.setenv("CDSA_DATA", str(tmp_path / "no"))
    with pytest.raises(ConfigError, match="CDSA_DATA must name a folder"):
        data_folders()


# ------------------------------------------------------------------ the publishers' formats


def test_pm25_has_all_measured_values_and_the_mask_of_removed_cells(tmp_path):
    write_pm25(tmp_path)
    opened = open_dataset("kdd2015-pm25", tmp_path)
    ground = pd.read_csv(tmp_path / "pm25_ground.txt").iloc[:, 1:].to_numpy()
    left = pd.read_csv(tmp_path / "pm25_missing.txt").iloc[:, 1:].to_numpy()
    np.testing.assert_array_equal(opened.cube.to_numpy()[:, :, 0], ground)
    removed = opened.extras["removed"].to_numpy()[:, :, 0]
    np.testing.assert_array_equal(removed, ~np.isnan(ground) & np.isnan(left))
    assert opened.cube["location"].to_numpy().tolist() == ["001001", "001002", "001003"]
    assert opened.cube["lat"].to_numpy().tolist() == [40.0, 40.1, 40.2]
    assert str(opened.cube["time"].to_numpy()[0])[:13] == "2015-02-01T01"
    assert units_of(opened.cube) == {"pm25": "ug/m3"}


def test_a_dataset_of_another_size_is_read_with_remarks(tmp_path):
    write_pm25(tmp_path)
    remarks = open_dataset("kdd2015-pm25", tmp_path).remarks
    assert "960 time steps, not 8,759" in remarks
    assert "3 stations, not 36" in remarks
    assert any("missing, not 13.25%" in remark for remark in remarks)
    assert any("cells removed, not 35,737" in remark for remark in remarks)


def test_pm25_files_of_two_releases_are_refused(tmp_path):
    write_pm25(tmp_path)
    path = tmp_path / "pm25_missing.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(TableError, match="rows and columns"):
        open_dataset("kdd2015-pm25", tmp_path)
    changed = lines[1].split(",")
    position = next(n for n, entry in enumerate(changed) if n and entry)
    changed[position] = "999"
    path.write_text("\n".join([lines[0], ",".join(changed), *lines[2:]]) + "\n")
    with pytest.raises(TableError, match="differs at 2015-02-01 01:00:00, 00100"):
        open_dataset("kdd2015-pm25", tmp_path)


def test_pm25_without_timestamps_is_refused(tmp_path):
    write_pm25(tmp_path)
    (tmp_path / "pm25_ground.txt").write_text("datetime,001001\nyesterday,3\n")
    with pytest.raises(TableError, match="pm25_ground.txt must have a column datetime"):
        open_dataset("kdd2015-pm25", tmp_path)


def test_urban_air_has_the_districts_of_beijing_at_the_hours_of_the_paper(tmp_path):
    write_urban_air(tmp_path)
    temperature = open_dataset("kdd2015-temp", tmp_path).cube
    humidity = open_dataset("kdd2015-hum", tmp_path).cube
    assert temperature.sizes == {"time": 8759, "location": 2, "measurement": 1}
    assert temperature["location"].to_numpy().tolist() == ["101", "102"]
    # the later of duplicate rows is used; an empty entry is missing
    np.testing.assert_array_equal(temperature.to_numpy()[:2, :, 0], [[21.5, 19], [np.nan, np.nan]])
    np.testing.assert_array_equal(humidity.to_numpy()[:2, 0, 0], [45, 50])
    np.testing.assert_allclose(temperature["lat"], [40.1, 39.5])
    assert humidity["valid_max"].item() == 100


def test_the_weather_stand_in_is_marked_as_one(tmp_path):
    write_cube(tmp_path / "standin_temp_hum_12stations.npz", steps=30, stations=2, measurements=2)
    with np.load(tmp_path / "standin_temp_hum_12stations.npz") as old:
        parts = dict(old)
    parts["measurements"] = np.array(["temperature", "humidity_derived"])
    np.savez(tmp_path / "standin_temp_hum_12stations.npz", **parts)
    opened = open_dataset("kdd2015-hum", tmp_path)
    assert opened.file_set.name == "stand-in" and "stand-in" in opened.remarks[0]
    assert opened.cube["measurement"].to_numpy().tolist() == ["humidity"]
    np.testing.assert_allclose(opened.cube.to_numpy()[..., 0], parts["X"][..., 1], rtol=1e-6)


def test_float32_values_are_read_with_their_decimals(tmp_path):
    path = tmp_path / "first10sensors_full_34272.npz"
    write_cube(path, steps=30, stations=2, measurements=1)
    with np.load(path) as old:
        parts = dict(old)
    parts["X"][:3, 0, 0] = [1.3, -2.2, 1234.567]
    np.savez(path, **parts)
    cube = open_dataset("metr-la", str(tmp_path)).cube
    assert cube.to_numpy()[:3, 0, 0].tolist() == [1.3, -2.2, 1234.567]
    assert repr(open_dataset("metr-la", tmp_path)) == "<metr-la: 30 x 2 x 1, file set '10-sensors'>"


@pytest.mark.parametrize("suffixes", [True, False])
def test_kdd2018_combines_air_and_weather_in_either_convention(tmp_path, suffixes):
    write_kdd2018(tmp_path, suffixes=suffixes)
    opened = open_dataset("kdd2018", tmp_path)
    assert opened.file_set.name == ("publisher" if suffixes else "publisher-2018")
    day = "2017-01-01" if suffixes else "2018-02-01"
    assert opened.cube.sizes == {"time": 3, "location": 11, "measurement": 12}

    def cell(hour, station, name):
        return opened.cube.sel(time=f"{day}T{hour}", location=station, measurement=name).item()

    assert cell(14, "shunyi", "PM2.5") == 10  # the first of duplicate rows
    assert cell(14, "shunyi", "temperature") == -1.5
    assert np.isnan(cell(16, "shunyi", "PM2.5")) and cell(16, "shunyi", "PM10") == 21
    assert np.isnan(cell(15, "shunyi", "temperature"))  # 999999
    assert np.isnan(cell(15, "shunyi", "wind_direction"))  # 999017
    assert cell(15, "shunyi", "pressure") == 1021
    # fengtaihuayuan's weather is fengtai's in the full release
    assert cell(15, "fengtaihuayuan", "PM2.5") == 40
    assert cell(15, "fengtaihuayuan", "humidity") == 40
    # weather descriptions are encoded, those of the list the same in every file
    assert cell(14, "shunyi", "weather") == 3
    assert cell(15, "shunyi", "weather") == 15
    assert cell(15, "fengtaihuayuan", "weather") == 17  # not in the list
    assert is_direction(opened.cube).tolist() == [n == 9 for n in range(12)]


def test_kdd2018_reads_coordinates_from_the_list_of_stations(tmp_path):
    write_kdd2018(tmp_path, suffixes=False)
    assert "lat" not in open_dataset("kdd2018", tmp_path).cube.coords
    write_stations(tmp_path)
    assert open_dataset("kdd2018", tmp_path).cube["lat"].to_numpy()[0] == 40.10


def test_kdd2018_names_a_missing_column(tmp_path):
    write_kdd2018(tmp_path, suffixes=True)
    path = tmp_path / "beijing_17_18_aq.csv"
    path.write_text(path.read_text().replace(",NO2,", ",nitrogen,"))
    with pytest.raises(TableError, match="beijing_17_18_aq.csv needs the columns .* no NO2"):
        open_dataset("kdd2018", tmp_path)


def test_a_file_set_can_be_selected(tmp_path):
    write_kdd2018(tmp_path, suffixes=True)
    write_kdd2018(tmp_path, suffixes=False)
    assert open_dataset("kdd2018", tmp_path).file_set.name == "publisher"
    assert (
        open_dataset("kdd2018", tmp_path, file_set="publisher-2018").file_set.name
        == "publisher-2018"
    )
    with pytest.raises(ConfigError, match="no file set of kdd2018 'csv'"):
        open_dataset("kdd2018", tmp_path, file_set="csv")


def test_metr_la_is_the_same_from_hdf_csv_and_cube(tmp_path):
    from cdsa.io.source import save_cube

    write_traffic(tmp_path)
    csv = open_dataset("metr-la", tmp_path, file_set="csv")
    traffic().to_hdf(tmp_path / "metr-la.h5", key="df")
    hdf = open_dataset("metr-la", tmp_path)
    save_cube(csv.cube, tmp_path / "metr-la.nc")
    cube = open_dataset("metr-la", tmp_path, file_set="cube")
    assert hdf.file_set.name == "publisher"
    for other in (hdf.cube, cube.cube):
        xr.testing.assert_allclose(other, csv.cube)
    assert csv.cube["lon"].to_numpy().tolist() == [-118.10, -118.11, -118.12]


def test_zeros_of_metr_la_are_missing(tmp_path):
    write_traffic(tmp_path)
    table = traffic()
    np.testing.assert_array_equal(
        open_dataset("metr-la", tmp_path).cube.isnull().to_numpy()[:, :, 0], table.to_numpy() == 0
    )


def test_the_stand_in_for_new_york_has_the_road_graph_of_its_sensors(tmp_path):
    write_cube(
        tmp_path / "all207_week1_2016_interpolated.npz", steps=20, stations=3, measurements=1
    )
    assert not open_dataset("nyc-traffic", tmp_path).extras
    names = open_dataset("nyc-traffic", tmp_path).cube["location"].to_numpy().astype(str)
    np.savez(tmp_path / "adjacency.npz", adj=np.eye(3) + 0.5 * np.eye(3, k=1), ids=names)
    graph = open_dataset("nyc-traffic", tmp_path).extras["road_graph"]
    assert graph.sel(location=names[0], other=names[1]) == 0.5


def test_the_road_graph_is_a_gaussian_of_distances_without_weak_edges(tmp_path):
    write_traffic(tmp_path)
    graph = open_dataset("metr-la", tmp_path).extras["road_graph"].to_numpy()
    scale = np.std([0, 100, 300, 0, 9000])
    assert graph[0, 0] == 1
    assert graph[0, 1] == pytest.approx(np.exp(-((100 / scale) ** 2)))
    assert graph[1, 0] == pytest.approx(np.exp(-((300 / scale) ** 2)))
    assert graph[0, 2] == 0  # exp(-(9000 / scale)^2) is below a tenth
    assert graph[1, 2] == 0  # no road


def test_a_given_adjacency_is_restricted_to_the_sensors_of_the_table(tmp_path):
    write_traffic(tmp_path)
    ids = np.array([*traffic().columns[::-1], "stranger"])
    np.savez(tmp_path / "adjacency.npz", adj=np.arange(16.0).reshape(4, 4), ids=ids)
    graph = open_dataset("metr-la", tmp_path).extras["road_graph"].to_numpy()
    np.testing.assert_array_equal(graph, [[10, 9, 8], [6, 5, 4], [2, 1, 0]])


def test_an_archive_with_pickled_objects_is_refused(tmp_path):
    path = tmp_path / "first10sensors_full_34272.npz"
    np.savez(path, X=np.array([print], dtype=object))
    with pytest.raises(TableError, match="must be a NumPy archive"):
        open_dataset("metr-la", tmp_path)
    path.write_bytes(b"PK not really")
    with pytest.raises(TableError, match="must be a NumPy archive"):
        open_dataset("metr-la", tmp_path)


def test_counts_of_snapshots_become_five_minute_means():
    counts = pd.DataFrame(
        {
            "time": ["2015-12-03 08:00:10", "2015-12-03 08:04:59", "2015-12-03 08:05:00",
                     "2015-12-03 08:15:01", "2015-12-03 08:01:00"],
            "camera": ["a", "a", "a", "a", "b"],
            "vehicles": [3, 6, 10, 1, 7],
            "lat": [40.7, 40.7, 40.7, 40.7, 40.8],
            "lon": [-74.0, -74.0, -74.0, -74.0, -73.9],
        }
    )  # fmt: skip
    cube = mean_counts(counts)
    nan = np.nan
    np.testing.assert_array_equal(cube.to_numpy()[:, 0, 0], [4.5, 10, nan, 1])
    np.testing.assert_array_equal(cube.to_numpy()[:, 1, 0], [7, nan, nan, nan])
    assert cube["lat"].to_numpy().tolist() == [40.7, 40.8]
    assert "lon" not in mean_counts(counts.drop(columns="lat")).coords


def test_counts_of_the_user_are_read(tmp_path):
    (tmp_path / "camera_counts.csv").write_text(
        "time,camera,vehicles\n2020-01-01 00:00:30,007,4\n2020-01-01 00:06:00,007,2\n"
    )
    opened = open_dataset("nyc-traffic", tmp_path)
    assert opened.cube["location"].to_numpy().tolist() == ["007"]
    (tmp_path / "camera_counts.csv").write_text("time,camera\n2020-01-01,1\n")
    with pytest.raises(TableError, match="but there are time, camera"):
        open_dataset("nyc-traffic", tmp_path)


def test_files_of_several_folders_are_not_mixed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "metr").mkdir()
    np.savez(tmp_path / "a" / "adjacency.npz", adj=np.ones((1, 1)), ids=np.array(["x"]))
    write_traffic(tmp_path / "metr")
    opened = open_dataset("metr-la", tmp_path)
    assert {path.parent.name for path in opened.files} == {"metr"}


def break_pm25(folder, change):
    write_pm25(folder)
    path = folder / "pm25_latlng.txt"
    text = path.read_text()
    path.write_bytes(change(text).encode("latin-1"))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: "\xff\xfe nothing",
        lambda text: text.replace("sensor_id", "id"),
        lambda text: text + text.splitlines()[1] + "\n",
        lambda text: text.replace("40.0", "north"),
        lambda text: "<html>not found</html>",
    ],
)
def test_a_broken_file_is_refused(tmp_path, change):
    break_pm25(tmp_path, change)
    with pytest.raises(TableError, match="cannot be read as kdd2015-pm25"):
        open_dataset("kdd2015-pm25", tmp_path)


def test_other_broken_files_are_refused(tmp_path):
    write_urban_air(tmp_path)
    (tmp_path / "district.csv").write_text("district,city\n1,1\n")
    with pytest.raises(TableError, match="cannot be read as kdd2015-temp"):
        open_dataset("kdd2015-temp", tmp_path)
    (tmp_path / "metr-la.h5").write_bytes(b"not HDF5 at all")
    with pytest.raises(TableError, match="metr-la"):
        open_dataset("metr-la", tmp_path)
    (tmp_path / "camera_counts.csv").write_text("time,camera,vehicles\n")
    with pytest.raises(TableError, match="nyc-traffic"):
        open_dataset("nyc-traffic", tmp_path)
    write_cube(tmp_path / "standin_temp_hum_12stations.npz", steps=30, stations=2, measurements=2)
    with pytest.raises(TableError, match="kdd2015-hum"):
        open_dataset("kdd2015-hum", tmp_path, file_set="stand-in")


def test_timestamps_off_the_grid_are_refused(tmp_path):
    write_traffic(tmp_path)
    path = tmp_path / "METR-LA.csv"
    path.write_text(path.read_text().replace("2012-03-01 00:10:00", "2012-03-01 00:11:00"))
    with pytest.raises(TableError, match="every 5min, but has one at 2012-03-01 00:11:00"):
        open_dataset("metr-la", tmp_path)


def test_files_of_another_year_are_refused(tmp_path):
    write_kdd2018(tmp_path, suffixes=True)
    for path in tmp_path.glob("beijing_17_18_*.csv"):
        path.write_text(path.read_text().replace("2017-01-01", "2019-01-01"))
    with pytest.raises(TableError, match="they contain no time step"):
        open_dataset("kdd2018", tmp_path)


def test_every_download_has_a_file_of_a_file_set():
    for spec in list_datasets():
        patterns = {
            name.lower()
            for file_set in spec.file_sets
            for name in (*file_set.files, *file_set.optional)
        }
        assert {name for download in spec.downloads for name in download.files} <= patterns
