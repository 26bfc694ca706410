"""The server: what visitors may do, and what nobody may."""

import gzip
import io
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.errors import TableError
from cdsa.serving.jobs import CancelledError, Jobs
from cdsa.serving.limits import Limits
from cdsa.serving.shelf import NotThereError, Shelf, TooMuchError
from server import finished, running, sent, table, visitor


@pytest.fixture(scope="module")
def address():
    with running(Limits(megabytes=2, queue=3, tables=250)) as where:
        yield where


@pytest.fixture
def client(address):
    with visitor(address) as one:
        yield one


def by_command_line(*words: object) -> None:
    CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def until(true, within: float = 60) -> None:
    """Waits for something to come true."""
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


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


def test_names_are_shown_and_never_used_as_paths(client, tmp_path):
    told = sent(client, table(), name="../../../../tmp/evil\n.csv")
    assert told["name"] == "../../../../tmp/evil .csv"
    job = client.post(f"/api/tables/{told['id']}/fill", json={"method": "linear"}).json()
    job = finished(client, job)
    header = client.get(f"/api/jobs/{job['id']}/files/filled").headers["content-disposition"]
    assert "/" not in header and ".." not in header
    for name in ("a.exe", "b.nc", "c.pkl", "nothing"):
        reply = client.post("/api/tables", params={"name": name}, content=b"x")
        assert reply.status_code == 422 and name in reply.json()["detail"]


def test_what_is_too_large_is_refused(client):
    reply = client.post("/api/tables", params={"name": "a.csv"}, content=b"x" * 2_100_000)
    assert reply.status_code == 413 and "2 MB" in reply.json()["detail"]
    bomb = gzip.compress(b"0" * 20_000_000)
    reply = client.post("/api/tables", params={"name": "a.csv.gz"}, content=bomb)
    assert reply.status_code == 413 and "unpacked" in reply.json()["detail"]
    wide = b"time,station,value\n" + b"".join(
        b"2024-01-01T%02d:%02d:%02d,S%d,1\n" % (n // 3600, n // 60 % 60, n % 60, n)
        for n in range(6000)
    )
    reply = client.post("/api/tables", params={"name": "a.csv"}, content=wide)
    assert reply.status_code == 422 and "cells" in reply.json()["detail"]
    for frame in (
        pd.DataFrame({"time": "2024-01-01", "v": np.zeros(2_000_000)}),
        pd.DataFrame({"time": "2024-01-01", "v": ["x" * 5_000] * 20_000}),
        pd.DataFrame({"time": ["2024-01-01"], "v": [np.zeros(3_000_000)]}),
    ):
        same = io.BytesIO()
        frame.to_parquet(same)
        assert len(same.getvalue()) < 200_000
        reply = client.post("/api/tables", params={"name": "a.parquet"}, content=same.getvalue())
        assert reply.status_code == 413 and "unpacked" in reply.json()["detail"]
    many = "time," + ",".join(f"S{n}" for n in range(6000)) + "\n2024-01-01" + ",1" * 6000 + "\n"
    reply = client.post("/api/tables", params={"name": "a.csv"}, content=many.encode())
    assert reply.status_code == 422 and "5,000 columns" in reply.json()["detail"]
    spaced = {"name": "a.csv", "reading": '{"separator": " "}'}
    reply = client.post("/api/tables", params=spaced, content=many.replace(",", " ").encode())
    assert reply.status_code == 422 and "5,000 columns" in reply.json()["detail"]


def test_what_would_become_too_large_is_refused(tmp_path):
    with running(Limits(cells=200)) as address, visitor(address) as client:
        where = f"/api/tables/{sent(client, table())['id']}"
        ask = {"steps": 10_000, "method": "last"}
        job = finished(client, client.post(f"{where}/forecast", json=ask).json())
        assert job["state"] == "failed" and "200 cells here" in job["error"]
        ask = {"method": "idw", "at": "name,lat,lon\na,50,8\nb,50,9\n"}
        job = finished(client, client.post(f"{where}/fill", json=ask).json())
        assert job["state"] == "failed" and "would have 300" in job["error"]


def test_questions_are_short(client):
    where = f"/api/tables/{sent(client, table())['id']}/fill"
    long = client.post(where, json={"method": "x" * 1_100_000})
    assert long.status_code == 413 and "1,000,000 bytes" in long.json()["detail"]
    endless = client.post(where, content=iter([b"{}"]))
    assert endless.status_code == 411


def test_what_came_to_nothing_takes_no_place_of_a_result(tmp_path):
    (tmp_path / "a.csv").write_bytes(table())
    shelf, go = Shelf(Limits()), threading.Event()

    def work(job):
        job.folder.mkdir()
        if job.ask == "wait":
            go.wait(10)

    jobs = Jobs(Limits(), shelf, work)
    held = shelf.keep("a.csv", tmp_path / "a.csv")
    kept = jobs.add(held, "fill", "now")
    until(lambda: kept.state == "done")
    running = jobs.add(held, "fill", "wait")
    for _ in range(50):
        jobs.cancel(jobs.add(held, "fill", "never"))
    assert jobs.get(kept.id) is kept and kept.folder.exists()
    assert len(jobs._jobs()) <= 2 + Limits().of_a_table
    go.set()
    until(lambda: running.state == "done")
    jobs.forget(held)
    last = jobs.add(held, "fill", "now")
    until(lambda: last.state == "done")  # whatever goes away beside it, jobs are worked off
    jobs.close()
    shelf.close()


def test_a_job_whose_process_is_killed_says_that_it_may_be_memory(client):
    told = client.post("/api/tables/example").json()
    job = client.post(f"/api/tables/{told['id']}/fill", json={"method": "mice"}).json()
    until(lambda: client.get(f"/api/jobs/{job['id']}").json()["doing"] == "trying mice")
    (child,) = multiprocessing.active_children()
    os.kill(child.pid, signal.SIGKILL)
    assert "more memory than there is" in finished(client, job)["error"]


def test_only_the_last_results_of_a_table_are_kept(client):
    told = sent(client, table(steps=30))
    where = f"/api/tables/{told['id']}/fill"
    ask = {"method": "mean", "check": False}
    jobs = [finished(client, client.post(where, json=ask).json()) for _ in range(7)]
    there = [client.get(f"/api/jobs/{job['id']}").status_code for job in jobs]
    assert there == [404, 404, 200, 200, 200, 200, 200]


def test_training_of_a_job_is_bounded(client):
    where = f"/api/tables/{sent(client, table())['id']}/score"
    ask = {"methods": ["cdsa", "brits", "linear"], "minutes": 10, "repeats": 2}
    reply = client.post(where, json=ask)
    assert (
        reply.status_code == 422 and "2 networks, 2 times, would take 40" in reply.json()["detail"]
    )


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


def test_nobody_sees_what_he_has_no_id_of(client):
    told = sent(client, table())
    assert len(told["id"]) >= 32
    for path in ("/api/tables/x", "/api/jobs/x", "/api/jobs/x/files/filled", "/api/tables/x/gaps"):
        assert client.get(path).status_code == 404
    assert client.get(f"/api/jobs/{told['id']}").status_code == 404
    assert client.get("/api/tables").status_code == 405
    assert client.delete(f"/api/tables/{told['id']}").status_code == 204
    assert client.get(f"/api/tables/{told['id']}").status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": "evil.example:8000", "Origin": "http://evil.example:8000"},
    ],
)
def test_pages_of_others_may_not_change_anything(client, headers):
    reply = client.post("/api/tables/example", headers=headers)
    assert reply.status_code == 403 and reply.headers["x-content-type-options"] == "nosniff"
    own = client.post(
        "/api/tables", params={"name": "a.csv"}, content=table(),
        headers={"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"},
    )  # fmt: skip
    assert own.status_code == 201


def test_answers_say_what_a_browser_may_do(client):
    page = client.get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    parts = set(re.findall(r"\"\./(\w+\.js)\"", client.get("/page/page.js").text))
    for part in parts | {"page.js", "chart.js", "page.css", "style.css"}:
        told = client.get(f"/page/{part}")
        assert told.status_code == 200 and "http" not in told.text.replace("http://www.w3.org/", "")
    assert len(parts) > 4
    assert not re.search(r"(src|href)=\"(?!/|data:)", page.text)
    docs = client.get("/docs")
    assert docs.status_code == 200 and not re.search(r"(src|href)=\"https?:", docs.text)
    assert client.get("/api/health").headers["cache-control"] == "no-store"


def test_jobs_wait_their_turn_and_can_be_cancelled(client):
    told = sent(client, table(steps=100))
    where = f"/api/tables/{told['id']}/fill"
    long = {"method": "cdsa", "minutes": 5, "check": False}
    first = client.post(where, json=long).json()
    waiting = [client.post(where, json={"method": "linear"}).json() for _ in range(3)]
    time.sleep(0.5)
    assert client.get(f"/api/jobs/{first['id']}").json()["state"] == "running"
    last = client.get(f"/api/jobs/{waiting[2]['id']}").json()
    assert (last["state"], last["ahead"]) == ("waiting", 3)
    full = client.post(where, json={"method": "linear"})
    assert full.status_code == 429 and "waiting" in full.json()["detail"]
    assert client.delete(f"/api/jobs/{waiting[1]['id']}").json()["state"] == "cancelled"
    until(lambda: client.get(f"/api/jobs/{first['id']}").json()["share"] is not None)
    client.delete(f"/api/jobs/{first['id']}")
    assert finished(client, first)["state"] == "cancelled"
    assert finished(client, waiting[2])["state"] == "done"
    assert client.get(f"/api/jobs/{first['id']}/files/filled").status_code == 404


def test_a_job_that_trains_no_network_is_cancelled_too_and_may_take_only_so_long(client):
    told = client.post("/api/tables/example").json()
    where = f"/api/tables/{told['id']}/fill"
    slow = client.post(where, json={"method": "mice"}).json()
    until(lambda: client.get(f"/api/jobs/{slow['id']}").json()["doing"] == "trying mice")
    client.delete(f"/api/jobs/{slow['id']}")
    assert finished(client, slow, within=5)["state"] == "cancelled"
    with running(Limits(job_minutes=0.05)) as address, visitor(address) as other:
        told = other.post("/api/tables/example").json()
        job = other.post(f"/api/tables/{told['id']}/fill", json={"method": "mice"}).json()
        job = finished(other, job, within=20)
        assert job["state"] == "failed" and "0.05 minutes" in job["error"]


def test_a_job_whose_table_is_forgotten_ends_and_leaves_nothing(tmp_path):
    (tmp_path / "a.csv").write_bytes(table())
    shelf, begun, left = Shelf(Limits()), threading.Event(), []

    def work(job):
        job.folder.mkdir()
        left.append(job.folder)
        begun.set()
        while job.wanted:
            time.sleep(0.01)
        raise CancelledError

    jobs = Jobs(Limits(), shelf, work)
    held, other = (shelf.keep("a.csv", tmp_path / "a.csv") for _ in range(2))
    jobs.add(held, "fill", None)
    begun.wait(5)
    waiting = jobs.add(other, "fill", None)
    assert jobs.ahead(waiting) == 1
    jobs.forget(held)
    until(lambda: waiting.state != "waiting")
    until(lambda: not left[0].exists())
    jobs.close()
    shelf.close()


def test_what_cannot_be_done_is_refused_before_it_waits(client):
    told = sent(client, table())
    where = f"/api/tables/{told['id']}"
    for path, ask, words in (
        ("fill", {"method": "liner"}, "did you mean 'linear'"),
        ("fill", {"method": "cdsa", "minutes": 1000}, "at most 30"),
        ("fill", {"method": "linear", "minutes": 1}, "minutes are for methods"),
        ("fill", {"methd": "linear"}, "methd"),
        ("forecast", {"steps": 3, "method": "mice"}, "does not forecast"),
        ("forecast", {"steps": 3, "method": "auto"}, "for filling"),
        ("forecast", {"steps": 0}, "steps"),
        ("score", {"methods": ["linear"], "hide": "burst:0.1"}, "burst"),
    ):
        reply = client.post(f"{where}/{path}", json=ask)
        assert reply.status_code == 422 and words in reply.json()["detail"], reply.text


def test_a_job_that_fails_says_why(client):
    told = sent(client, table())
    ask = {"steps": 3, "method": "cdsa", "known": ["rain"], "minutes": 0.01}
    job = finished(client, client.post(f"/api/tables/{told['id']}/forecast", json=ask).json())
    assert job["state"] == "failed" and "rain" in job["error"]


def test_many_tables_at_once_are_neither_lost_nor_mixed_up(address):
    def one(number: int) -> tuple[int, float]:
        with visitor(address) as client:
            told = sent(client, table(steps=30, seed=number))
            given = {"location": "S0", "measurement": "no2"}
            series = client.get(f"/api/tables/{told['id']}/series", params=given).json()
            client.delete(f"/api/tables/{told['id']}")
            return number, max(value for value in series["values"] if value is not None)

    with ThreadPoolExecutor(40) as pool:
        found = list(pool.map(one, range(200)))
    assert [number for number, _ in found] == list(range(200))
    for number, most in found:  # each table is higher than the one before by one
        assert 23 + number < most <= 25 + number


def test_tables_are_forgotten_after_a_while_and_at_the_end(tmp_path):
    now = [0.0]
    shelf = Shelf(Limits(keep_minutes=10), clock=lambda: now[0])
    (tmp_path / "a.csv").write_bytes(table())
    old, used, busy = (shelf.keep("a.csv", tmp_path / "a.csv") for _ in range(3))
    busy.jobs = 1
    now[0] = 9 * 60
    shelf.get(used.id)
    now[0] = 11 * 60
    with pytest.raises(NotThereError, match="forgotten"):
        shelf.get(old.id)  # even if nobody has tidied up yet
    assert shelf.sweep() == [old.id] and not old.path.exists()
    with pytest.raises(NotThereError, match="forgotten"):
        shelf.get(old.id)
    assert shelf.get(used.id) is used and shelf.get(busy.id) is busy
    shelf.close()
    assert not shelf.folder.exists()


def test_the_shelf_is_full_at_some_time(tmp_path):
    (tmp_path / "a.csv").write_bytes(table())
    shelf = Shelf(Limits(tables=1))
    jobs = Jobs(Limits(), shelf, lambda job: None)
    held = shelf.keep("a.csv", tmp_path / "a.csv")
    with pytest.raises(TooMuchError, match="1 tables are kept"):
        shelf.keep("a.csv", tmp_path / "a.csv")
    job = jobs.add(held, "fill", None)
    jobs.forget(held)
    with pytest.raises(NotThereError):
        jobs.get(job.id)
    jobs.close()
    shelf.close()


def test_a_visitor_who_goes_away_leaves_nothing(address):
    def broken():
        yield b"time,station,v\n"
        raise ConnectionError

    with visitor(address) as client:
        before = client.get("/api/health").json()["tables"]
        with pytest.raises((httpx.HTTPError, ConnectionError)):
            client.post("/api/tables", params={"name": "a.csv"}, content=broken())
        time.sleep(0.2)
        assert client.get("/api/health").json()["tables"] == before


@pytest.mark.parametrize(
    "end",
    [
        "SIGKILL",
        "SIGTERM",
        pytest.param("SIGINT", marks=pytest.mark.slow),
        pytest.param("SIGHUP", marks=pytest.mark.slow),
    ],
)
def test_the_command_says_where_it_is_and_leaves_nothing_behind(end, tmp_path):
    held = subprocess.Popen(
        [sys.executable, "-m", "cdsa", "serve", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        where = re.match(r"(http://127\.0\.0\.1:\d+)/", held.stdout.readline()).group(1)
        for _ in range(200):
            try:
                health = httpx.get(f"{where}/api/health")
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        assert health.json()["tables"] == 0 and list(tmp_path.iterdir())
        told = httpx.post(f"{where}/api/tables/example", timeout=60).json()
        ask = {"method": "cdsa", "minutes": 5, "check": False}
        job = httpx.post(f"{where}/api/tables/{told['id']}/fill", json=ask, timeout=60).json()
        until(lambda: httpx.get(f"{where}/api/jobs/{job['id']}").json()["share"])
        port = where.rpartition(":")[2]
        taken = CliRunner().invoke(app, ["serve", "--port", port])
        assert f"cannot listen on 127.0.0.1, port {port}" in str(taken.exception)
    finally:
        held.send_signal(getattr(signal, end))
        _, said = held.communicate(timeout=30)  # until nobody has its output open any more
    assert "Traceback" not in said
    assert end == "SIGKILL" or not list(tmp_path.iterdir())
