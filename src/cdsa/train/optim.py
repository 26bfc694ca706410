"""The learning rate along a run."""

import math
from typing import Literal

from cdsa.errors import ConfigError

Schedule = Literal["steps", "cosine", "constant"]


def rate_at(schedule: Schedule, rate: float, epoch: int, done: float) -> float:
    """The learning rate in this epoch, with this share of the run done.

    'steps' is the authors': times 0.3 every 15 epochs from epoch 20 on, not below 1e-6. 'cosine'
    rises over the first twentieth of the run and then falls to a hundredth.
    """
    match schedule:
        case "constant":
            return rate
        case "steps":
            falls = 0 if epoch < 20 else 1 + (epoch - 20) // 15
            return max(rate * 0.3**falls, 1e-6)
        case "cosine":
            if done < 0.05:
                return rate * max(done / 0.05, 0.02)
            along = min((done - 0.05) / 0.95, 1.0)
            return rate * (0.01 + 0.99 * (1 + math.cos(math.pi * along)) / 2)
    raise ConfigError(f"there is no schedule '{schedule}'")
