"""Jobs of the server: they wait their turn, stop when they are cancelled, and leave nothing."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.errors import TableError
from cdsa.web.jobs import CancelledError, Jobs
from cdsa.web.limits import Limits
from cdsa.web.parsing import MAX_EXPANSION
from cdsa.web.store import LOCK, PREFIX, StoredTable, TableStore
from cdsa.workflows.pipeline import FillRequest
from server import connect, finish, run, running, table, upload, wait_until

LINEAR, SLOW = FillRequest(method="linear"), FillRequest(method="mice")


def status(client: httpx.Client, job: dict) -> dict:
    return client.get(f"/api/jobs/{job['id']}").json()


@pytest.fixture
def store():
    store = TableStore(Limits())
    yield store
    store.close()


def add_table(store: TableStore) -> StoredTable:
    path = store.folder / "a.csv"
    path.write_bytes(table())
    return store.add_copy("a.csv", path)


def test_cancelled_jobs_never_displace_results(store):
    proceed = threading.Event()

    def work(job):
        job.folder.mkdir()
        if job.request is SLOW:
            proceed.wait(10)

    jobs = Jobs(Limits(), store, work)
    stored = add_table(store)
    done = jobs.submit(stored, "fill", LINEAR)
    wait_until(lambda: done.state == "done")
    slow = jobs.submit(stored, "fill", SLOW)
    for _ in range(50):
        jobs.cancel(jobs.submit(stored, "fill", LINEAR))
    assert jobs.get(done.id) is done and done.folder.exists()
    assert len(jobs.all()) <= 2 + Limits().results_per_table
    proceed.set()
    wait_until(lambda: slow.state == "done")
    jobs.remove_all(stored)
    last = jobs.submit(stored, "fill", LINEAR)
    wait_until(lambda: last.state == "done")  # the thread survives the removal of other jobs
    jobs.close()


def test_a_killed_process_is_reported_as_lack_of_memory(client):
    summary = client.post("/api/tables/example").json()
    job = client.post(f"/api/tables/{summary['id']}/fill", json={"method": "mice"}).json()
    wait_until(lambda: status(client, job)["status"] == "trying mice")
    (child,) = multiprocessing.active_children()
    os.kill(child.pid, signal.SIGKILL)
    assert "more memory than the server has" in finish(client, job)["error"]


def test_only_the_last_results_of_a_table_are_kept(client):
    summary = upload(client, table(steps=30))
    jobs = [run(client, summary, "fill", method="mean", check=False) for _ in range(7)]
    codes = [client.get(f"/api/jobs/{job['id']}").status_code for job in jobs]
    assert codes == [404, 404, 200, 200, 200, 200, 200]


def test_the_training_time_of_a_job_is_limited(client):
    path = f"/api/tables/{upload(client, table())['id']}/score"
    request = {"methods": ["cdsa", "brits", "linear"], "minutes": 10, "repeats": 2}
    response = client.post(path, json=request)
    assert response.status_code == 422
    assert "2 networks x 2 repeats would take 40" in response.json()["detail"]


def test_jobs_wait_their_turn_and_can_be_cancelled(client):
    summary = upload(client, table(steps=100))
    path = f"/api/tables/{summary['id']}/fill"
    long = {"method": "cdsa", "minutes": 5, "check": False}
    first = client.post(path, json=long).json()
    wait_until(lambda: status(client, first)["state"] == "running")
    waiting = [client.post(path, json={"method": "linear"}).json() for _ in range(3)]
    last = status(client, waiting[2])
    assert (last["state"], last["queue_position"]) == ("waiting", 3)
    full = client.post(path, json={"method": "linear"})
    assert full.status_code == 429 and "waiting" in full.json()["detail"]
    assert client.delete(f"/api/jobs/{waiting[1]['id']}").json()["state"] == "cancelled"
    wait_until(lambda: status(client, first)["progress"] is not None)
    client.delete(f"/api/jobs/{first['id']}")
    assert finish(client, first)["state"] == "cancelled"
    assert finish(client, waiting[2])["state"] == "done"
    assert client.get(f"/api/jobs/{first['id']}/files/filled").status_code == 404


def test_a_job_that_reports_no_progress_can_be_cancelled_and_has_a_time_limit(client):
    summary = client.post("/api/tables/example").json()
    slow = client.post(f"/api/tables/{summary['id']}/fill", json={"method": "mice"}).json()
    wait_until(lambda: status(client, slow)["status"] == "trying mice")
    client.delete(f"/api/jobs/{slow['id']}")
    assert finish(client, slow, within=5)["state"] == "cancelled"
    with running(Limits(job_minutes=0.05)) as address, connect(address) as other:
        job = run(other, other.post("/api/tables/example").json(), "fill", method="mice")
        assert job["state"] == "failed" and "0.05 minutes" in job["error"]


def test_a_job_stops_and_leaves_nothing_when_its_table_is_removed(store):
    started, folders = threading.Event(), []

    def work(job):
        job.folder.mkdir()
        folders.append(job.folder)
        started.set()
        wait_until(lambda: job.cancelled)
        raise CancelledError

    jobs = Jobs(Limits(), store, work)
    stored, other = add_table(store), add_table(store)
    jobs.submit(stored, "fill", LINEAR)
    started.wait(5)
    waiting = jobs.submit(other, "fill", LINEAR)
    assert jobs.queue_position(waiting) == 1
    jobs.remove_all(stored)
    wait_until(lambda: waiting.state != "waiting")
    wait_until(lambda: not folders[0].exists())
    jobs.close()


def test_a_request_that_cannot_succeed_is_refused_before_it_waits(client):
    path = f"/api/tables/{upload(client, table())['id']}"
    for task, request, words in (
        ("fill", {"method": "liner"}, "did you mean 'linear'"),
        ("fill", {"method": "cdsa", "minutes": 1000}, "at most 30"),
        ("fill", {"method": "linear", "minutes": 1}, "for methods that train a network"),
        ("fill", {"method": "cdsa@tiny"}, "tiny"),
        ("fill", {"methd": "linear"}, "methd"),
        ("forecast", {"horizon": 3, "method": "mice"}, "cannot forecast"),
        ("forecast", {"horizon": 3, "method": "auto"}, "only fills"),
        ("forecast", {"horizon": 0}, "horizon"),
        ("score", {"methods": ["linear"], "hide": "burst:0.1"}, "burst"),
    ):
        response = client.post(f"{path}/{task}", json=request)
        assert response.status_code == 422 and words in response.json()["detail"], response.text


def test_a_job_that_fails_says_why(client):
    request = {"horizon": 3, "method": "cdsa", "known_covariates": ["rain"], "minutes": 0.01}
    job = run(client, upload(client, table()), "forecast", **request)
    assert job["state"] == "failed" and "rain" in job["error"]


def test_a_table_is_parsed_once_for_all_its_jobs(monkeypatch):
    """A job that parsed the file again would fail: it is overwritten after the upload."""
    from cdsa.web import worker

    parsed, parse = [], worker.parse

    def count(context, limits, function, folder):
        table = parse(context, limits, function, folder)
        parsed.append(table)
        next(folder.glob("table.*")).write_bytes(b"overwritten")
        return table

    monkeypatch.setattr(worker, "parse", count)
    with running() as address, connect(address) as client:
        summary = upload(client, table())
        fills = [run(client, summary, "fill", method="linear") for _ in range(2)]
        forecast = run(client, summary, "forecast", horizon=2, method="last")
        query = {"location": "S0", "measurement": "no2"}
        series = client.get(f"/api/jobs/{fills[0]['id']}/series", params=query)
        client.put(f"/api/tables/{summary['id']}/options", json={})
    assert [job["state"] for job in (*fills, forecast)] == ["done"] * 3
    assert series.status_code == 200
    assert len(parsed) == 1


def test_parsed_tables_are_removed_when_others_need_their_space(store):
    stored = [add_table(store) for _ in range(3)]
    first = store.parsed(stored[0])
    assert store.parsed(stored[0]) is first and first.arrays["value"].shape == first.cube.shape
    store.limits = Limits(megabytes=1.5 * first.bytes / MAX_EXPANSION / 1e6)
    second = store.parsed(stored[1])
    assert second.folder.exists() and not first.folder.exists()
    assert store.parsed(stored[0]).folder != first.folder and not second.folder.exists()


def test_a_table_that_cannot_be_parsed_leaves_no_files(store):
    stored = add_table(store)
    stored.path.write_text("time,station,x\n2020-01-01,A,one\n")
    with pytest.raises(TableError, match="at least one column of numbers"):
        store.parsed(stored)
    assert list(stored.path.parent.iterdir()) == [stored.path]


def test_what_a_killed_server_left_is_removed_by_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    alive = TableStore(Limits())
    add_table(alive)
    killed = tmp_path / f"{PREFIX}killed"
    (killed / "table").mkdir(parents=True)
    (killed / LOCK).touch()
    (tmp_path / f"{PREFIX}starting").mkdir()  # no lock yet
    TableStore(Limits()).close()
    assert sorted(tmp_path.iterdir()) == sorted([alive.folder, tmp_path / f"{PREFIX}starting"])
    alive.close()


SERVE_A_NETWORK = """
import sys
from server import connect, run, running, table, upload

with running() as address, connect(address) as client:
    summary = upload(client, table())
    job = run(client, summary, "fill", method="cdsa", minutes=0.001, check=False)
    cell = client.get(f"/api/jobs/{job['id']}/cells?limit=1").json()["cells"][0]
    query = {name: cell[name] for name in ("step", "location", "measurement")}
    response = client.get(f"/api/jobs/{job['id']}/explanation", params=query)
    assert response.status_code == 200, response.text
    assert run(client, summary, "score", methods=["cdsa"], minutes=0.001)["state"] == "done"
print(*{name.partition(".")[0] for name in sys.modules})
"""


def test_the_process_of_the_server_never_loads_torch():
    done = subprocess.run(
        [sys.executable, "-c", SERVE_A_NETWORK],
        capture_output=True, text=True, cwd=Path(__file__).parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "fastapi" in loaded and not loaded & {"torch", "sklearn", "matplotlib"}


@pytest.mark.parametrize(
    "name",
    [
        "SIGTERM",
        pytest.param("SIGKILL", marks=pytest.mark.slow),
        pytest.param("SIGINT", marks=pytest.mark.slow),
        pytest.param("SIGHUP", marks=pytest.mark.slow),
    ],
)
def test_the_command_prints_its_address_and_leaves_nothing_behind(name, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "cdsa", "serve", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        address = re.match(r"(http://127\.0\.0\.1:\d+)/", process.stdout.readline()).group(1)
        health = httpx.get(f"{address}/api/health", timeout=60)  # it listens before it prints
        assert health.json()["tables"] == 0 and list(tmp_path.iterdir())
        with connect(address) as client:
            summary = client.post("/api/tables/example").json()
            request = {"method": "cdsa", "minutes": 5, "check": False}
            job = client.post(f"/api/tables/{summary['id']}/fill", json=request).json()
            wait_until(lambda: status(client, job)["progress"])
        port = address.rpartition(":")[2]
        taken = CliRunner().invoke(app, ["serve", "--port", port])
        assert f"cannot listen on 127.0.0.1, port {port}" in str(taken.exception)
    finally:
        process.send_signal(getattr(signal, name))
        _, stderr = process.communicate(timeout=30)  # until no process has its output open
    assert "Traceback" not in stderr
    assert name == "SIGKILL" or not list(tmp_path.iterdir())
