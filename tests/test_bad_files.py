"""Files wrong in every way we know of: a clear message, exit code 2, nothing half-written."""

import contextlib
import gzip
import io
import os
import resource
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cdsa as library
from cdsa.cli import main
from cdsa.errors import TableError
from cdsa.io import files
from conftest import network
from test_tables import panel

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
    """The command in a process of its own if it takes `options` of one, else in this one, which is
    much quicker."""
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


def refuse(tmp_path, *words: str, given: list | None = None, **options) -> str:
    """Fill must end with code 2, one message and no output; the message is returned."""
    before = sorted(p.name for p in tmp_path.iterdir())
    done = run(
        "fill", *(given or [tmp_path / "in.csv"]), "-o", tmp_path / "out.csv", *words, **options
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    return " ".join(done.stderr.split())


def accept(tmp_path, *words: str) -> str:
    done = run("fill", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--no-check",
        "--method", "linear", *words)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return (tmp_path / "out.csv").read_bytes().decode(errors="replace")


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


CASES = {
    "no header": ("\n".join(ROWS), "the first line must name the columns"),
    "text in a number column": (changed("5.0", "five"), "'five' in line 6.*--missing 'five'"),
    "a decimal comma": (changed(",5.0", ',"5,0"'), "'5,0' in line 6.*--decimal ,"),
    "duplicate stamps": (GOOD + ROWS[0], "line 2 and again in line 8.*--duplicates mean"),
    "two time zones": (
        changed("01:00,A", "01:00+02:00,A").replace("00:00,A", "00:00Z,A"),
        r"in \+02:00 while.*--tz",
    ),
    "a stamp off the grid": (changed("02:00,B", "02:10,B"), "02:10:00 in line 7.*--step 1h"),
    "a station without coordinates": (
        GOOD.replace("41.0,117.0", ","),
        "lat must be from -90 to 90 degrees .*'B' has none.*--no-coordinates",
    ),
    "latitude 91": (GOOD.replace("41.0,", "91.0,"), "'B' has 91"),
    "infinite values": (changed("5.0", "inf"), "'pm25' has inf in line 6.*--missing inf"),
    "one row": (f"{HEADER}\n{ROWS[0]}\n", "one timestamp .*--step"),
    "zero rows": (f"{HEADER}\n", "at least one row"),
    "an empty file": ("", "is empty"),
    "a column twice": (GOOD.replace("lat,lon", "lat,lat"), "'lat' is there twice"),
    "10^308": (changed("5.0", "1e308"), r"found 1e\+308 at 2020-01-01 01:00:00, B, pm25"),
    "a line too long": (GOOD + ROWS[0] + ",7,8\n", "Expected 5 fields in line 8, saw 7"),
    "an unreadable stamp": (changed("02:00,B", "25:00,B"), "'2020-01-01 25:00' in line 7"),
    "no stamp": (changed("2020-01-01 02:00,B", ",B"), "is empty in line 7"),
    "no station": (changed("02:00,B", "02:00,"), "'station', but line 7 has none"),
    "no time column": (GOOD.replace("time", "thyme").replace("2020-01-01 0", "x"), "--time COLUMN"),
    "only text": (GOOD.replace(".0\n", "x\n"), "at least one column of numbers"),
    "a mistyped year": (changed("2020-01-01 02:00,B", "1920-01-01 02:00,B"), "1920.*mistyped"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_table_is_refused_with_a_clear_message(case, tmp_path):
    text, match = CASES[case]
    (tmp_path / "in.csv").write_text(text)
    message = refuse(tmp_path)
    assert message.startswith("cdsa: ")
    with pytest.raises(AssertionError, match=match):
        raise AssertionError(message)


def hours(pattern: str, count: int = 30) -> list[str]:
    start = pd.Timestamp("2024-03-01 01:00")
    return [(start + pd.Timedelta(n, unit="h")).strftime(pattern) for n in range(count)]


@pytest.mark.parametrize(
    ("stamps", "told"),
    [
        ([*hours("%d.%m.%Y %H:%M"), "31.02.2024 01:00"], "'31.02.2024 01:00' in line 32"),
        ([*hours("%m/%d/%Y %H:%M", 400), "02/30/2024 01:00"], "'02/30/2024 01:00' in line 402"),
        (
            [*hours("%d.%m.%Y %H:%M", 23), "01.03.2024 24:00"],
            "in line 25. Write such timestamps",
        ),
        ([f"2024-03-01T08:{m:02}:{m % 7:02}" for m in range(0, 60, 10)], "--step 10min"),
        (hours("%Y-%m-%d"), "If the hour is in another column, join it"),
    ],
    ids=["day first", "month first", "24:00", "off the clock", "days only"],
)
def test_a_stamp_that_is_wrong_is_found_among_those_that_are_right(stamps, told, tmp_path):
    rows = [f"{stamp},A,{n}" for n, stamp in enumerate(stamps)]
    (tmp_path / "in.csv").write_text("\n".join(["time,station,v", *rows]))
    assert told in refuse(tmp_path)


def test_rows_without_a_station_are_told_apart_by_one_before_they_are_joined(tmp_path):
    rows = [f"2024-03-01T{n:02}:00,{place},{n}" for n in range(5) for place in "AB"]
    (tmp_path / "in.csv").write_text("\n".join(["time,Messstelle,NO2", *rows]))
    told = refuse(tmp_path)
    assert 0 < told.index("--location") < told.index("--duplicates")


def test_ctrl_c_ends_with_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    def stop(*given, **more):
        raise KeyboardInterrupt

    (tmp_path / "in.csv").write_text(GOOD)
    monkeypatch.setattr("cdsa.io.source.open_source", stop)
    done = run("fill", tmp_path / "in.csv", "-o", tmp_path / "out.csv")
    assert done.returncode == 130 and not (tmp_path / "out.csv").exists()
    assert done.stderr.strip().endswith("cdsa: stopped; nothing was written")


def test_options_resolve_what_the_messages_name(tmp_path):
    path = tmp_path / "in.csv"
    for text, words in [
        (changed("5.0", "five"), ["--missing", "five"]),
        (GOOD + ROWS[0], ["--duplicates", "first"]),
        (CASES["two time zones"][0], ["--tz", "UTC", "--step", "1h", "--duplicates", "mean"]),
        (changed("02:00,B", "02:10,B"), ["--step", "1h"]),
        (GOOD.replace("41.0,117.0", ","), ["--no-coordinates"]),
        (changed("5.0", "inf"), ["--missing", "inf"]),
        (changed("5.0", "1e308"), ["--missing", "1e308"]),
        (f"{HEADER}\n{ROWS[0]}\n", ["--step", "1h"]),
    ]:
        path.write_text(text)
        accept(tmp_path, *words)
        (tmp_path / "out.csv").unlink()


def test_unsorted_rows_are_fine_and_stay_in_their_order(tmp_path):
    order = [4, 0, 2, 1, 5, 3]
    (tmp_path / "in.csv").write_text("\n".join([HEADER, *(ROWS[n] for n in order)]) + "\n")
    written = accept(tmp_path).splitlines()[1:]
    assert [row.split(",")[:2] for row in written] == [ROWS[n].split(",")[:2] for n in order]


def test_entries_missing_at_the_end_of_a_line_are_empty(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD + "\n\n2020-01-01 03:00,A\n")
    assert "2020-01-01 03:00,A,,,3\n" in accept(tmp_path)


def test_an_all_empty_column_is_unfillable_and_comes_back_empty(tmp_path):
    lines = [HEADER + ",no2", *(row + "," for row in ROWS)]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    written = accept(tmp_path)
    assert all(line.endswith(",") for line in written.splitlines()[1:]) and ",2," in written


def test_a_wrong_separator_is_named(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD)
    assert "--separator" in refuse(tmp_path, "--separator", ";")


def test_another_separator_is_recognised(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD.replace(",", ";"))
    assert accept(tmp_path) == GOOD.replace(",", ";").replace("116.0;\n", "116.0;2\n")


def test_bytes_that_are_not_utf8_are_located(tmp_path):
    (tmp_path / "in.csv").write_bytes(GOOD.replace(",B,", ",Köln,").encode("latin-1"))
    assert "line 5 has the byte 0xf6" in refuse(tmp_path)
    accept(tmp_path, "--encoding", "latin-1")
    assert "Köln" in (tmp_path / "out.csv").read_text(encoding="latin-1")


def test_a_place_that_the_encoding_cannot_write_leaves_nothing(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD.replace("A", "Köln"), encoding="latin-1")
    (tmp_path / "at.csv").write_text("name,lat,lon\n北京,40.5,116.5\n", encoding="utf-8")
    words = ("--encoding", "latin-1", "--at", str(tmp_path / "at.csv"), "--method", "idw")
    assert "'北' cannot be encoded in latin-1. Nothing was changed" in refuse(tmp_path, *words)


def test_a_truncated_parquet_is_refused(tmp_path):
    whole = tmp_path / "in.parquet"
    panel(network()).to_parquet(whole)
    whole.write_bytes(whole.read_bytes()[:-100])
    assert "not a complete Parquet file" in refuse(tmp_path, given=[whole])


@pytest.mark.parametrize("name", ["in.nc", "in.csv.gz"])
def test_other_truncated_files_are_refused(name, tmp_path):
    path = tmp_path / name
    if name.endswith("nc"):
        network()[:, :, 0].drop_vars("measurement").to_dataset(name="x").to_netcdf(path)
    else:
        path.write_bytes(gzip.compress(GOOD.encode()))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert str(path) in refuse(tmp_path, given=[path])


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path):
    for name in ("in.nc", "in.parquet", "in.csv.gz"):
        (tmp_path / name).write_text(GOOD)
        refuse(tmp_path, given=[tmp_path / name])


def test_a_grid_of_pixels_says_how_to_make_stations_of_it(tmp_path):
    times = pd.date_range("2020-01-01", periods=3, freq="h")
    data = xr.Dataset(
        {"x": (("time", "lat", "lon"), np.ones((3, 2, 2)))},
        {"time": times, "lat": [1.0, 2.0], "lon": [3.0, 4.0]},
    )
    data.to_netcdf(tmp_path / "in.nc")
    assert "data.stack(location=('lat', 'lon'))" in refuse(tmp_path, given=[tmp_path / "in.nc"])


def test_a_folder_is_refused(tmp_path):
    (tmp_path / "in.csv").mkdir()
    assert "is a folder" in refuse(tmp_path)


def test_a_folder_that_is_no_zarr_store_is_refused(tmp_path):
    (tmp_path / "in.zarr").mkdir()
    assert "not a complete zarr" in refuse(tmp_path, given=[tmp_path / "in.zarr"])


def test_a_missing_file_is_refused(tmp_path):
    assert "there is no file" in refuse(tmp_path)


def test_an_unknown_format_is_refused(tmp_path):
    (tmp_path / "in.xlsx").write_text(GOOD)
    assert "has none of" in refuse(tmp_path, given=[tmp_path / "in.xlsx"])


def test_no_read_permission_is_said(tmp_path, monkeypatch):
    path = tmp_path / "in.csv"
    path.write_text(GOOD)
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read anything: let the system say no in its place
        monkeypatch.setattr(
            files, "_open_text", lambda *a: (_ for _ in ()).throw(PermissionError(13))
        )
    with pytest.raises(TableError, match="permission denied"):
        library.open_cube(path)


def test_an_existing_output_is_refused_before_any_work(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD)
    (tmp_path / "out.csv").write_text("mine")
    assert "already exists" in refuse(tmp_path)
    assert (tmp_path / "out.csv").read_text() == "mine"


def test_an_output_folder_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "in.csv").write_text(GOOD)
    done = run("fill", tmp_path / "in.csv", "-o", tmp_path / "nowhere" / "out.csv")
    assert done.returncode == 2 and "there is no folder" in done.stderr


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".nc", ".zarr"])
def test_a_full_disk_leaves_nothing_behind(suffix, tmp_path):
    # no file may grow beyond 2,000 bytes: the system refuses further writes as a full disk does
    rng = np.random.default_rng(0)
    cube = network(steps=300)
    cube = cube.copy(data=rng.normal(size=cube.shape)).where(cube.notnull())
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    done = run(
        *(
            "fill",
            tmp_path / "in.csv",
            "-o",
            tmp_path / f"out{suffix}",
            "--no-check",
            "--method",
            "linear",
        ),
        preexec_fn=limited,
    )
    assert done.returncode == 2 and "could not be written" in done.stderr, done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["in.csv"]
