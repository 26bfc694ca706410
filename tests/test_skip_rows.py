"""Lines around the column names of a CSV file are skipped, and written back."""

from pathlib import Path

import pytest

import cdsa
from cdsa.errors import ConfigError, TableError
from cdsa.io.files import check_outputs
from cdsa.io.options import parse_options
from cdsa.io.source import open_source

ROWS = "2020-01-01,A,1\n2020-01-02,A,\n2020-01-03,A,3\n"
FILLED = ROWS.replace("A,\n", "A,2\n")
TOA5 = (
    '"TOA5","site","CR1000","1"\n'
    '"TIMESTAMP","RECORD","AirTC_Avg","RH"\n'
    '"TS","RN","Deg C","%"\n'
    '"","","Avg","Smp"\n'
    "2020-01-01 00:00:00,7,1.5,80\n"
    "2020-01-01 00:10:00,8,,81\n"
    "2020-01-01 00:30:00,9,4.5,83\n"
)


def fill(tmp_path, text, encoding="utf-8", **options):
    (tmp_path / "in.csv").write_bytes(text.encode(encoding))
    source = open_source(tmp_path / "in.csv", encoding=encoding, **options)
    source.save(cdsa.fill(source.cube, "linear", check=False), tmp_path / "out.csv", overwrite=True)
    return source, (tmp_path / "out.csv").read_bytes().decode(encoding)


@pytest.mark.parametrize(
    ("skip", "lines"),
    [
        ("0", "time,station,x\n"),
        (1, "logger 5\ntime,station,x\n"),
        ("2", "logger 5\n\ntime,station,x\n"),
        ("2-2", "time,station,x\n-,-,cm\n"),
        ("1,3-4", "# one, two, three, four\ntime,station,x\n-,-,cm\nraw\n"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_skipped_lines_are_written_back_where_they_were(tmp_path, skip, lines, end, encoding):
    options = {} if skip == "0" else {"skip_rows": skip}
    source, written = fill(tmp_path, (lines + ROWS).replace("\n", end), encoding, **options)
    assert source.cube.sizes == {"time": 3, "location": 1, "measurement": 1}
    assert written == (lines + FILLED).replace("\n", end)


def test_a_message_counts_the_skipped_lines(tmp_path):
    with pytest.raises(TableError, match="'x' in line 6"):
        fill(tmp_path, "a\ntime,station,x\nb\n" + ROWS.replace("A,3", "A,x"), skip_rows="1,3-3")


@pytest.mark.parametrize("top", ["logger 5\nserial 7\n", "\n\n", "a,b\nc,d\n"])
def test_how_many_lines_to_skip_is_suggested(tmp_path, top):
    with pytest.raises(TableError, match=r"give --skip-rows 2$"):
        fill(tmp_path, top + "time,station,x\n" + ROWS)


def test_lines_among_the_rows_cannot_be_skipped(tmp_path):
    with pytest.raises(TableError, match="Correct --skip-rows"):
        fill(tmp_path, "time,station,x\n" + ROWS, skip_rows="3-3")
    with pytest.raises(TableError, match="has only 4 lines"):
        fill(tmp_path, "time,station,x\n" + ROWS, skip_rows=9)


@pytest.mark.parametrize("text", ["x", "1,", "0,2", "-3", "2000", "1-9999999999"])
def test_lines_to_skip_are_numbers(text):
    if text == "1,":
        assert parse_options({"skip_rows": text}).skip_rows == (1,)
        return
    with pytest.raises(ConfigError, match="lines"):
        parse_options({"skip_rows": text})


def test_a_campbell_file_is_read_with_its_units(tmp_path):
    source, written = fill(tmp_path, TOA5)
    assert source.cube["measurement"].to_numpy().tolist() == ["AirTC_Avg", "RH"]
    assert source.cube["units"].to_numpy().tolist() == ["Deg C", "%"]
    lines = written.splitlines()
    assert [lines[0], *lines[2:4]] == [TOA5.splitlines()[n] for n in (0, 2, 3)]
    assert lines[5:] == [
        "2020-01-01 00:10:00,8,2.5,81",
        *lines[6:7],
        "2020-01-01 00:30:00,9,4.5,83",
    ]
    assert lines[6].startswith("2020-01-01 00:20:00,10,3.5,82")


@pytest.mark.parametrize("address", ["https://example.org/a.csv", "s3://bucket/a.zarr"])
def test_an_address_is_answered_as_one(address):
    with pytest.raises(ConfigError, match=f"'{address}' is an address"):
        open_source(address)
    with pytest.raises(ConfigError, match="is an address"):
        check_outputs([Path(address)], overwrite=False)
