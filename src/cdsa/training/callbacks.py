"""What accompanies a training run: device, progress, stopping, TensorBoard."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cdsa.errors import MissingExtraError


@dataclass(frozen=True, kw_only=True)
class Progress:
    epoch: int
    step: int
    fraction: float
    """Share of the run that is done."""

    seconds: float
    loss: float
    """Mean loss since the last validation."""

    validation: float | None
    """Error at the last validation."""

    best: float | None
    lr: float


OnProgress = Callable[[Progress], None]


def ignore(event: object) -> None:
    """A callback that does nothing."""


def never() -> bool:
    return False


@dataclass(frozen=True)
class RunContext:
    """Device and callbacks of a run. Only the device may change a result, by rounding."""

    device: str = "auto"
    """auto, cpu, cuda or mps."""

    folder: Path | None = None
    """Where the run is saved, to be resumed."""

    on_progress: OnProgress = ignore
    should_stop: Callable[[], bool] = never
    on_start: Callable[[Any], None] = ignore
    """Called with the method when its training starts."""


@contextmanager
def tensorboard(folder: Path) -> Iterator[OnProgress]:
    """A callback that logs loss, validation error and learning rate to this folder."""
    if find_spec("tensorboard") is None:
        raise MissingExtraError("--tensorboard", "tensorboard", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:

        def on_progress(progress: Progress) -> None:
            writer.add_scalar("loss", progress.loss, progress.step)
            writer.add_scalar("learning rate", progress.lr, progress.step)
            if progress.validation is not None:
                writer.add_scalar("validation", progress.validation, progress.step)

        yield on_progress
