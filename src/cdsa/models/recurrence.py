"""What recurrent networks are told of gaps. Letters: b window of the batch, t time, s series."""

import torch
from torch import Tensor


def steps_since(seen: Tensor) -> Tensor:
    """Steps since a series was last seen before each step, (b, t, s); zero at the first."""
    since = [torch.zeros_like(seen[:, 0])]
    for t in range(1, seen.shape[1]):
        since.append(1 + (1 - seen[:, t - 1]) * since[-1])
    return torch.stack(since, dim=1)
