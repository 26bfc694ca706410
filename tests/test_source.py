"""The same network in every layout and format, written atomically."""

import gzip

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cdsa
from cdsa.core.cube import SOURCES, assign_metadata
from cdsa.errors import OutputError, TableError
from cdsa.io.files import FORMATS, SUFFIXES, read_file
from cdsa.io.options import ReadOptions
from cdsa.io.source import open_source, save_all, save_cube
from conftest import network
from frames import long, panel, wide

TABLES = {"csv": ".csv", "csv.gz": ".csv.gz", "parquet": ".parquet"}
LAYOUTS = {"panel": panel, "long": long, "wide": wide}


def one_measurement() -> xr.DataArray:
    return network(measurements=1, missing=0.2)


def write_table(frame: pd.DataFrame, path) -> None:
    if path.name.endswith("parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)


def write_arrays(cube: xr.DataArray, path) -> None:
    data = cube[:, :, 0].drop_vars("measurement").to_dataset(name="pm25")
    if path.suffix == ".nc":
        data.to_netcdf(path)
    else:
        data.to_zarr(path, zarr_format=2)


def values_of(path, **options) -> np.ndarray:
    return cdsa.open_cube(path, **options).sortby("location").to_numpy()


@pytest.fixture
def reference() -> np.ndarray:
    return cdsa.fill(one_measurement(), "linear")["value"].to_numpy()


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_and_format_fills_to_the_same_values(layout, form, tmp_path, reference):
    cube = one_measurement()
    source_path, out = tmp_path / f"in{TABLES[form]}", tmp_path / f"out{TABLES[form]}"
    write_table(LAYOUTS[layout](cube), source_path)
    source = open_source(source_path)
    source.save(cdsa.fill(source.cube, "linear", check=False), out)
    assert source.layout.startswith(layout)
    assert values_of(out).tobytes() == reference.tobytes()
    assert open_source(out).layout == source.layout


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_arrays_fill_to_the_same_values(suffix, tmp_path, reference):
    source_path, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    write_arrays(one_measurement(), source_path)
    source = open_source(source_path)
    source.save(cdsa.fill(source.cube, "linear", check=False), out)
    assert values_of(out).tobytes() == reference.tobytes()


@pytest.mark.parametrize("into", [form.suffixes[0] for form in FORMATS])
@pytest.mark.parametrize("origin", [".csv", ".parquet", ".nc"])
def test_any_format_can_be_written_as_any_other(origin, into, tmp_path, reference):
    source_path, out = tmp_path / f"in{origin}", tmp_path / f"out{into}"
    if origin == ".nc":
        write_arrays(one_measurement(), source_path)
    else:
        write_table(panel(one_measurement()), source_path)
    source = open_source(source_path)
    source.save(cdsa.fill(source.cube, "linear", check=False), out)
    assert values_of(out).tobytes() == reference.tobytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_declared_format_is_read_back_as_it_was_written(suffix, tmp_path):
    cube = network(missing=0.2)
    save_cube(cube, tmp_path / f"cube{suffix}")
    opened = cdsa.open_cube(tmp_path / f"cube{suffix}")
    labels = {dim: cube[dim] for dim in ("location", "measurement")}
    assert opened.sel(labels).to_numpy().tobytes() == cube.to_numpy().tobytes()
    assert opened["lat"].equals(opened["lat"].copy(data=cube["lat"]))


def test_the_text_of_measured_cells_is_unchanged(tmp_path):
    rows = ["time,station,x,note", "2020-01-01T00:00Z,A,1.50,a", "2020-01-01T01:00Z,A,NA,"]
    text = "\n".join([*rows, "2020-01-01T02:00Z,A, 2e0,b", ""])
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text(text)
    source = open_source(path)
    source.save(cdsa.fill(source.cube, "linear", check=False), out)
    assert out.read_text() == text.replace("NA", "1.75")


@pytest.mark.parametrize(
    "text",
    [
        "time;station;x\r\n2020-01-01;A;1,5\r\n2020-01-02;A;\r\n2020-01-03;A;2,5\r\n",
        "time\tstation\tx\n2020-01-01\tA\t1.5\n2020-01-02\tA\t\n2020-01-03\tA\t2.5\n",
        '\ufefftime,station,x\n2020-01-01,"A, W",1.5\n2020-01-02,"A, W",\n2020-01-03,"A, W",2.5\n',
    ],
)
def test_separator_line_ends_and_byte_order_mark_are_preserved(text, tmp_path):
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_bytes(text.encode())
    source = open_source(path)
    source.save(cdsa.fill(source.cube, "linear", check=False), out)
    middle = text.splitlines()[2]
    assert out.read_bytes().decode() == text.replace(middle, middle + "2")


@pytest.mark.parametrize(
    "entries, decimal",
    [
        (["1,5", "2", ""], ","),
        (["1,5", "2.5"], "."),  # ambiguous: the first is refused
        (["1,500", "2,000"], "."),  # may be thousands
        (["1,500", "0,25"], ","),
        (["1.5", "2"], "."),
    ],
)
def test_a_decimal_comma_is_detected_unless_it_is_ambiguous(entries, decimal, tmp_path):
    rows = [f"2020-01-0{n + 1};A;{entry}" for n, entry in enumerate(entries)]
    (tmp_path / "in.csv").write_text("\n".join(["time;station;x", *rows]))
    raw = read_file(tmp_path / "in.csv", ReadOptions())
    assert raw.style.decimal == decimal


def test_parquet_types_are_preserved(tmp_path):
    import pyarrow
    import pyarrow.parquet

    cube = one_measurement()
    frame = panel(cube)
    frame["pm25"] = frame["pm25"].round().astype("Int32")
    frame["time"] = frame["time"].dt.tz_localize("UTC").astype("datetime64[ms, UTC]")
    frame["station"] = frame["station"].astype("category")
    table = pyarrow.Table.from_pandas(frame.drop(index=[8]).reset_index(drop=True))
    path, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pyarrow.parquet.write_table(table, path)
    source = open_source(path)
    source.save(cdsa.fill(source.cube, "linear", check=False), out)
    written, read = pyarrow.parquet.read_schema(out), pyarrow.parquet.read_schema(path)
    assert written.equals(read, check_metadata=True)
    assert pd.read_parquet(out).dtypes.equals(pd.read_parquet(path).dtypes)


def test_added_sites_are_columns_of_a_wide_parquet_file(tmp_path):
    cube = one_measurement()
    wide(cube).to_parquet(tmp_path / "in.parquet")
    stations = pd.DataFrame({name: cube[name].to_numpy() for name in ("location", "lat", "lon")})
    source = open_source(tmp_path / "in.parquet", locations=stations)
    source = source.with_sites(pd.DataFrame({"name": ["new"], "lat": [40.0], "lon": [116.0]}))
    source.save(cdsa.fill(source.cube, "idw", check=False), tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["new"].notna().all()


def test_csv_written_as_parquet_has_numbers_and_dates(tmp_path):
    path, out = tmp_path / "in.csv", tmp_path / "out.parquet"
    panel(one_measurement()).to_csv(path, index=False)
    source = open_source(path)
    source.save(cdsa.fill(source.cube, "linear", check=False), out)
    dtypes = pd.read_parquet(out).dtypes.astype(str)
    assert dtypes["pm25"] == dtypes["lat"] == "float64" and dtypes["time"].startswith("datetime64")


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_arrays_follow_cf(suffix, tmp_path):
    cube = assign_metadata(one_measurement(), units={"pm25": "ug m-3"})
    out = tmp_path / f"out{suffix}"
    source = open_source(panel(cube), units={"pm25": "ug m-3"})
    source.save(cdsa.fill(source.cube, "linear", check=False), out)
    engine = "netcdf4" if suffix == ".nc" else "zarr"
    with xr.open_dataset(out, engine=engine) as data:
        flags = data["pm25_source"]
        assert flags.attrs["flag_meanings"] == " ".join(SOURCES)
        assert list(flags.attrs["flag_values"]) == list(range(8))
        assert flags.dtype == np.int8 and set(np.unique(flags)) == {0, 1, 6}
        assert data["pm25"].attrs["ancillary_variables"] == "pm25_source"
        assert data["pm25"].attrs["units"] == "ug m-3"
        assert data["lat"].attrs == {"standard_name": "latitude", "units": "degrees_north"}
        assert data["lon"].attrs == {"standard_name": "longitude", "units": "degrees_east"}
        assert data["time"].attrs["standard_name"] == "time" and data["time"].attrs["axis"] == "T"
        assert data["location"].attrs["cf_role"] == "timeseries_id"
        assert (
            data.attrs["Conventions"].startswith("CF-")
            and data.attrs["featureType"] == "timeSeries"
        )


def test_a_filled_file_can_be_opened_and_filled_again(tmp_path):
    out, again = tmp_path / "out.nc", tmp_path / "again.nc"
    source = open_source(panel(one_measurement()))
    source.save(cdsa.fill(source.cube, "linear", check=False), out)
    reopened = open_source(out)
    assert reopened.cube["measurement"].values.tolist() == ["pm25"]
    reopened.save(cdsa.fill(reopened.cube, "linear", check=False), again)
    assert values_of(again).tobytes() == values_of(out).tobytes()


def test_detail_has_a_row_for_every_missing_cell(tmp_path):
    cube = network()
    cube[:, :, 1] = np.nan
    source = open_source(panel(cube))
    result = cdsa.fill(source.cube, "linear", check=False)
    save_all(source, result, tmp_path / "out.csv", detail=tmp_path / "detail.csv")
    detail = pd.read_csv(tmp_path / "detail.csv")
    assert detail.columns.tolist() == ["time", "location", "measurement", "value", "source"]
    assert len(detail) == int(cube.isnull().sum())
    assert detail["source"].value_counts()["unfillable"] == 180
    first = detail[detail["source"] == "filled"].iloc[0]
    labels = {axis: first[axis] for axis in ("time", "location", "measurement")}
    assert result["value"].sel(labels).item() == first["value"]


def test_detail_has_the_bounds_of_prediction_intervals(tmp_path):
    source = open_source(panel(network()))
    result = cdsa.fill(source.cube, "linear", check=False)
    result = result.assign(lower=result["value"] - 1, upper=result["value"] + 1)
    detail = source.detail(result)
    assert np.allclose(detail["upper"] - detail["lower"], 2)


def test_an_existing_output_is_kept_without_overwrite(tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("mine")
    source = open_source(panel(network()))
    with pytest.raises(OutputError, match="already exists.*--overwrite"):
        source.save(cdsa.fill(source.cube, "linear", check=False), out)
    assert out.read_text() == "mine"
    source.save(cdsa.fill(source.cube, "linear", check=False), out, overwrite=True)
    assert out.read_text() != "mine"


def test_an_existing_zarr_store_is_replaced_completely(tmp_path):
    out = tmp_path / "out.zarr"
    source = open_source(panel(network()))
    for _ in range(2):
        source.save(cdsa.fill(source.cube, "linear", check=False), out, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out.zarr"]


@pytest.mark.parametrize("suffix", [form.suffixes[0] for form in FORMATS])
def test_a_failing_write_leaves_nothing_behind(suffix, tmp_path, monkeypatch):
    source = open_source(panel(network()))
    result = cdsa.fill(source.cube, "linear", check=False)

    def raise_disk_full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    target = {
        ".parquet": "pyarrow.parquet.write_table",
        ".nc": "xarray.Dataset.to_netcdf",
        ".zarr": "xarray.Dataset.to_zarr",
    }
    monkeypatch.setattr(target.get(suffix, "pandas.DataFrame.to_csv"), raise_disk_full)
    with pytest.raises(OutputError, match="No space left on device"):
        save_all(source, result, tmp_path / f"out{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_if_the_detail_fails_the_output_is_not_written_either(tmp_path, monkeypatch):
    source = open_source(panel(network()))
    result = cdsa.fill(source.cube, "linear", check=False)
    to_csv = pd.DataFrame.to_csv

    def raise_disk_full(frame, path, **options):
        if "detail" in str(path):
            raise OSError(28, "No space left on device")
        to_csv(frame, path, **options)

    monkeypatch.setattr(pd.DataFrame, "to_csv", raise_disk_full)
    with pytest.raises(OutputError, match="No space left"):
        save_all(source, result, tmp_path / "out.csv", detail=tmp_path / "detail.csv")
    assert list(tmp_path.iterdir()) == []


def test_compressed_output_is_reproducible(tmp_path):
    source = open_source(panel(network()))
    for name in ("a.csv.gz", "b.csv.gz"):
        source.save(cdsa.fill(source.cube, "linear", check=False), tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b"time,station")


def test_the_result_of_another_cube_is_refused(tmp_path):
    source = open_source(panel(network(missing=0.2)))
    for other in (source.cube[1:], source.cube[:, ::-1]):
        with pytest.raises(TableError, match="the result must be of this source's cube"):
            source.save(cdsa.fill(other, "mean"), tmp_path / "out.csv")
    longer = source.with_horizon(3)
    result = cdsa.forecast(source.cube, 3, "last")
    with pytest.raises(
        TableError, match=r"Save a forecast of N steps with source.with_horizon\(N\)"
    ):
        source.filled(result)
    longer.save(result, tmp_path / "ahead.nc")
    attrs = xr.open_dataset(tmp_path / "ahead.nc").attrs
    assert "forecast by cdsa" in attrs["history"] and "filled" not in attrs["title"]
