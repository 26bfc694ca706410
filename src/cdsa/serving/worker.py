"""A job in a process of its own: it can be ended at any moment, takes the memory it used with it,
and leaves the server free to answer others."""

import contextlib
import logging
import multiprocessing
import pickle
import shutil
import signal
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cdsa.errors import CdsaError, ConfigError
from cdsa.serving import doing
from cdsa.serving.jobs import CancelledError, Job
from cdsa.serving.limits import Limits

FORKING = "forkserver"
"""A process that has loaded everything, and from which those of jobs begin at once."""
LOOK_SECONDS = 0.1
"""Between two looks whether a job is still wanted."""
TOO_MUCH = "this takes more memory than there is. Send a smaller table"
logger = logging.getLogger("cdsa")


def prepare() -> Any:
    """What makes processes here, with all that a job needs loaded beforehand."""
    if FORKING not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context(FORKING)
    context.set_forkserver_preload([doing.__name__, "cdsa.method.neural", "cdsa.reporting"])
    return context


def work_off(job: Job, limits: Limits, context: Any) -> None:
    """Do a job in another process, and write down here how far that is and what came out."""
    here, there = context.Pipe(duplex=False)
    task = doing.task_of(job, limits)
    process = context.Process(target=_work, args=(there, task), daemon=True)
    done = False
    try:
        process.start()
        there.close()
        outcome = _followed(job, here, process, limits)
        job.records, job.files, job.filler = outcome.records, outcome.files, outcome.filler
        done = True
    finally:
        if process.is_alive() and not done:
            process.kill()
        process.join()
        here.close()
        if not done:
            shutil.rmtree(task.folder, ignore_errors=True)


def _followed(job: Job, here: Connection, process: BaseProcess, limits: Limits) -> "doing.Outcome":
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
        except EOFError:  # it ended without a word
            process.join()
            killed = process.exitcode == -signal.SIGKILL
            raise ConfigError(TOO_MUCH if killed else "the job ended all of a sudden") from None
        match kind:
            case "at":
                job.doing, job.share = told
            case "told":
                job.told.append(told[0])
            case "failed":
                raise ConfigError(told[0])
            case "done":
                outcome: doing.Outcome = pickle.loads(told[0])
                return outcome


class _Teller:
    """What a job says goes to the process that follows it."""

    def __init__(self, there: Connection) -> None:
        self.there = there

    def at(self, words: str, share: float | None = None) -> None:
        self.there.send(("at", words, share))

    def tell(self, line: str) -> None:
        self.there.send(("told", line))


def _work(there: Connection, task: "doing.Task") -> None:
    """The job itself, in its own process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its jobs
    with contextlib.suppress(OSError):  # if memory runs out, this is what has to go (Linux)
        Path("/proc/self/oom_score_adj").write_text("900")
    with contextlib.suppress(BrokenPipeError):  # nobody follows it any more
        try:
            outcome = doing.do(task, _Teller(there))
            there.send(("done", pickle.dumps(outcome)))  # by value: torch would share, and be gone
        except CdsaError as bad:
            there.send(("failed", str(bad)))
        except MemoryError:
            there.send(("failed", TOO_MUCH))
        except BrokenPipeError:
            raise
        except Exception as bad:
            logger.exception("a job failed")
            there.send(("failed", f"this should not happen: {type(bad).__name__}: {bad}"))
