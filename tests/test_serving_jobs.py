"""Jobs of the server: they wait their turn, end when nobody wants them, and leave nothing."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.web.jobs import CancelledError, Jobs
from cdsa.web.limits import Limits
from cdsa.web.store import Shelf
from server import finished, running, sent, table, until, visitor


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
