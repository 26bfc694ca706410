"""The server among strangers: limits, foreign requests, and what is removed after a while."""

import asyncio
import gzip
import io
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pandas as pd
import pytest

from cdsa.io.files import FORMATS
from cdsa.io.table_files import RawTable
from cdsa.web.jobs import Jobs
from cdsa.web.limits import Limits
from cdsa.web.store import CapacityError, NotFoundError, TableStore
from cdsa.workflows.pipeline import FillRequest
from server import connect, run, running, table, upload, wait_until


def test_names_are_shown_and_never_used_as_paths(client, tmp_path):
    summary = upload(client, table(), name="../../../../tmp/evil\n.csv")
    assert summary["name"] == "../../../../tmp/evil .csv"
    job = run(client, summary, "fill", method="linear")
    header = client.get(f"/api/jobs/{job['id']}/files/filled").headers["content-disposition"]
    assert "/" not in header and ".." not in header
    for name in ("a.exe", "b.nc", "c.pkl", "nothing"):
        reply = client.post("/api/tables", params={"name": name}, content=b"x")
        assert reply.status_code == 422 and name in reply.json()["detail"]


def test_a_table_that_is_too_large_is_refused(client):
    reply = client.post("/api/tables", params={"name": "a.csv"}, content=b"x" * 2_100_000)
    assert reply.status_code == 413 and "2 MB" in reply.json()["detail"]
    bomb = gzip.compress(b"0" * 20_000_000)
    reply = client.post("/api/tables", params={"name": "a.csv.gz"}, content=bomb)
    assert reply.status_code == 413 and "after decompression" in reply.json()["detail"]
    wide = b"time,station,value\n" + b"".join(
        b"2024-01-01T%02d:%02d:%02d,S%d,1\n" % (n // 3600, n // 60 % 60, n % 60, n)
        for n in range(6000)
    )
    reply = client.post("/api/tables", params={"name": "a.csv"}, content=wide)
    assert reply.status_code == 422 and "cells" in reply.json()["detail"]
    for frame in (
        pd.DataFrame({"time": "2024-01-01", "v": np.zeros(2_000_000)}),
        pd.DataFrame({"time": "2024-01-01", "v": ["x" * 5_000] * 20_000}),
    ):
        same = io.BytesIO()
        frame.to_parquet(same)
        assert len(same.getvalue()) < 200_000
        reply = client.post("/api/tables", params={"name": "a.parquet"}, content=same.getvalue())
        assert reply.status_code == 413 and "after decompression" in reply.json()["detail"]
    many = "time," + ",".join(f"S{n}" for n in range(6000)) + "\n2024-01-01" + ",1" * 6000 + "\n"
    reply = client.post("/api/tables", params={"name": "a.csv"}, content=many.encode())
    assert reply.status_code == 422 and "5,000 columns" in reply.json()["detail"]
    spaced = {"name": "a.csv", "options": '{"separator": " "}'}
    reply = client.post("/api/tables", params=spaced, content=many.replace(",", " ").encode())
    assert reply.status_code == 422 and "5,000 columns" in reply.json()["detail"]


@pytest.mark.parametrize("form", [form for form in FORMATS if form.kind != "arrays"])
def test_no_format_of_tables_hides_how_large_it_is(form, client, tmp_path):
    assert form.content_size, "the server needs it to accept the format"
    path = tmp_path / f"a{form.suffixes[0]}"
    form.write(RawTable(pd.DataFrame({"time": "2024-01-01", "v": ["x" * 5_000] * 4_000})), path)
    content = path.read_bytes()
    reply = client.post("/api/tables", params={"name": path.name}, content=content)
    assert reply.status_code == 413, reply.text


def test_forecast_steps_and_sites_count_towards_the_limit_of_cells():
    with running(Limits(cells=200)) as address, connect(address) as client:
        summary = upload(client, table())
        job = run(client, summary, "forecast", horizon=10_000, method="last")
        assert job["state"] == "failed" and "200 cells here" in job["error"]
        job = run(client, summary, "fill", method="idw", at="name,lat,lon\na,50,8\nb,50,9\n")
        assert job["state"] == "failed" and "would have 300" in job["error"]


def test_only_uploads_may_be_long(client):
    path = f"/api/tables/{upload(client, table())['id']}/fill"
    long = client.post(path, json={"method": "x" * 1_100_000})
    assert long.status_code == 413 and "1,000,000 bytes" in long.json()["detail"]
    endless = client.post(path, content=iter([b"{}"]))
    assert endless.status_code == 411


def test_nothing_can_be_seen_without_its_id(client):
    summary = upload(client, table())
    assert len(summary["id"]) >= 32
    for path in ("/api/tables/x", "/api/jobs/x", "/api/jobs/x/files/filled", "/api/tables/x/gaps"):
        assert client.get(path).status_code == 404
    assert client.get(f"/api/jobs/{summary['id']}").status_code == 404
    assert client.get("/api/tables").status_code == 405
    assert client.delete(f"/api/tables/{summary['id']}").status_code == 204
    assert client.get(f"/api/tables/{summary['id']}").status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Host": "[::1].evil.example", "Origin": "http://[::1].evil.example"},
        {"Host": "[::1", "Origin": "http://[::1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": "evil.example:8000", "Origin": "http://evil.example:8000"},
    ],
)
def test_pages_of_other_origins_may_not_change_anything(client, headers):
    reply = client.post("/api/tables/example", headers=headers)
    assert reply.status_code == 403 and reply.headers["x-content-type-options"] == "nosniff"
    same_origin = client.post(
        "/api/tables", params={"name": "a.csv"}, content=table(),
        headers={"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"},
    )  # fmt: skip
    assert same_origin.status_code == 201


def test_responses_restrict_what_a_browser_may_do(client):
    page = client.get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    scripts = set(re.findall(r"\"\./(\w+\.js)\"", client.get("/page/page.js").text))
    for name in scripts | {"page.js", "chart.js", "page.css", "style.css"}:
        file = client.get(f"/page/{name}")
        assert file.status_code == 200 and "http" not in file.text.replace("http://www.w3.org/", "")
    assert len(scripts) > 4
    assert not re.search(r"(src|href)=\"(?!/|data:)", page.text)
    docs = client.get("/docs")
    assert docs.status_code == 200 and not re.search(r"(src|href)=\"https?:", docs.text)
    assert client.get("/api/health").headers["cache-control"] == "no-store"


def test_many_tables_at_once_are_neither_lost_nor_mixed_up(address):
    def highest_value(number: int) -> float:
        with connect(address) as client:
            summary = upload(client, table(steps=30, seed=number))
            query = {"location": "S0", "measurement": "no2"}
            series = client.get(f"/api/tables/{summary['id']}/series", params=query).json()
            client.delete(f"/api/tables/{summary['id']}")
            return max(value for value in series["values"] if value is not None)

    with ThreadPoolExecutor(40) as pool:
        highest = list(pool.map(highest_value, range(100)))
    assert len(highest) == 100
    for number, value in enumerate(highest):  # the values of each table are higher by one
        assert 23 + number < value <= 25 + number


def test_unused_tables_are_removed_after_a_while_and_all_at_the_end(tmp_path):
    now = [0.0]
    store = TableStore(Limits(keep_minutes=10), clock=lambda: now[0])
    (tmp_path / "a.csv").write_bytes(table())
    unused, used, busy = (store.add_copy("a.csv", tmp_path / "a.csv") for _ in range(3))
    busy.n_jobs = 1
    now[0] = 9 * 60
    store.get(used.id)
    now[0] = 11 * 60
    with pytest.raises(NotFoundError, match="removed"):
        store.get(unused.id)  # even before anything has been cleaned up
    assert store.remove_expired() == [unused.id] and not unused.path.exists()
    with pytest.raises(NotFoundError, match="removed"):
        store.get(unused.id)
    assert store.get(used.id) is used and store.get(busy.id) is busy
    store.close()
    assert not store.folder.exists()


def test_the_store_holds_a_limited_number_of_tables(tmp_path):
    (tmp_path / "a.csv").write_bytes(table())
    store = TableStore(Limits(tables=1))
    jobs = Jobs(Limits(), store, lambda job: None)
    stored = store.add_copy("a.csv", tmp_path / "a.csv")
    with pytest.raises(CapacityError, match="at most 1 tables"):
        store.add_copy("a.csv", tmp_path / "a.csv")
    job = jobs.submit(stored, "fill", FillRequest())
    jobs.remove_all(stored)
    with pytest.raises(NotFoundError):
        jobs.get(job.id)
    jobs.close()
    store.close()


def test_an_interrupted_upload_leaves_nothing(address):
    def interrupted():
        yield b"time,station,v\n"
        raise ConnectionError

    with connect(address) as client:
        before = client.get("/api/health").json()["tables"]
        with pytest.raises((httpx.HTTPError, ConnectionError)):
            client.post("/api/tables", params={"name": "a.csv"}, content=interrupted())
        wait_until(lambda: client.get("/api/health").json()["tables"] == before)


def test_a_slow_upload_is_stopped_and_others_go_on():
    async def slow():
        yield b"time,station,v\n"
        await asyncio.sleep(30)

    async def steady():
        for _ in range(40):
            yield b"time,station,v\n" * 100
            await asyncio.sleep(0.02)

    limits = Limits(upload_seconds=0.2, upload_rate=10_000.0)
    store = TableStore(limits)
    with pytest.raises(CapacityError, match="10,000 bytes a second"):
        asyncio.run(store.receive("a.csv", slow()))
    assert len(store) == 0
    assert asyncio.run(store.receive("a.csv", steady())).size == 60_000
    store.close()


def test_a_client_has_a_limited_number_of_uploads_at_a_time():
    async def waiting(started, end):
        started.set()
        await end.wait()
        yield b"time"

    async def upload_many(store):
        end, started = asyncio.Event(), [asyncio.Event() for _ in range(2)]
        uploads = [
            asyncio.create_task(store.receive("a.csv", waiting(event, end), "here"))
            for event in started
        ]
        for event in started:
            await event.wait()
        with pytest.raises(CapacityError, match="at most 2 uploads of one client"):
            await store.receive("a.csv", waiting(asyncio.Event(), end), "here")
        end.set()
        await store.receive("a.csv", waiting(asyncio.Event(), end), "elsewhere")
        await asyncio.gather(*uploads)

    store = TableStore(Limits(uploads=2))
    asyncio.run(upload_many(store))
    assert len(store) == 3
    store.close()


def test_a_connection_that_sends_no_request_is_closed(monkeypatch):
    monkeypatch.setattr("cdsa.web.server.HEADER_SECONDS", 0.3)
    with running() as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
            assert connection.recv(100) == b""
        with connect(address) as client:  # requests that are slow to answer are not
            upload(client, table(steps=700))


def test_an_upload_that_needs_too_much_memory_is_refused(monkeypatch):
    """A small Parquet file with a long text in every row."""
    monkeypatch.setattr("cdsa.web.worker.PARSING_MEMORY", 1)
    frame = pd.DataFrame({"time": pd.date_range("2020-01-01", periods=400_000, freq="min")})
    frame = frame.assign(station="A", x=1.0, note=["a" * 20 + str(n) for n in range(400_000)])
    content = io.BytesIO()
    frame.to_parquet(content)
    with running(Limits(megabytes=20)) as address, connect(address) as client:
        response = client.post(
            "/api/tables", params={"name": "a.parquet"}, content=content.getvalue()
        )
        assert response.status_code == 422 and "more memory" in response.json()["detail"]
        assert client.get("/api/health").json()["tables"] == 0


@pytest.mark.parametrize("column", [[b"a" * 9] * 3, [[1, 2]] * 3, [{"a": 1}] * 3])
def test_columns_that_no_table_has_are_refused_before_they_are_decoded(address, column):
    frame = pd.DataFrame({"time": pd.date_range("2020-01-01", periods=3), "x": 1.0, "odd": column})
    content = io.BytesIO()
    frame.to_parquet(content)
    with connect(address) as client:
        response = client.post(
            "/api/tables", params={"name": "a.parquet"}, content=content.getvalue()
        )
    assert response.status_code == 422 and "'odd' of a.parquet" in response.json()["detail"]
