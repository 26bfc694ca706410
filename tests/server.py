"""A server of the page for tests: the real one, on a free port of this machine."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import uvicorn

from cdsa.web.app import make_app
from cdsa.web.limits import Limits


@contextmanager
def running(limits: Limits | None = None) -> Iterator[str]:
    """The address of a server that runs as long as it is needed."""
    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(make_app(limits), log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)


@contextmanager
def visitor(address: str) -> Iterator[httpx.Client]:
    """Somebody who asks the server."""
    with httpx.Client(base_url=address, timeout=60, verify=False) as client:
        yield client


def table(stations: int = 3, steps: int = 60, seed: int = 0) -> bytes:
    """A small CSV with gaps."""
    import numpy as np

    source = np.random.default_rng(seed)
    lines = ["time,station,lat,lon,no2"]
    for step in range(steps):
        for station in range(stations):
            value = f"{20 + seed + station + 5 * np.sin(step / 4):.2f}"
            if source.random() < 0.2:
                value = ""
            stamp = f"2024-01-{1 + step // 24:02}T{step % 24:02}:00:00"
            lines.append(f"{stamp},S{station},{50 + station / 10},{8 + station / 10},{value}")
    return "\n".join(lines).encode() + b"\n"


def sent(client: httpx.Client, content: bytes, name: str = "air.csv") -> dict:
    """What is understood of a table that is sent."""
    reply = client.post("/api/tables", params={"name": name}, content=content)
    assert reply.status_code == 201, reply.text
    return reply.json()


def finished(client: httpx.Client, job: dict, within: float = 60) -> dict:
    """The job when it is over."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        job = client.get(f"/api/jobs/{job['id']}").json()
        if job["state"] not in ("waiting", "running"):
            return job
        time.sleep(0.05)
    raise AssertionError(f"not over after {within} s: {job}")


def until(true: Callable[[], object], within: float = 60) -> None:
    """Waits for something to come true."""
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)
