"""The server among strangers: what is too large, what is not theirs, and what is forgotten."""

import gzip
import io
import re
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pandas as pd
import pytest

from cdsa.web.jobs import Jobs
from cdsa.web.limits import Limits
from cdsa.web.store import NotThereError, Shelf, TooMuchError
from server import finished, running, sent, table, visitor


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


def test_many_tables_at_once_are_neither_lost_nor_mixed_up(address):
    def one(number: int) -> tuple[int, float]:
        with visitor(address) as client:
            told = sent(client, table(steps=30, seed=number))
            given = {"location": "S0", "measurement": "no2"}
            series = client.get(f"/api/tables/{told['id']}/series", params=given).json()
            client.delete(f"/api/tables/{told['id']}")
            return number, max(value for value in series["values"] if value is not None)

    with ThreadPoolExecutor(40) as pool:
        found = list(pool.map(one, range(100)))
    assert [number for number, _ in found] == list(range(100))
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
