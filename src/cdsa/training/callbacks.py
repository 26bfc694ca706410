"""What accompanies a training: device, progress, stopping, TensorBoard."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cdsa.errors import MissingExtraError


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is."""

    epoch: int
    step: int
    fraction: float
    """Share of the run that is done."""

    seconds: float
    loss: float
    """Mean loss since the last look at the validation cells."""

    validation: float | None
    """Error on the validation cells when last looked at."""

    best: float | None
    lr: float


OnProgress = Callable[[Progress], None]


def nobody(told: object) -> None:
    """Takes no notice."""


def never() -> bool:
    """Wants no end."""
    return False


@dataclass(frozen=True)
class RunContext:
    """How a training is accompanied; changes nothing of what is learnt but for the device."""

    device: str = "auto"
    """auto, cpu, cuda or mps."""

    folder: Path | None = None
    """Where the run is written down, to be gone on with."""

    on_progress: OnProgress = nobody
    should_stop: Callable[[], bool] = never
    on_start: Callable[[Any], None] = nobody
    """Told of the method when its training begins."""


@contextmanager
def tensorboard(folder: Path) -> Iterator[OnProgress]:
    """A watch that logs loss, validation error and learning rate to this folder."""
    if find_spec("tensorboard") is None:
        raise MissingExtraError("--tensorboard", "tensorboard", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:

        def watch(report: Progress) -> None:
            figures = {
                "loss": report.loss,
                "validation": report.validation,
                "learning rate": report.lr,
            }
            for name, figure in figures.items():
                if figure is not None:
                    writer.add_scalar(name, figure, report.step)

        yield watch
