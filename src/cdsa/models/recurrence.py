"""What recurrent networks are told of gaps. Letters: b window of the batch, t time, s series."""

import torch
from torch import Tensor


def steps_since(seen: Tensor) -> Tensor:
    """Steps since a series was last seen before each step, (b, t, s); zero at the first."""
    number = torch.arange(seen.shape[1], device=seen.device, dtype=seen.dtype).unsqueeze(-1)
    last = torch.where(seen > 0, number, 0.0).cummax(dim=1).values
    return number - torch.cat([torch.zeros_like(last[:, :1]), last[:, :-1]], dim=1)
