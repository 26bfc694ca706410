"""The API: summaries of tables, results of jobs, and their errors."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.errors import TableError
from cdsa.methods.explanation import GROUPS
from server import run, table, upload

NO2_AT_S1 = {"location": "S1", "measurement": "no2"}


def command(*words: object) -> None:
    CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_an_uploaded_table_is_summarised(client):
    summary = upload(client, table())
    assert summary["layout"].startswith("panel") and summary["step"] == "1 h"
    assert (summary["steps"], len(summary["stations"])) == (60, 3)
    assert [entry["name"] for entry in summary["measurements"]] == ["no2"]
    assert summary["stations"][1]["lat"] == pytest.approx(50.1)
    assert summary["columns"] == ["time", "station", "lat", "lon", "no2"]
    gaps = client.get(f"/api/tables/{summary['id']}/gaps").json()
    assert len(gaps["missing"]) == 3 and len(gaps["first"]) == 60
    assert {share for row in gaps["missing"] for share in row} == {0, 100}


def test_a_filled_table_is_what_the_command_line_writes(client, tmp_path):
    content = table()
    summary = upload(client, content)
    job = run(client, summary, "fill", method="linear")
    assert job["state"] == "done" and job["files"] == ["filled", "detail", "report"]
    (tmp_path / "air.csv").write_bytes(content)
    command(
        "fill", tmp_path / "air.csv", "-o", tmp_path / "out.csv", "--method", "linear",
        "--detail", tmp_path / "detail.csv",
    )  # fmt: skip
    for name, path in (("filled", "out.csv"), ("detail", "detail.csv")):
        response = client.get(f"/api/jobs/{job['id']}/files/{name}")
        assert response.content == (tmp_path / path).read_bytes()
    assert (
        'filename="air-fill.csv"'
        in client.get(f"/api/jobs/{job['id']}/files/filled").headers["content-disposition"]
    )
    record = job["records"][0]
    assert record["filled"] + record["outside_lifetime"] == summary["measurements"][0]["missing"]
    assert job["records"][0]["expected_mae"] > 0


SITES = "name,lat,lon\nhill,50.05,8.02\nlake,50.2,8.25\n"


def test_unmonitored_sites_are_filled_as_by_the_command_line(client, tmp_path):
    content = table(stations=4)
    summary = upload(client, content)
    job = run(client, summary, "fill", method="idw", at=SITES)
    assert job["state"] == "done" and [site["name"] for site in job["sites"]] == ["hill", "lake"]
    (tmp_path / "air.csv").write_bytes(content)
    (tmp_path / "sites.csv").write_text(SITES)
    command(
        "fill", tmp_path / "air.csv", "-o", tmp_path / "out.csv", "--method", "idw",
        "--at", tmp_path / "sites.csv",
    )  # fmt: skip
    filled = client.get(f"/api/jobs/{job['id']}/files/filled")
    assert filled.content == (tmp_path / "out.csv").read_bytes()
    query = {"location": "hill", "measurement": "no2"}
    series = client.get(f"/api/jobs/{job['id']}/series", params=query).json()
    assert set(series["source"]) == {"filled"} and None not in series["values"]
    assert client.get(f"/api/tables/{summary['id']}").json()["stations"] == summary["stations"]


def test_bad_sites_are_refused(client):
    summary = upload(client, table(stations=4))
    path = f"/api/tables/{summary['id']}/fill"
    for sites, words in (
        ("name,x,y\nhill,1,2\n", "must have a column of names"),
        ("name,lat,lon\nhill,north,2\n", "row 1 of the table of"),
        ("", "at: String should have at least 1 character"),
    ):
        response = client.post(path, json={"method": "idw", "at": sites})
        assert response.status_code == 422 and words in response.json()["detail"], response.text
    duplicate = run(client, summary, "fill", method="idw", at="name,lat,lon\nS0,50,8\n")
    assert "'S0'" in duplicate["error"]
    lines = ["name,lat,lon", *(f"p{n},{40 + n / 1e5},8" for n in range(1001))]
    many = client.post(path, json={"method": "idw", "at": "\n".join(lines)})
    assert many.status_code == 422 and "1,000 sites" in many.json()["detail"]
    far = run(client, summary, "fill", method="idw", at="\n".join(lines[:10]))
    (message,) = far["messages"]
    assert "p0 is 1,112 km from the nearest station" in message and "8 other" in message


def test_coordinates_can_be_given_later(client):
    wide = b"time,A,B\n2024-01-01T00:00,1,2\n2024-01-01T01:00,,3\n2024-01-01T02:00,3,\n"
    summary = upload(client, wide)
    assert summary["stations"][0]["lat"] is None
    path = f"/api/tables/{summary['id']}/options"
    lines = "id;latitude;longitude\nB;48,5;9,5\nA;48;9\n"
    corrected = client.put(path, json={"locations": lines}).json()
    assert [(s["lat"], s["lon"]) for s in corrected["stations"]] == [(48, 9), (48.5, 9.5)]
    assert corrected["options"]["locations"] == lines
    partial = client.put(path, json={"locations": "id,lat,lon\nA,48,9\n"})
    assert partial.status_code == 422 and "'B' is not in the" in partial.json()["detail"]
    empty = client.put(path, json={"locations": "\n"})
    assert empty.status_code == 422 and "the coordinates is empty" in empty.json()["detail"]


def test_a_bad_table_gets_the_message_of_the_command_line(client, tmp_path):
    content = b"when,who\nnever,nobody\n"
    response = client.post("/api/tables", params={"name": "odd.csv"}, content=content)
    assert response.status_code == 422
    (tmp_path / "odd.csv").write_bytes(content)
    with pytest.raises(TableError) as error:
        command("info", tmp_path / "odd.csv")
    assert response.json()["detail"] == str(error.value)


def test_a_filled_series_says_which_values_are_filled(client):
    summary = upload(client, table())
    job = run(client, summary, "fill", method="linear")
    measured = client.get(f"/api/tables/{summary['id']}/series", params=NO2_AT_S1).json()
    filled = client.get(f"/api/jobs/{job['id']}/series", params=NO2_AT_S1).json()
    for old, new, source, low in zip(
        measured["values"], filled["values"], filled["source"], filled["lower"], strict=True
    ):
        assert (old is None) == (source == "filled") and new is not None
        assert old in (None, new) and low <= new
    page = client.get(f"/api/jobs/{job['id']}/cells", params={**NO2_AT_S1, "limit": 2}).json()
    assert page["total"] == filled["source"].count("filled") and len(page["cells"]) == 2
    first = page["cells"][0]
    assert filled["values"][first["step"]] == first["value"]
    rest = client.get(f"/api/jobs/{job['id']}/cells", params={**NO2_AT_S1, "offset": 1}).json()
    assert rest["cells"][0] == page["cells"][1]


def test_a_value_in_the_repeated_hour_is_explained(client):
    hours = pd.date_range("2024-10-26", periods=72, freq="h", tz="Europe/Berlin")
    lines = ["time,station,v", *(f"{h.isoformat()},{s},{20 + n % 24}" for n, h in enumerate(hours)
                                 for s in "AB")]  # fmt: skip
    repeated = [n for n, h in enumerate(hours) if str(h).startswith("2024-10-27 02:00")][1]
    lines[1 + 2 * repeated] = lines[1 + 2 * repeated].rpartition(",")[0] + ","
    query = {"name": "mytable.csv", "options": '{"tz": "Europe/Berlin"}'}
    summary = client.post("/api/tables", params=query, content="\n".join(lines).encode()).json()
    job = run(client, summary, "fill", method="cdsa", minutes=0.001, check=False)
    path = f"/api/jobs/{job['id']}/explanation"
    cell = {"step": repeated, "location": "A", "measurement": "v"}
    explanation = client.get(path, params=cell)
    assert explanation.status_code == 200, explanation.text
    assert explanation.json()["time"].endswith("02:00:00+01:00")
    late = client.get(path, params=cell | {"step": 10**6})
    assert late.status_code == 404 and "72 steps" in late.json()["detail"]
    when = client.get(path, params={"location": "A", "measurement": "v"})
    assert when.status_code == 422 and "time or step is required" in when.json()["detail"]
    wrong = client.put(f"/api/tables/{summary['id']}/options", json={"separator": ";"}).json()
    assert "mytable.csv" in wrong["detail"] and "mymytable" not in wrong["detail"]


def test_a_preset_that_trains_for_epochs_needs_no_minutes(client):
    job = run(client, upload(client, table(stations=2)), "fill", method="cdsa@small", check=False)
    assert job["state"] == "done", job["error"]


def test_only_networks_that_can_explain_their_values_are_explainable(client):
    summary = upload(client, table(stations=4, steps=120))
    job = run(client, summary, "fill", method="brits", minutes=0.001, check=False)
    assert job["state"] == "done" and not job["explainable"]
    query = NO2_AT_S1 | {"step": 0}
    explanation = client.get(f"/api/jobs/{job['id']}/explanation", params=query)
    assert explanation.status_code == 404 and "explained" in explanation.json()["detail"]


def test_a_value_of_a_network_is_explained(client):
    summary = upload(client, table(stations=4, steps=120))
    job = run(client, summary, "fill", method="cdsa", minutes=0.02, check=False)
    assert job["state"] == "done" and job["explainable"], job
    filled = client.get(f"/api/jobs/{job['id']}/cells", params={"limit": 1}).json()["cells"][0]
    path = f"/api/jobs/{job['id']}/explanation"
    query = {name: filled[name] for name in ("time", "location", "measurement")}
    explanation = client.get(path, params={**query, "top": 100}).json()
    assert explanation["value"] == pytest.approx(filled["value"], abs=1e-3)
    assert tuple(explanation["groups"]) == GROUPS
    assert sum(explanation["groups"].values()) == pytest.approx(1, abs=1e-6)
    assert 0.9 < sum(cell["share"] for cell in explanation["cells"]) <= 1 + 1e-6
    unknown = client.get(path, params={**query, "location": "nobody"})
    assert unknown.status_code == 422 and "nobody" in unknown.json()["detail"]


def test_a_table_is_forecast_and_methods_are_compared(client):
    summary = upload(client, table())
    job = run(client, summary, "forecast", horizon=4, method="last")
    assert job["state"] == "done" and job["records"][0]["forecast"] == 12
    extended = client.get(f"/api/jobs/{job['id']}/files/filled").text
    assert extended.count("\n") == table().count(b"\n") + 12
    job = run(client, summary, "score", methods=["linear", "mean"], hide="random:0.2")
    assert {record["method"] for record in job["records"]} == {"linear", "mean"}


def test_read_options_can_be_corrected(client):
    content = table().replace(b"no2", b"NO2;-9").replace(b",\n", b",-9\n")
    summary = upload(client, content)
    assert summary["measurements"][0]["missing"] == 0
    path = f"/api/tables/{summary['id']}/options"
    corrected = client.put(path, json={"missing": ["-9"]}).json()
    assert corrected["measurements"][0]["missing"] > 0
    job = run(client, summary, "fill", method="linear", check=False)
    corrected = client.put(path, json={"missing": ["-9"], "coordinates": False}).json()
    assert client.get(f"/api/jobs/{job['id']}").status_code == 404  # its options were others
    wrong = client.put(path, json={"time": "lat"})
    assert wrong.status_code == 422
    assert client.get(f"/api/tables/{summary['id']}").json() == corrected
    misspelt = client.put(path, json={"tiem": "lat"})
    assert misspelt.status_code == 422 and "tiem" in misspelt.json()["detail"]
    query = {"name": "a.csv", "options": '{"missing": ["-9"]}'}
    again = client.post("/api/tables", params=query, content=content).json()
    assert again["measurements"] == corrected["measurements"]


def test_former_names_are_answered_with_the_new_ones(client):
    summary = upload(client, table())
    path = f"/api/tables/{summary['id']}"
    job = run(client, summary, "fill", method="linear", check=False)
    for response, old, new in (
        (client.post("/api/tables?name=a.csv&reading=1", content=b"x"), "reading", "options"),
        (client.post(f"{path}/forecast", json={"steps": 3}), "steps", "horizon"),
        (client.post(f"{path}/forecast", json={"known": []}), "known", "known_covariates"),
        (client.get(f"/api/jobs/{job['id']}/cells?most=1"), "most", "limit"),
        (client.get(f"/api/jobs/{job['id']}/cells?start=1"), "start", "offset"),
        (client.put(f"{path}/reading", json={}), "reading", "options"),
        (client.get(f"/api/jobs/{job['id']}/reasons"), "reasons", "explanation"),
    ):
        assert response.status_code in (404, 422)
        assert response.json()["detail"] == f"'{old}' is called '{new}' now"


def test_messages_of_the_command_line_are_messages_of_the_job(client):
    summary = upload(client, few_values())
    filled = run(client, summary, "fill")
    assert any("too few for a network" in message for message in filled["messages"])
    forecast = run(client, summary, "forecast", horizon=2, method="cdsa", minutes=0.001)
    assert any("the table is too short" in message for message in forecast["messages"])


def few_values() -> bytes:
    """A table that is too short to train on."""
    rows = [
        f"2024-01-01T{n // 60:02}:{n % 60:02},A,{n * 7 % 5 if n % 9 else ''}" for n in range(40)
    ]
    return "\n".join(["time,station,rain", *rows]).encode()
