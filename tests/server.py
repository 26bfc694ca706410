"""The web server for tests: the real one, on a free port of the local machine."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import uvicorn

from cdsa.web.app import make_app
from cdsa.web.limits import Limits
from cdsa.web.server import make_config


@contextmanager
def running(limits: Limits | None = None) -> Iterator[str]:
    """The address of a server that runs as long as the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(make_config(make_app(limits), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)


@contextmanager
def connect(address: str) -> Iterator[httpx.Client]:
    """A client of the server."""
    with httpx.Client(base_url=address, timeout=60, verify=False) as client:
        yield client


def table(stations: int = 3, steps: int = 60, seed: int = 0) -> bytes:
    """A small CSV file with gaps."""
    import numpy as np

    rng = np.random.default_rng(seed)
    lines = ["time,station,lat,lon,no2"]
    for step in range(steps):
        for station in range(stations):
            value = f"{20 + seed + station + 5 * np.sin(step / 4):.2f}"
            if rng.random() < 0.2:
                value = ""
            time = f"2024-01-{1 + step // 24:02}T{step % 24:02}:00:00"
            lines.append(f"{time},S{station},{50 + station / 10},{8 + station / 10},{value}")
    return "\n".join(lines).encode() + b"\n"


def upload(client: httpx.Client, content: bytes, name: str = "air.csv") -> dict:
    """The summary of a table that is uploaded."""
    response = client.post("/api/tables", params={"name": name}, content=content)
    assert response.status_code == 201, response.text
    return response.json()


def run(client: httpx.Client, summary: dict, task: str, **request: object) -> dict:
    """A job on a table, when it has ended."""
    response = client.post(f"/api/tables/{summary['id']}/{task}", json=request)
    assert response.status_code == 202, response.text
    return finish(client, response.json())


def finish(client: httpx.Client, job: dict, within: float = 60) -> dict:
    """The job when it has ended."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        job = client.get(f"/api/jobs/{job['id']}").json()
        if job["state"] not in ("waiting", "running"):
            return job
        time.sleep(0.05)
    raise AssertionError(f"not finished after {within} s: {job}")


def wait_until(condition: Callable[[], object], within: float = 60) -> None:
    """Wait for a condition to become true."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)
