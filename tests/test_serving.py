"""The server: what visitors are told of their tables, and what they get."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.errors import TableError
from server import finished, sent, table


def by_command_line(*words: object) -> None:
    CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_a_table_is_understood(client):
    told = sent(client, table())
    assert told["layout"].startswith("panel") and told["step"] == "1 h"
    assert (told["steps"], len(told["stations"])) == (60, 3)
    assert [one["name"] for one in told["measurements"]] == ["no2"]
    assert told["stations"][1]["lat"] == pytest.approx(50.1)
    assert told["columns"] == ["time", "station", "lat", "lon", "no2"]
    gaps = client.get(f"/api/tables/{told['id']}/gaps").json()
    assert len(gaps["missing"]) == 3 and len(gaps["first"]) == 60
    assert {share for row in gaps["missing"] for share in row} == {0, 100}


def test_a_filled_table_is_what_the_command_line_writes(client, tmp_path):
    content = table()
    told = sent(client, content)
    job = client.post(f"/api/tables/{told['id']}/fill", json={"method": "linear"}).json()
    job = finished(client, job)
    assert job["state"] == "done" and job["files"] == ["filled", "detail", "report"]
    (tmp_path / "air.csv").write_bytes(content)
    by_command_line(
        "fill", tmp_path / "air.csv", "-o", tmp_path / "out.csv", "--method", "linear",
        "--detail", tmp_path / "detail.csv",
    )  # fmt: skip
    for name, path in (("filled", "out.csv"), ("detail", "detail.csv")):
        fetched = client.get(f"/api/jobs/{job['id']}/files/{name}")
        assert fetched.content == (tmp_path / path).read_bytes()
    assert (
        'filename="air-fill.csv"'
        in client.get(f"/api/jobs/{job['id']}/files/filled").headers["content-disposition"]
    )
    assert job["records"][0]["filled"] == told["measurements"][0]["missing"]
    assert job["records"][0]["expected_mae"] > 0


def test_places_are_filled_as_the_command_line_fills_them(client, tmp_path):
    content, places = table(stations=4), "name,lat,lon\nhill,50.05,8.02\nlake,50.2,8.25\n"
    told = sent(client, content)
    where = f"/api/tables/{told['id']}/fill"
    job = finished(client, client.post(where, json={"method": "idw", "at": places}).json())
    assert job["state"] == "done" and [one["name"] for one in job["places"]] == ["hill", "lake"]
    (tmp_path / "air.csv").write_bytes(content)
    (tmp_path / "places.csv").write_text(places)
    by_command_line(
        "fill", tmp_path / "air.csv", "-o", tmp_path / "out.csv", "--method", "idw",
        "--at", tmp_path / "places.csv",
    )  # fmt: skip
    fetched = client.get(f"/api/jobs/{job['id']}/files/filled")
    assert fetched.content == (tmp_path / "out.csv").read_bytes()
    given = {"location": "hill", "measurement": "no2"}
    series = client.get(f"/api/jobs/{job['id']}/series", params=given).json()
    assert set(series["source"]) == {"filled"} and None not in series["values"]
    assert client.get(f"/api/tables/{told['id']}").json()["stations"] == told["stations"]
    for wrong, words in (
        ("name,x,y\nhill,1,2\n", "the table of places must have a column of names"),
        ("name,lat,lon\nhill,north,2\n", "row 1 of the table of places"),
        ("", "at: String should have at least 1 character"),
    ):
        reply = client.post(where, json={"method": "idw", "at": wrong})
        assert reply.status_code == 422 and words in reply.json()["detail"], reply.text
    twice = client.post(where, json={"method": "idw", "at": "name,lat,lon\nS0,50,8\n"}).json()
    assert "there is a station 'S0' already" in finished(client, twice)["error"]
    lines = [f"p{n},{40 + n / 1e5},8" for n in range(1001)]
    many = client.post(where, json={"method": "idw", "at": "\n".join(["name,lat,lon", *lines])})
    assert many.status_code == 422 and "1,000 places" in many.json()["detail"]
    far = client.post(where, json={"method": "idw", "at": "\n".join(["name,lat,lon", *lines[:9]])})
    (said,) = finished(client, far.json())["told"]
    assert "p0 is 1,112 km from the nearest station" in said and "8 other places" in said


def test_coordinates_can_be_told(client):
    wide = b"time,A,B\n2024-01-01T00:00,1,2\n2024-01-01T01:00,,3\n2024-01-01T02:00,3,\n"
    told = sent(client, wide)
    assert told["stations"][0]["lat"] is None
    where = f"/api/tables/{told['id']}/reading"
    lines = "id;latitude;longitude\nB;48,5;9,5\nA;48;9\n"
    better = client.put(where, json={"locations": lines}).json()
    assert [(one["lat"], one["lon"]) for one in better["stations"]] == [(48, 9), (48.5, 9.5)]
    assert better["reading"]["locations"] == lines
    lost = client.put(where, json={"locations": "id,lat,lon\nA,48,9\n"})
    assert lost.status_code == 422 and "'B' is not in the locations table" in lost.json()["detail"]
    empty = client.put(where, json={"locations": "\n"})
    assert empty.status_code == 422 and "the coordinates is empty" in empty.json()["detail"]


def test_a_bad_table_gets_the_message_of_the_command_line(client, tmp_path):
    content = b"when,who\nnever,nobody\n"
    reply = client.post("/api/tables", params={"name": "odd.csv"}, content=content)
    assert reply.status_code == 422
    (tmp_path / "odd.csv").write_bytes(content)
    with pytest.raises(TableError) as bad:
        by_command_line("info", tmp_path / "odd.csv")
    assert reply.json()["detail"] == str(bad.value)


def test_a_series_is_told_with_where_its_values_come_from(client):
    told = sent(client, table())
    job = client.post(f"/api/tables/{told['id']}/fill", json={"method": "linear"}).json()
    job = finished(client, job)
    given = {"location": "S1", "measurement": "no2"}
    before = client.get(f"/api/tables/{told['id']}/series", params=given).json()
    after = client.get(f"/api/jobs/{job['id']}/series", params=given).json()
    for old, new, source, low in zip(
        before["values"], after["values"], after["source"], after["lower"], strict=True
    ):
        assert (old is None) == (source == "filled") and new is not None
        assert old in (None, new) and low <= new
    cells = client.get(f"/api/jobs/{job['id']}/cells", params={**given, "most": 2}).json()
    assert cells["total"] == after["source"].count("filled") and len(cells["cells"]) == 2
    first = cells["cells"][0]
    assert after["values"][first["step"]] == first["value"]


def test_a_value_in_the_hour_that_comes_twice_is_explained(client):
    hours = pd.date_range("2024-10-26", periods=72, freq="h", tz="Europe/Berlin")
    lines = ["time,station,v", *(f"{h.isoformat()},{s},{20 + n % 24}" for n, h in enumerate(hours)
                                 for s in "AB")]  # fmt: skip
    twice = [n for n, h in enumerate(hours) if str(h).startswith("2024-10-27 02:00")]
    lines[1 + 2 * twice[1]] = lines[1 + 2 * twice[1]].rpartition(",")[0] + ","
    given = {"name": "mytable.csv", "reading": '{"tz": "Europe/Berlin"}'}
    told = client.post("/api/tables", params=given, content="\n".join(lines).encode()).json()
    ask = {"method": "cdsa", "minutes": 0.001, "check": False}
    job = finished(client, client.post(f"/api/tables/{told['id']}/fill", json=ask).json())
    cell = {"step": twice[1], "location": "A", "measurement": "v"}
    why = client.get(f"/api/jobs/{job['id']}/reasons", params=cell)
    assert why.status_code == 200 and why.json()["time"].endswith("02:00:00+01:00"), why.text
    far = client.get(f"/api/jobs/{job['id']}/reasons", params=cell | {"step": 10**6})
    assert far.status_code == 404 and "72 steps" in far.json()["detail"]
    wrong = client.put(f"/api/tables/{told['id']}/reading", json={"separator": ";"}).json()
    assert "mytable.csv" in wrong["detail"] and "mymytable" not in wrong["detail"]


def test_a_preset_that_trains_for_epochs_is_no_matter_of_minutes(client):
    told = sent(client, table(stations=2, steps=60))
    ask = {"method": "cdsa@small", "check": False}
    job = finished(client, client.post(f"/api/tables/{told['id']}/fill", json=ask).json())
    assert job["state"] == "done", job["error"]


def test_only_what_can_be_explained_is_offered_to_be(client):
    told = sent(client, table(stations=4, steps=120))
    ask = {"method": "brits", "minutes": 0.001, "check": False}
    job = finished(client, client.post(f"/api/tables/{told['id']}/fill", json=ask).json())
    assert job["state"] == "done" and not job["explains"]


def test_a_value_of_a_network_is_explained(client):
    told = sent(client, table(stations=4, steps=120))
    ask = {"method": "cdsa", "minutes": 0.02, "check": False}
    job = finished(client, client.post(f"/api/tables/{told['id']}/fill", json=ask).json())
    assert job["state"] == "done" and job["explains"], job
    cell = client.get(f"/api/jobs/{job['id']}/cells", params={"most": 1}).json()["cells"][0]
    where = {name: cell[name] for name in ("time", "location", "measurement")}
    why = client.get(f"/api/jobs/{job['id']}/reasons", params={**where, "top": 100}).json()
    assert why["value"] == pytest.approx(cell["value"], abs=1e-3)
    assert 0.9 < sum(one["share"] for one in why["cells"]) <= 1 + 1e-6
    other = client.get(f"/api/jobs/{job['id']}/reasons", params={**where, "location": "nobody"})
    assert other.status_code == 422 and "nobody" in other.json()["detail"]


def test_a_table_is_carried_forward_and_methods_are_compared(client):
    told = sent(client, table())
    ask = {"steps": 4, "method": "last"}
    job = finished(client, client.post(f"/api/tables/{told['id']}/forecast", json=ask).json())
    assert job["state"] == "done" and job["records"][0]["forecast"] == 12
    longer = client.get(f"/api/jobs/{job['id']}/files/filled").text
    assert longer.count("\n") == table().count(b"\n") + 12
    ask = {"methods": ["linear", "mean"], "hide": "random:0.2"}
    job = finished(client, client.post(f"/api/tables/{told['id']}/score", json=ask).json())
    assert {record["method"] for record in job["records"]} == {"linear", "mean"}


def test_how_a_table_is_read_can_be_corrected(client):
    content = table().replace(b"no2", b"NO2;-9").replace(b",\n", b",-9\n")
    told = sent(client, content)
    assert told["measurements"][0]["missing"] == 0
    where = f"/api/tables/{told['id']}/reading"
    better = client.put(where, json={"missing": ["-9"]}).json()
    assert better["measurements"][0]["missing"] > 0
    ask = {"method": "linear", "check": False}
    job = finished(client, client.post(f"/api/tables/{told['id']}/fill", json=ask).json())
    better = client.put(where, json={"missing": ["-9"], "coordinates": False}).json()
    assert client.get(f"/api/jobs/{job['id']}").status_code == 404  # of a table read otherwise
    wrong = client.put(where, json={"time": "lat"})
    assert wrong.status_code == 422
    assert client.get(f"/api/tables/{told['id']}").json() == better
    odd = client.put(where, json={"tiem": "lat"})
    assert odd.status_code == 422 and "tiem" in odd.json()["detail"]
    again = client.post(
        "/api/tables", params={"name": "a.csv", "reading": '{"missing": ["-9"]}'}, content=content
    ).json()
    assert again["measurements"] == better["measurements"]


def test_the_page_tells_what_the_command_line_tells(client):
    told = sent(client, never_negative())
    where = f"/api/tables/{told['id']}"
    filled = client.post(f"{where}/fill", json={"method": "linear"}).json()
    assert any("never below zero" in line for line in finished(client, filled)["told"])
    ask = {"steps": 2, "method": "cdsa", "minutes": 0.001}
    small = client.post(f"{where}/forecast", json=ask).json()
    assert any("no error can be told" in line for line in finished(client, small)["told"])


def never_negative() -> bytes:
    """A table of values that touch zero, so that intervals go below."""
    rows = [
        f"2024-01-01T{n // 60:02}:{n % 60:02},A,{n * 7 % 5 if n % 9 else ''}" for n in range(40)
    ]
    return "\n".join(["time,station,rain", *rows]).encode()
