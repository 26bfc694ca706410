"""Broken and odd files: a clear message, exit code 2, and no partial output."""

import contextlib
import gzip
import io
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cdsa as library
from cdsa.cli import main
from cdsa.errors import TableError
from cdsa.io.files import FORMATS
from conftest import network
from frames import panel

GOOD = """time,station,lat,lon,pm25
2020-01-01 00:00,A,40.0,116.0,1.0
2020-01-01 01:00,A,40.0,116.0,
2020-01-01 02:00,A,40.0,116.0,3.0
2020-01-01 00:00,B,41.0,117.0,4.0
2020-01-01 01:00,B,41.0,117.0,5.0
2020-01-01 02:00,B,41.0,117.0,6.0
"""
HEADER, *ROWS = GOOD.splitlines()


def run(*words, **options) -> subprocess.CompletedProcess:
    """Run a command in this process or, with `options` of `subprocess.run`, in a new one."""
    command = [sys.executable, "-m", "cdsa", *map(str, words)]
    if options:
        return subprocess.run(command, capture_output=True, text=True, **options)
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", command[2:])
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def run_refused(tmp_path, *words: str, paths: list | None = None, **options) -> str:
    """The message of a fill that must end with exit code 2 and no output."""
    before = sorted(p.name for p in tmp_path.iterdir())
    process = run(
        "fill", *(paths or [tmp_path / "in.csv"]), "-o", tmp_path / "out.csv", *words, **options
    )
    assert process.returncode == 2, process.stderr
    assert "Traceback" not in process.stderr and process.stdout == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    return " ".join(process.stderr.split())


def run_fill(tmp_path, *words: str) -> str:
    """The output of a fill that must succeed."""
    process = run("fill", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--no-check",
        "--method", "linear", *words)  # fmt: skip
    assert process.returncode == 0, process.stderr
    return (tmp_path / "out.csv").read_bytes().decode(errors="replace")


def replace_once(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


CASES = {
    "no header": ("\n".join(ROWS), "the first line must name the columns"),
    "text in a number column": (replace_once("5.0", "five"), "'five' in line 6.*--missing five"),
    "a decimal comma": (replace_once(",5.0", ',"5,0"'), "'5,0' in line 6.*--decimal ,"),
    "duplicate rows": (GOOD + ROWS[0], "line 2 and again in line 8.*--duplicates mean"),
    "two time zones": (
        replace_once("01:00,A", "01:00+02:00,A").replace("00:00,A", "00:00Z,A"),
        r"in \+02:00 while.*--tz",
    ),
    "a timestamp off the grid": (
        replace_once("02:00,B", "02:10,B"),
        "02:10:00 in line 7.*--step 1h",
    ),
    "a station without coordinates": (
        GOOD.replace("41.0,117.0", ","),
        "lat must be from -90 to 90 degrees .*'B' has none.*--no-coordinates",
    ),
    "latitude 91": (GOOD.replace("41.0,", "91.0,"), "'B' has 91"),
    "infinite values": (replace_once("5.0", "inf"), "'pm25' has inf in line 6.*--missing inf"),
    "one row": (f"{HEADER}\n{ROWS[0]}\n", "one timestamp .*--step"),
    "zero rows": (f"{HEADER}\n", "at least one row"),
    "an empty file": ("", "is empty"),
    "a column twice": (GOOD.replace("lat,lon", "lat,lat"), "'lat' is there twice"),
    "10^308": (replace_once("5.0", "1e308"), r"found 1e\+308 at 2020-01-01 01:00:00, B, pm25"),
    "a line too long": (GOOD + ROWS[0] + ",7,8\n", "Expected 5 fields in line 8, saw 7"),
    "an unreadable timestamp": (replace_once("02:00,B", "25:00,B"), "'2020-01-01 25:00' in line 7"),
    "no timestamp": (replace_once("2020-01-01 02:00,B", ",B"), "is empty in line 7"),
    "no station": (replace_once("02:00,B", "02:00,"), "'station', but line 7 has none"),
    "no time column": (GOOD.replace("time", "thyme").replace("2020-01-01 0", "x"), "--time COLUMN"),
    "only text": (GOOD.replace(".0\n", "x\n"), "at least one column of numbers"),
    "a mistyped year": (replace_once("2020-01-01 02:00,B", "1920-01-01 02:00,B"), "1920.*mistyped"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_table_is_refused_with_a_clear_message(case, tmp_path):
    text, match = CASES[case]
    (tmp_path / "in.csv").write_text(text)
    message = run_refused(tmp_path)
    assert message.startswith("cdsa: ")
    with pytest.raises(AssertionError, match=match):
        raise AssertionError(message)


def hours(pattern: str, count: int = 30) -> list[str]:
    start = pd.Timestamp("2024-03-01 01:00")
    return [(start + pd.Timedelta(n, unit="h")).strftime(pattern) for n in range(count)]


@pytest.mark.parametrize(
    ("timestamps", "message"),
    [
        ([*hours("%d.%m.%Y %H:%M"), "31.02.2024 01:00"], "'31.02.2024 01:00' in line 32"),
        ([*hours("%m/%d/%Y %H:%M", 400), "02/30/2024 01:00"], "'02/30/2024 01:00' in line 402"),
        (
            [*hours("%d.%m.%Y %H:%M", 23), "01.03.2024 24:00"],
            "in line 25. Write such timestamps",
        ),
        ([f"2024-03-01T08:{m:02}:{m % 7:02}" for m in range(0, 60, 10)], "--step 10min"),
        (hours("%Y-%m-%d"), "If the hour is in another column, give --time DATE,HOUR"),
    ],
    ids=["day first", "month first", "24:00", "off the clock", "days only"],
)
def test_a_wrong_timestamp_is_located(timestamps, message, tmp_path):
    rows = [f"{stamp},A,{n}" for n, stamp in enumerate(timestamps)]
    (tmp_path / "in.csv").write_text("\n".join(["time,station,v", *rows]))
    assert message in run_refused(tmp_path)


def test_duplicate_timestamps_point_to_the_station_column_first(tmp_path):
    rows = [f"2024-03-01T{n:02}:00,{station},{n}" for n in range(5) for station in "AB"]
    (tmp_path / "in.csv").write_text("\n".join(["time,Messstelle,NO2", *rows]))
    message = run_refused(tmp_path)
    assert 0 < message.index("--location") < message.index("--duplicates")


def test_ctrl_c_prints_one_line_and_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupt(*paths, **options):
        raise KeyboardInterrupt

    (tmp_path / "in.csv").write_text(GOOD)
    monkeypatch.setattr("cdsa.cli.console.open_source", interrupt)
    process = run("fill", tmp_path / "in.csv", "-o", tmp_path / "out.csv")
    assert process.returncode == 130 and not (tmp_path / "out.csv").exists()
    assert process.stderr.strip().endswith("cdsa: stopped; nothing was written")


def test_the_options_that_messages_name_resolve_the_problem(tmp_path):
    path = tmp_path / "in.csv"
    for text, words in [
        (replace_once("5.0", "five"), ["--missing", "five"]),
        (GOOD + ROWS[0], ["--duplicates", "first"]),
        (CASES["two time zones"][0], ["--tz", "UTC", "--step", "1h", "--duplicates", "mean"]),
        (replace_once("02:00,B", "02:10,B"), ["--step", "1h"]),
        (GOOD.replace("41.0,117.0", ","), ["--no-coordinates"]),
        (replace_once("5.0", "inf"), ["--missing", "inf"]),
        (replace_once("5.0", "1e308"), ["--missing", "1e308"]),
        (f"{HEADER}\n{ROWS[0]}\n", ["--step", "1h"]),
    ]:
        path.write_text(text)
        run_fill(tmp_path, *words)
        (tmp_path / "out.csv").unlink()


def test_unsorted_rows_keep_their_order(tmp_path):
    order = [4, 0, 2, 1, 5, 3]
    (tmp_path / "in.csv").write_text("\n".join([HEADER, *(ROWS[n] for n in order)]) + "\n")
    written = run_fill(tmp_path).splitlines()[1:]
    assert [row.split(",")[:2] for row in written] == [ROWS[n].split(",")[:2] for n in order]


def test_entries_missing_at_the_end_of_a_line_are_empty(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD + "\n\n2020-01-01 03:00,A\n")
    assert "2020-01-01 03:00,A,,,3\n" in run_fill(tmp_path, "--extend")


def test_an_empty_column_is_unfillable_and_stays_empty(tmp_path):
    lines = [HEADER + ",no2", *(row + "," for row in ROWS)]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    written = run_fill(tmp_path)
    assert all(line.endswith(",") for line in written.splitlines()[1:]) and ",2," in written


def test_a_wrong_separator_is_refused(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD)
    assert "--separator" in run_refused(tmp_path, "--separator", ";")


def test_another_separator_is_detected(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD.replace(",", ";"))
    assert run_fill(tmp_path) == GOOD.replace(",", ";").replace("116.0;\n", "116.0;2\n")


def test_bytes_that_are_not_utf8_are_located(tmp_path):
    (tmp_path / "in.csv").write_bytes(GOOD.replace(",B,", ",Köln,").encode("latin-1"))
    assert "line 5 has the byte 0xf6" in run_refused(tmp_path)
    run_fill(tmp_path, "--encoding", "latin-1")
    assert "Köln" in (tmp_path / "out.csv").read_text(encoding="latin-1")


def test_a_site_name_that_cannot_be_encoded_leaves_nothing_behind(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD.replace("A", "Köln"), encoding="latin-1")
    (tmp_path / "at.csv").write_text("name,lat,lon\n北京,40.5,116.5\n", encoding="utf-8")
    words = ("--encoding", "latin-1", "--at", str(tmp_path / "at.csv"), "--method", "idw")
    assert "'北' cannot be encoded in latin-1. Nothing was changed" in run_refused(tmp_path, *words)


def test_a_truncated_parquet_is_refused(tmp_path):
    path = tmp_path / "in.parquet"
    panel(network()).to_parquet(path)
    path.write_bytes(path.read_bytes()[:-100])
    assert "not a complete Parquet file" in run_refused(tmp_path, paths=[path])


@pytest.mark.parametrize("name", ["in.nc", "in.csv.gz"])
def test_other_truncated_files_are_refused(name, tmp_path):
    path = tmp_path / name
    if name.endswith("nc"):
        network()[:, :, 0].drop_vars("measurement").to_dataset(name="x").to_netcdf(path)
    else:
        path.write_bytes(gzip.compress(GOOD.encode()))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert str(path) in run_refused(tmp_path, paths=[path])


def test_a_file_with_the_wrong_suffix_is_refused(tmp_path):
    for name in ("in.nc", "in.parquet", "in.csv.gz"):
        (tmp_path / name).write_text(GOOD)
        run_refused(tmp_path, paths=[tmp_path / name])


def test_a_grid_is_refused_with_advice_to_stack_it(tmp_path):
    times = pd.date_range("2020-01-01", periods=3, freq="h")
    data = xr.Dataset(
        {"x": (("time", "lat", "lon"), np.ones((3, 2, 2)))},
        {"time": times, "lat": [1.0, 2.0], "lon": [3.0, 4.0]},
    )
    data.to_netcdf(tmp_path / "in.nc")
    assert "data.stack(location=('lat', 'lon'))" in run_refused(
        tmp_path, paths=[tmp_path / "in.nc"]
    )


def test_a_folder_is_refused(tmp_path):
    (tmp_path / "in.csv").mkdir()
    assert "is a folder" in run_refused(tmp_path)


def test_a_folder_that_is_not_a_zarr_store_is_refused(tmp_path):
    (tmp_path / "in.zarr").mkdir()
    assert "not a complete Zarr" in run_refused(tmp_path, paths=[tmp_path / "in.zarr"])


def test_a_missing_file_is_refused(tmp_path):
    assert "there is no file" in run_refused(tmp_path)


def test_an_unknown_format_is_refused(tmp_path):
    (tmp_path / "in.xlsx").write_text(GOOD)
    assert "has none of" in run_refused(tmp_path, paths=[tmp_path / "in.xlsx"])


def test_a_file_without_read_permission_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "in.csv"
    path.write_text(GOOD)
    path.chmod(0)

    def refuse(path):
        raise PermissionError(13)

    if os.access(path, os.R_OK):  # root may read anything: simulate the error
        monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(TableError, match="permission denied"):
        library.open_cube(path)


def test_an_existing_output_is_refused_before_any_work(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD)
    (tmp_path / "out.csv").write_text("mine")
    assert "already exists" in run_refused(tmp_path)
    assert (tmp_path / "out.csv").read_text() == "mine"


def test_a_missing_output_folder_is_refused(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD)
    process = run("fill", tmp_path / "in.csv", "-o", tmp_path / "nowhere" / "out.csv")
    assert process.returncode == 2 and "there is no folder" in process.stderr


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.parametrize("suffix", [form.suffixes[0] for form in FORMATS])
def test_a_full_disk_leaves_nothing_behind(suffix, tmp_path):
    # with a limit of 2,000 bytes per file, writes fail as on a full disk
    rng = np.random.default_rng(0)
    cube = network(steps=300)
    cube = cube.copy(data=rng.normal(size=cube.shape)).where(cube.notnull())
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    process = run(
        *(
            "fill",
            tmp_path / "in.csv",
            "-o",
            tmp_path / f"out{suffix}",
            "--no-check",
            "--method",
            "linear",
        ),
        preexec_fn=limit_file_size,
    )
    assert process.returncode == 2 and "could not be written" in process.stderr, process.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["in.csv"]


def write_packed(path: Path, dtype: str, fill_value: int, **attributes) -> None:
    """Whole numbers with a gap, as a program packs them."""
    import netCDF4

    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", 60)
        file.createDimension("station", 2)
        times = file.createVariable("time", "f8", ("time",))
        times.units, times[:] = "hours since 2024-01-01", np.arange(60.0)
        values = file.createVariable("pm25", dtype, ("time", "station"), fill_value=fill_value)
        numbers = np.random.default_rng(0).integers(5, 50, (60, 2)).astype(dtype)
        numbers[10, 0] = fill_value
        values[:] = numbers
        values.setncatts(attributes)


def test_a_fill_value_at_the_end_of_an_unsigned_type_is_no_obstacle(tmp_path):
    write_packed(tmp_path / "in.nc", "u1", 255)
    assert run("fill", tmp_path / "in.nc", "-o", tmp_path / "o.nc").returncode == 0
    assert library.open_cube(tmp_path / "o.nc").notnull().all()


def test_two_codes_for_missing_values_are_both_understood(tmp_path):
    write_packed(tmp_path / "in.nc", "i2", -99, missing_value=np.int16(7))
    cube = library.open_cube(tmp_path / "in.nc")
    assert int(cube.isnull().sum()) > 1
    process = run("fill", tmp_path / "in.nc", "-o", tmp_path / "o.nc", "--extend")
    assert process.returncode == 0 and "Warning" not in process.stderr
    filled = library.open_cube(tmp_path / "o.nc")
    assert filled.notnull().all() and filled.where(cube.notnull()).equals(cube)


def test_a_variable_that_cannot_be_unpacked_is_refused(tmp_path):
    write_packed(tmp_path / "in.nc", "i2", -99, scale_factor=0.0)
    text = run_refused(tmp_path, paths=[tmp_path / "in.nc"])
    assert "scale_factor of 'pm25' must be a number other than 0" in text


def test_an_attribute_may_be_an_array(tmp_path):
    write_packed(tmp_path / "in.nc", "i2", -99, angle=np.array([1.0, 2.0]))
    assert run("info", tmp_path / "in.nc").returncode == 0


def test_a_dataset_without_a_time_step_is_refused(tmp_path):
    data = xr.Dataset({"pm25": (("time", "station"), np.empty((0, 2)))})
    data = data.assign_coords(time=pd.DatetimeIndex([], name="time"))
    data["time"].encoding = {"units": "hours since 2024-01-01", "dtype": "float64"}
    data.to_netcdf(tmp_path / "in.nc")
    assert "at least one time step" in run_refused(tmp_path, paths=[tmp_path / "in.nc"])


@pytest.mark.parametrize("column", ["time", "station"])
def test_nested_columns_of_keys_are_refused(tmp_path, column):
    frame = panel(network(steps=20, stations=1))
    frame[column] = [{"part": entry} for entry in frame[column]]
    frame.to_parquet(tmp_path / "in.parquet")
    text = run_refused(tmp_path, paths=[tmp_path / "in.parquet"])
    assert f"column '{column}' should have one number, text or date in each row" in text


@pytest.mark.parametrize("text", ["[/cm3]", "[bold]", ":smile:", "$x_{", "<b>&amp;"])
def test_no_text_of_a_table_is_markup(tmp_path, text):
    frame = panel(network(steps=300, stations=2)).rename(columns={"pm25": text})
    frame["station"] = text + frame["station"]
    frame.to_csv(tmp_path / "in.csv", index=False)
    words = ("fill", tmp_path / "in.csv", "-o", tmp_path / "o.csv", "--method", "linear")
    process = run(*words, "--units", f"temp={text}", "--report", tmp_path / "r.html")
    assert process.returncode == 0, process.stderr
    assert text in process.stdout
    for command in ("info", "score"):
        process = run(
            command, tmp_path / "in.csv", *(["--methods", "mean"][: 2 * (command == "score")])
        )
        assert process.returncode == 0 and text in process.stdout
