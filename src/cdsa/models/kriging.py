"""What the places around say: the straight lines of all series, kriged moment by moment.

A line is trusted the less the further away the observations are that it runs between: a walk that
strays by `roughness` a step is off it by that times a b / (a + b), a steps behind one observation
and b before the next. With this as its noise, ordinary kriging of the lines of all places tells of
a place without a sensor. The kernel is learnt for every measurement: how fast it falls with
distance, what a station has of its own, and the noise.

Letters: b window of the batch, t time, l and k locations, m measurement.
"""

import math
from typing import Any

import torch
from torch import Tensor, einsum, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from cdsa.models.surroundings import Surroundings

SLOPE = 0.12
"""First slope of the kernel's logarithm, per unit of distance."""
OWN = 0.05
"""First share of what a station has of its own and no neighbour knows of; its line does."""
NUGGET = 0.005
"""First noise of an observation, in variances of the measurement."""
LEAST_NUGGET = 2e-3
"""So that a moment's equations can be solved in single precision."""
MEAN_TRUST = 1e-3
"""What is known of a moment's mean before: that it is zero, as if so much of a station said so."""


class Kriging(nn.Module):
    """Lines (b, t, l, m), where they are to be believed, and how far a walk strays from them ->
    what is said of every cell."""

    def __init__(self, measurements: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((measurements,), math.log(math.expm1(SLOPE))))
        self.nugget = nn.Parameter(torch.full((measurements,), math.log(NUGGET - LEAST_NUGGET)))
        self.drift = nn.Parameter(torch.zeros(measurements))
        self.own = nn.Parameter(torch.full((measurements,), math.log(OWN / (1 - OWN))))

    def forward(
        self, lines: Tensor, believed: Tensor, strays: Tensor, around: Surroundings
    ) -> Tensor:
        trust = torch.where(believed, self.noise(strays, around).reciprocal(), 0.0)
        trust, lines = einsum("btlm -> bmtl", trust), einsum("btlm -> bmtl", lines)
        kernel = self.kernel(around)
        sides = torch.stack([lines, torch.ones_like(lines)], dim=-1)
        pull: Tensor = Pull.apply(kernel, trust, sides)  # type: ignore[no-untyped-call]
        told, ones = pull.unbind(-1)
        mean = told.sum(-1, keepdim=True) / (ones.sum(-1, keepdim=True) + MEAN_TRUST)
        kriged = mean + einsum("mlk, bmtk -> bmtl", kernel, told - mean * ones)
        return einsum("bmtl -> btlm", kriged)

    def noise(self, strays: Tensor, around: Surroundings) -> Tensor:
        """The variance of what a line is off by, (b, t, l, m)."""
        nugget, drift = self.nugget[around.kinds].exp(), self.drift[around.kinds].exp()
        return LEAST_NUGGET + nugget + drift * around.roughness * strays

    def kernel(self, around: Surroundings) -> Tensor:
        """How much places have in common, (m, l, k): most with themselves. Without coordinates all
        places are equally near."""
        slope = F.softplus(self.slope[around.kinds]).unflatten(0, (-1, 1, 1))
        apart = around.distance
        if apart is None:
            apart = torch.zeros_like(around.likeness.reshape(-1, *around.likeness.shape[-2:])[0])
        own = self.own[around.kinds].sigmoid().unflatten(0, (-1, 1, 1))
        alone = torch.eye(len(apart), dtype=own.dtype, device=own.device)
        told: Tensor = (1 - own) * (-slope * apart).exp() + own * alone
        return told


class Pull(torch.autograd.Function):
    """Kernel (m, l, k), trust (b, m, t, l), sides (b, m, t, l, r) -> pull, of the shape of the
    sides: `pull = trust (sides - kernel pull)`, solved moment by moment.

    Trust is one over the variance of the noise, and may be zero. Written by hand since a moment's
    matrix then takes part in nothing but its own factorisation: the gradient is another pull.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, trust: Tensor, sides: Tensor) -> Tensor:
        root = trust.sqrt()
        pairs = root.unsqueeze(-1) * kernel.unsqueeze(1)
        pairs *= root.unsqueeze(-2)
        pairs.diagonal(dim1=-2, dim2=-1).add_(1.0)
        factor, failed = torch.linalg.cholesky_ex(pairs)
        if failed.any():  # by rounding
            factor = torch.linalg.cholesky(pairs.double()).to(pairs.dtype)
        pull = _solved(factor, root, sides)
        ctx.save_for_backward(kernel, trust, sides, factor, pull)
        return pull

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wish: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kernel, trust, sides, factor, pull = ctx.saved_tensors
        side = _solved(factor, trust.sqrt(), wish)
        left, asked = (_heard(kernel, part) for part in (pull, side))
        by_trust = ((wish - asked) * (sides - left)).sum(-1)
        return -einsum("bmtlr, bmtkr -> mlk", side, pull), by_trust, side


def _solved(factor: Tensor, root: Tensor, sides: Tensor) -> Tensor:
    root = root.unsqueeze(-1)
    return root * torch.cholesky_solve(root * sides, factor)


def _heard(kernel: Tensor, pull: Tensor) -> Tensor:
    return einsum("mlk, bmtkr -> bmtlr", kernel, pull)
