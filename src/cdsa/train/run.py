"""How a training is accompanied from outside. Light: knows nothing of torch."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Report:
    """How far a run is."""

    epoch: int
    step: int
    done: float
    """Share of the run that is done."""

    seconds: float
    loss: float
    """Mean loss since the last look at the validation cells."""

    validation: float | None
    """Error on the validation cells when last looked at."""

    best: float | None
    rate: float


Watch = Callable[[Report], None]


def nobody(told: object) -> None:
    """Takes no notice."""


def never() -> bool:
    """Wants no end."""
    return False


@dataclass(frozen=True)
class Run:
    """How a training is accompanied; changes nothing of what is learnt but for the device."""

    device: str = "auto"
    """auto, cpu, cuda or mps."""

    folder: Path | None = None
    """Where the run is written down, to be gone on with."""

    watch: Watch = nobody
    stop: Callable[[], bool] = never
    start: Callable[[object], None] = nobody
    """Told of the method when its training begins."""
