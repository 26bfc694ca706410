"""More than what happened: windows stretched and shifted, as they might have been."""

from dataclasses import replace

import torch
from torch import Tensor

from cdsa.windows import Window


def jittered(
    window: Window, much: float, source: torch.Generator, together: Tensor | None = None
) -> Window:
    """Every window with its values, and what is usual, stretched by about `much` and shifted by as
    many standard deviations, each measurement on its own. Measurements that belong `together`, the
    components of a direction, stay as they are."""
    measurements = window.values.shape[-1]
    shape = (len(window.values), 1, 1, measurements)
    stretch, shift = (much * torch.randn(shape, generator=source) for _ in range(2))
    if together is not None:
        single = together.cpu().bincount()[together.cpu()] == 1
        stretch, shift = stretch * single, shift * single
    stretch, shift = (part.to(window.values.device) for part in (stretch.exp(), shift))
    there = window.observed | window.asked
    around = window.around
    if around is not None:
        usual, roughness = around.usual * stretch + shift, around.roughness * stretch**2
        around = around._replace(usual=usual, roughness=roughness)
    return replace(
        window,
        values=torch.where(window.observed, window.values * stretch + shift, 0.0),
        truth=torch.where(there, window.truth * stretch + shift, 0.0),
        around=around,
    )
