"""Kriging as a layer: at every step, the interpolated lines of all series are kriged across
stations.

A line is the less reliable the further away its observations are: a random walk with this step
variance is off the line by the step variance times a b / (a + b), a steps after one observation and
b before the next. With that as noise, ordinary kriging weighs the line of a station against its
neighbours, and interpolates where there is no sensor. The kernel is trained for each measurement:
its decay with distance, the share of station similarity, and the noise.

Letters: b window of the batch, t time, l and k locations, m measurement, r right-hand side.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor, einsum, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from cdsa.nn.context import WindowContext

SLOPE = 0.12
"""Initial decay of the kernel's logarithm, per unit of distance."""

SIMILARITY_SHARE = 0.3
"""Initial share of station similarity in the kernel."""

LOCAL_SHARE = 0.05
"""Initial share of the variance that a station shares with no neighbour."""

NUGGET = 0.005
"""Initial noise of an observation, in variances of the measurement."""

MIN_NUGGET = 2e-3
"""So that the equations of a step can be solved in single precision."""

MEAN_PRECISION = 1e-3
"""Precision of the prior that the mean of a step is zero, as a fraction of a station."""


class KrigingLayer(nn.Module):
    """Lines (b, t, l, m) and whether they are valid -> kriged values (b, t, l, m).

    The kernel decays with distance or, with `use_similarity`, is in part the similarity of
    stations. An unmonitored site has no similarity to others, so distance alone predicts it.
    """

    def __init__(self, n_measurements: int, *, use_similarity: bool) -> None:
        super().__init__()
        size = (n_measurements,)
        self.slope = nn.Parameter(torch.full(size, math.log(math.expm1(SLOPE))))
        self.nugget = nn.Parameter(torch.full(size, math.log(NUGGET - MIN_NUGGET)))
        self.bridge_scale = nn.Parameter(torch.zeros(size))
        self.local_share = nn.Parameter(torch.full(size, _logit(LOCAL_SHARE)))
        self.similarity_share = None
        if use_similarity:
            self.similarity_share = nn.Parameter(torch.full(size, _logit(SIMILARITY_SHARE)))

    def forward(
        self, lines: Tensor, valid: Tensor, variance: Tensor, context: WindowContext
    ) -> Tensor:
        noise = self.noise(variance, context)
        precision = torch.where(valid, noise.reciprocal(), 0.0)
        precision, lines = einsum("btlm -> bmtl", precision), einsum("btlm -> bmtl", lines)
        kernel = self.kernel(context)
        rhs = torch.stack([lines, torch.ones_like(lines)], dim=-1)
        weights: Tensor = KrigingSolve.apply(kernel, precision, rhs)  # type: ignore[no-untyped-call]
        of_lines, of_ones = weights.unbind(-1)
        mean = of_lines.sum(-1, keepdim=True) / (of_ones.sum(-1, keepdim=True) + MEAN_PRECISION)
        kriged = mean + einsum("bmlk, bmtk -> bmtl", kernel, of_lines - mean * of_ones)
        return einsum("bmtl -> btlm", kriged)

    def noise(self, variance: Tensor, context: WindowContext) -> Tensor:
        """Variance of the error of a line, (b, t, l, m)."""
        nugget = self.nugget[context.variable_ids].exp()
        scale = self.bridge_scale[context.variable_ids].exp()
        return MIN_NUGGET + nugget + scale * variance

    def kernel(self, context: WindowContext) -> Tensor:
        """Covariance of stations, (b, m, l, k), where b may be one. Without coordinates all
        stations are equally near."""
        ids, similarity = context.variable_ids, context.station_similarity
        slope = F.softplus(self.slope[ids]).unflatten(0, (-1, 1, 1))
        similarity = similarity if similarity.ndim == 3 else similarity.unsqueeze(0)
        distance = context.distance
        distance = torch.zeros_like(similarity[0]) if distance is None else distance
        kernel: Tensor = (-slope * distance).exp().unsqueeze(0)
        if self.similarity_share is not None:
            share = self.similarity_share[ids].sigmoid().unflatten(0, (-1, 1, 1))
            kernel = share * similarity.unsqueeze(1) + (1 - share) * kernel
        local = self.local_share[ids].sigmoid().unflatten(0, (-1, 1, 1))
        identity = torch.eye(len(distance), dtype=local.dtype, device=local.device)
        return cast(Tensor, (1 - local) * kernel + local * identity)


class KrigingSolve(torch.autograd.Function):
    """Kernel (b or 1, m, l, k), precision (b, m, t, l), rhs (b, m, t, l, r) -> weights w, shaped
    like rhs, that solve `w = precision (rhs - kernel w)` at every step.

    Precision is one over the variance of the noise, and may be zero. Written by hand so that the
    matrix of a step is used in its factorisation alone: the gradient is another solve.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, precision: Tensor, rhs: Tensor) -> Tensor:
        root = precision.sqrt()
        matrix = root.unsqueeze(-1) * kernel.unsqueeze(2)
        matrix *= root.unsqueeze(-2)
        matrix.diagonal(dim1=-2, dim2=-1).add_(1.0)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if failed.any():  # by rounding: the similarities are positive semi-definite
            factor = torch.linalg.cholesky(matrix.double()).to(matrix.dtype)
        weights = _solve(factor, root, rhs)
        ctx.save_for_backward(kernel, precision, rhs, factor, weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kernel, precision, rhs, factor, weights = ctx.saved_tensors
        grad_rhs = _solve(factor, precision.sqrt(), grad_output)
        kernels = kernel.expand(len(weights), -1, -1, -1)
        covered, grad_covered = (
            einsum("bmlk, bmtkr -> bmtlr", kernels, x) for x in (weights, grad_rhs)
        )
        grad_precision = ((grad_output - grad_covered) * (rhs - covered)).sum(-1)
        grad_kernel = -einsum("bmtlr, bmtkr -> bmlk", grad_rhs, weights)
        return grad_kernel.sum_to_size(kernel.shape), grad_precision, grad_rhs


def _solve(factor: Tensor, root: Tensor, rhs: Tensor) -> Tensor:
    root = root.unsqueeze(-1)
    return root * torch.cholesky_solve(root * rhs, factor)


def _logit(share: float) -> float:
    return math.log(share / (1 - share))
