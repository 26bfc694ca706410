"""The context of small windows, for tests of networks."""

import torch
from torch import Tensor

from cdsa.nn.context import WindowContext
from cdsa.nn.types import Sizes


def window_context(sizes: Sizes, batch: int = 2, distance: Tensor | None = None) -> WindowContext:
    """A context without calendar features."""
    return WindowContext(
        calendar=torch.zeros(batch, sizes.steps, 0),
        climatology=torch.zeros(batch, *sizes),
        distance=distance,
        station_similarity=torch.eye(sizes.locations),
        step_variance=torch.ones(sizes.measurements),
        variable_ids=torch.arange(sizes.measurements),
    )


def on_a_line(n_stations: int) -> Tensor:
    """Distances of stations on a line, one apart."""
    position = torch.arange(float(n_stations))
    return (position[:, None] - position).abs()
