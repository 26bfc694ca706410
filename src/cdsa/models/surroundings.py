"""What lies around the cells of a window, and what is easily guessed from it.

Letters: b window of the batch, t time, l and k locations, m measurement.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Surroundings(NamedTuple):
    """Where and when the cells of a batch of windows are. Nothing here depends on hidden values."""

    clock: Tensor
    """Sines and cosines of the time of day, week and year, where the steps make them meaningful;
    (b, t, f)."""

    usual: Tensor
    """The usual scaled value of a series at this time of day, told from other days; zero if nothing
    is known of it; (b, t, l, m)."""

    distance: Tensor | None
    """Between locations, in units of the network the weights were trained on; (l, k)."""

    likeness: Tensor
    """How much locations resemble each other, from -1 to 1, zero where nothing is known; (l, k)."""

    kinds: Tensor
    """The number each measurement has among those that the weights know; (m,)."""

    def to(self, device: torch.device) -> "Surroundings":
        """The same on another device."""
        return Surroundings(
            self.clock.to(device),
            self.usual.to(device),
            None if self.distance is None else self.distance.to(device),
            self.likeness.to(device),
            self.kinds.to(device),
        )


class EasyAnswer(NamedTuple):
    """What can be said of each cell without learning, all (b, t, l, m)."""

    line: Tensor
    """The straight line between the nearest observations, which goes on level beyond the last; zero
    in a series that has none."""

    before: Tensor
    """How near the last observation is: 1 / (1 + steps), zero if there is none."""

    after: Tensor


def easy_answer(values: Tensor, observed: Tensor) -> EasyAnswer:
    """The straight line through the observed cells of each series, and how far they are."""
    steps = values.shape[1]
    number = torch.arange(steps, device=values.device).unflatten(0, (-1, 1, 1))
    last = torch.where(observed, number, -1).cummax(dim=1).values
    following = torch.where(observed, number, steps).flip(1).cummin(dim=1).values.flip(1)
    has_last, has_following = last >= 0, following < steps
    back, ahead = (number - last).to(values.dtype), (following - number).to(values.dtype)
    # on an observed cell both distances are zero, and either value is its own
    share = torch.where(has_last, back / (back + ahead).clamp(min=1), 1.0)
    share = torch.where(has_following, share, 0.0)
    from_last = torch.where(has_last, values.gather(1, last.clamp(min=0)), 0.0)
    from_following = torch.where(
        has_following, values.gather(1, following.clamp(max=steps - 1)), 0.0
    )
    return EasyAnswer(
        line=torch.lerp(from_last, from_following, share),
        before=torch.where(has_last, 1 / (1 + back), 0.0),
        after=torch.where(has_following, 1 / (1 + ahead), 0.0),
    )
