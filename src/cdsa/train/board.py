"""A training watched in TensorBoard; needs the extra 'tensorboard'."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from cdsa.errors import MissingExtraError
from cdsa.train.run import Report, Watch


@contextmanager
def on_board(folder: Path) -> Iterator[Watch]:
    """A watch that logs loss, validation error and learning rate to this folder."""
    if find_spec("tensorboard") is None:
        raise MissingExtraError("--tensorboard", "tensorboard", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:

        def watch(report: Report) -> None:
            figures = {
                "loss": report.loss,
                "validation": report.validation,
                "learning rate": report.rate,
            }
            for name, figure in figures.items():
                if figure is not None:
                    writer.add_scalar(name, figure, report.step)

        yield watch
