"""What is seen while something takes long: bars, a log, a word before a network trains, and Ctrl-C
as a wish to stop."""

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rich import progress
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from cdsa.cli import console
from cdsa.cli.train_options import Training
from cdsa.training.callbacks import OnProgress, Progress, RunContext


@contextmanager
def training(
    options: Training, *, active: bool, folder: Path | None = None
) -> Iterator[RunContext]:
    """All that accompanies a training: a bar, a log if wanted, Ctrl-C as a wish to stop; nothing
    of it if no network is trained."""
    if not active:
        yield RunContext()
        return
    with interruptible() as stop, Bar() as bar, logged(options) as log:
        yield RunContext(
            folder=folder, on_progress=log(bar.watch), should_stop=stop, on_start=say_training
        )


def say_training(method: object) -> None:
    """Say that a network is trained, and for how long, before it starts."""
    if not isinstance(method, Trained):
        return
    told = method.train
    spans = [f"{told.minutes:g} minutes (--minutes)"] if told.minutes else []
    spans += [f"{told.passes:,} passes (--epochs)"] if told.passes < math.inf else []
    size = getattr(method, "size", "")
    console.note(f"training {method.label} for {' or '.join(spans)}{size}")


@runtime_checkable
class Trained(Protocol):
    """A method that trains, as far as one has to know of it here."""

    @property
    def label(self) -> str: ...

    @property
    def train(self) -> Any: ...


class Bar:
    """A progress bar on a terminal, with a second line while a network trains."""

    def __init__(self) -> None:
        name = Column(max_width=24, no_wrap=True, overflow="ellipsis")
        columns = (
            TextColumn("{task.description:<14}", table_column=name),
            BarColumn(bar_width=14),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
        )
        quiet = not console.err.is_terminal
        self.progress = progress.Progress(
            *columns, console=console.err, transient=True, disable=quiet
        )
        self.outer: TaskID | None = None
        self.inner: TaskID | None = None
        self.named = False

    def __enter__(self) -> "Bar":
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def start(self, what: str, total: int) -> None:
        """Show how many things are done."""
        self.outer = self.progress.add_task(what, total=total, told=f"0/{total}")
        self.total = total

    def name(self, what: str) -> None:
        """Say what is under way."""
        self.named = True
        if self.outer is not None:
            self.progress.update(self.outer, description=what)

    def advance(self) -> None:
        """One thing more is done."""
        if self.inner is not None:
            self.progress.remove_task(self.inner)
            self.inner = None
        if self.outer is not None:
            self.progress.advance(self.outer)
            done = int(self.progress.tasks[0].completed)
            self.progress.update(self.outer, told=f"{done}/{self.total}")

    def watch(self, report: Progress) -> None:
        """Show how far a training is."""
        if self.inner is None:
            self.inner = self.progress.add_task("training", total=1.0, told="")
        told = f"loss {report.loss:.3f}"
        if report.validation is not None:
            told += f" validation {report.validation:.3f}"
        self.progress.update(self.inner, completed=report.fraction, told=told)


@contextmanager
def logged(training: Training) -> Iterator[Callable[[OnProgress], OnProgress]]:
    """Take --tensorboard out of the options; a watch can then be made to log there as well."""
    folder = training.pop("tensorboard", None)
    if folder is None:
        yield lambda watch: watch
        return
    from cdsa.training.callbacks import tensorboard

    with tensorboard(Path(str(folder))) as log:

        def both(watch: OnProgress) -> OnProgress:
            def seen(report: Progress) -> None:
                watch(report)
                log(report)

            return seen

        yield both


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a wish to stop that a training can ask for; the second one stops
    at once."""
    wished = False

    def wish(number: int, frame: object) -> None:
        nonlocal wished
        wished = True
        signal.signal(signal.SIGINT, before)
        console.note("stopping after this step; press Ctrl-C again to stop at once")

    before = signal.signal(signal.SIGINT, wish)
    try:
        yield lambda: wished
    finally:
        signal.signal(signal.SIGINT, before)
