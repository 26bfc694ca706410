"""The job queue: one job runs at a time, the others wait their turn."""

import contextlib
import logging
import secrets
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from cdsa.core.records import Value
from cdsa.errors import CdsaError
from cdsa.web.limits import Limits
from cdsa.web.parsing import Options
from cdsa.web.store import CapacityError, NotFoundError, StoredTable, TableStore

State = Literal["waiting", "running", "done", "failed", "cancelled"]

logger = logging.getLogger("cdsa")


class Request(Protocol):
    """A request of `workflows/pipeline.py`."""

    def validate(self) -> None: ...


class CancelledError(Exception):
    """A job that was cancelled."""


@dataclass(eq=False)
class Job:
    """A request on a table, its progress and its results."""

    id: str
    table: StoredTable
    kind: str
    request: Request
    options: Options = field(default_factory=dict)
    """Read options of the table when the job was submitted."""

    state: State = "waiting"
    status: str = ""
    """What the job is doing, in words."""

    progress: float | None = None
    """Completed fraction of the training, if it is known."""

    started: float | None = None
    ended: float | None = None
    messages: list[str] = field(default_factory=list)
    records: list[dict[str, Value]] = field(default_factory=list)
    error: str | None = None
    files: dict[str, Path] = field(default_factory=dict)
    cancelled: bool = False
    bytes: int = 0
    """Size of its results on disk."""

    @property
    def folder(self) -> Path:
        return self.table.path.parent / self.id

    @property
    def seconds(self) -> float:
        if self.started is None:
            return 0.0
        return (self.ended or time.monotonic()) - self.started


class Jobs:
    """The queue, and the thread that runs its jobs."""

    def __init__(self, limits: Limits, store: TableStore, run: Callable[[Job], None]) -> None:
        self.limits, self.store, self.run = limits, store, run
        self._jobs: dict[str, Job] = {}
        self._queue: deque[Job] = deque()
        self._running: Job | None = None
        self._changed = threading.Condition()
        self._open = True
        self._thread = threading.Thread(target=self._loop, name="cdsa-jobs", daemon=True)
        self._thread.start()

    def submit(self, table: StoredTable, kind: str, request: Request) -> Job:
        with self._changed:
            if len(self._queue) >= self.limits.queue:
                raise CapacityError(
                    f"the queue is full: {self.limits.queue} jobs are waiting. Try again later"
                )
            job = Job(secrets.token_urlsafe(24), table, kind, request, dict(table.options))
            table.n_jobs += 1
            self._jobs[job.id] = job
            self._queue.append(job)
            self._changed.notify()
        return job

    def get(self, job_id: str) -> Job:
        """The job with this id; its table counts as used now."""
        job = self._jobs.get(job_id)
        if job is None:
            raise NotFoundError("this job does not exist, or has been removed with its table")
        self.store.get(job.table.id)
        return job

    def queue_position(self, job: Job) -> int:
        """Number of jobs before it, the running one included."""
        with self._changed:
            if job not in self._queue:
                return 0
            return self._queue.index(job) + (self._running is not None)

    def cancel(self, job: Job) -> None:
        """Take a job out of the queue, or stop it if it is running."""
        with self._changed:
            job.cancelled = True
            if job in self._queue:
                self._queue.remove(job)
                self._end(job, "cancelled")
        self._remove(self._surplus(job.table))

    def remove_all(self, table: StoredTable) -> None:
        jobs = [job for job in self.all() if job.table is table]
        self._remove(jobs)  # first, so that nobody sees them being cancelled
        for job in jobs:
            self.cancel(job)

    def remove_expired(self) -> None:
        """Remove tables that nobody has used for a while, with their jobs."""
        self.store.remove_expired()
        self._remove([job for job in self.all() if job.table.id not in self.store])

    def close(self) -> None:
        with self._changed:
            self._open = False
            for job in self.all():
                job.cancelled = True
            self._queue.clear()
            self._changed.notify()
        self._thread.join(timeout=5)

    def all(self) -> list[Job]:
        """A copy of the list of jobs, which other threads may change meanwhile."""
        return list(self._jobs.values())

    def _loop(self) -> None:
        while True:
            with self._changed:
                while self._open and not self._queue:
                    self._changed.wait()
                if not self._open:
                    return
                job = self._running = self._queue.popleft()
                job.state, job.started = "running", time.monotonic()
            state, error = self._run(job)
            job.bytes = _folder_size(job.folder)
            with self._changed:
                self._running = None
                self._end(job, state, error)
            removed = [] if job.id in self._jobs else [job]  # while it was running
            self._remove([*removed, *self._surplus(job.table)])

    def _run(self, job: Job) -> tuple[State, str | None]:
        """Run a job; returns its final state and its error message."""
        try:
            self.run(job)
        except CancelledError:
            return "cancelled", None
        except CdsaError as error:
            return "failed", str(error)
        except Exception as error:
            logger.exception("a job failed")
            return "failed", internal_error(error)
        return "done", None

    def _end(self, job: Job, state: State, error: str | None = None) -> None:
        job.error, job.ended, job.progress = error, time.monotonic(), None
        job.table.n_jobs -= 1
        job.state = state

    def _surplus(self, table: StoredTable) -> list[Job]:
        """The oldest ended jobs beyond the limits, after a job on this table has ended. Jobs
        without results are counted separately, so that they never displace results."""
        ended = [job for job in self.all() if job.ended is not None]
        surplus: list[Job] = []
        for is_done in (True, False):
            jobs = [job for job in ended if (job.state == "done") == is_done]
            on_table = [job for job in jobs if job.table is table]
            surplus += on_table[: -self.limits.results_per_table] + jobs[: -self.limits.results]
        remaining = [job for job in ended if job not in surplus]
        total = sum(job.bytes for job in remaining)
        for job in remaining[:-1]:
            if total <= 1e6 * self.limits.result_megabytes:
                break
            surplus.append(job)
            total -= job.bytes
        return surplus

    def _remove(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._jobs.pop(job.id, None)
            if job is not self._running:  # the folder of a running job is removed when it ends
                shutil.rmtree(job.folder, ignore_errors=True)


def internal_error(error: Exception) -> str:
    """The message about a bug; the details are in the log."""
    return f"internal error ({type(error).__name__}); the server's log has the details"


def _folder_size(folder: Path) -> int:
    """Bytes of the files in a folder, which may be removed meanwhile."""
    total = 0
    for path in folder.glob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total
