"""What the places around say: the straight lines of all series, kriged moment by moment.

A line is trusted the less the further away the observations are that it runs between: a walk that
strays by `roughness` a step is off it by that times a b / (a + b), a steps behind one observation
and b before the next. With this as its noise, ordinary kriging of the lines of all places weighs
a station's own line against what its neighbours say, and where there is no sensor it is what is
left. The kernel is learnt for every measurement: how fast it falls with distance, how much stations
that were alike count as near, and the noise.

Letters: b window of the batch, t time, l and k locations, m measurement.
"""

import math
from typing import Any

import torch
from torch import Tensor, einsum, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from cdsa.nn.context import WindowContext
from cdsa.nn.interpolation import Interpolation

SLOPE = 0.12
"""First slope of the kernel's logarithm, per unit of distance."""


ALIKE = 0.3
"""First share of resemblance in the kernel."""


OWN = 0.05
"""First share of what a station has of its own and no neighbour knows of; its line does."""


NUGGET = 0.005
"""First noise of an observation, in variances of the measurement."""


LEAST_NUGGET = 2e-3
"""So that a moment's equations can be solved in single precision."""


MEAN_TRUST = 1e-3
"""What is known of a moment's mean before: that it is zero, as if so much of a station said so."""


class KrigingLayer(nn.Module):
    """Lines (b, t, l, m) and where they are to be believed -> what is said of every cell.

    Its kernel falls with distance or, with `alike`, is in part the resemblance of places. Of a
    place that nothing is known of but where it is, the latter is only a part of what others have in
    common, so it takes distance alone to tell of such places.
    """

    def __init__(self, measurements: int, *, alike: bool) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((measurements,), math.log(math.expm1(SLOPE))))
        self.nugget = nn.Parameter(torch.full((measurements,), math.log(NUGGET - LEAST_NUGGET)))
        self.drift = nn.Parameter(torch.zeros(measurements))
        self.own = nn.Parameter(torch.full((measurements,), math.log(OWN / (1 - OWN))))
        self.alike = None
        if alike:
            self.alike = nn.Parameter(torch.full((measurements,), math.log(ALIKE / (1 - ALIKE))))

    def forward(
        self, lines: Tensor, believed: Tensor, easy: Interpolation, context: WindowContext
    ) -> Tensor:
        trust = torch.where(believed, self.noise(easy, context).reciprocal(), 0.0)
        trust, lines = einsum("btlm -> bmtl", trust), einsum("btlm -> bmtl", lines)
        kernel = self.kernel(context)
        rhs = torch.stack([lines, torch.ones_like(lines)], dim=-1)
        pull: Tensor = KrigingSolve.apply(kernel, trust, rhs)  # type: ignore[no-untyped-call]
        told, ones = pull.unbind(-1)
        mean = told.sum(-1, keepdim=True) / (ones.sum(-1, keepdim=True) + MEAN_TRUST)
        kriged = mean + einsum("bmlk, bmtk -> bmtl", kernel, told - mean * ones)
        return einsum("bmtl -> btlm", kriged)

    def noise(self, easy: Interpolation, context: WindowContext) -> Tensor:
        """The variance of what a line is off by, (b, t, l, m)."""
        nugget, drift = (
            self.nugget[context.variable_ids].exp(),
            self.drift[context.variable_ids].exp(),
        )
        return LEAST_NUGGET + nugget + drift * context.step_variance * easy.bridge_variance

    def kernel(self, context: WindowContext) -> Tensor:
        """How much places have in common, (b, m, l, k), where b may be one: most with themselves.
        Without coordinates all places are equally near."""
        slope = F.softplus(self.slope[context.variable_ids]).unflatten(0, (-1, 1, 1))
        likeness = (
            context.station_similarity
            if context.station_similarity.ndim == 3
            else context.station_similarity.unsqueeze(0)
        )
        apart = torch.zeros_like(likeness[0]) if context.distance is None else context.distance
        kernel: Tensor = (-slope * apart).exp().unsqueeze(0)
        if self.alike is not None:
            share = self.alike[context.variable_ids].sigmoid().unflatten(0, (-1, 1, 1))
            kernel = share * likeness.unsqueeze(1) + (1 - share) * kernel
        own = self.own[context.variable_ids].sigmoid().unflatten(0, (-1, 1, 1))
        alone = torch.eye(len(apart), dtype=own.dtype, device=own.device)
        told: Tensor = (1 - own) * kernel + own * alone
        return told


class KrigingSolve(torch.autograd.Function):
    """Kernel (b or 1, m, l, k), trust (b, m, t, l), sides (b, m, t, l, r) -> pull, of the shape of
    the sides: `pull = trust (sides - kernel pull)`, solved moment by moment.

    Trust is one over the variance of the noise, and may be zero. Written by hand since a moment's
    matrix then takes part in nothing but its own factorisation: the gradient is another pull.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, trust: Tensor, rhs: Tensor) -> Tensor:
        root = trust.sqrt()
        pairs = root.unsqueeze(-1) * kernel.unsqueeze(2)
        pairs *= root.unsqueeze(-2)
        pairs.diagonal(dim1=-2, dim2=-1).add_(1.0)
        factor, failed = torch.linalg.cholesky_ex(pairs)
        if failed.any():  # by rounding: likeness is mended beforehand
            factor = torch.linalg.cholesky(pairs.double()).to(pairs.dtype)
        pull = _solved(factor, root, rhs)
        ctx.save_for_backward(kernel, trust, rhs, factor, pull)
        return pull

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kernel, trust, rhs, factor, pull = ctx.saved_tensors
        side = _solved(factor, trust.sqrt(), grad_output)
        left, asked = (_heard(kernel, part) for part in (pull, side))
        by_trust = ((grad_output - asked) * (rhs - left)).sum(-1)
        by_kernel = -einsum("bmtlr, bmtkr -> bmlk", side, pull)
        return by_kernel.sum_to_size(kernel.shape), by_trust, side


def _solved(factor: Tensor, root: Tensor, rhs: Tensor) -> Tensor:
    root = root.unsqueeze(-1)
    return root * torch.cholesky_solve(root * rhs, factor)


def _heard(kernel: Tensor, pull: Tensor) -> Tensor:
    return einsum("bmlk, bmtkr -> bmtlr", kernel.expand(len(pull), -1, -1, -1), pull)
