"""What recurrent networks are told of gaps and of one another.

Letters: b window of the batch, t time, s series.
"""

import torch
from torch import Tensor


def steps_since(seen: Tensor) -> Tensor:
    """Steps since a series was last seen before each step, (b, t, s); zero at the first."""
    number = torch.arange(seen.shape[1], device=seen.device, dtype=seen.dtype).unsqueeze(-1)
    last = torch.where(seen > 0, number, 0.0).cummax(dim=1).values
    return number - torch.cat([torch.zeros_like(last[:, :1]), last[:, :-1]], dim=1)


def last_seen(values: Tensor, seen: Tensor) -> Tensor:
    """The last value that was seen of each series up to each step, (b, t, ...); zero before the
    first."""
    number = torch.arange(values.shape[1], device=values.device)
    number = number.unflatten(0, (-1, *[1] * (values.ndim - 2)))
    last = torch.where(seen, number, -1).cummax(dim=1).values
    return torch.where(last >= 0, values.gather(1, last.clamp(min=0)), 0.0)


def without_itself(weight: Tensor) -> Tensor:
    """Weights (s, s) by which none is told from itself."""
    return weight * (1 - torch.eye(len(weight), dtype=weight.dtype, device=weight.device))
