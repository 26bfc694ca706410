"""Processes for jobs and explanations: one can be stopped at any moment, returns its memory when it
ends, and leaves the server free to answer. Torch is loaded there only, never in the server's own
process."""

import contextlib
import logging
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from cdsa.errors import CdsaError, ConfigError, TableError
from cdsa.methods.base import Method
from cdsa.training.callbacks import Progress
from cdsa.web import tasks
from cdsa.web.jobs import CancelledError, Job, Request, internal_error
from cdsa.web.limits import Limits
from cdsa.web.parsing import SOURCE, ParsedTable, TooLargeError
from cdsa.web.store import NotFoundError, TableStore
from cdsa.workflows.pipeline import Reporter

PRELOADED = ["cdsa.web.views", "cdsa.methods.engine.estimator", "cdsa.report.page"]
"""Modules that a process needs, loaded once for all of them where processes can be forked."""

CALL_SECONDS = 120.0
"""Time limit of anything but a job."""

POLL_SECONDS = 0.1
"""Interval at which a job is checked for cancellation."""

EXIT_SECONDS = 5.0
"""Time for a process to exit after its last message."""

OUT_OF_MEMORY_CODES = (-9, -6)
"""Exit codes of a process that the system killed, most likely for its memory, and of one in which a
library could not get any."""

PARSING_MEMORY = 40
"""Bytes of memory that parsing may use, for each byte that an upload may have."""

NO_MEMORY = re.compile(r"malloc|bad_alloc|out of memory|allocate memory|temporarily unavailable")
"""What libraries say if they cannot get any memory, or no thread for lack of it."""

OUT_OF_MEMORY = "this needs more memory than the server has. Upload a smaller table"

logger = logging.getLogger("cdsa")

T = TypeVar("T")


def make_context() -> BaseContext:
    """A context whose processes are forked from one that has loaded what they need or, where
    forking is not safe, started anew."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    threading.Thread(target=forkserver.ensure_running, daemon=True).start()
    return context


def run_job(job: Job, store: TableStore, limits: Limits, context: BaseContext) -> None:
    """Run a job in a process; its progress and results are written into `job`."""
    source = job.table.path.parent / f"{job.id}.pickle"
    job.status = "starting"
    run = partial(_run_task, job.request, source, job.folder, limits)
    try:
        # a link of the job's own, since parsed tables are removed when others are used
        os.link(store.parsed(job.table, job.options).folder / SOURCE, source)
        seconds = 60 * limits.job_minutes
        job.records, job.files = _run_in_process(context, run, source.parent, seconds, job)
    except BaseException:
        shutil.rmtree(job.folder, ignore_errors=True)
        raise
    finally:
        source.unlink(missing_ok=True)


def parse(
    context: BaseContext, limits: Limits, function: Callable[[], ParsedTable], folder: Path
) -> ParsedTable:
    """The same of a function that parses a table, with limited memory."""
    run, max_bytes = partial(_without_reporter, function), PARSING_MEMORY * limits.bytes
    return _run_in_process(context, run, folder, CALL_SECONDS, max_bytes=max_bytes)


def call(context: BaseContext, function: Callable[[], T], folder: Path) -> T:
    """The result of a function that runs in a process; its temporary files go into `folder`."""
    return _run_in_process(context, partial(_without_reporter, function), folder, CALL_SECONDS)


def _run_in_process(
    context: BaseContext,
    function: Callable[[Reporter], T],
    folder: Path,
    seconds: float,
    job: Job | None = None,
    max_bytes: int | None = None,
) -> T:
    receiver, sender = context.Pipe(duplex=False)
    process: BaseProcess = context.Process(  # type: ignore[attr-defined]
        target=_main, args=(sender, function, folder, max_bytes), daemon=True
    )
    with receiver:
        with sender:
            process.start()
        try:
            result: T = _follow(process, receiver, seconds, job)
            process.join(EXIT_SECONDS)
            return result
        finally:
            if process.is_alive():
                process.kill()
            process.join()


def _follow(process: BaseProcess, receiver: Connection, seconds: float, job: Job | None) -> Any:
    """The result of a process; what it reports meanwhile is written into the job."""
    deadline = time.monotonic() + seconds
    while True:
        if job is not None and job.cancelled:
            raise CancelledError
        if time.monotonic() > deadline:
            raise ConfigError(
                f"the time limit is {seconds / 60:g} minutes here, and this takes longer. Choose "
                "a faster method, or use the command line"
            )
        if not receiver.poll(POLL_SECONDS):
            continue
        try:
            kind, *content = receiver.recv()
        except (EOFError, OSError):  # the process died, perhaps in the middle of a message
            process.join(EXIT_SECONDS)
            if process.exitcode in OUT_OF_MEMORY_CODES:
                raise ConfigError(OUT_OF_MEMORY) from None
            raise ConfigError("the process ended unexpectedly") from None
        match kind:
            case "progress" if job is not None:
                job.status, job.progress = content
            case "message" if job is not None:
                job.messages.append(content[0])
            case "failed":
                raise content[0]
            case "done":
                return content[0]


class _PipeReporter(Reporter):
    """Sends the progress of a job to the server's process."""

    def __init__(self, sender: Connection) -> None:
        self.sender, self.training_status = sender, ""

    def progress(self, status: str, fraction: float | None = None) -> None:
        self.sender.send(("progress", status, fraction))

    def message(self, text: str) -> None:
        self.sender.send(("message", text))

    def training_starts(self, method: Method) -> None:
        duration = "" if method.minutes is None else f" for {method.minutes:g} min"
        self.training_status = f"training {method.label}{duration}"

    def training(self, progress: Progress) -> None:
        self.progress(f"{self.training_status}, step {progress.step:,}", progress.fraction)


def _run_task(
    request: Request, parsed: Path, folder: Path, limits: Limits, reporter: Reporter
) -> tasks.Outcome:
    """Run a job on the table that the server has parsed."""
    reporter.progress("loading the table")
    with parsed.open("rb") as file:
        source = pickle.load(file)
    return tasks.run(request, source, folder, limits, reporter)


def _without_reporter(function: Callable[[], T], reporter: Reporter) -> T:
    return function()


def _limit_memory(max_bytes: int) -> None:
    """Let this process use so many more bytes, where the system can limit them."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        lines = Path("/proc/self/status").read_text().splitlines()
        used = next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))
        resource.setrlimit(resource.RLIMIT_DATA, (1024 * used + max_bytes, resource.RLIM_INFINITY))


def _main(
    sender: Connection,
    function: Callable[[Reporter], object],
    folder: Path,
    max_bytes: int | None = None,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which stops its jobs
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    tempfile.tempdir = str(folder)  # what a killed process leaves behind is removed with its table
    with contextlib.suppress(OSError):  # if memory runs out, this process is the first to go
        Path("/proc/self/oom_score_adj").write_text("900")
    if max_bytes is not None:
        _limit_memory(max_bytes)
    last: tuple[str, object]
    failure: BaseException | None = None
    try:
        last = ("done", function(_PipeReporter(sender)))
    except BrokenPipeError:  # the server no longer listens
        return
    except (NotFoundError, TableError, TooLargeError) as error:  # with status codes of their own
        last, failure = ("failed", type(error)(str(error))), error
    except CdsaError as error:
        last = ("failed", ConfigError(str(error)))
    except MemoryError:
        last = ("failed", ConfigError(OUT_OF_MEMORY))
    except Exception as error:
        logger.exception("a job failed")
        last, failure = ("failed", ConfigError(internal_error(error))), error
    if max_bytes is not None and NO_MEMORY.search(str(failure)):
        last = ("failed", ConfigError(OUT_OF_MEMORY))
    with contextlib.suppress(BrokenPipeError):
        sender.send(last)


def _exit_with_parent() -> None:
    """A process does not outlive the server, however that ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
