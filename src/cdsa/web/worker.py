"""A job in a process of its own: it can be ended at any moment, takes the memory it used with it,
and leaves the server free to answer others."""

import contextlib
import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from cdsa.errors import CdsaError, ConfigError
from cdsa.web import tasks
from cdsa.web.jobs import CancelledError, Job, unexpected
from cdsa.web.limits import Limits

LOADED = [tasks.__name__, "cdsa.methods.engine.estimator", "cdsa.report"]
"""What a job needs, loaded once for all of them where processes can be forked."""


LOOK_SECONDS = 0.1
"""Between two looks whether a job is still wanted."""


GRACE_SECONDS = 5.0
"""That a process has to end by itself when its job is done."""


KILLED = -9
"""How a process ends that the system killed, most likely for its memory."""


TOO_MUCH = "this takes more memory than there is. Send a smaller table"


logger = logging.getLogger("cdsa")


def prepare() -> BaseContext:
    """What makes processes here: forked from one that has loaded all that a job needs, or, where
    that is not safe, each anew."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    threading.Thread(target=forkserver.ensure_running, daemon=True).start()
    return context


def work_off(job: Job, limits: Limits, context: BaseContext) -> None:
    """Do a job in another process, and write down here how far that is and what came out."""
    here, there = context.Pipe(duplex=False)
    task = tasks.task_of(job, limits)
    process: BaseProcess = context.Process(  # type: ignore[attr-defined]
        target=_work, args=(there, task), daemon=True
    )
    try:
        process.start()
    except BaseException:
        here.close()
        raise
    finally:
        there.close()
    done = False
    try:
        outcome = _followed(job, here, process, limits)
        job.records, job.files, job.filler = outcome.records, outcome.files, outcome.filler
        done = True
    finally:
        if done:
            process.join(GRACE_SECONDS)
        if process.is_alive():
            process.kill()
        process.join()
        here.close()
        if not done:
            shutil.rmtree(task.folder, ignore_errors=True)


def _followed(job: Job, here: Connection, process: BaseProcess, limits: Limits) -> tasks.Outcome:
    """What came out, in the end; whatever is said on the way is written down."""
    end = time.monotonic() + 60 * limits.job_minutes
    while True:
        if not job.wanted:
            raise CancelledError
        if time.monotonic() > end:
            raise ConfigError(
                f"a job may take {limits.job_minutes:g} minutes here, and this one would take "
                "longer. Choose a quicker method, or fill it on the command line"
            )
        if not here.poll(LOOK_SECONDS):
            continue
        try:
            kind, *told = here.recv()
        except (EOFError, OSError):  # it ended without a word, or in the middle of one
            process.join(GRACE_SECONDS)
            killed = process.exitcode == KILLED
            raise ConfigError(TOO_MUCH if killed else "the job ended all of a sudden") from None
        match kind:
            case "at":
                job.doing, job.share = told
            case "told":
                job.told.append(told[0])
            case "failed":
                raise ConfigError(told[0])
            case "done":
                outcome: tasks.Outcome = pickle.loads(told[0])
                return outcome


class _Teller:
    """What a job says goes to the process that follows it."""

    def __init__(self, there: Connection) -> None:
        self.there = there

    def at(self, words: str, share: float | None = None) -> None:
        self.there.send(("at", words, share))

    def tell(self, line: str) -> None:
        self.there.send(("told", line))


def _work(there: Connection, task: tasks.Task) -> None:
    """The job itself, in its own process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its jobs
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tempfile.tempdir = str(task.held.path.parent)  # what is left behind goes with the table
    with contextlib.suppress(OSError):  # if memory runs out, this is what has to go (Linux)
        Path("/proc/self/oom_score_adj").write_text("900")
    last: tuple[str, str | bytes]
    try:
        outcome = tasks.do(task, _Teller(there))
        last = ("done", pickle.dumps(outcome))  # by value: torch would share it, and be gone
    except BrokenPipeError:  # nobody follows it any more
        return
    except CdsaError as bad:
        last = ("failed", str(bad))
    except MemoryError:
        last = ("failed", TOO_MUCH)
    except Exception as bad:
        logger.exception("a job failed")
        last = ("failed", unexpected(bad))
    with contextlib.suppress(BrokenPipeError):
        there.send(last)


def _end_with_parent() -> None:
    """A job does not outlive its server, however that ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
