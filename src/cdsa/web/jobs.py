"""What visitors ask to be done: one job at a time, the others wait in a queue that they can see."""

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
from typing import Literal

from cdsa.core.records import Value
from cdsa.errors import CdsaError
from cdsa.methods.base import Filler
from cdsa.web.limits import Limits
from cdsa.web.store import Held, NotThereError, Shelf, TooMuchError

Kind = Literal["fill", "forecast", "score"]


State = Literal["waiting", "running", "done", "failed", "cancelled"]


logger = logging.getLogger("cdsa")


class CancelledError(Exception):
    """A job that its visitor does not want any more."""


@dataclass(eq=False)
class Job:
    """Something to be done with a table, how far it is, and what came out."""

    id: str
    held: Held
    kind: Kind
    ask: object
    """What was asked for, as the kind of job knows it."""

    reading: dict[str, object] = field(default_factory=dict)
    """How its table was read when it was asked for."""

    state: State = "waiting"
    doing: str = ""
    """What is going on, in words."""

    share: float | None = None
    """How much of it is done, if that can be told."""

    began: float | None = None
    ended: float | None = None
    told: list[str] = field(default_factory=list)
    """What a visitor should know of how it was done."""

    records: list[dict[str, Value]] = field(default_factory=list)
    error: str | None = None
    files: dict[str, Path] = field(default_factory=dict)
    """What can be fetched, by its name."""

    filler: Filler | None = None
    """What explains its values, if something can."""

    wanted: bool = True
    bytes: int = 0
    """What came out takes on disk."""

    @property
    def folder(self) -> Path:
        """Where what comes out is kept, beside the table."""
        return self.held.path.parent / self.id

    @property
    def seconds(self) -> float:
        """For which it has been running, or ran."""
        if self.began is None:
            return 0.0
        return (self.ended or time.monotonic()) - self.began


Work = Callable[[Job], None]


def unexpected(bad: Exception) -> str:
    """What a visitor is told of a mistake of ours; the rest is in the log."""
    return f"this should not happen ({type(bad).__name__}); whoever runs this server can see why"


def _size(folder: Path) -> int:
    """Bytes of the files in a folder; what goes away meanwhile counts nothing."""
    total = 0
    for path in folder.glob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


class Jobs:
    """The queue, and the thread that works it off."""

    def __init__(self, limits: Limits, shelf: Shelf, work: Work) -> None:
        self.limits, self.shelf, self.work = limits, shelf, work
        self._all: dict[str, Job] = {}
        self._queue: deque[Job] = deque()
        self._running: Job | None = None
        self._turn = threading.Condition()
        self._open = True
        self._worker = threading.Thread(target=self._loop, name="cdsa-jobs", daemon=True)
        self._worker.start()

    def add(self, held: Held, kind: Kind, ask: object) -> Job:
        """Put a job at the end of the queue."""
        with self._turn:
            if len(self._queue) >= self.limits.queue:
                raise TooMuchError(
                    f"{self.limits.queue} jobs are waiting already, which is the most. Try again "
                    "later"
                )
            job = Job(secrets.token_urlsafe(24), held, kind, ask, dict(held.reading))
            held.jobs += 1
            self._all[job.id] = job
            self._queue.append(job)
            self._turn.notify()
        return job

    def get(self, key: str) -> Job:
        """The job of this id."""
        job = self._all.get(key)
        if job is None:
            raise NotThereError("there is no such job, or it was forgotten with its table")
        self.shelf.get(job.held.id)  # a table whose job is asked for is not forgotten
        return job

    def ahead(self, job: Job) -> int:
        """How many jobs come before it, the running one among them."""
        with self._turn:
            if job not in self._queue:
                return 0
            return self._queue.index(job) + (self._running is not None)

    def cancel(self, job: Job) -> None:
        """Take it out of the queue, or end it if it runs."""
        with self._turn:
            job.wanted = False
            if job in self._queue:
                self._queue.remove(job)
                self._end(job, "cancelled")
        self._drop(self._too_many(job.held))

    def forget(self, held: Held) -> None:
        """Forget all jobs about a table."""
        mine = [one for one in self._jobs() if one.held is held]
        self._drop(mine)  # first: nobody is to see what becomes of them
        for job in mine:
            self.cancel(job)

    def sweep(self) -> None:
        """Forget what is old, and the jobs about it."""
        self.shelf.sweep()
        self._drop([job for job in self._jobs() if not self.shelf.has(job.held.id)])

    def close(self) -> None:
        """Work nothing off any more."""
        with self._turn:
            self._open = False
            for job in self._jobs():
                job.wanted = False
            self._queue.clear()
            self._turn.notify()
        self._worker.join(timeout=5)

    def _jobs(self) -> list[Job]:
        """All jobs, as they are now: requests come and go meanwhile."""
        return list(self._all.values())

    def _loop(self) -> None:
        while True:
            with self._turn:
                while self._open and not self._queue:
                    self._turn.wait()
                if not self._open:
                    return
                job = self._running = self._queue.popleft()
                job.state, job.began = "running", time.monotonic()
            state, error = self._outcome(job)
            job.bytes = _size(job.folder)
            with self._turn:
                self._running = None
                self._end(job, state, error)
            gone = [] if job.id in self._all else [job]  # it was forgotten while it ran
            self._drop([*gone, *self._too_many(job.held)])

    def _outcome(self, job: Job) -> tuple[State, str | None]:
        """How a job ends."""
        try:
            self.work(job)
        except CancelledError:
            return "cancelled", None
        except CdsaError as bad:
            return "failed", str(bad)
        except Exception as bad:
            logger.exception("a job failed")
            return "failed", unexpected(bad)
        return "done", None

    def _end(self, job: Job, state: State, error: str | None = None) -> None:
        job.error, job.ended, job.share = error, time.monotonic(), None
        job.held.jobs -= 1
        job.state = state

    def _too_many(self, held: Held) -> list[Job]:
        """The oldest jobs that are over and cannot be kept any more, now that one about this table
        has ended: results for themselves, and what came to nothing for itself."""
        over = [one for one in self._jobs() if one.ended is not None]
        old: list[Job] = []
        for alike in (
            [one for one in over if one.state == "done"],
            [one for one in over if one.state != "done"],
        ):
            of_the_table = [one for one in alike if one.held is held]
            old += [*of_the_table[: -self.limits.of_a_table], *alike[: -self.limits.results]]
        kept = [one for one in over if one not in old]
        large = sum(one.bytes for one in kept)
        for one in kept[:-1]:
            if large <= 1e6 * self.limits.result_megabytes:
                break
            old.append(one)
            large -= one.bytes
        return old

    def _drop(self, jobs: Iterable[Job]) -> None:
        """Forget jobs and what came out."""
        for job in jobs:
            self._all.pop(job.id, None)
            if job is not self._running:  # what it leaves behind is taken away when it ends
                shutil.rmtree(job.folder, ignore_errors=True)
