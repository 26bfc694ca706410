"""What a terminal shows of a workflow while it runs: status, bars, messages; Ctrl-C as a request to
stop a training."""

import signal
from contextlib import ExitStack
from pathlib import Path

from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from cdsa.cli import console
from cdsa.methods.base import Method
from cdsa.training.callbacks import Progress, tensorboard
from cdsa.workflows.pipeline import Reporter


class ConsoleReporter(Reporter):
    """Status and bars on standard error while it is entered; messages as notes.

    With `total`, a bar counts `advance()`. With `interruptible`, the first Ctrl-C during a
    training asks it to stop and keep its best weights; the second one stops at once. With `json`,
    nothing is written to standard output.
    """

    def __init__(
        self,
        *,
        total: int = 0,
        logdir: Path | None = None,
        interruptible: bool = False,
        json: bool = False,
    ) -> None:
        name = Column(max_width=24, no_wrap=True, overflow="ellipsis")
        on_terminal = console.err.is_terminal
        self.bars = Bars(
            TextColumn("{task.description:<14}", table_column=name, markup=False),
            BarColumn(bar_width=14),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=console.err,
            transient=True,
            disable=not on_terminal,
        )
        # on a terminal, lines of the result are printed above the bars by the console that has them
        above_bars = on_terminal and console.out.is_terminal
        self.out = console.err if json or above_bars else console.out
        self.total, self.logdir, self.interruptible = total, logdir, interruptible
        self.json = json
        self.stack = ExitStack()
        self.outer: TaskID | None = None
        self.inner: TaskID | None = None
        self.stop_requested = False
        self.previous_handler: object = None

    def __enter__(self) -> "ConsoleReporter":
        self.log = self.stack.enter_context(tensorboard(self.logdir)) if self.logdir else None
        self.stack.enter_context(self.bars)
        return self

    def __exit__(self, *error: object) -> None:
        self._restore_interrupts()
        self.stack.close()

    def progress(self, status: str, fraction: float | None = None) -> None:
        self._restore_interrupts()
        self._end_training()
        if self.outer is None:
            detail = f"0/{self.total}" if self.total else ""
            self.outer = self.bars.add_task(status, total=self.total or None, detail=detail)
        self.bars.update(self.outer, description=status)

    def advance(self) -> None:
        self._end_training()
        if self.outer is not None:
            self.bars.advance(self.outer)
            done = int(self.bars.tasks[0].completed)
            self.bars.update(self.outer, detail=f"{done}/{self.total}")

    def message(self, text: str) -> None:
        console.note(text)

    def warn(self, text: str) -> None:
        self.out.print(Text.assemble(("warning:", "yellow"), f" {text}"))

    def reason(self, text: str) -> None:
        self.out.print(f"note: {text}" if self.json else text)

    def training_starts(self, method: Method) -> None:
        console.note(f"training {method.label} for {method.budget}")
        if self.interruptible and self.previous_handler is None:
            self.previous_handler = signal.signal(signal.SIGINT, self._on_interrupt)

    def training(self, progress: Progress) -> None:
        if self.inner is None:
            self.inner = self.bars.add_task("training", total=1.0, detail="")
        detail = f"loss {progress.loss:.3f}"
        if progress.validation is not None:
            detail += f" validation {progress.validation:.3f}"
        self.bars.update(self.inner, completed=progress.fraction, detail=detail)
        if self.log is not None:
            self.log(progress)

    def should_stop(self) -> bool:
        return self.stop_requested

    def _end_training(self) -> None:
        if self.inner is not None:
            self.bars.remove_task(self.inner)
            self.inner = None

    def _on_interrupt(self, number: int, frame: object) -> None:
        self.stop_requested = True
        self._restore_interrupts()
        console.note("stopping after this step; press Ctrl-C again to stop at once")

    def _restore_interrupts(self) -> None:
        if self.previous_handler is not None:
            signal.signal(signal.SIGINT, self.previous_handler)  # type: ignore[arg-type]
            self.previous_handler = None
